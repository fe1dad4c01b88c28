/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/limits/copies.h"
#include "tests/unit/lb/limits/copies_fixture.h"

struct fixture {
    struct copy_memory memory;
    struct copy_maker *maker;
    struct copy_answer answer;
};

static struct cache_fields copy_fields(const struct copy *c)
{
    return (struct cache_fields){c->fields, c->nfields};
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    copy_memory_init(&f->memory, MEMORY_BYTES);
    *state = f;
    return 0;
}

/* Whatever a test has done, all memory is given back. */
static int teardown(void **state)
{
    struct fixture *f = *state;

    copy_maker_destroy(f->maker);
    assert_int_equal(copy_memory_used(&f->memory), 0);
    free(f);
    return 0;
}

static struct copy_maker *begin(struct fixture *f, size_t max_bytes)
{
    f->maker = copy_maker_create(&f->memory, max_bytes);
    return f->maker;
}

static bool tell(struct fixture *f, const char *head)
{
    return tell_head(f->maker, head, "", NOW_US, NOW_US);
}

static struct copy *make(struct fixture *f, const char *fields, const char *body)
{
    struct copy_maker *m = copy_maker_create(&f->memory, COPY_BYTES);

    return make_by(m, &(struct made){.fields = fields, .body = slice_of(body)});
}

/* ---- making ---- */

static void copy_is_what_was_reported(void **state)
{
    struct fixture *f = *state;

    begin(f, COPY_BYTES);
    assert_true(tell_head(f->maker,
                          "HTTP/1.0 404 Gone Fishing\r\nContent-Type: text/html\r\n"
                          "Vary: Accept\r\nAge: 4\r\nContent-Length: 9\r\n\r\n",
                          "Accept: x", NOW_US - 2 * SECOND_US, NOW_US));
    tell_body(f->maker, SLICE_LIT("some "));
    tell_body(f->maker, SLICE_LIT("body"));
    struct copy *c = copy_maker_end(&f->maker);
    assert_non_null(c);
    assert_int_equal(c->status, 404);
    assert_int_equal(c->minor_version, 0);
    assert_slice(c->reason, "Gone Fishing");
    assert_slice(copy_body(c), "some body");
    assert_slice(c->variant, "accept=x\n");
    assert_slice(field(copy_fields(c), "content-type"), "text/html");
    assert_int_equal(c->asked_us, NOW_US - 2 * SECOND_US);
    assert_int_equal(c->made_us, NOW_US);
    assert_int_equal(copy_memory_used(&f->memory), copy_bytes(c));
    copy_put(c);
}

/* RFC 9111 3.1 */
static void copy_has_no_fields_of_its_connection_or_its_request(void **state)
{
    struct fixture *f = *state;
    struct copy *c = make(f,
                          "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n"
                          "Resumelb-Backlog: 3\r\nX-Request-ID: 77\r\nAge: 5\r\nTrailer: x\r\n"
                          "Proxy-Authenticate: x\r\nX-Kept: yes\r\nServer: s\r\n",
                          "x");

    assert_int_equal(copy_fields(c).n, 2);
    assert_slice(field(copy_fields(c), "x-kept"), "yes");
    assert_slice(field(copy_fields(c), "server"), "s");
    copy_put(c);
}

