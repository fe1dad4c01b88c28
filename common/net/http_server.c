/* SPDX-License-Identifier: Apache-2.0
 *
 * One libh2o configuration and context per server, with one host, one path, one handler: routing is
 * the user's. libh2o's own time limits are set long where they do not say what we mean; a sweep
 * over the connections (http_conn.c) keeps time by phase.
 */
#include "common/base/log.h"
#include "common/net/http_conn.h"

#include <h2o/http2.h>
#include <stdlib.h>

enum {
    SWEEP_MS_MIN = 20,
    SWEEP_MS_MAX = 1000,
    NO_LIMIT_MS = 24 * 3600 * 1000,
    /* Idle connections closed per sweep while clients wait to be accepted. */
    CLOSED_FOR_WAITING = 64,
};

/*
 * Nor is there a limit to how long libh2o may wait for a request: what it does not see goes on
 * beside it. Still less than what any clock has shown, as libh2o subtracts it.
 */
#define FOR_YEARS_MS (UINT64_C(10) * 365 * NO_LIMIT_MS)

/* No host of this name can be asked for, so a request that has it had none. */
#define HOST_OF_NOBODY "_"

struct server_handler {
    h2o_handler_t super;
    struct http_server *server;
};

void http_server_count(struct http_server *s, size_t which)
{
    uint64_t now = atomic_load_explicit(&s->counts[which], memory_order_relaxed);

    atomic_store_explicit(&s->counts[which], now + 1, memory_order_relaxed);
}

void http_server_refused(struct http_server *s, const struct http_refusal *r)
{
    http_server_count(s, COUNT_REFUSED + r->fault);
    if (s->options.on_refused != NULL)
        s->options.on_refused(s->options.context, r);
}

static uint64_t count_of(const struct http_server *s, size_t which)
{
    return atomic_load_explicit(&s->counts[which], memory_order_relaxed);
}

void http_server_read_counts(const struct http_server *s, struct http_server_counts *out)
{
    *out = (struct http_server_counts){
        .accepted = count_of(s, COUNT_ACCEPTED),
        .requests = count_of(s, COUNT_REQUESTS),
        .short_way = count_of(s, COUNT_SHORT),
        .abandoned = count_of(s, COUNT_ABANDONED),
        .header_timeouts = count_of(s, COUNT_HEADER_TIMEOUTS),
        .body_timeouts = count_of(s, COUNT_BODY_TIMEOUTS),
        .send_timeouts = count_of(s, COUNT_SEND_TIMEOUTS),
        .slow_readers = count_of(s, COUNT_SLOW_READERS),
        .resets = count_of(s, COUNT_RESETS),
        .accept_pauses = count_of(s, COUNT_ACCEPT_PAUSES),
        .rests = count_of(s, COUNT_RESTS),
        .tls12 = count_of(s, COUNT_TLS12),
        .tls13 = count_of(s, COUNT_TLS13),
        .tls_resumed = count_of(s, COUNT_TLS_RESUMED),
    };
    for (size_t i = 0; i < TLS_FAILURES; ++i)
        out->tls_failed[i] = count_of(s, COUNT_TLS_FAILED + i);
    for (size_t i = 0; i < FAULT_COUNT; ++i)
        out->refused[i] = count_of(s, COUNT_REFUSED + i);
}

/* ---- requests ---- */

static struct http_conn *conn_of(h2o_req_t *req)
{
    return req->conn->callbacks->get_socket(req->conn)->on_close.data;
}

static int on_req(h2o_handler_t *self, h2o_req_t *req)
{
    struct http_server *s = ((struct server_handler *)self)->server;
    struct http_conn *c = conn_of(req);

    c->http2 = req->version >= 0x200;
    enum request_fault f = http_tap_give_body(c, req, &c->body);
    if (c->cut || http_tap_is_dying(c)) {
        /* It had more requests on their way than libh2o had read; nobody waits for this one. */
        h2o_send_error_generic(req, 503, http_status_reason(503), "",
                               H2O_SEND_ERROR_HTTP1_CLOSE_CONNECTION);
        return 0;
    }
    if (f == FAULT_NONE)
        f = http_check_request(c, req);
    if (f != FAULT_NONE) {
        http_refuse(c, req, f);
        return 0;
    }
    http_server_count(s, COUNT_REQUESTS);
    s->options.on_request(s->options.context, http_library_request(req), c);
    return 0;
}

/* ---- time ---- */

static uint64_t min_nonzero(uint64_t a, uint64_t b)
{
    if (a == 0 || b == 0)
        return a + b;
    return a < b ? a : b;
}

