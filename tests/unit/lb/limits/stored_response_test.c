/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/limits/response_store.h"
#include "tests/unit/lb/limits/response_store_fixture.h"

struct fixture {
    struct stored_memory memory;
    struct stored_maker *maker;
    struct stored_rendering response;
};

static struct cache_fields stored_fields(const struct stored_response *c)
{
    return (struct cache_fields){c->fields, c->nfields};
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    stored_memory_init(&f->memory, MEMORY_BYTES);
    *state = f;
    return 0;
}

/* Whatever a test has done, all memory is given back. */
static int teardown(void **state)
{
    struct fixture *f = *state;

    stored_maker_destroy(f->maker);
    assert_int_equal(stored_memory_used(&f->memory), 0);
    free(f);
    return 0;
}

static struct stored_maker *begin(struct fixture *f, size_t max_bytes)
{
    f->maker = stored_maker_create(&f->memory, max_bytes);
    return f->maker;
}

static bool tell(struct fixture *f, const char *head)
{
    return tell_head(f->maker, head, "", NOW_US, NOW_US);
}

static struct stored_response *make(struct fixture *f, const char *fields, const char *body)
{
    struct stored_maker *m = stored_maker_create(&f->memory, STORED_BYTES);

    return make_by(m, &(struct made){.fields = fields, .body = slice_of(body)});
}

/* ---- making ---- */

static void stored_response_is_what_was_reported(void **state)
{
    struct fixture *f = *state;

    begin(f, STORED_BYTES);
    assert_true(tell_head(f->maker,
                          "HTTP/1.0 404 Gone Fishing\r\nContent-Type: text/html\r\n"
                          "Vary: Accept\r\nAge: 4\r\nContent-Length: 9\r\n\r\n",
                          "Accept: x", NOW_US - 2 * SECOND_US, NOW_US));
    tell_body(f->maker, SLICE_LIT("some "));
    tell_body(f->maker, SLICE_LIT("body"));
    struct stored_response *c = stored_maker_end(&f->maker);
    assert_non_null(c);
    assert_int_equal(c->status, 404);
    assert_int_equal(c->minor_version, 0);
    assert_slice(c->reason, "Gone Fishing");
    assert_slice(stored_body(c), "some body");
    assert_slice(c->variant, "accept=x\n");
    assert_slice(field(stored_fields(c), "content-type"), "text/html");
    assert_int_equal(c->asked_us, NOW_US - 2 * SECOND_US);
    assert_int_equal(c->made_us, NOW_US);
    assert_int_equal(stored_memory_used(&f->memory), stored_bytes(c));
    stored_put(c);
}

/* RFC 9111 3.1 */
static void stored_response_has_no_fields_of_its_connection_or_its_request(void **state)
{
    struct fixture *f = *state;
    struct stored_response *c =
        make(f,
             "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n"
             "Resumelb-Backlog: 3\r\nX-Request-ID: 77\r\nAge: 5\r\nTrailer: x\r\n"
             "Proxy-Authenticate: x\r\nX-Kept: yes\r\nServer: s\r\n",
             "x");

    assert_int_equal(stored_fields(c).n, 2);
    assert_slice(field(stored_fields(c), "x-kept"), "yes");
    assert_slice(field(stored_fields(c), "server"), "s");
    stored_put(c);
}

