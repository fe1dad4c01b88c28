/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests that go past libh2o, beside those that go by it, on one connection. What holds for every
 * request, whichever way it goes, is in the other tests of the server: those run both ways. The end
 * of connections: http_short_end_test.c.
 */
#include "tests/unit/net/http_short_fixture.h"
#include "tests/unit/net/tunnel_fixture.h"

#include <time.h>

#define CHUNKED                                                                                    \
    "POST /chunked HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
#define UPGRADE "GET /up HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

enum { BODY_ON_THE_SHORT_WAY = 64 * 1024 };

/* ---- the request ---- */

static struct text seen;

static void put(const char *what, struct slice s)
{
    text_addf(&seen, "%s=%d:%.*s\n", what, s.p != NULL, (int)s.len, s.p);
}

static void see_all(struct fixture *f, struct call *call)
{
    struct http_request *req = call->reply.req;

    put("method", req->method);
    put("authority", req->authority);
    put("target", req->target);
    put("path", http_request_path(req));
    put("body", req->body);
    put("upgrade", req->upgrade);
    text_addf(&seen, "version=%x keep-alive=%d recent=%d kinds=%x\n", (unsigned)req->version,
              req->keep_alive,
              time(NULL) - (time_t)(req->received_ms / 1000) < RAW_DEADLINE_MS / 1000,
              (unsigned)req->fields.kinds);
    for (size_t i = 0; i < req->fields.n; ++i) {
        const struct message_field *h = &req->fields.at[i];

        put("name", h->name);
        put("value", h->value);
        text_addf(&seen, "kind=%d\n", (int)h->kind);
    }
    answer_hello(f, call);
}

/* What the handler sees of REQUEST, which goes by the way that is set. */
static char *seen_of(struct fixture *f, const char *request)
{
    unsigned n = f->requests + 1;

    text_clear(&seen);
    fixture_send(f, request);
    fixture_await_gone(f, n);
    fixture_forget_client(f);
    char *all = xslicedup((struct slice){seen.p, seen.len});
    text_fini(&seen);
    seen = (struct text){0};
    return all;
}

static void handler_sees_the_same_request_whichever_way_it_went(void **state)
{
    static const char *const requests[] = {
        GET,
        "\r\nGET /a/b?c=d HTTP/1.1\r\nHost: a.example:80\r\nAccept: */*\r\n\r\n",
        "HEAD /%61/../b/./c?x HTTP/1.1\r\nHost: [::1]:8080\r\nX-Own-Name: 1\r\nx_y: 2\r\n\r\n",
        "DELETE /a?b?c HTTP/1.0\r\n\r\n",
        "GET / HTTP/1.0\r\nConnection: keep-alive\r\nHost: A\r\n\r\n",
        "GET / HTTP/1.1\r\nhOST: a\r\nCONNECTION: Close\r\n\r\n",
        "GET /? HTTP/1.1\r\nHost: a\r\nConnection: x, keep-alive\r\nKeep-Alive: 5\r\n\r\n",
        "GET //x/ HTTP/1.9\r\nHost: a\r\nEmpty:\r\nBlank:  \t\r\nX:y\r\nCookie: a=b\r\nCookie: "
        "c\r\n"
        "Te: trailers\r\nUser-Agent: a \t b\r\nAccept-Encoding: gzip, br\r\nPriority: u=1\r\n"
        "Sec-Fetch-Dest: empty\r\nAuthorization: Basic YTpi\r\nIf-None-Match: \"1\"\r\n\r\n",
        "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Type: text/plain\r\n\r\nhello",
        "POST /p HTTP/1.1\r\nHost: a\r\ncontent-length: 0\r\n\r\n",
        "GET /p HTTP/1.1\r\nContent-Length: 3\r\nHost: a\r\nLast: 1\r\n\r\nabc",
        "OWN-METHOD /p HTTP/1.1\r\nHost: a\r\n\r\n",
    };
    struct fixture *f = *state;

    f->answer = see_all;
    for (size_t i = 0; i < ARRAY_LEN(requests); ++i) {
        uint64_t before = short_way(f);
        char *by_short_way = seen_of(f, requests[i]);
        assert_int_equal(short_way(f), before + 1);
        set_long_way(f, true);
        char *by_long_way = seen_of(f, requests[i]);
        assert_int_equal(short_way(f), before + 1);
        set_long_way(f, false);
        assert_non_null(strstr(by_short_way, "recent=1 "));
        assert_string_equal(by_short_way, by_long_way);
        free(by_short_way);
        free(by_long_way);
    }
}