/* Often enough that a limit is exceeded by a quarter at most. */
static uint64_t sweep_ms(const struct http_server_options *o)
{
    uint64_t slow_ms = min_nonzero(o->min_body_rate_grace_ms, o->min_send_rate_grace_ms);
    uint64_t ms = min_nonzero(min_nonzero(o->header_timeout_ms, o->body_timeout_ms),
                              min_nonzero(o->keep_alive_timeout_ms, slow_ms)) /
                  4;

    if (ms == 0 || ms > SWEEP_MS_MAX)
        return SWEEP_MS_MAX;
    return ms < SWEEP_MS_MIN ? SWEEP_MS_MIN : ms;
}

/*
 * All connections one after the other, whichever of them end meanwhile: they wait in REST, and go
 * back one by one.
 */
static void take_connections(struct http_server *s, struct list *rest)
{
    list_init(rest);
    list_splice_back(rest, &s->conns);
}

static struct http_conn *next_connection(struct http_server *s, struct list *rest)
{
    struct list *node = list_pop_front(rest);

    if (node == NULL)
        return NULL;
    list_push_back(&s->conns, node);
    return list_entry(node, struct http_conn, node);
}

/* Those of RESTING whose time is over. */
static void wake_expired(struct http_server *s, uint64_t now_ms)
{
    uint64_t limit_ms = s->options.keep_alive_timeout_ms;

    while (limit_ms != 0 && !list_empty(&s->resting)) {
        struct http_conn *c = list_first(&s->resting, struct http_conn, node);
        if (now_ms < c->phase_since_ms + limit_ms)
            return;
        http_conn_wake(c);
    }
}

/* Clients wait to be accepted: the HTTP/1 connections that have been idle for longest make room. */
static void close_idle_for_waiting(struct http_server *s)
{
    for (int i = 0; i < CLOSED_FOR_WAITING; ++i) {
        if (!s->accept_paused || !http_server_full(s) || list_empty(&s->resting))
            return;
        struct http_conn *c = list_first(&s->resting, struct http_conn, node);
        http_conn_wake(c);
        http_conn_shut_read(c);
    }
}

static void on_sweep(struct timer *t)
{
    struct http_server *s = container_of(t, struct http_server, sweep);
    uint64_t now_ms = loop_now_ms(s->loop);
    struct list rest;
    struct http_conn *c;

    wake_expired(s, now_ms);
    close_idle_for_waiting(s);
    take_connections(s, &rest);
    while ((c = next_connection(s, &rest)) != NULL)
        http_conn_sweep(c, now_ms);
    timer_start(s->loop, &s->sweep, sweep_ms(&s->options));
}

/* ---- drain ---- */

static void run_end_of_drain(struct loop_deferred *d)
{
    struct http_server *s = container_of(d, struct http_server, end_of_drain);

    if (s->nconns == 0 && s->ntunnels == 0 && s->drained != NULL) {
        void (*done)(void *) = s->drained;
        s->drained = NULL;
        done(s->drained_context);
    }
}

static void check_end_of_drain(struct http_server *s)
{
    bool over = s->draining && s->nconns == 0 && s->ntunnels == 0;

    if (over && !list_linked(&s->end_of_drain.node))
        loop_defer(s->loop, &s->end_of_drain);
}

void http_server_conn_gone(struct http_server *s)
{
    http_server_load_changed(s);
    http_accept_resume(s);
    check_end_of_drain(s);
}

void http_server_retire(struct http_server *s, void (*done)(void *context), void *context)
{
    struct list *it;

    ASSERT(!s->draining);
    s->draining = true;
    s->drained = done;
    s->drained_context = context;
    http_accept_close(s);
    /* As h2o_context_request_shutdown, but for HTTP/2: that drops bodies under way
     * (http_tap_http2.c). */
    s->ctx.shutdown_requested = 1;
    s->drain_ms = loop_now_ms(s->loop);
    http_conns_wake(s);
    list_for_each (it, &s->conns) {
        struct http_conn *c = list_entry(it, struct http_conn, node);

        if (c->http2)
            http_tap_drain_http2(c, false);
    }
    check_end_of_drain(s);
}

void http_server_shut_idle(struct http_server *s)
{
    struct list *it;
    struct list *next;

    s->shuts_idle = true;
    http_tunnels_end(s);
    http_conns_wake(s);
    list_for_each_safe (it, next, &s->conns)
        http_conn_drain(list_entry(it, struct http_conn, node));
}

void http_server_drain(struct http_server *s, void (*done)(void *context), void *context)
{
    http_server_retire(s, done, context);
    http_server_shut_idle(s);
}

void http_server_cut(struct http_server *s)
{
    struct list rest;
    struct http_conn *c;

    http_tunnels_end(s);
    http_conns_wake(s);
    take_connections(s, &rest);
    while ((c = next_connection(s, &rest)) != NULL)
        http_conn_cut(c);
}

/* ---- life ---- */

