/* SPDX-License-Identifier: Apache-2.0
 *
 * One libh2o configuration and context per server, with one host, one path, one handler: routing is
 * the user's. libh2o's own time limits are set long where they do not say what we mean; a sweep
 * over the connections (http_conn.c) keeps time by phase.
 */
#include "common/base/log.h"
#include "common/net/http_conn.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>

enum {
    ACCEPTS_PER_EVENT = 16, /* then connections that exist have their turn */
    ACCEPT_AGAIN_MS = 100,  /* after descriptors or memory ran out */
    SWEEP_MS_MIN = 20,
    SWEEP_MS_MAX = 1000,
    NO_LIMIT_MS = 24 * 3600 * 1000,
    /* HTTP/2 requests of one connection that are with us at once; others wait in libh2o. */
    HTTP2_REQUESTS_MAX = 32,
    /* A client that has vanished without a word is noticed after about two minutes. */
    KEEP_ALIVE_IDLE_S = 60,
    KEEP_ALIVE_INTERVAL_S = 15,
    KEEP_ALIVE_PROBES = 4,
};

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
        .abandoned = count_of(s, COUNT_ABANDONED),
        .header_timeouts = count_of(s, COUNT_HEADER_TIMEOUTS),
        .body_timeouts = count_of(s, COUNT_BODY_TIMEOUTS),
        .send_timeouts = count_of(s, COUNT_SEND_TIMEOUTS),
        .slow_readers = count_of(s, COUNT_SLOW_READERS),
        .resets = count_of(s, COUNT_RESETS),
        .accept_pauses = count_of(s, COUNT_ACCEPT_PAUSES),
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

struct http_conn *http_conn_of(h2o_req_t *req)
{
    return req->conn->callbacks->get_socket(req->conn)->on_close.data;
}

static int on_req(h2o_handler_t *self, h2o_req_t *req)
{
    struct http_server *s = ((struct server_handler *)self)->server;
    struct http_conn *c = http_conn_of(req);

    c->http2 = req->version >= 0x200;
    if (c->cut || http_tap_is_dying(c)) {
        /* It had more requests on their way than libh2o had read; nobody waits for this one. */
        h2o_send_error_generic(req, 503, http_status_reason(503), "",
                               H2O_SEND_ERROR_HTTP1_CLOSE_CONNECTION);
        return 0;
    }
    enum request_fault f = http_check_request(c, req);
    if (f != FAULT_NONE) {
        http_refuse(c, req, f);
        return 0;
    }
    http_server_count(s, COUNT_REQUESTS);
    s->options.on_request(s->options.context, req, c);
    return 0;
}

/* ---- accepting ---- */

static void on_accept(h2o_socket_t *sock, const char *err);

static void stop_accepting(struct http_server *s)
{
    struct list *it;

    s->accept_paused = true;
    list_for_each (it, &s->listeners)
        h2o_socket_read_stop(list_entry(it, struct http_listener, node)->sock);
}

static void pause_accepting(struct http_server *s)
{
    if (s->accept_paused)
        return;
    http_server_count(s, COUNT_ACCEPT_PAUSES);
    stop_accepting(s);
}

static void resume_accepting(struct http_server *s)
{
    struct list *it;

    if (!s->accept_paused || s->held || http_server_full(s) || timer_running(&s->accept_again))
        return;
    s->accept_paused = false;
    list_for_each (it, &s->listeners)
        h2o_socket_read_start(list_entry(it, struct http_listener, node)->sock, on_accept);
}

static void on_accept_again(struct timer *t)
{
    resume_accepting(container_of(t, struct http_server, accept_again));
}

void http_server_hold(struct http_server *s, bool hold)
{
    s->held = hold;
    if (hold && !s->accept_paused)
        stop_accepting(s);
    else
        resume_accepting(s);
}

static void on_accept_error(struct http_server *s, int error)
{
    bool out_of_something =
        error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;

    /* Anything else is the fault of the one connection (accept(2)), or nobody was there. */
    if (!out_of_something)
        return;
    log_warn(NULL, "accept-failed", "errno=%d connections=%zu pause_ms=%d", error, s->nconns,
             ACCEPT_AGAIN_MS);
    timer_start(s->loop, &s->accept_again, ACCEPT_AGAIN_MS);
    pause_accepting(s);
}