static void what_needs_libh2o_goes_by_it(void **state)
{
    static const char *const requests[] = {
        CHUNKED,
        UPGRADE,
        "GET http://a/b HTTP/1.1\r\nHost: a\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nPadded: x \r\n\r\n",
        "GET / HTTP/1.0\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx",
    };
    struct fixture *f = *state;

    f->answer = answer_hello;
    for (size_t i = 0; i < ARRAY_LEN(requests); ++i) {
        fixture_send(f, requests[i]);
        fixture_await_gone(f, (unsigned)i + 1);
        assert_true(f->gone_done);
        fixture_await(f, "\r\n\r\nhello");
        fixture_forget_client(f);
    }
    assert_int_equal(short_way(f), 0);
}

static void bodies_up_to_a_size_take_the_short_way(void **state)
{
    struct fixture *f = *state;
    char *body = xmalloc(BODY_ON_THE_SHORT_WAY + 1);

    f->answer = answer_hello;
    for (size_t i = 0; i <= BODY_ON_THE_SHORT_WAY; ++i)
        body[i] = (char)('a' + i % 23);
    for (unsigned i = 0; i < 2; ++i) {
        size_t bytes = BODY_ON_THE_SHORT_WAY + i;
        char head[100];

        snprintf(head, sizeof(head), "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n",
                 bytes);
        fixture_send(f, head);
        raw_send_bytes(f->loop, &f->client, (struct slice){body, bytes});
        fixture_await_gone(f, i + 1);
        assert_int_equal(f->body.len, bytes);
        assert_memory_equal(f->body.p, body, bytes);
    }
    assert_int_equal(short_way(f), 1);
    free(body);
}

static void body_that_comes_after_other_requests_still_belongs_to_its_head(void **state)
{
    struct fixture *f = *state;
    struct raw_peer other;

    f->answer = answer_hello;
    fixture_send(f, "PUT /first HTTP/1.1\r\nHost: first\r\nContent-Length: 10\r\n\r\n01234");
    fixture_turns(f, 3);
    raw_connect(&f->addr, &other);
    raw_send(f->loop, &other, "GET /other/path HTTP/1.1\r\nHost: another\r\n\r\n");
    raw_await(f->loop, &other, "hello");
    assert_true(slice_is((struct slice){f->path.p, f->path.len}, "/other/path"));
    fixture_send(f, "56789");
    fixture_await_gone(f, 2);
    assert_true(slice_is((struct slice){f->method.p, f->method.len}, "PUT"));
    assert_true(slice_is((struct slice){f->path.p, f->path.len}, "/first"));
    assert_true(slice_is((struct slice){f->authority.p, f->authority.len}, "first"));
    assert_true(slice_is((struct slice){f->body.p, f->body.len}, "0123456789"));
    assert_int_equal(short_way(f), 2);
    raw_fini(&other);
}

/* ---- one after the other ---- */

static void answer_with_path(struct fixture *f, struct call *call)
{
    char text[64];

    (void)f;
    snprintf(text, sizeof(text), "<%.*s %.*s>", (int)call->reply.req->target.len,
             call->reply.req->target.p, (int)call->reply.req->body.len,
             call->reply.req->body.p != NULL ? call->reply.req->body.p : "");
    http_reply_simple(&call->reply, 200, "text/plain", slice_of(text));
}

static const char mixed[] =
    "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n"
    "POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody" CHUNKED
    "GET /4 HTTP/1.1\r\nHost: a\r\n\r\n"
    "GET /5 HTTP/1.1\r\nHost: a\r\nPadded: x  \r\n\r\n"
    "POST /6 HTTP/1.1\r\nHost: a\r\nContent-Length: 29\r\n\r\nGET /no HTTP/1.1\r\nHost: a\r\n\r\n"
    "\r\nGET /7 HTTP/1.1\r\nHost: a\r\n\r\n"
    "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"
    "GET /9 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" UPGRADE "after";

/* Of the answers at the client, in their order. */
static void assert_bodies(struct fixture *f, const char *const *bodies, size_t n)
{
    const char *at = text_cstr(&f->client.in);

    for (size_t i = 0; i < n; ++i) {
        const char *head = strstr(at, "HTTP/1.1 200 OK\r\n");
        assert_ptr_equal(head, at);
        at = strstr(at, "\r\n\r\n");
        assert_non_null(at);
        at += 4;
        if (strncmp(at, bodies[i], strlen(bodies[i])) != 0)
            fail_msg("%zu: no %s in %s", i, bodies[i], at);
        at += strlen(bodies[i]);
    }
}

static bool up_has_come(void *context)
{
    struct fixture *f = context;

    return f->call != NULL && slice_is((struct slice){f->path.p, f->path.len}, "/up");
}

