/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP/1 requests as the handler gets them, one after the other on a connection, and the framing of
 * their responses. The end of connections within a request: http1_end_test.c. Requests in pieces,
 * and rejected ones: http1_pieces_test.c, request_check_test.c.
 */
#include "tests/unit/http/http_server_fixture.h"
#include "tests/unit/http/tunnel_fixture.h"

#define CHUNKED                                                                                    \
    "POST /chunked HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
#define UPGRADE "GET /up HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

#define GET "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

/* ---- the request ---- */

static struct text seen;

/* "-" is NULL. */
static void put(const char *what, struct slice s)
{
    text_addf(&seen, " %s=", what);
    if (s.p == NULL)
        text_add(&seen, SLICE_LIT("-"));
    else
        text_addf(&seen, "<%.*s>", (int)s.len, s.p);
}

static void see_all(struct fixture *f, struct call *call)
{
    struct http_request *req = call->response.req;
    uint64_t age_ms = loop_wall_ms(f->loop) - req->received_ms;
    uint32_t kinds = 0;

    text_addf(&seen, "%x %s", (unsigned)req->version, req->keep_alive ? "keep" : "close");
    put("method", req->method);
    put("host", req->authority);
    put("target", req->target);
    put("path", http_request_path(req));
    put("body", req->body);
    put("upgrade", req->upgrade);
    for (size_t i = 0; i < req->fields.n; ++i) {
        const struct message_field *h = &req->fields.at[i];

        text_addf(&seen, "\n%.*s:%.*s", (int)h->name.len, h->name.p, (int)h->value.len, h->value.p);
        kinds |= FIELD_BIT(h->kind);
    }
    assert_int_equal(req->fields.kinds, kinds);
    assert_in_range(age_ms, 0, RAW_DEADLINE_MS);
    response_hello(f, call);
}

struct example {
    const char *request, *seen;
};

static void assert_seen(struct fixture *f, const struct example *e, size_t piece)
{
    unsigned n = f->requests + 1;

    text_clear(&seen);
    fixture_send_pieces(f, slice_of(e->request), piece);
    fixture_await_gone(f, n);
    assert_true(f->gone_done);
    fixture_forget_client(f);
    assert_string_equal(text_cstr(&seen), e->seen);
}

