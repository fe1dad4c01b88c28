/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/limits/limit.h"

#include <pthread.h>

#include "tests/unit/lb/limits/limit_fixture.h"

static void limits_that_contradict_one_another_are_rejected(void **state)
{
    (void)state;
    assert_no_limit(SETTINGS({"workers", "5"}, {"maxqueue", "4"}, ), "maxqueue",
                    "workers (5) is above maxqueue (4)");
    assert_no_limit(SETTINGS({"workers", "5"}, {"slots", "4"}, ), "slots", "below workers (5)");
    struct limit limit = limit_of(SETTINGS({"workers", "5"}, {"maxqueue", "5"}, {"slots", "5"}, ));
    assert_int_equal(limit.s.workers, 5);
    assert_string_equal(limit.name, "shop");
    limit_fini(&limit);
}

static void names_are_good_for_nodes_labels_and_keys(void **state)
{
    char longest[LIMIT_NAME_MAX + 2];

    (void)state;
    memset(longest, 'n', sizeof(longest));
    assert_true(limit_name_is_valid((struct slice){longest, LIMIT_NAME_MAX}));
    assert_false(limit_name_is_valid((struct slice){longest, LIMIT_NAME_MAX + 1}));
    assert_true(limit_name_is_valid(SLICE_LIT("per-Site_2.x")));
    assert_false(limit_name_is_valid(SLICE_LIT("")));
    assert_false(limit_name_is_valid(SLICE_LIT(".hidden")));
    assert_false(limit_name_is_valid(SLICE_LIT("a:b")));
    assert_false(limit_name_is_valid(SLICE_LIT("a/b")));
    assert_false(limit_name_is_valid(SLICE_LIT("a b")));
    assert_false(limit_name_is_valid((struct slice){"a\0b", 3}));
}

static void a_set_knows_whether_responses_are_to_be_stored_and_drops_its_counters(void **state)
{
    const struct setting *const wanting[] = {
        SETTINGS({"mode", "any"}, ), SETTINGS({"on_full", "stale"}, ),
        SETTINGS({"on_timeout", "stale"}, ), SETTINGS({"on_busy", "stale"}, )};
    struct limit_counter *counter = limit_counter_create("shop");
    struct limit limit = limit_of(SETTINGS());

    (void)state;
    limit.counter = limit_counter_ref(counter);
    struct limit_set *set = limit_set_create(&limit, 1);
    assert_false(set->any_stores);
    assert_int_equal(set->n, 1);
    assert_int_equal(counter->refs, 2);
    assert_ptr_equal(limit_set_ref(set), set);
    limit_set_unref(set);
    assert_int_equal(counter->refs, 2);
    limit_set_unref(set);
    assert_int_equal(counter->refs, 1);
    limit_counter_unref(counter);
    for (size_t i = 0; i < ARRAY_LEN(wanting); ++i) {
        limit = limit_of(wanting[i]);
        set = limit_set_create(&limit, 1);
        assert_true(set->any_stores);
        limit_set_unref(set);
    }
    limit_set_unref(NULL);
    assert_null(limit_set_ref(NULL));
}

struct asker {
    pthread_t thread;
    const struct limit *limit;
    unsigned wrong;
};

static void *ask(void *arg)
{
    struct asker *a = arg;
    struct classify_request fitting = request_for("/report/7?x", NULL);
    struct classify_request other = request_for("/%72eport/x", NULL);
    char room[LIMIT_KEY_MAX];

    for (int i = 0; i < 2000; ++i) {
        if (!request_match_fits(a->limit->match, SLICE_LIT("c"), &fitting) ||
            request_match_fits(a->limit->match, SLICE_LIT("c"), &other))
            ++a->wrong;
        if (!slice_is(request_match_key(a->limit->match, "shop", SLICE_LIT("c"), &fitting, room),
                      "shop:c|/report/7"))
            ++a->wrong;
    }
    return NULL;
}

static void a_rule_serves_many_threads_at_once(void **state)
{
    struct limit limit =
        limit_of(SETTINGS({"path", "regex:^/report/[0-9]+$"}, {"key", "{class}{PATH_INFO}"}, ));
    struct asker askers[4];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(askers); ++i) {
        askers[i] = (struct asker){.limit = &limit};
        assert_int_equal(pthread_create(&askers[i].thread, NULL, ask, &askers[i]), 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(askers); ++i) {
        pthread_join(askers[i].thread, NULL);
        assert_int_equal(askers[i].wrong, 0);
    }
    limit_fini(&limit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_that_contradict_one_another_are_rejected),
        cmocka_unit_test(names_are_good_for_nodes_labels_and_keys),
        cmocka_unit_test(a_set_knows_whether_responses_are_to_be_stored_and_drops_its_counters),
        cmocka_unit_test(a_rule_serves_many_threads_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