static void answer_all_but_up(struct fixture *f, struct call *call)
{
    if (!slice_is((struct slice){f->path.p, f->path.len}, "/up"))
        answer_with_path(f, call);
}

static void send_mixed(struct fixture *f, size_t piece)
{
    static const char *const bodies[] = {
        "</1 >", "</2 body>", "</chunked abc>",
        "</4 >", "</5 >",     "</6 GET /no HTTP/1.1\r\nHost: a\r\n\r\n>",
        "</7 >", "<* >",      "</9 >"};
    struct raw_peer worker;
    unsigned before = f->requests;

    raw_connect(&f->addr, &f->client);
    for (size_t at = 0; at < sizeof(mixed) - 1; at += piece) {
        size_t n = sizeof(mixed) - 1 - at < piece ? sizeof(mixed) - 1 - at : piece;
        raw_send_bytes(f->loop, &f->client, (struct slice){mixed + at, n});
        loop_turn(f->loop, 0);
    }
    raw_turn_until(f->loop, up_has_come, f);
    assert_int_equal(f->requests, before + 10);
    raw_await(f->loop, &f->client, "</9 >");
    assert_bodies(f, bodies, ARRAY_LEN(bodies));
    open_tunnel(f, &worker, "hi", 0);
    raw_await(f->loop, &f->client, "101 Switching Protocols\r\n");
    raw_await(f->loop, &worker, "after");
    raw_await(f->loop, &f->client, "hi");
    raw_fini(&worker);
    fixture_forget_client(f);
    raw_turn_until_set(f->loop, &f->tunnel_ended);
    f->tunnel_ended = false;
}

static void ways_change_from_request_to_request_however_the_bytes_are_cut(void **state)
{
    static const size_t pieces[] = {sizeof(mixed), 1, 2, 7, 50, 100};
    struct fixture *f = *state;

    f->answer = answer_all_but_up;
    for (size_t i = 0; i < ARRAY_LEN(pieces); ++i)
        send_mixed(f, pieces[i]);
    assert_int_equal(short_way(f), 6 * ARRAY_LEN(pieces));
}

static void next_request_waits_until_the_answer_is_complete(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, GET CHUNKED GET);
    for (unsigned i = 1; i <= 3; ++i) {
        fixture_await_requests(f, i);
        fixture_turns(f, 5);
        assert_int_equal(f->requests, i);
        start_answer(f->call, 200, 6);
        http_reply_send(&f->call->reply, body_of("one"), false);
        raw_await_bytes(f->loop, &f->client, 1);
        fixture_turns(f, 5);
        assert_int_equal(f->requests, i);
        http_reply_send(&f->call->reply, body_of("two"), true);
        fixture_await_gone(f, i);
        text_clear(&f->client.in);
    }
    assert_int_equal(short_way(f), 2);
}

/* ---- the answer ---- */

static void answers_without_a_body_end_where_they_should(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *request;
        int status;
        uint64_t length;
        const char *tells;
    } cases[] = {
        {"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", 200, 1000, "Content-Length: 1000\r\n"},
        {"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", 200, UINT64_MAX, "200 OK\r\n"},
        {GET, 304, 77, "Content-Length: 77\r\n"},
        {GET, 204, UINT64_MAX, "204 No Content\r\n"},
        {GET, 200, 0, "Content-Length: 0\r\n"},
        {"HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 200, UINT64_MAX, "keep-alive\r\n"},
    };

    for (unsigned i = 0; i < ARRAY_LEN(cases); ++i) {
        fixture_send(f, cases[i].request);
        fixture_await_requests(f, i + 1);
        start_answer(f->call, cases[i].status, cases[i].length);
        http_reply_send(&f->call->reply, NULL, true);
        fixture_await_gone(f, i + 1);
        fixture_await(f, "\r\n\r\n");
        assert_true(raw_has(&f->client, cases[i].tells));
        assert_false(raw_has(&f->client, "chunked"));
        assert_memory_equal(f->client.in.p + f->client.in.len - 4, "\r\n\r\n", 4);
        text_clear(&f->client.in);
    }
    assert_int_equal(short_way(f), ARRAY_LEN(cases));
    assert_int_equal(http_server_connections(f->server), 1);
}