static void body_of_unknown_length_grows_and_is_charged_by_its_size(void **state)
{
    struct fixture *f = *state;
    static char piece[10000];
    size_t total = 0;

    memset(piece, 'p', sizeof(piece));
    begin(f, STORED_BYTES);
    assert_true(tell(f, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"));
    size_t head_bytes = stored_memory_used(&f->memory);
    while (total + sizeof(piece) <= STORED_BYTES - head_bytes) {
        tell_body(f->maker, (struct slice){piece, sizeof(piece)});
        total += sizeof(piece);
        assert_in_range(stored_memory_used(&f->memory), head_bytes + total, STORED_BYTES);
    }
    struct stored_response *c = stored_maker_end(&f->maker);
    assert_int_equal(stored_body(c).len, total);
    assert_int_equal(stored_bytes(c), head_bytes + total);
    assert_int_equal(stored_memory_used(&f->memory), head_bytes + total);
    stored_put(c);
}

static void response_without_a_body_is_stored(void **state)
{
    struct fixture *f = *state;

    begin(f, STORED_BYTES);
    assert_true(tell(f, "HTTP/1.1 204 No Content\r\n\r\n"));
    struct stored_response *c = stored_maker_end(&f->maker);
    assert_int_equal(stored_body(c).len, 0);
    stored_put(c);
}

static void response_that_is_not_to_be_shared_is_not_stored(void **state)
{
    struct fixture *f = *state;

    begin(f, STORED_BYTES);
    assert_false(tell(f, "HTTP/1.1 200 OK\r\nCache-Control: private\r\n"
                         "Content-Length: 1\r\n\r\n"));
    assert_int_equal(stored_memory_used(&f->memory), 0);
    tell_body(f->maker, SLICE_LIT("x"));
    assert_null(stored_maker_end(&f->maker));
}

static void response_whose_end_is_that_of_its_connection_is_not_stored(void **state)
{
    struct fixture *f = *state;

    begin(f, STORED_BYTES);
    assert_false(tell(f, "HTTP/1.1 200 OK\r\n\r\n"));
    assert_null(stored_maker_end(&f->maker));
}

/* RFC 9111 3.3 */
static void response_shorter_or_longer_than_announced_is_not_stored(void **state)
{
    struct fixture *f = *state;

    begin(f, STORED_BYTES);
    assert_true(tell(f, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"));
    tell_body(f->maker, SLICE_LIT("four"));
    assert_null(stored_maker_end(&f->maker));
    begin(f, STORED_BYTES);
    assert_true(tell(f, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"));
    tell_body(f->maker, SLICE_LIT("sixsix"));
    assert_int_equal(stored_memory_used(&f->memory), 0);
    assert_null(stored_maker_end(&f->maker));
}

static void maker_that_is_destroyed_half_way_leaves_nothing(void **state)
{
    struct fixture *f = *state;

    begin(f, STORED_BYTES);
    assert_true(tell(f, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"));
    tell_body(f->maker, SLICE_LIT("four"));
    assert_true(stored_memory_used(&f->memory) > 0);
    stored_maker_destroy(f->maker);
    f->maker = NULL;
    assert_int_equal(stored_memory_used(&f->memory), 0);
}

static void response_over_its_limit_is_given_up_with_all_its_memory(void **state)
{
    struct fixture *f = *state;
    static const char big[STORED_BYTES];

    begin(f, STORED_BYTES);
    assert_false(tell(f, "HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n"));
    assert_null(stored_maker_end(&f->maker));
    begin(f, STORED_BYTES);
    assert_true(tell(f, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"));
    tell_body(f->maker, (struct slice){big, STORED_BYTES / 2});
    assert_true(stored_memory_used(&f->memory) > 0);
    tell_body(f->maker, (struct slice){big, STORED_BYTES / 2});
    assert_int_equal(stored_memory_used(&f->memory), 0);
    tell_body(f->maker, SLICE_LIT("more"));
    assert_null(stored_maker_end(&f->maker));
    begin(f, 10);
    assert_false(tell(f, "HTTP/1.1 204 No Content\r\n\r\n"));
}

static void response_that_fits_its_limit_to_the_byte_is_stored(void **state)
{
    struct fixture *f = *state;
    static const char body[100000];

    for (int chunked = 0; chunked < 2; ++chunked) {
        const char *head = chunked ? "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                                   : "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n";
        begin(f, STORED_BYTES);
        assert_true(tell(f, head));
        tell_body(f->maker, (struct slice){body, sizeof(body)});
        struct stored_response *c = stored_maker_end(&f->maker);
        size_t bytes = stored_bytes(c);
        stored_put(c);

        begin(f, bytes);
        assert_true(tell(f, head));
        tell_body(f->maker, (struct slice){body, sizeof(body)});
        c = stored_maker_end(&f->maker);
        assert_int_equal(stored_bytes(c), bytes);
        stored_put(c);

        begin(f, bytes - 1);
        if (tell(f, head))
            tell_body(f->maker, (struct slice){body, sizeof(body)});
        assert_null(stored_maker_end(&f->maker));
    }
}

static void no_response_is_stored_where_all_memory_is_used_up(void **state)
{
    struct fixture *f = *state;
    struct stored_response *first = make(f, "", "first");

    stored_memory_set_max(&f->memory, stored_bytes(first) + 10);
    assert_null(make(f, "", "second"));
    assert_int_equal(stored_memory_used(&f->memory), stored_bytes(first));
    stored_put(first);
    struct stored_response *second = make(f, "", "second");
    assert_non_null(second);
    stored_put(second);
}

static void response_with_more_fields_than_a_response_has_room_for_is_not_stored(void **state)
{
    struct fixture *f = *state;
    struct text fields = {0};

    for (int i = 0; i < STORED_FIELDS_MAX; ++i)
        text_addf(&fields, "X: %d\r\n", i);
    struct stored_response *c = make(f, text_cstr(&fields), "x");
    assert_int_equal(stored_fields(c).n, STORED_FIELDS_MAX);
    stored_render(c, STORED_STALE, SLICE_LIT("full"), NOW_US, &f->response);
    assert_int_equal(f->response.head.nheaders, RESPONSE_HEADERS_MAX);
    stored_put(c);
    text_addf(&fields, "X: more\r\n");
    assert_null(make(f, text_cstr(&fields), "x"));
    text_fini(&fields);
}

static void body_that_is_being_sent_outlives_the_last_other_reference(void **state)
{
    struct fixture *f = *state;
    struct stored_response *c = make(f, "", "body");
    struct body_piece *body = stored_take_body(c);

    stored_put(c);
    assert_true(stored_memory_used(&f->memory) > 0);
    assert_int_equal(body->nparts, 1);
    assert_slice(body->parts[0], "body");
    body_piece_release(body);
    assert_int_equal(stored_memory_used(&f->memory), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(stored_response_is_what_was_reported),
        TEST(stored_response_has_no_fields_of_its_connection_or_its_request),
        TEST(body_of_unknown_length_grows_and_is_charged_by_its_size),
        TEST(response_without_a_body_is_stored),
        TEST(response_that_is_not_to_be_shared_is_not_stored),
        TEST(response_whose_end_is_that_of_its_connection_is_not_stored),
        TEST(response_shorter_or_longer_than_announced_is_not_stored),
        TEST(maker_that_is_destroyed_half_way_leaves_nothing),
        TEST(response_over_its_limit_is_given_up_with_all_its_memory),
        TEST(response_that_fits_its_limit_to_the_byte_is_stored),
        TEST(no_response_is_stored_where_all_memory_is_used_up),
        TEST(response_with_more_fields_than_a_response_has_room_for_is_not_stored),
        TEST(body_that_is_being_sent_outlives_the_last_other_reference),
    };

    return cmocka_run_group_tests_name("stored_response", tests, NULL, NULL);
}
