/* SPDX-License-Identifier: Apache-2.0
 *
 * The store's rules, one by one. Its bounds in any order of calls: response_store_model_test.c.
 */
#include "tests/unit/lb/limits/response_store_fixture.h"

#include <stdio.h>

/* With what is private to it, for response_store_check(). */
#include "lb/limits/response_store.c"

void response_store_check(struct response_store *s)
{
    size_t all = 0;
    size_t bytes = 0;

    pthread_mutex_lock(&s->lock);
    map_for_each (struct url, u, &s->urls, node) {
        const struct variant *v;
        size_t n = list_length(&u->variants);

        ASSERT(n != 0);
        ASSERT(n <= RESPONSE_STORE_VARIANTS_MAX);
        list_for_each_entry (v, &u->variants, in_url) {
            ASSERT(v->url == u);
            ASSERT(v->cost == stored_bytes(v->stored) + u->key_len + RESPONSE_STORE_ENTRY_BYTES);
            bytes += v->cost;
        }
        all += n;
    }
    ASSERT(all == s->stats.responses);
    ASSERT(bytes == s->stats.bytes);
    ASSERT(all <= s->limits.max_responses);
    ASSERT(bytes <= s->limits.max_bytes);
    ASSERT(list_length(&s->by_use) == all);
    ASSERT(list_length(&s->by_time) == all);
    pthread_mutex_unlock(&s->lock);
}

struct fixture {
    struct stored_memory memory;
    struct response_store *store;
    struct response_store_limits limits;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    stored_memory_init(&f->memory, MEMORY_BYTES);
    f->limits = (struct response_store_limits){.max_bytes = MEMORY_BYTES,
                                               .max_responses = 100,
                                               .max_response_bytes = STORED_BYTES,
                                               .max_age_s = 3600};
    f->store = response_store_create(&f->limits, &f->memory);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    response_store_check(f->store);
    response_store_destroy(f->store);
    assert_int_equal(stored_memory_used(&f->memory), 0);
    free(f);
    return 0;
}

static void put_made_at(struct fixture *f, const char *target, const struct made *r,
                        uint64_t put_us)
{
    struct response_store_url url = url_of(target);
    struct stored_response *c = make_by(response_store_begin(f->store), r);

    assert_non_null(c);
    response_store_put(f->store, &url, &c, put_us);
    assert_null(c);
}

/* Put here as soon as it is made. */
static void put_made(struct fixture *f, const char *target, const struct made *r)
{
    put_made_at(f, target, r, r->at_us != 0 ? r->at_us : NOW_US);
}

/* A stored response of a plain response with BODY, made at AT_US. */
static void put(struct fixture *f, const char *target, const char *body, uint64_t at_us)
{
    put_made(f, target, &(struct made){.body = slice_of(body), .at_us = at_us});
}

/* The body of what is found, as text, to be compared at once; "" when nothing is. */
static const char *body_of(struct stored_response *found)
{
    static char text[64];
    struct slice body = found != NULL ? stored_body(found) : SLICE_LIT("");

    assert_true(body.len < sizeof(text));
    memcpy(text, body.p, body.len);
    text[body.len] = '\0';
    stored_put(found);
    return text;
}

static const char *stale_for(struct fixture *f, const char *target, const char *field,
                             uint64_t now_us)
{
    struct response_store_url url = url_of(target);
    struct asked a;

    ask(&a, field);
    return body_of(response_store_find_stale(f->store, &url, &a.request, &no_wish, 600, now_us));
}

static const char *stale(struct fixture *f, const char *target, uint64_t now_us)
{
    return stale_for(f, target, "", now_us);
}

static const char *shared(struct fixture *f, const char *target, uint64_t not_before_us,
                          uint64_t now_us)
{
    struct response_store_url url = url_of(target);
    struct asked a;

    ask(&a, "");
    return body_of(response_store_find_shared(f->store, &url, &a.request, not_before_us, now_us));
}

static struct response_store_stats stats(struct fixture *f)
{
    struct response_store_stats s;

    response_store_read_stats(f->store, &s);
    return s;
}

static void waiter_takes_only_what_was_finished_since_it_began_to_wait(void **state)
{
    struct fixture *f = *state;

    put(f, "/", "one", NOW_US);
    assert_string_equal(shared(f, "/", NOW_US + 1, NOW_US + 2), "");
    assert_string_equal(shared(f, "/", NOW_US, NOW_US + 2), "one");
    assert_string_equal(shared(f, "/other", NOW_US, NOW_US + 2), "");
    assert_int_equal(stats(f).hits_coalesced, 1);
    assert_int_equal(stats(f).hits_stale, 0);
}

