/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/request/headers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "lb/rules/methods.h"
#include "lb/settings/settings.h"
#include "routing/worker.h"

struct fixture {
    struct http_request req;
};

static void add(struct fixture *f, const char *name, const char *value)
{
    http_request_add(&f->req, &f->req.fields, slice_of(name), slice_of(value));
}

static struct slice value_of(const struct message_fields *fields, const char *name)
{
    const struct message_field *found = message_fields_find(fields, slice_of(name), NULL);

    return found != NULL ? found->value : SLICE_NULL;
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    http_request_init(&f->req, NULL, 0);
    f->req.method = SLICE_LIT("GET");
    f->req.target = SLICE_LIT("/x?y=1");
    f->req.authority = SLICE_LIT("a.example");
    f->req.version = 0x101;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    http_request_fini(&f->req);
    free(f);
    return 0;
}

static void only_a_get_over_http_1_1_becomes_a_websocket(void **state)
{
    struct fixture *f = *state;

    assert_false(http_request_wants_websocket(&f->req));
    f->req.upgrade = SLICE_LIT("WebSocket");
    assert_true(http_request_wants_websocket(&f->req));
    f->req.version = 0x100;
    assert_false(http_request_wants_websocket(&f->req));
    f->req.version = 0x101;
    f->req.method = SLICE_LIT("POST");
    assert_false(http_request_wants_websocket(&f->req));
    f->req.method = SLICE_LIT("GET");
    f->req.upgrade = SLICE_LIT("h2c");
    assert_false(http_request_wants_websocket(&f->req));
}

static void fields_that_could_become_other_fields_are_rejected(void **state)
{
    static const char *const bad[][2] = {{"x", "a\r\nHost: evil"},
                                         {"x", "a\nb"},
                                         {"x", "a\001"},
                                         {"x y", "1"},
                                         {"x:", "1"},
                                         {"", "1"},
                                         {"x\x80", "1"}};
    struct fixture *f = *state;

    f->req.version = 0x200;
    add(f, "ok", "tab\tand \xc3\xa4");
    assert_true(headers_check_request(&f->req));
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        f->req.fields.n = 1;
        add(f, bad[i][0], bad[i][1]);
        assert_false(headers_check_request(&f->req));
    }
}

static void connect_and_endless_methods_are_rejected(void **state)
{
    struct fixture *f = *state;

    f->req.method = SLICE_LIT("CONNECT");
    assert_false(headers_check_request(&f->req));
    f->req.method = SLICE_LIT("ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG");
    assert_int_equal(f->req.method.len, METHOD_MAX + 1);
    assert_false(headers_check_request(&f->req));
}

static void a_request_id_is_kept_only_when_it_is_plain(void **state)
{
    static const char *const bad[] = {"", "a b", "<b>", "a\"b", "\xc3\xa4"};
    struct fixture *f = *state;

    assert_null(headers_request_id(&f->req).p);
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        f->req.fields.n = 0;
        add(f, "X-Request-ID", bad[i]);
        assert_null(headers_request_id(&f->req).p);
    }
    f->req.fields.n = 0;
    add(f, "X-Request-ID", "7f00-abc/=");
    assert_true(slice_is(headers_request_id(&f->req), "7f00-abc/="));
}

/* ---- responses ---- */

static struct http1_head parse(const char *bytes)
{
    struct http1_head h;

    assert_int_equal(http1_head_parse(slice_of(bytes), false, &h), ERR_OK);
    return h;
}

static struct slice got(struct fixture *f, const char *name)
{
    return value_of(&f->req.res.fields, name);
}

static void a_response_passes_without_what_concerned_our_connection(void **state)
{
    struct fixture *f = *state;
    struct http1_head h =
        parse("HTTP/1.1 207 Multi Status\r\nConnection: X-Hop\r\nKeep-Alive: 5\r\nX-Hop: 1\r\n"
              "Date: now\r\nServer: w\r\nSet-Cookie: a\r\nSET-COOKIE: b\r\n"
              "Resumelb-Unprocessed: 1\r\nResumelb_Backlog: 2\r\nContent-Length: 3\r\n\r\n");
    struct headers_response r = {.req = &f->req};

    headers_take_response(&r, &h);
    memset(&h, 0, sizeof(h));
    assert_int_equal(f->req.res.status, 207);
    assert_string_equal(f->req.res.reason, "Multi Status");
    assert_int_equal(f->req.res.fields.n, 3);
    assert_true(slice_is(got(f, "server"), "w"));
    assert_true(slice_is(f->req.res.fields.at[1].name, "Set-Cookie"));
    assert_true(slice_is(f->req.res.fields.at[2].name, "SET-COOKIE"));
    assert_true(slice_is(f->req.res.fields.at[2].value, "b"));
}