static void register_path(struct http_server *s)
{
    h2o_iovec_t name = h2o_iovec_init(H2O_STRLIT(HOST_OF_NOBODY));
    h2o_hostconf_t *host = h2o_config_register_host(&s->conf, name, 65535);
    h2o_pathconf_t *paths[] = {h2o_config_register_path(host, "/", 0), &host->fallback_path};

    host->http2.push_preload = 0;
    for (size_t i = 0; i < ARRAY_LEN(paths); ++i) {
        h2o_pathconf_t *path = paths[i];
        /* libh2o's chunked filter frames status 200 only; we frame them all (http_reply.c). */
        for (size_t n = 0; n < path->filters.size; ++n)
            free(path->filters.entries[n]);
        path->filters.size = 0;
        struct server_handler *handler = (void *)h2o_create_handler(path, sizeof(*handler));
        handler->super.on_req = on_req;
        handler->server = s;
        path->error_log.emit_request_errors = 0;
    }
}

static uint64_t or_no_limit(uint64_t ms)
{
    return ms != 0 && ms < NO_LIMIT_MS ? ms : NO_LIMIT_MS;
}

/* libh2o refuses a chunked body that is exactly as large as it may be, and says so to nobody but
 * the client. So we judge, and it gets one byte more. */
static void set_body_limit(struct http_server *s)
{
    size_t max = s->options.max_body_bytes;

    s->conf.max_request_entity_size = max != SIZE_MAX ? max + 1 : max;
}

static void set_up_h2o(struct http_server *s)
{
    const struct http_server_options *o = &s->options;

    h2o_config_init(&s->conf);
    s->conf.server_name = h2o_iovec_init(s->server_name, strlen(s->server_name));
    set_body_limit(s);
    s->conf.handshake_timeout = or_no_limit(o->header_timeout_ms);
    s->conf.http1.req_timeout = FOR_YEARS_MS;
    s->conf.http1.upgrade_to_http2 = 0;
    s->conf.http2.idle_timeout = or_no_limit(o->keep_alive_timeout_ms);
    /* As many as are announced. If fewer could run, the others would wait in libh2o, whose idle
     * timer asserts that none waits when no request runs. */
    s->conf.http2.max_concurrent_requests_per_connection =
        H2O_HTTP2_SETTINGS_HOST.max_concurrent_streams;
    register_path(s);
    h2o_context_init(&s->ctx, loop_h2o(s->loop), &s->conf);
}

struct http_server *http_server_create(struct loop *l, const struct http_server_options *o)
{
    struct http_server *s = xcalloc(1, sizeof(*s));

    s->loop = l;
    s->options = *o;
    s->pipe[0] = s->pipe[1] = -1;
    s->server_name = xslicedup(o->server_name);
    http_accept_init(s);
    body_file_bin_init(&s->body_bin, s->loop);
    list_init(&s->conns);
    slab_init(&s->conn_slab, sizeof(struct http_conn));
    list_init(&s->resting);
    list_init(&s->tunnels);
    timer_init(&s->sweep, on_sweep);
    s->end_of_drain.run = run_end_of_drain;
    set_up_h2o(s);
    http_tap_start_server(s);
    http_held_start_server(s);
    http_watch_start_server(s);
    http_rest_start_server(s);
    http_short_start_server(s);
    timer_start(l, &s->sweep, sweep_ms(o));
    return s;
}

void http_server_set(struct http_server *s, const struct http_server_options *o)
{
    struct http_server_options changed = *o;

    changed.on_request = s->options.on_request;
    changed.on_refused = s->options.on_refused;
    changed.addresses = s->options.addresses;
    changed.balance = s->options.balance;
    changed.exempt = s->options.exempt;
    changed.context = s->options.context;
    s->options = changed;
    http_conns_wake(s);
    set_body_limit(s);
    timer_start(s->loop, &s->sweep, sweep_ms(o));
    http_accept_set(s);
}

void http_server_destroy(struct http_server *s)
{
    if (s == NULL)
        return;
    ASSERT(s->nconns == 0);
    ASSERT(s->ntunnels == 0);
    http_accept_fini(s);
    timer_stop(&s->sweep);
    list_remove(&s->end_of_drain.node);
    http_tap_stop_server(s);
    http_held_stop_server(s);
    http_watch_stop_server(s);
    http_rest_stop_server(s);
    http_short_stop_server(s);
    h2o_multithread_queue_t *queue = s->ctx.queue;
    h2o_context_dispose(&s->ctx);
    free(queue); /* it forgets that, too */
    h2o_config_dispose(&s->conf);
    free(s->spill_room);
    body_file_bin_fini(&s->body_bin);
    http_direct_fini(s);
    slab_fini(&s->conn_slab);
    text_fini(&s->passed);
    http2_room_fini(&s->http2_room);
    free(s->server_name);
    free(s);
}

size_t http_server_connections(const struct http_server *s)
{
    return s->nconns;
}

size_t http_server_tunnels(const struct http_server *s)
{
    return s->ntunnels;
}
