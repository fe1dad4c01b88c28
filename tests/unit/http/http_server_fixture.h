/* SPDX-License-Identifier: Apache-2.0
 *
 * A server on a free port with a handler that the test controls, and scripted clients.
 */
#pragma once

#include "common/http/http_server_internal.h"
#include "tests/support/raw_peer.h"

#include <sys/resource.h>

struct fixture;

/* One request, in memory of its own. */
struct call {
    struct http_response response;
    struct fixture *fixture;
};

struct fixture {
    struct loop *loop;
    struct http_server *server;
    struct http_listener *listener;
    struct addr addr;
    struct raw_peer client;
    void (*response)(struct fixture *f, struct call *call); /* at once; NULL: the test does it */
    void (*at_drained)(struct fixture *f, struct call *call);
    struct call *call; /* the latest that has not gone */
    unsigned requests, gone, drained;
    bool gone_done; /* of the last that has gone */
    uint64_t sent_bytes;
    struct text method, path, authority, body;
    bool drain_done;
    bool tunnel_ended;
    uint64_t up_bytes, down_bytes;
    struct addr peer;
    void *tag;
};

static inline void fixture_on_drained(void *context)
{
    struct call *call = context;

    ++call->fixture->drained;
    if (call->fixture->at_drained != NULL)
        call->fixture->at_drained(call->fixture, call);
}

static inline void fixture_on_gone(void *context, bool done)
{
    struct call *call = context;
    struct fixture *f = call->fixture;

    ++f->gone;
    f->gone_done = done;
    f->sent_bytes = call->response.sent_bytes;
    if (f->call == call)
        f->call = NULL;
    /* The request's memory need not be asked any more. */
    memset(call, 0xee, sizeof(*call));
    free(call);
}

static const struct http_response_events fixture_events = {
    .drained = fixture_on_drained,
    .gone = fixture_on_gone,
};

static inline void fixture_keep(struct text *t, struct slice s)
{
    text_clear(t);
    text_add(t, s);
}

static inline void fixture_on_request(void *context, struct http_request *req,
                                      struct http_conn *conn)
{
    struct fixture *f = context;
    struct call *call = xcalloc(1, sizeof(*call));

    ++f->requests;
    fixture_keep(&f->method, req->method);
    fixture_keep(&f->path, req->target);
    fixture_keep(&f->authority, req->authority);
    fixture_keep(&f->body, req->body);
    f->peer = *http_conn_peer(conn);
    f->tag = http_conn_tag(conn);
    call->fixture = f;
    f->call = call;
    http_response_init(&call->response, req, conn, &fixture_events, call);
    if (f->response != NULL)
        f->response(f, call);
}

static inline struct http_server_options fixture_options(struct fixture *f)
{
    return (struct http_server_options){
        .max.body_bytes = (size_t)1 << 20,
        .max.head_bytes = 8192,
        .max.fields = 20,
        .header_timeout_ms = 60000,
        .body_timeout_ms = 60000,
        .keep_alive_timeout_ms = 60000,
        .send_timeout_ms = 60000,
        .on_request = fixture_on_request,
        .context = f,
    };
}

static inline void fixture_listen(struct fixture *f)
{
    struct http_listen_options o = {.tag = f};
    int fd = raw_listen(&f->addr);

    f->listener = http_server_listen(f->server, fd, &o);
}

static inline void fixture_start(struct fixture *f, const struct http_server_options *o)
{
    f->server = http_server_create(f->loop, o);
    fixture_listen(f);
}

static inline bool fixture_is_empty(void *context)
{
    struct fixture *f = context;

    return http_server_connections(f->server) == 0 && f->server->ntunnels == 0;
}

static inline void fixture_stop(struct fixture *f)
{
    http_server_cut(f->server);
    raw_turn_until(f->loop, fixture_is_empty, f);
    http_server_destroy(f->server);
}

/* Start over with other options. */
static inline void fixture_restart(struct fixture *f, const struct http_server_options *o)
{
    fixture_stop(f);
    fixture_start(f, o);
}