static void protocols_that_a_426_requires_are_named_to_http1_alone(void **state)
{
    static const char upgrade[] = "HTTP/1.1 426 Upgrade Required\r\nConnection: upgrade\r\n"
                                  "Upgrade: websocket\r\nUpgrade: b/2\r\n\r\n";
    struct fixture *f = *state;
    struct headers_response r = {.req = &f->req};
    struct http1_head h = parse(upgrade);
    char lines[sizeof(upgrade)];

    size_t n = headers_response_lines(&r, &h, lines);
    assert_true(slice_is((struct slice){lines, n}, "Upgrade: websocket\r\nUpgrade: b/2\r\n"));
    headers_take_response(&r, &h);
    assert_int_equal(f->req.res.fields.n, 2);
    assert_true(slice_is(got(f, "upgrade"), "websocket"));
    f->req.res.fields.n = 0;
    f->req.version = 0x200;
    headers_take_response(&r, &h);
    assert_int_equal(f->req.res.fields.n, 0);
    f->req.version = 0x101;
    h.status = 200;
    assert_int_equal(headers_response_lines(&r, &h, lines), 0);
}

static void a_request_id_of_the_worker_passes_if_we_set_none(void **state)
{
    struct fixture *f = *state;
    struct http1_head h =
        parse("HTTP/1.1 200 OK\r\nX-Request-ID: theirs\r\nx_request_id: 1\r\n\r\n");
    struct headers_response r = {.req = &f->req};

    headers_take_response(&r, &h);
    assert_int_equal(f->req.res.fields.n, 2);
    assert_true(slice_is(got(f, "x-request-id"), "theirs"));
}

static void our_own_fields_replace_the_workers(void **state)
{
    struct fixture *f = *state;
    struct http1_head h =
        parse("HTTP/1.0 200 \r\nServer: w\r\nX-Request-ID: theirs\r\nVia: 1.1 inner\r\n\r\n");
    struct headers_response r = {
        .req = &f->req, .via = true, .request_id = SLICE_LIT("ours"), .own_server = true};

    headers_take_response(&r, &h);
    assert_string_equal(f->req.res.reason, "");
    assert_null(got(f, "server").p);
    assert_true(slice_is(got(f, "x-request-id"), "ours"));
    assert_true(slice_is(f->req.res.fields.at[1].value, "1.0 resumelb"));
}

/* Each line of the head is as short as it can be: written, it is one byte longer. */
static void the_lines_of_a_response_have_room_where_the_worker_saved_blanks(void **state)
{
    static const char longest[] = "Via: 1.0 resumelb\r\nX-Request-ID: id\r\n";
    struct fixture *f = *state;
    struct text bytes = {0};
    struct text lines = {0};

    text_add(&bytes, SLICE_LIT("HTTP/1.0 200\r\n"));
    for (int i = 0; i < RESPONSE_HEADERS_MAX; ++i) {
        text_add(&bytes, SLICE_LIT("A:b\r\n"));
        text_add(&lines, SLICE_LIT("A: b\r\n"));
    }
    text_add(&bytes, SLICE_LIT("\r\n"));
    text_add(&lines, slice_of(longest));
    struct http1_head h = parse(text_cstr(&bytes));
    struct headers_response r = {.req = &f->req, .via = true, .request_id = SLICE_LIT("id")};
    size_t room = headers_response_room(&r, &h);
    char *at = xmalloc(room);
    assert_true(room >= lines.len);
    assert_int_equal(headers_response_lines(&r, &h, at), lines.len);
    assert_memory_equal(at, lines.p, lines.len);
    free(at);
    text_fini(&bytes);
    text_fini(&lines);
}

static void unprocessed_is_exactly_1(void **state)
{
    struct http1_head yes = parse("HTTP/1.1 503 x\r\nresumelb-unprocessed: 1\r\n\r\n");
    struct http1_head no = parse("HTTP/1.1 503 x\r\nResumelb-Unprocessed: 0\r\n\r\n");

    (void)state;
    assert_true(headers_flag(&yes, SLICE_LIT("Resumelb-Unprocessed")));
    assert_false(headers_flag(&no, SLICE_LIT("Resumelb-Unprocessed")));
}

static enum err backlog_of(const char *fields, uint64_t *out)
{
    char bytes[512];

    snprintf(bytes, sizeof(bytes), "HTTP/1.1 200 OK\r\n%s\r\n", fields);
    struct http1_head h = parse(bytes);
    *out = 77;
    return headers_backlog(&h, out);
}