static void on_accept(h2o_socket_t *sock, const char *err)
{
    struct http_listener *l = sock->data;
    struct http_server *s = l->server;

    (void)err; /* nothing is read from a listener */
    for (int i = 0; i < ACCEPTS_PER_EVENT && !s->held; ++i) {
        if (http_server_full(s)) {
            pause_accepting(s);
            return;
        }
        h2o_socket_t *client = h2o_evloop_socket_accept(sock);
        if (client == NULL) {
            on_accept_error(s, errno);
            return;
        }
        http_server_count(s, COUNT_ACCEPTED);
        if (http_conn_create(l, client) != NULL)
            http_proxied_accept(client->on_close.data);
    }
}

void http_listener_release(struct http_listener *l)
{
    ASSERT(l->refs != 0);
    if (--l->refs != 0)
        return;
    SSL_CTX_free(l->accept.ssl_ctx);
    free(l);
}

/*
 * A client that has vanished while bytes for it wait is noticed as one that idles is; the kernel
 * would try for a quarter of an hour. It counts the time that a client takes nothing as well,
 * though it answers: for that, send_timeout is the limit, so this is no shorter.
 */
static unsigned user_timeout_ms(const struct http_server_options *o)
{
    uint64_t gone_ms = 1000 * (KEEP_ALIVE_IDLE_S + KEEP_ALIVE_PROBES * KEEP_ALIVE_INTERVAL_S);
    uint64_t ms = o->send_timeout_ms > gone_ms / 2 ? 2 * o->send_timeout_ms : gone_ms;

    return o->send_timeout_ms == 0 || ms > NO_LIMIT_MS ? NO_LIMIT_MS : (unsigned)ms;
}

static void set_user_timeout(const struct http_server *s, int fd)
{
    unsigned ms = user_timeout_ms(&s->options);

    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
}