static void unknown_length_is_chunked_or_ends_the_connection(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    start_answer(f->call, 200, UINT64_MAX);
    http_reply_send(&f->call->reply, body_of("hello"), false);
    fixture_await(f, "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    http_reply_send(&f->call->reply, NULL, true);
    fixture_await(f, "\r\n0\r\n\r\n");
    fixture_await_gone(f, 1);
    fixture_send(f, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    fixture_await_requests(f, 2);
    text_clear(&f->client.in);
    start_answer(f->call, 200, UINT64_MAX);
    http_reply_send(&f->call->reply, body_of("to the end"), true);
    raw_await_end(f->loop, &f->client);
    assert_true(raw_has(&f->client, "Connection: close\r\n"));
    assert_true(raw_has(&f->client, "\r\n\r\nto the end"));
    assert_true(f->client.ended);
    assert_int_equal(short_way(f), 2);
}

/* How an answer that is cut short looks to the client of REQUEST. */
static void cut_short(struct fixture *f, const char *request, uint64_t length, bool body)
{
    unsigned n = f->requests + 1;

    fixture_send(f, request);
    fixture_await_requests(f, n);
    start_answer(f->call, 200, length);
    if (body) {
        http_reply_send(&f->call->reply, body_of("part"), false);
        fixture_await(f, "part");
    }
    http_reply_abort(&f->call->reply);
    fixture_await_gone(f, n);
    assert_false(f->gone_done);
    raw_await_end(f->loop, &f->client);
}

static void answer_that_is_cut_short_never_looks_complete(void **state)
{
    struct fixture *f = *state;

    cut_short(f, GET GET, 100, true);
    assert_true(f->client.ended);
    assert_true(raw_has(&f->client, "\r\n\r\npart"));
    fixture_forget_client(f);
    cut_short(f, GET GET, UINT64_MAX, true);
    assert_false(raw_has(&f->client, "0\r\n\r\n"));
    fixture_forget_client(f);
    cut_short(f, GET, 100, false);
    assert_true(raw_has(&f->client, "Content-Length: 100\r\n"));
    fixture_forget_client(f);
    cut_short(f, "GET / HTTP/1.0\r\n\r\n", UINT64_MAX, true);
    assert_true(f->client.reset);
    assert_int_equal(f->requests, 4);
    assert_int_equal(short_way(f), 4);
}

static void abort_at(struct fixture *f, struct call *call)
{
    (void)f;
    call->reply.req->res.status = 200;
    http_reply_start(&call->reply, 10);
    http_reply_abort(&call->reply);
}

static void answer_may_be_given_up_within_the_request(void **state)
{
    struct fixture *f = *state;

    f->answer = abort_at;
    fixture_send(f, GET GET);
    raw_await_end(f->loop, &f->client);
    assert_int_equal(f->gone, 1);
    assert_true(raw_has(&f->client, "Content-Length: 10\r\n"));
    assert_int_equal(short_way(f), 1);
}

static bool has_room(void *context)
{
    struct fixture *f = context;

    return f->call->reply.queued_bytes == 0;
}

static void large_answer_reaches_a_reader_that_waits(void **state)
{
    enum { LARGE = 16 * 1024 * 1024 };
    struct fixture *f = *state;
    char *p = xmalloc(LARGE);

    memset(p, 'z', LARGE);
    fixture_send(f, GET CHUNKED GET);
    for (unsigned i = 1; i <= 3; ++i) {
        fixture_await_requests(f, i);
        start_answer(f->call, 200, LARGE);
        http_reply_send(&f->call->reply, http1_body_copy((struct slice){p, LARGE - 1}), false);
        fixture_turns(f, 20);
        assert_false(has_room(f));
        raw_await_bytes(f->loop, &f->client, LARGE);
        raw_turn_until(f->loop, has_room, f);
        http_reply_send(&f->call->reply, body_of("."), true);
        fixture_await_gone(f, i);
        assert_true(f->gone_done);
        assert_int_equal(f->sent_bytes, LARGE);
        fixture_await(f, "z.");
        text_clear(&f->client.in);
    }
    assert_int_equal(short_way(f), 2);
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SHORT(handler_sees_the_same_request_whichever_way_it_went),
        SHORT(what_needs_libh2o_goes_by_it),
        SHORT(bodies_up_to_a_size_take_the_short_way),
        SHORT(body_that_comes_after_other_requests_still_belongs_to_its_head),
        SHORT(ways_change_from_request_to_request_however_the_bytes_are_cut),
        SHORT(next_request_waits_until_the_answer_is_complete),
        SHORT(answers_without_a_body_end_where_they_should),
        SHORT(unknown_length_is_chunked_or_ends_the_connection),
        SHORT(answer_that_is_cut_short_never_looks_complete),
        SHORT(answer_may_be_given_up_within_the_request),
        SHORT(large_answer_reaches_a_reader_that_waits),
    };

    return cmocka_run_group_tests_name("http_short", tests, NULL, NULL);
}