static void a_backlog_is_one_number_within_its_bound(void **state)
{
    static const char *const bad[] = {"",    "-1",  "+1",       "1.0",
                                      "0x1", "1 2", "1,2",      "one",
                                      "1;",  "1e3", "16777216", "99999999999999999999999"};
    uint64_t n = 0;

    (void)state;
    assert_int_equal(backlog_of("resumelb-BACKLOG:  12 \r\n", &n), ERR_OK);
    assert_int_equal(n, 12);
    assert_int_equal(backlog_of("Resumelb-Backlog: 16777215\r\n", &n), ERR_OK);
    assert_int_equal(n, WORKER_REPORT_MAX);
    assert_int_equal(backlog_of("Resumelb_Backlog: 1\r\n", &n), ERR_NOT_FOUND);
    assert_int_equal(backlog_of("X-Backlog: 1\r\n", &n), ERR_NOT_FOUND);
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        char field[64];

        snprintf(field, sizeof(field), "Resumelb-Backlog: %s\r\n", bad[i]);
        assert_int_equal(backlog_of(field, &n), ERR_SYNTAX);
        assert_int_equal(n, 77);
    }
    assert_int_equal(backlog_of("Resumelb-Backlog: 1\r\nResumelb-Backlog: 1\r\n", &n), ERR_SYNTAX);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static void rules_for_shared_responses_see_all_fields_and_what_the_server_took_out(void **state)
{
    struct fixture *f = *state;
    struct cache_wish wish;
    struct cache_policy policy = {0};

    add(f, "Accept", "*/*");
    add(f, "Cache-Control", "max-stale=7");
    struct cache_request r = headers_cache_request(&f->req);
    assert_int_equal(r.fields.n, 2);
    assert_true(cache_check_request(&r, &policy, &wish));
    assert_int_equal(wish.max_stale_s, 7);

    f->req.body = SLICE_LIT("x");
    r = headers_cache_request(&f->req);
    assert_false(cache_check_request(&r, &policy, &wish));

    f->req.body = SLICE_NULL;
    f->req.upgrade = SLICE_LIT("h2c");
    r = headers_cache_request(&f->req);
    assert_false(cache_check_request(&r, &policy, &wish));
}

/* What Max-Forwards VALUE is read as; the error as a negative number. */
static int forwards(const char *const *values, size_t n)
{
    struct http_request req;
    uint64_t out = 0;

    http_request_init(&req, NULL, 0);
    for (size_t i = 0; i < n; ++i)
        http_request_add(&req, &req.fields, SLICE_LIT("Max-Forwards"), slice_of(values[i]));
    enum err e = headers_max_forwards(&req.fields, &out);
    http_request_fini(&req);
    return e == ERR_OK ? (int)out : -(int)e;
}

static void max_forwards_is_one_number_and_bounded(void **state)
{
    static const char *const bad[] = {"", "-1", "+1", "1 ", "0x1", "1, 2", "many"};

    (void)state;
    assert_int_equal(forwards(NULL, 0), -(int)ERR_NOT_FOUND);
    assert_int_equal(forwards((const char *[]){"0"}, 1), 0);
    assert_int_equal(forwards((const char *[]){"007"}, 1), 7);
    assert_int_equal(forwards((const char *[]){"99999999999999999999999999"}, 1),
                     MAX_FORWARDS_MAX + 1);
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i)
        assert_int_equal(forwards(&bad[i], 1), -(int)ERR_SYNTAX);
    assert_int_equal(forwards((const char *[]){"1", "1"}, 2), -(int)ERR_SYNTAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(only_a_get_over_http_1_1_becomes_a_websocket),
        TEST(fields_that_could_become_other_fields_are_rejected),
        TEST(connect_and_endless_methods_are_rejected),
        TEST(a_request_id_is_kept_only_when_it_is_plain),
        TEST(a_response_passes_without_what_concerned_our_connection),
        TEST(protocols_that_a_426_requires_are_named_to_http1_alone),
        TEST(a_request_id_of_the_worker_passes_if_we_set_none),
        TEST(our_own_fields_replace_the_workers),
        TEST(the_lines_of_a_response_have_room_where_the_worker_saved_blanks),
        cmocka_unit_test(max_forwards_is_one_number_and_bounded),
        TEST(unprocessed_is_exactly_1),
        TEST(a_backlog_is_one_number_within_its_bound),
        TEST(rules_for_shared_responses_see_all_fields_and_what_the_server_took_out),
    };

    return cmocka_run_group_tests_name("headers", tests, NULL, NULL);
}