static void body_of_unknown_length_grows_and_is_charged_by_its_size(void **state)
{
    struct fixture *f = *state;
    static char piece[10000];
    size_t total = 0;

    memset(piece, 'p', sizeof(piece));
    begin(f, COPY_BYTES);
    assert_true(tell(f, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"));
    size_t head_bytes = copy_memory_used(&f->memory);
    while (total + sizeof(piece) <= COPY_BYTES - head_bytes) {
        tell_body(f->maker, (struct slice){piece, sizeof(piece)});
        total += sizeof(piece);
        assert_in_range(copy_memory_used(&f->memory), head_bytes + total, COPY_BYTES);
    }
    struct copy *c = copy_maker_end(&f->maker);
    assert_int_equal(copy_body(c).len, total);
    assert_int_equal(copy_bytes(c), head_bytes + total);
    assert_int_equal(copy_memory_used(&f->memory), head_bytes + total);
    copy_put(c);
}

static void response_without_a_body_has_a_copy(void **state)
{
    struct fixture *f = *state;

    begin(f, COPY_BYTES);
    assert_true(tell(f, "HTTP/1.1 204 No Content\r\n\r\n"));
    struct copy *c = copy_maker_end(&f->maker);
    assert_int_equal(copy_body(c).len, 0);
    copy_put(c);
}

static void response_that_is_not_to_be_shared_has_no_copy(void **state)
{
    struct fixture *f = *state;

    begin(f, COPY_BYTES);
    assert_false(tell(f, "HTTP/1.1 200 OK\r\nCache-Control: private\r\n"
                         "Content-Length: 1\r\n\r\n"));
    assert_int_equal(copy_memory_used(&f->memory), 0);
    tell_body(f->maker, SLICE_LIT("x"));
    assert_null(copy_maker_end(&f->maker));
}

static void response_whose_end_is_that_of_its_connection_has_no_copy(void **state)
{
    struct fixture *f = *state;

    begin(f, COPY_BYTES);
    assert_false(tell(f, "HTTP/1.1 200 OK\r\n\r\n"));
    assert_null(copy_maker_end(&f->maker));
}

/* RFC 9111 3.3 */
static void response_shorter_or_longer_than_announced_has_no_copy(void **state)
{
    struct fixture *f = *state;

    begin(f, COPY_BYTES);
    assert_true(tell(f, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"));
    tell_body(f->maker, SLICE_LIT("four"));
    assert_null(copy_maker_end(&f->maker));
    begin(f, COPY_BYTES);
    assert_true(tell(f, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"));
    tell_body(f->maker, SLICE_LIT("sixsix"));
    assert_int_equal(copy_memory_used(&f->memory), 0);
    assert_null(copy_maker_end(&f->maker));
}

static void maker_that_is_destroyed_half_way_leaves_nothing(void **state)
{
    struct fixture *f = *state;

    begin(f, COPY_BYTES);
    assert_true(tell(f, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"));
    tell_body(f->maker, SLICE_LIT("four"));
    assert_true(copy_memory_used(&f->memory) > 0);
    copy_maker_destroy(f->maker);
    f->maker = NULL;
    assert_int_equal(copy_memory_used(&f->memory), 0);
}

static void copy_over_its_limit_is_given_up_with_all_its_memory(void **state)
{
    struct fixture *f = *state;
    static const char big[COPY_BYTES];

    begin(f, COPY_BYTES);
    assert_false(tell(f, "HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n"));
    assert_null(copy_maker_end(&f->maker));
    begin(f, COPY_BYTES);
    assert_true(tell(f, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"));
    tell_body(f->maker, (struct slice){big, COPY_BYTES / 2});
    assert_true(copy_memory_used(&f->memory) > 0);
    tell_body(f->maker, (struct slice){big, COPY_BYTES / 2});
    assert_int_equal(copy_memory_used(&f->memory), 0);
    tell_body(f->maker, SLICE_LIT("more"));
    assert_null(copy_maker_end(&f->maker));
    begin(f, 10);
    assert_false(tell(f, "HTTP/1.1 204 No Content\r\n\r\n"));
}

static void copy_that_fits_its_limit_to_the_byte_is_made(void **state)
{
    struct fixture *f = *state;
    static const char body[100000];

    for (int chunked = 0; chunked < 2; ++chunked) {
        const char *head = chunked ? "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                                   : "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n";
        begin(f, COPY_BYTES);
        assert_true(tell(f, head));
        tell_body(f->maker, (struct slice){body, sizeof(body)});
        struct copy *c = copy_maker_end(&f->maker);
        size_t bytes = copy_bytes(c);
        copy_put(c);

        begin(f, bytes);
        assert_true(tell(f, head));
        tell_body(f->maker, (struct slice){body, sizeof(body)});
        c = copy_maker_end(&f->maker);
        assert_int_equal(copy_bytes(c), bytes);
        copy_put(c);

        begin(f, bytes - 1);
        if (tell(f, head))
            tell_body(f->maker, (struct slice){body, sizeof(body)});
        assert_null(copy_maker_end(&f->maker));
    }
}

static void no_copy_is_made_where_all_copies_memory_is_used_up(void **state)
{
    struct fixture *f = *state;
    struct copy *first = make(f, "", "first");

    copy_memory_set_max(&f->memory, copy_bytes(first) + 10);
    assert_null(make(f, "", "second"));
    assert_int_equal(copy_memory_used(&f->memory), copy_bytes(first));
    copy_put(first);
    struct copy *second = make(f, "", "second");
    assert_non_null(second);
    copy_put(second);
}

static void response_with_more_fields_than_an_answer_has_room_for_has_no_copy(void **state)
{
    struct fixture *f = *state;
    struct text fields = {0};

    for (int i = 0; i < COPY_FIELDS_MAX; ++i)
        text_addf(&fields, "X: %d\r\n", i);
    struct copy *c = make(f, text_cstr(&fields), "x");
    assert_int_equal(copy_fields(c).n, COPY_FIELDS_MAX);
    copy_answer_make(c, COPY_STALE, SLICE_LIT("full"), NOW_US, &f->answer);
    assert_int_equal(f->answer.head.nheaders, RESPONSE_HEADERS_MAX);
    copy_put(c);
    text_addf(&fields, "X: more\r\n");
    assert_null(make(f, text_cstr(&fields), "x"));
    text_fini(&fields);
}

static void body_that_is_being_sent_outlives_the_last_other_reference(void **state)
{
    struct fixture *f = *state;
    struct copy *c = make(f, "", "body");
    struct http1_body *body = copy_take_body(c);

    copy_put(c);
    assert_true(copy_memory_used(&f->memory) > 0);
    assert_int_equal(body->nparts, 1);
    assert_slice(body->parts[0], "body");
    http1_body_release(body);
    assert_int_equal(copy_memory_used(&f->memory), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(copy_is_what_was_reported),
        TEST(copy_has_no_fields_of_its_connection_or_its_request),
        TEST(body_of_unknown_length_grows_and_is_charged_by_its_size),
        TEST(response_without_a_body_has_a_copy),
        TEST(response_that_is_not_to_be_shared_has_no_copy),
        TEST(response_whose_end_is_that_of_its_connection_has_no_copy),
        TEST(response_shorter_or_longer_than_announced_has_no_copy),
        TEST(maker_that_is_destroyed_half_way_leaves_nothing),
        TEST(copy_over_its_limit_is_given_up_with_all_its_memory),
        TEST(copy_that_fits_its_limit_to_the_byte_is_made),
        TEST(no_copy_is_made_where_all_copies_memory_is_used_up),
        TEST(response_with_more_fields_than_an_answer_has_room_for_has_no_copy),
        TEST(body_that_is_being_sent_outlives_the_last_other_reference),
    };

    return cmocka_run_group_tests_name("copy", tests, NULL, NULL);
}