/* RFC 9111 4: a request may join one that is in flight. */
static void waiter_takes_what_was_in_progress_when_it_began_to_wait(void **state)
{
    struct fixture *f = *state;

    put_made_at(f, "/", &(struct made){.body = SLICE_LIT("x"), .at_us = NOW_US}, NOW_US + 10);
    assert_string_equal(shared(f, "/", NOW_US + 10, NOW_US + 12), "x");
    assert_string_equal(shared(f, "/", NOW_US + 11, NOW_US + 12), "");
}

/* RFC 9111 5.2.2.2 */
static void waiter_does_not_take_what_must_be_validated_by_then(void **state)
{
    struct fixture *f = *state;

    put_made(f, "/",
             &(struct made){.fields = "Cache-Control: max-age=2, must-revalidate\r\n",
                            .body = SLICE_LIT("x")});
    assert_string_equal(shared(f, "/", NOW_US, NOW_US + SECOND_US), "x");
    assert_string_equal(shared(f, "/", NOW_US, NOW_US + 2 * SECOND_US), "");
}

static void stale_response_is_the_newest_and_at_most_as_old_as_asked(void **state)
{
    struct fixture *f = *state;

    put(f, "/", "one", NOW_US);
    put(f, "/", "two", NOW_US + 1);
    assert_string_equal(stale(f, "/", NOW_US + 600 * SECOND_US + 1), "two");
    assert_string_equal(stale(f, "/", NOW_US + 601 * SECOND_US + 1), "");
    assert_int_equal(stats(f).responses, 1);
    assert_int_equal(stats(f).hits_stale, 1);
}

static void age_before_it_came_here_counts_for_a_stale_response(void **state)
{
    struct fixture *f = *state;

    put_made(f, "/", &(struct made){.fields = "Age: 590\r\n", .body = SLICE_LIT("x")});
    assert_string_equal(stale(f, "/", NOW_US + 10 * SECOND_US), "x");
    assert_string_equal(stale(f, "/", NOW_US + 11 * SECOND_US), "");
}

static void response_that_may_not_be_served_stale_is_not(void **state)
{
    struct fixture *f = *state;

    put_made(f, "/",
             &(struct made){.fields = "Cache-Control: s-maxage=5\r\n", .body = SLICE_LIT("x")});
    assert_string_equal(stale(f, "/", NOW_US + 4 * SECOND_US), "x");
    assert_string_equal(stale(f, "/", NOW_US + 5 * SECOND_US), "");
}

static void wish_of_the_request_is_heeded(void **state)
{
    struct fixture *f = *state;
    struct response_store_url url = url_of("/");
    struct cache_wish wish = no_wish;
    struct asked a;

    put_made(f, "/",
             &(struct made){.fields = "Cache-Control: max-age=9\r\n", .body = SLICE_LIT("x")});
    ask(&a, "");
    wish.max_age_s = 3;
    assert_null(
        response_store_find_stale(f->store, &url, &a.request, &wish, 600, NOW_US + 4 * SECOND_US));
    struct stored_response *c =
        response_store_find_stale(f->store, &url, &a.request, &wish, 600, NOW_US + 3 * SECOND_US);
    assert_string_equal(body_of(c), "x");
}

/* RFC 9110 4.2.3 */
static void host_and_scheme_are_without_case_and_the_target_is_not(void **state)
{
    struct fixture *f = *state;
    struct response_store_url url = {SLICE_LIT("HTTP"), SLICE_LIT("A.Example"), SLICE_LIT("/x?Y")};
    struct response_store_url tls = {SLICE_LIT("https"), SLICE_LIT("a.example"), SLICE_LIT("/x?Y")};
    struct asked a;

    put(f, "/x?Y", "x", NOW_US);
    ask(&a, "");
    struct stored_response *c =
        response_store_find_stale(f->store, &url, &a.request, &no_wish, 600, NOW_US);
    assert_string_equal(body_of(c), "x");
    assert_null(response_store_find_stale(f->store, &tls, &a.request, &no_wish, 600, NOW_US));
    assert_string_equal(stale(f, "/x?y", NOW_US), "");
}