static void handler_sees_all_of_a_request_but_its_framing(void **state)
{
    static const struct example examples[] = {
        {GET, "101 keep method=<GET> host=<a> target=</> path=</> body=- upgrade=-"},
        {"\r\nGET /a/b?c=d HTTP/1.1\r\nHost: a.example:80\r\nAccept: */*\r\n\r\n",
         "101 keep method=<GET> host=<a.example:80> target=</a/b?c=d> path=</a/b> body=- upgrade=-"
         "\nAccept:*/*"},
        {"HEAD /%61/../b/./c?x HTTP/1.1\r\nHost: [::1]:8080\r\nX-Own-Name: 1\r\nx_y: 2\r\n\r\n",
         "101 keep method=<HEAD> host=<[::1]:8080> target=</%61/../b/./c?x> path=</b/c> body=- "
         "upgrade=-\nX-Own-Name:1\nx_y:2"},
        {"DELETE /a?b?c HTTP/1.0\r\n\r\n",
         "100 close method=<DELETE> host=<> target=</a?b?c> path=</a> body=- upgrade=-"},
        {"GET / HTTP/1.0\r\nConnection: keep-alive\r\nHost: A\r\n\r\n",
         "100 keep method=<GET> host=<A> target=</> path=</> body=- upgrade=-"
         "\nConnection:keep-alive"},
        {"GET / HTTP/1.1\r\nhOST: a\r\nCONNECTION: Close\r\n\r\n",
         "101 close method=<GET> host=<a> target=</> path=</> body=- upgrade=-\nCONNECTION:Close"},
        {"GET /? HTTP/1.1\r\nHost: a\r\nConnection: x, keep-alive\r\nKeep-Alive: 5\r\n\r\n",
         "101 keep method=<GET> host=<a> target=</?> path=</> body=- upgrade=-"
         "\nConnection:x, keep-alive\nKeep-Alive:5"},
        {"GET //x/ HTTP/1.9\r\nHost: a\r\nEmpty:\r\nBlank:  \t\r\nX:y\r\nCookie: a=b\r\n"
         "Cookie: c\r\nTe: trailers\r\nUser-Agent: a \t b\r\nPadded: x  \r\n\r\n",
         "101 keep method=<GET> host=<a> target=<//x/> path=</x/> body=- upgrade=-"
         "\nEmpty:\nBlank:\nX:y\nCookie:a=b\nCookie:c\nTe:trailers\nUser-Agent:a \t b\nPadded:x"},
        {"POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Type: text/plain\r\n\r\n"
         "hello",
         "101 keep method=<POST> host=<a> target=</p> path=</p> body=<hello> upgrade=-"
         "\nContent-Type:text/plain"},
        {"POST /p HTTP/1.1\r\nHost: a\r\ncontent-length: 0\r\n\r\n",
         "101 keep method=<POST> host=<a> target=</p> path=</p> body=<> upgrade=-"},
        {"GET /p HTTP/1.1\r\nContent-Length: 3\r\nHost: a\r\nLast: 1\r\n\r\nabc",
         "101 keep method=<GET> host=<a> target=</p> path=</p> body=<abc> upgrade=-\nLast:1"},
        {CHUNKED,
         "101 keep method=<POST> host=<a> target=</chunked> path=</chunked> body=<abc> upgrade=-"
         "\nTransfer-Encoding:chunked"},
        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nT: 1\r\n\r\n",
         "101 keep method=<POST> host=<a> target=</> path=</> body=<> upgrade=-"
         "\nTransfer-Encoding:chunked"},
        {"OWN-METHOD /p HTTP/1.1\r\nHost: a\r\n\r\n",
         "101 keep method=<OWN-METHOD> host=<a> target=</p> path=</p> body=- upgrade=-"},
        {"GET http://b/c?d HTTP/1.1\r\nHost: a\r\n\r\n",
         "101 keep method=<GET> host=<b> target=</c?d> path=</c> body=- upgrade=-"},
        {"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
         "101 keep method=<OPTIONS> host=<a> target=<*> path=<*> body=- upgrade=-"},
        {UPGRADE, "101 keep method=<GET> host=<a> target=</up> path=</up> body=- "
                  "upgrade=<websocket>\nConnection:Upgrade\nUpgrade:websocket"},
        {"GET /up HTTP/1.1\r\nHost: a\r\nConnection: close\r\nUpgrade: websocket\r\n\r\n",
         "101 close method=<GET> host=<a> target=</up> path=</up> body=- upgrade=-"
         "\nConnection:close\nUpgrade:websocket"},
        {"GET / HTTP/1.0\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
         "100 close method=<GET> host=<a> target=</> path=</> body=- upgrade=-"
         "\nExpect:100-continue"},
    };
    struct fixture *f = *state;

    f->response = see_all;
    for (size_t i = 0; i < ARRAY_LEN(examples); ++i) {
        assert_seen(f, &examples[i], SIZE_MAX);
        assert_seen(f, &examples[i], 1);
    }
    text_fini(&seen);
    seen = (struct text){0};
}

/* More than the exchange has room for without its arena. */
static void many_fields_reach_the_handler_in_their_order(void **state)
{
    enum { MANY = 98 };
    struct fixture *f = *state;
    struct http_server_options o = fixture_options(f);
    struct text request = {0};
    struct text expected = {0};

    o.max.fields = 0;
    http_server_set(f->server, &o);
    f->response = see_all;
    text_add(&request, SLICE_LIT("GET / HTTP/1.1\r\nHost: a\r\n"));
    text_add(&expected, SLICE_LIT("101 keep method=<GET> host=<a> target=</> path=</> body=- "
                                  "upgrade=-"));
    for (unsigned i = 0; i < MANY; ++i) {
        text_addf(&request, "X-%u: %u\r\n", i, i * i);
        text_addf(&expected, "\nX-%u:%u", i, i * i);
    }
    text_add(&request, SLICE_LIT("\r\n"));
    assert_seen(f, &(struct example){text_cstr(&request), text_cstr(&expected)}, SIZE_MAX);
    assert_seen(f, &(struct example){text_cstr(&request), text_cstr(&expected)}, 5);
    text_fini(&request);
    text_fini(&expected);
    text_fini(&seen);
    seen = (struct text){0};
}

/* ---- bodies ---- */

enum { BODIES_MAX = 300000, SPILL_BYTES = 100000 };

static bool in_file; /* the body of the latest request */

static void note_file(struct fixture *f, struct call *call)
{
    in_file = call->response.req->body_file != NULL;
    response_hello(f, call);
}

static void restart_with_files(struct fixture *f)
{
    struct http_server_options o = fixture_options(f);

    o.sinks.memory_bytes = SPILL_BYTES;
    o.sinks.directory = "/tmp";
    fixture_restart(f, &o);
    f->response = note_file;
}