/* Accepted sockets inherit these; a unix socket has none of them. */
static void set_keep_alive(int fd)
{
    int on = 1;
    int idle = KEEP_ALIVE_IDLE_S;
    int interval = KEEP_ALIVE_INTERVAL_S;
    int probes = KEEP_ALIVE_PROBES;

    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

struct http_listener *http_server_listen(struct http_server *s, int fd,
                                         const struct http_listen_options *o)
{
    struct http_listener *l = xcalloc(1, sizeof(*l));

    ASSERT(!s->draining);
    l->server = s;
    l->accept.ctx = &s->ctx;
    l->accept.hosts = s->conf.hosts;
    l->accept.ssl_ctx = o->ssl;
    if (o->ssl != NULL)
        SSL_CTX_up_ref(o->ssl);
    l->http2 = o->http2;
    l->proxy_from = o->proxy_from;
    l->tag = o->tag;
    l->allows = o->allows;
    l->refs = 1;
    set_keep_alive(fd);
    set_user_timeout(s, fd);
    l->sock = h2o_evloop_socket_create(loop_h2o(s->loop), fd, H2O_SOCKET_FLAG_DONT_READ);
    l->sock->data = l;
    list_push_back(&s->listeners, &l->node);
    if (!s->accept_paused)
        h2o_socket_read_start(l->sock, on_accept);
    return l;
}

void http_server_each_socket(const struct http_server *s,
                             void (*each)(void *context, int fd, void *tag), void *context)
{
    struct list *it;

    list_for_each (it, &s->listeners) {
        const struct http_listener *l = list_entry(it, struct http_listener, node);

        each(context, h2o_socket_get_fd(l->sock), l->tag);
    }
}

void http_listener_close(struct http_listener *l)
{
    list_remove(&l->node);
    h2o_socket_close(l->sock);
    l->sock = NULL;
    http_listener_release(l);
}

static void close_listeners(struct http_server *s)
{
    struct list *it;
    struct list *next;

    list_for_each_safe (it, next, &s->listeners)
        http_listener_close(list_entry(it, struct http_listener, node));
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

static void on_sweep(struct timer *t)
{
    struct http_server *s = container_of(t, struct http_server, sweep);
    uint64_t now_ms = loop_now_ms(s->loop);
    struct list rest;
    struct http_conn *c;

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
    resume_accepting(s);
    check_end_of_drain(s);
}

void http_server_retire(struct http_server *s, void (*done)(void *context), void *context)
{
    struct list *it;

    ASSERT(!s->draining);
    s->draining = true;
    s->drained = done;
    s->drained_context = context;
    close_listeners(s);
    /* As h2o_context_request_shutdown, but for HTTP/2: that drops bodies under way
     * (http_tap_http2.c). */
    s->ctx.shutdown_requested = 1;
    s->drain_ms = loop_now_ms(s->loop);
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

    http_tunnels_end(s);
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
        /* libh2o's chunked filter frames status 200 only; ours frames them all. */
        for (size_t n = 0; n < path->filters.size; ++n)
            free(path->filters.entries[n]);
        path->filters.size = 0;
        h2o_create_filter(path, sizeof(h2o_filter_t))->on_setup_ostream =
            http_reply_on_setup_ostream;
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
    s->conf.http1.req_timeout = NO_LIMIT_MS;
    s->conf.http1.upgrade_to_http2 = 0;
    s->conf.http2.idle_timeout = or_no_limit(o->keep_alive_timeout_ms);
    s->conf.http2.max_concurrent_requests_per_connection = HTTP2_REQUESTS_MAX;
    register_path(s);
    h2o_context_init(&s->ctx, loop_h2o(s->loop), &s->conf);
}

/* Where libh2o keeps large request bodies: a setting of this thread's buffers. */
static void set_spill(struct http_server *s)
{
    const struct http_server_options *o = &s->options;

    if (o->spill_dir == NULL)
        return;
    int n = snprintf(s->spill.fn_template, sizeof(s->spill.fn_template), "%s/resumelb.XXXXXX",
                     o->spill_dir);
    ASSERT(n > 0);
    ASSERT((size_t)n < sizeof(s->spill.fn_template));
    /* Of room, which doubles: a body over N bytes lies in a buffer of 2 N. */
    s->spill.threshold = 2 * o->body_spill_bytes;
    h2o_socket_buffer_prototype.mmap_settings = &s->spill;
}

struct http_server *http_server_create(struct loop *l, const struct http_server_options *o)
{
    struct http_server *s = xcalloc(1, sizeof(*s));

    s->loop = l;
    s->options = *o;
    s->server_name = xslicedup(o->server_name);
    list_init(&s->listeners);
    list_init(&s->conns);
    list_init(&s->tunnels);
    timer_init(&s->sweep, on_sweep);
    timer_init(&s->accept_again, on_accept_again);
    s->end_of_drain.run = run_end_of_drain;
    set_up_h2o(s);
    set_spill(s);
    http_tap_start_server(s);
    http_watch_start_server(s);
    timer_start(l, &s->sweep, sweep_ms(o));
    return s;
}

void http_server_set(struct http_server *s, const struct http_server_options *o)
{
    struct http_server_options changed = *o;
    struct list *it;

    changed.on_request = s->options.on_request;
    changed.on_refused = s->options.on_refused;
    changed.addresses = s->options.addresses;
    changed.exempt = s->options.exempt;
    changed.context = s->options.context;
    s->options = changed;
    set_body_limit(s);
    list_for_each (it, &s->listeners)
        set_user_timeout(s, h2o_socket_get_fd(list_entry(it, struct http_listener, node)->sock));
    set_spill(s);
    timer_start(s->loop, &s->sweep, sweep_ms(o));
    resume_accepting(s);
}

void http_server_destroy(struct http_server *s)
{
    if (s == NULL)
        return;
    ASSERT(s->nconns == 0);
    ASSERT(s->ntunnels == 0);
    close_listeners(s);
    timer_stop(&s->sweep);
    timer_stop(&s->accept_again);
    list_remove(&s->end_of_drain.node);
    http_tap_stop_server(s);
    http_watch_stop_server(s);
    if (h2o_socket_buffer_prototype.mmap_settings == &s->spill)
        h2o_socket_buffer_prototype.mmap_settings = &h2o_socket_buffer_mmap_settings;
    h2o_multithread_queue_t *queue = s->ctx.queue;
    h2o_context_dispose(&s->ctx);
    free(queue); /* it forgets that, too */
    h2o_config_dispose(&s->conf);
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