static void url_over_its_limit_is_neither_kept_nor_found(void **state)
{
    struct fixture *f = *state;
    static char target[RESPONSE_STORE_KEY_MAX + 1];
    size_t prefix = strlen("http://a.example");

    memset(target, '/', RESPONSE_STORE_KEY_MAX);
    put(f, target, "x", NOW_US);
    assert_int_equal(stats(f).responses, 0);
    assert_int_equal(stats(f).rejected, 1);
    assert_string_equal(stale(f, target, NOW_US), "");
    target[RESPONSE_STORE_KEY_MAX - prefix] = '\0';
    put(f, target, "x", NOW_US);
    assert_string_equal(stale(f, target, NOW_US), "x");
}

/* RFC 9111 4.1 */
static void each_variant_is_for_the_requests_that_choose_it(void **state)
{
    struct fixture *f = *state;

    put_made(f, "/",
             &(struct made){.fields = "Vary: Accept-Language\r\n",
                            .request = "Accept-Language: de",
                            .body = SLICE_LIT("deutsch")});
    put_made(f, "/",
             &(struct made){.fields = "Vary: Accept-Language\r\n",
                            .request = "Accept-Language: fr",
                            .body = SLICE_LIT("francais")});
    assert_string_equal(stale_for(f, "/", "accept-language: de", NOW_US), "deutsch");
    assert_string_equal(stale_for(f, "/", "Accept-Language: fr", NOW_US), "francais");
    assert_string_equal(stale_for(f, "/", "Accept-Language: en", NOW_US), "");
    assert_string_equal(stale_for(f, "/", "", NOW_US), "");
}

/* RFC 9111 4.1: the most recent of those that match. */
static void the_newest_of_several_matching_variants_is_taken(void **state)
{
    struct fixture *f = *state;

    put_made(f, "/",
             &(struct made){.fields = "Vary: Accept\r\n",
                            .request = "Accept: a",
                            .body = SLICE_LIT("old"),
                            .at_us = NOW_US});
    put(f, "/", "for all", NOW_US + 1);
    assert_string_equal(stale_for(f, "/", "Accept: a", NOW_US + 2), "for all");
    put_made(f, "/",
             &(struct made){.fields = "Vary: Accept\r\n",
                            .request = "Accept: a",
                            .body = SLICE_LIT("new"),
                            .at_us = NOW_US + 3});
    assert_string_equal(stale_for(f, "/", "Accept: a", NOW_US + 4), "new");
    assert_string_equal(stale_for(f, "/", "Accept: b", NOW_US + 4), "for all");
}

static void newest_that_may_not_be_used_hides_older_ones(void **state)
{
    struct fixture *f = *state;

    put_made(f, "/",
             &(struct made){.fields = "Vary: Accept\r\n",
                            .request = "Accept: a",
                            .body = SLICE_LIT("old"),
                            .at_us = NOW_US});
    put_made(f, "/",
             &(struct made){.fields = "Cache-Control: s-maxage=1\r\n",
                            .body = SLICE_LIT("new"),
                            .at_us = NOW_US + 1});
    assert_string_equal(stale_for(f, "/", "Accept: a", NOW_US + 5 * SECOND_US), "");
}

static void older_response_does_not_replace_a_newer_one(void **state)
{
    struct fixture *f = *state;

    put(f, "/", "new", NOW_US + 5);
    put(f, "/", "old", NOW_US);
    assert_string_equal(stale(f, "/", NOW_US + 6), "new");
    assert_int_equal(stats(f).rejected, 1);
    assert_int_equal(stats(f).stored, 1);
}

static void variants_of_one_url_are_bounded_and_the_least_recently_used_goes(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i <= RESPONSE_STORE_VARIANTS_MAX; ++i) {
        char field[32];

        snprintf(field, sizeof(field), "Accept: %d", i);
        put_made(
            f, "/",
            &(struct made){.fields = "Vary: Accept\r\n", .request = field, .body = SLICE_LIT("x")});
        /* The first is used all the time. */
        assert_string_equal(stale_for(f, "/", "Accept: 0", NOW_US), "x");
    }
    assert_int_equal(stats(f).responses, RESPONSE_STORE_VARIANTS_MAX);
    assert_int_equal(stats(f).evictions, 1);
    assert_string_equal(stale_for(f, "/", "Accept: 1", NOW_US), "");
    assert_string_equal(stale_for(f, "/", "Accept: 2", NOW_US), "x");
}