static inline int fixture_setup(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    raw_ignore_sigpipe();
    f->loop = loop_create(0);
    struct http_server_options o = fixture_options(f);
    fixture_start(f, &o);
    raw_init(&f->client);
    *state = f;
    return 0;
}

static inline int fixture_teardown(void **state)
{
    struct fixture *f = *state;

    raw_fini(&f->client);
    fixture_stop(f);
    assert_int_equal(f->gone, f->requests);
    loop_destroy(f->loop);
    text_fini(&f->method);
    text_fini(&f->path);
    text_fini(&f->authority);
    text_fini(&f->body);
    free(f);
    return 0;
}

/* Connect and send TEXT. */
static inline void fixture_send(struct fixture *f, const char *text)
{
    if (f->client.fd == -1)
        raw_connect(&f->addr, &f->client);
    raw_send(f->loop, &f->client, text);
}

static inline void fixture_await(struct fixture *f, const char *text)
{
    raw_await(f->loop, &f->client, text);
}

static inline void fixture_forget_client(struct fixture *f)
{
    raw_fini(&f->client);
    raw_init(&f->client);
}

static inline void fixture_turns(struct fixture *f, int n)
{
    for (int i = 0; i < n; ++i)
        loop_turn(f->loop, 0);
}

struct fixture_wait {
    struct fixture *fixture;
    unsigned count;
};

static inline bool fixture_has_requests(void *context)
{
    struct fixture_wait *w = context;

    return w->fixture->requests >= w->count;
}

/* Turns the loop until COUNT requests have arrived in all. */
static inline void fixture_await_requests(struct fixture *f, unsigned count)
{
    raw_turn_until(f->loop, fixture_has_requests,
                   &(struct fixture_wait){.fixture = f, .count = count});
}

static inline bool fixture_has_gone(void *context)
{
    struct fixture_wait *w = context;

    return w->fixture->gone >= w->count;
}

static inline void fixture_await_gone(struct fixture *f, unsigned count)
{
    raw_turn_until(f->loop, fixture_has_gone, &(struct fixture_wait){.fixture = f, .count = count});
}

static inline struct http_server_counts fixture_counts(struct fixture *f)
{
    struct http_server_counts c;

    http_server_read_counts(f->server, &c);
    return c;
}

static inline uint64_t fixture_rejected(struct fixture *f, enum request_fault fault)
{
    return fixture_counts(f).rejected[fault];
}

static inline bool fixture_has_connections(void *context)
{
    const struct fixture_wait *w = context;

    return http_server_connections(w->fixture->server) == w->count;
}

/* Until the server has COUNT of them. */
static inline void fixture_await_connections(struct fixture *f, unsigned count)
{
    raw_turn_until(f->loop, fixture_has_connections,
                   &(struct fixture_wait){.fixture = f, .count = count});
}

/* Send BYTES in pieces of PIECE bytes, with turns of the loop in between. */
static inline void fixture_send_pieces(struct fixture *f, struct slice bytes, size_t piece)
{
    if (f->client.fd == -1)
        raw_connect(&f->addr, &f->client);
    while (bytes.len != 0) {
        size_t n = bytes.len < piece ? bytes.len : piece;

        raw_send_bytes(f->loop, &f->client, (struct slice){bytes.p, n});
        fixture_turns(f, 2);
        bytes = (struct slice){bytes.p + n, bytes.len - n};
    }
}

/* From now on there are no descriptors but those that are open. Returns the limit of before. */
static inline struct rlimit fixture_take_descriptors(void)
{
    struct rlimit before;
    int next = dup(STDERR_FILENO);

    assert_true(next != -1);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    /* Not 0: poll(2) rejects more descriptors than the limit. */
    struct rlimit none = {.rlim_cur = (rlim_t)next, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    return before;
}

static inline void response_hello(struct fixture *f, struct call *call)
{
    (void)f;
    http_response_simple(&call->response, 200, "text/plain", SLICE_LIT("hello"));
}

static inline struct body_piece *body_of(const char *text)
{
    return body_piece_copy(slice_of(text));
}

static inline void start_response(struct call *call, int status, uint64_t length)
{
    call->response.req->res.status = status;
    http_response_start(&call->response, length);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