static void put_sized(struct text *t, struct slice body)
{
    text_addf(t, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", body.len);
    text_add(t, body);
}

/* In chunks of STEP bytes. */
static void put_chunked(struct text *t, struct slice body, size_t step)
{
    text_add(t, SLICE_LIT("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"));
    while (body.len != 0) {
        struct slice chunk = {body.p, body.len < step ? body.len : step};

        text_addf(t, "%zx\r\n", chunk.len);
        text_add(t, chunk);
        text_add(t, SLICE_LIT("\r\n"));
        body = (struct slice){body.p + chunk.len, body.len - chunk.len};
    }
    text_add(t, SLICE_LIT("0\r\n\r\n"));
}

static void assert_body_arrives(struct fixture *f, const struct text *request, struct slice body)
{
    unsigned n = f->requests + 1;

    if (f->client.fd == -1)
        raw_connect(&f->addr, &f->client);
    raw_send_bytes(f->loop, &f->client, text_slice(request));
    fixture_await_gone(f, n);
    assert_int_equal(f->body.len, body.len);
    if (body.len != 0)
        assert_memory_equal(f->body.p, body.p, body.len);
}

static char *letters(size_t bytes)
{
    char *p = xmalloc(bytes);

    for (size_t i = 0; i < bytes; ++i)
        p[i] = (char)('a' + i % 23);
    return p;
}

/* Behind the head, in memory of their own, and in a file: one connection for all of them. */
static void bodies_of_all_sizes_arrive(void **state)
{
    static const size_t sizes[] = {
        0,     1,     4096,  16000,           16384,       16800,           16896,
        17000, 65536, 65537, SPILL_BYTES - 1, SPILL_BYTES, SPILL_BYTES + 1, BODIES_MAX};
    struct fixture *f = *state;
    char *p = letters(BODIES_MAX);

    restart_with_files(f);
    for (size_t i = 0; i < ARRAY_LEN(sizes); ++i) {
        struct slice body = {p, sizes[i]};
        struct text sized = {0};
        struct text chunked = {0};

        put_sized(&sized, body);
        assert_body_arrives(f, &sized, body);
        assert_int_equal(in_file, body.len > SPILL_BYTES);
        put_chunked(&chunked, body, 1 + body.len / 3);
        assert_body_arrives(f, &chunked, body);
        assert_int_equal(in_file, body.len > SPILL_BYTES);
        text_fini(&sized);
        text_fini(&chunked);
    }
    assert_int_equal(http_server_connections(f->server), 1);
    free(p);
}

static void body_of_many_small_chunks_arrives(void **state)
{
    enum { BYTES = 20000 };
    struct fixture *f = *state;
    char *p = letters(BYTES);
    struct slice body = {p, BYTES};
    struct text t = {0};

    f->response = response_hello;
    put_chunked(&t, body, 1);
    assert_body_arrives(f, &t, body);
    text_fini(&t);
    free(p);
}

static void body_that_comes_after_other_requests_still_belongs_to_its_head(void **state)
{
    struct fixture *f = *state;
    struct raw_peer other;

    f->response = response_hello;
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
    raw_fini(&other);
}

/* ---- one after the other ---- */

static void response_with_path(struct fixture *f, struct call *call)
{
    char text[64];

    (void)f;
    snprintf(text, sizeof(text), "<%.*s %.*s>", (int)call->response.req->target.len,
             call->response.req->target.p, (int)call->response.req->body.len,
             call->response.req->body.p != NULL ? call->response.req->body.p : "");
    http_response_simple(&call->response, 200, "text/plain", slice_of(text));
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

/* Of the responds at the client, in their order. */
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

static void response_all_but_up(struct fixture *f, struct call *call)
{
    if (!slice_is((struct slice){f->path.p, f->path.len}, "/up"))
        response_with_path(f, call);
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

static void requests_of_all_kinds_follow_each_other_however_the_bytes_are_cut(void **state)
{
    static const size_t pieces[] = {sizeof(mixed), 1, 2, 7, 50, 100};
    struct fixture *f = *state;

    f->response = response_all_but_up;
    for (size_t i = 0; i < ARRAY_LEN(pieces); ++i)
        send_mixed(f, pieces[i]);
}

static void next_request_waits_until_the_response_is_complete(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, GET CHUNKED GET);
    for (unsigned i = 1; i <= 3; ++i) {
        fixture_await_requests(f, i);
        fixture_turns(f, 5);
        assert_int_equal(f->requests, i);
        start_response(f->call, 200, 6);
        http_response_send(&f->call->response, body_of("one"), false);
        raw_await_bytes(f->loop, &f->client, 1);
        fixture_turns(f, 5);
        assert_int_equal(f->requests, i);
        http_response_send(&f->call->response, body_of("two"), true);
        fixture_await_gone(f, i);
        text_clear(&f->client.in);
    }
}

/* ---- the response ---- */

static void responses_without_a_body_end_where_they_should(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *request;
        int status;
        uint64_t length;
        const char *expected;
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
        start_response(f->call, cases[i].status, cases[i].length);
        http_response_send(&f->call->response, NULL, true);
        fixture_await_gone(f, i + 1);
        fixture_await(f, "\r\n\r\n");
        assert_true(raw_has(&f->client, cases[i].expected));
        assert_false(raw_has(&f->client, "chunked"));
        assert_memory_equal(f->client.in.p + f->client.in.len - 4, "\r\n\r\n", 4);
        text_clear(&f->client.in);
    }
    assert_int_equal(http_server_connections(f->server), 1);
}

static void unknown_length_is_chunked_or_ends_the_connection(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    start_response(f->call, 200, UINT64_MAX);
    http_response_send(&f->call->response, body_of("hello"), false);
    fixture_await(f, "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    http_response_send(&f->call->response, NULL, true);
    fixture_await(f, "\r\n0\r\n\r\n");
    fixture_await_gone(f, 1);
    fixture_send(f, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    fixture_await_requests(f, 2);
    text_clear(&f->client.in);
    start_response(f->call, 200, UINT64_MAX);
    http_response_send(&f->call->response, body_of("to the end"), true);
    raw_await_end(f->loop, &f->client);
    assert_true(raw_has(&f->client, "Connection: close\r\n"));
    assert_true(raw_has(&f->client, "\r\n\r\nto the end"));
    assert_true(f->client.ended);
}

/* What the client of REQUEST receives of a response that is cut short. */
static void cut_short(struct fixture *f, const char *request, uint64_t length, bool body)
{
    unsigned n = f->requests + 1;

    fixture_send(f, request);
    fixture_await_requests(f, n);
    start_response(f->call, 200, length);
    if (body) {
        http_response_send(&f->call->response, body_of("part"), false);
        fixture_await(f, "part");
    }
    http_response_abort(&f->call->response);
    fixture_await_gone(f, n);
    assert_false(f->gone_done);
    raw_await_end(f->loop, &f->client);
}

static void response_that_is_cut_short_never_looks_complete(void **state)
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
}

static void abort_at(struct fixture *f, struct call *call)
{
    (void)f;
    call->response.req->res.status = 200;
    http_response_start(&call->response, 10);
    http_response_abort(&call->response);
}

static void response_may_be_given_up_within_the_request(void **state)
{
    struct fixture *f = *state;

    f->response = abort_at;
    fixture_send(f, GET GET);
    raw_await_end(f->loop, &f->client);
    assert_int_equal(f->gone, 1);
    assert_true(raw_has(&f->client, "Content-Length: 10\r\n"));
}

static bool has_room(void *context)
{
    struct fixture *f = context;

    return f->call->response.queued_bytes == 0;
}

static void large_response_reaches_a_reader_that_waits(void **state)
{
    enum { LARGE = 16 * 1024 * 1024 };
    struct fixture *f = *state;
    char *p = xmalloc(LARGE);
    const int small = 64 * 1024;

    memset(p, 'z', LARGE);
    fixture_send(f, GET CHUNKED GET);
    /* Otherwise the kernel may have room for all of a response once it has been read from fast. */
    assert_int_equal(setsockopt(f->client.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
    for (unsigned i = 1; i <= 3; ++i) {
        fixture_await_requests(f, i);
        start_response(f->call, 200, LARGE);
        http_response_send(&f->call->response, body_piece_copy((struct slice){p, LARGE - 1}),
                           false);
        fixture_turns(f, 20);
        assert_false(has_room(f));
        raw_await_bytes(f->loop, &f->client, LARGE);
        raw_turn_until(f->loop, has_room, f);
        http_response_send(&f->call->response, body_of("."), true);
        fixture_await_gone(f, i);
        assert_true(f->gone_done);
        assert_int_equal(f->sent_bytes, LARGE);
        fixture_await(f, "z.");
        text_clear(&f->client.in);
    }
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(handler_sees_all_of_a_request_but_its_framing),
        TEST(many_fields_reach_the_handler_in_their_order),
        TEST(bodies_of_all_sizes_arrive),
        TEST(body_of_many_small_chunks_arrives),
        TEST(body_that_comes_after_other_requests_still_belongs_to_its_head),
        TEST(requests_of_all_kinds_follow_each_other_however_the_bytes_are_cut),
        TEST(next_request_waits_until_the_response_is_complete),
        TEST(responses_without_a_body_end_where_they_should),
        TEST(unknown_length_is_chunked_or_ends_the_connection),
        TEST(response_that_is_cut_short_never_looks_complete),
        TEST(response_may_be_given_up_within_the_request),
        TEST(large_response_reaches_a_reader_that_waits),
    };

    return cmocka_run_group_tests_name("http1_server", tests, NULL, NULL);
}