static void responses_over_their_number_go_least_recently_used_first(void **state)
{
    struct fixture *f = *state;

    f->limits.max_responses = 2;
    response_store_set_limits(f->store, &f->limits, NOW_US);
    put(f, "/a", "a", NOW_US);
    put(f, "/b", "b", NOW_US);
    assert_string_equal(stale(f, "/a", NOW_US), "a");
    put(f, "/c", "c", NOW_US);
    assert_string_equal(stale(f, "/b", NOW_US), "");
    assert_string_equal(stale(f, "/a", NOW_US), "a");
    assert_string_equal(stale(f, "/c", NOW_US), "c");
    assert_int_equal(stats(f).evictions, 1);
}

static void responses_over_their_age_go(void **state)
{
    struct fixture *f = *state;

    put(f, "/a", "a", NOW_US);
    put(f, "/b", "b", NOW_US + SECOND_US);
    assert_string_equal(stale(f, "/none", NOW_US + 3601 * SECOND_US), "");
    assert_int_equal(stats(f).responses, 1);
    assert_int_equal(stats(f).expired, 1);
    assert_int_equal(stats(f).evictions, 0);
}

static void limits_that_shrink_hold_at_once(void **state)
{
    struct fixture *f = *state;

    put(f, "/a", "a", NOW_US);
    put(f, "/b", "b", NOW_US);
    f->limits.max_bytes = stats(f).bytes - 1;
    response_store_set_limits(f->store, &f->limits, NOW_US);
    assert_int_equal(stats(f).responses, 1);
    assert_string_equal(stale(f, "/b", NOW_US), "b");
    f->limits.max_responses = 0;
    response_store_set_limits(f->store, &f->limits, NOW_US);
    assert_int_equal(stats(f).responses, 0);
    assert_int_equal(stats(f).bytes, 0);
    put(f, "/a", "a", NOW_US);
    assert_int_equal(stats(f).responses, 0);
}

static void maker_heeds_the_limit_of_one_response(void **state)
{
    struct fixture *f = *state;
    static const char body[STORED_BYTES];

    assert_null(make_by(response_store_begin(f->store),
                        &(struct made){.body = (struct slice){body, sizeof(body)}}));
    f->limits.max_response_bytes *= 2;
    response_store_set_limits(f->store, &f->limits, NOW_US);
    struct stored_response *c = make_by(response_store_begin(f->store),
                                        &(struct made){.body = (struct slice){body, sizeof(body)}});
    assert_non_null(c);
    /* Made under another limit than the one that now holds. */
    f->limits.max_response_bytes /= 2;
    response_store_set_limits(f->store, &f->limits, NOW_US);
    struct response_store_url url = url_of("/");
    response_store_put(f->store, &url, &c, NOW_US);
    assert_int_equal(stats(f).rejected, 1);
}

static void old_responses_give_way_when_memory_is_used_up(void **state)
{
    struct fixture *f = *state;

    put(f, "/a", "a", NOW_US);
    put(f, "/b", "b", NOW_US);
    stored_memory_set_max(&f->memory, stored_memory_used(&f->memory));
    put(f, "/c", "c", NOW_US);
    assert_string_equal(stale(f, "/a", NOW_US), "");
    assert_string_equal(stale(f, "/b", NOW_US), "b");
    assert_string_equal(stale(f, "/c", NOW_US), "c");
}

static void response_in_use_outlives_its_place_and_its_memory_is_counted_until_then(void **state)
{
    struct fixture *f = *state;
    struct response_store_url url = url_of("/a");
    struct asked a;

    put(f, "/a", "a", NOW_US);
    ask(&a, "");
    struct stored_response *held =
        response_store_find_stale(f->store, &url, &a.request, &no_wish, 600, NOW_US);
    stored_memory_set_max(&f->memory, stored_memory_used(&f->memory));
    /* /a gives way, but its memory is not free yet. */
    assert_null(make_by(response_store_begin(f->store), &(struct made){.body = SLICE_LIT("b")}));
    assert_int_equal(stats(f).responses, 0);
    assert_string_equal(body_of(held), "a");
    put(f, "/b", "b", NOW_US);
    assert_string_equal(stale(f, "/b", NOW_US), "b");
}

/* RFC 9111 4.4 */
static void invalidated_url_loses_all_its_variants_and_no_other(void **state)
{
    struct fixture *f = *state;
    struct response_store_url url = url_of("/a");

    put(f, "/a", "a", NOW_US);
    put_made(f, "/a",
             &(struct made){
                 .fields = "Vary: Accept\r\n", .request = "Accept: x", .body = SLICE_LIT("ax")});
    put(f, "/b", "b", NOW_US);
    response_store_invalidate(f->store, &url, NOW_US + 1);
    assert_string_equal(stale(f, "/a", NOW_US + 2), "");
    assert_string_equal(stale_for(f, "/a", "Accept: x", NOW_US + 2), "");
    assert_string_equal(stale(f, "/b", NOW_US + 2), "b");
    assert_int_equal(stats(f).invalidated, 2);
}

static void cleared_store_has_no_response_and_takes_none_that_was_asked_for_before(void **state)
{
    struct fixture *f = *state;

    put(f, "/a", "a", NOW_US);
    put(f, "/b", "b", NOW_US);
    response_store_clear(f->store, NOW_US + 5);
    assert_string_equal(stale(f, "/a", NOW_US + 5), "");
    assert_string_equal(stale(f, "/b", NOW_US + 5), "");
    assert_int_equal(stats(f).responses, 0);
    assert_int_equal(stats(f).bytes, 0);
    put(f, "/a", "old", NOW_US + 4);
    assert_string_equal(stale(f, "/a", NOW_US + 6), "");
    put(f, "/a", "new", NOW_US + 7);
    assert_string_equal(stale(f, "/a", NOW_US + 8), "new");
    response_store_check(f->store);
}

static void response_asked_for_before_an_invalidation_is_not_kept(void **state)
{
    struct fixture *f = *state;
    struct response_store_url url = url_of("/a");

    response_store_invalidate(f->store, &url, NOW_US + 5);
    put(f, "/a", "before", NOW_US + 5);
    assert_string_equal(shared(f, "/a", NOW_US, NOW_US + 6), "");
    put(f, "/a", "after", NOW_US + 6);
    assert_string_equal(shared(f, "/a", NOW_US, NOW_US + 6), "after");
    response_store_invalidate(f->store, &url, NOW_US + 7);
    assert_string_equal(stale(f, "/a", NOW_US + 8), "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static void whether_responses_of_any_variant_were_put_is_known(void **state)
{
    struct fixture *f = *state;
    struct response_store_url url = url_of("/a");
    struct response_store_url other = url_of("/b");

    assert_false(response_store_were_put(f->store, &url, 0));
    put(f, "/a", "one", NOW_US);
    assert_true(response_store_were_put(f->store, &url, NOW_US));
    assert_false(response_store_were_put(f->store, &url, NOW_US + 1));
    assert_false(response_store_were_put(f->store, &other, NOW_US));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(waiter_takes_only_what_was_finished_since_it_began_to_wait),
        TEST(whether_responses_of_any_variant_were_put_is_known),
        TEST(waiter_takes_what_was_in_progress_when_it_began_to_wait),
        TEST(waiter_does_not_take_what_must_be_validated_by_then),
        TEST(stale_response_is_the_newest_and_at_most_as_old_as_asked),
        TEST(age_before_it_came_here_counts_for_a_stale_response),
        TEST(response_that_may_not_be_served_stale_is_not),
        TEST(wish_of_the_request_is_heeded),
        TEST(host_and_scheme_are_without_case_and_the_target_is_not),
        TEST(url_over_its_limit_is_neither_kept_nor_found),
        TEST(each_variant_is_for_the_requests_that_choose_it),
        TEST(the_newest_of_several_matching_variants_is_taken),
        TEST(newest_that_may_not_be_used_hides_older_ones),
        TEST(older_response_does_not_replace_a_newer_one),
        TEST(variants_of_one_url_are_bounded_and_the_least_recently_used_goes),
        TEST(responses_over_their_number_go_least_recently_used_first),
        TEST(responses_over_their_age_go),
        TEST(limits_that_shrink_hold_at_once),
        TEST(maker_heeds_the_limit_of_one_response),
        TEST(old_responses_give_way_when_memory_is_used_up),
        TEST(response_in_use_outlives_its_place_and_its_memory_is_counted_until_then),
        TEST(invalidated_url_loses_all_its_variants_and_no_other),
        TEST(response_asked_for_before_an_invalidation_is_not_kept),
        TEST(cleared_store_has_no_response_and_takes_none_that_was_asked_for_before),
    };

    return cmocka_run_group_tests_name("response_store", tests, NULL, NULL);
}
