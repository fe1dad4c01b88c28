/* SPDX-License-Identifier: Apache-2.0
 *
 * The server: its options, and what is done for all of its connections: the sweep, which keeps time
 * by their phases, and the drain.
 */
#include "common/base/log.h"
#include "common/http/http_server_internal.h"

#include <stdlib.h>
#include <time.h>

enum {
    SWEEP_MS_MIN = 20,
    SWEEP_MS_MAX = 1000,
    HELP_MAX = 64,       /* idle connections closed per sweep for other loops */
    ROOM_LOOKS_MAX = 16, /* idle connections examined that have all sent something */
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

struct body_sink_limits http_server_sink_limits(const struct http_server *s)
{
    const struct http_server_options *o = &s->options;

    return (struct body_sink_limits){
        .memory_bytes = o->body_spill_bytes, .directory = o->spill_dir, .totals = o->body_totals};
}

bool http_server_full(const struct http_server *s)
{
    const struct http_server_options *o = &s->options;
    size_t n = s->nconns;

    if (o->connections != NULL)
        n = atomic_load_explicit(&o->connections->n, memory_order_relaxed);
    return o->max_connections != 0 && n >= o->max_connections;
}

char *http_server_read_room(struct http_server *s)
{
    if (s->read_room == NULL)
        s->read_room = xmalloc(READ_ROOM_BYTES);
    return s->read_room;
}

const char *http_server_date(struct http_server *s)
{
    uint64_t now_s = loop_wall_ms(s->loop) / 1000;

    if (now_s != s->date_s) {
        time_t t = (time_t)now_s;
        struct tm tm;

        s->date_s = now_s;
        gmtime_r(&t, &tm);
        /* The program never leaves the "C" locale. */
        (void)strftime(s->date, sizeof(s->date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
    }
    return s->date;
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

/* Of all connections in LIST, whichever of them are closed or moved meanwhile. */
static void each_in(struct http_server *s, struct list *list,
                    void (*what)(struct http_conn *c, uint64_t now_ms))
{
    uint64_t now_ms = loop_now_ms(s->loop);
    struct list rest;
    struct list *node;

    list_init(&rest);
    list_splice_back(&rest, list);
    while ((node = list_pop_front(&rest)) != NULL) {
        list_push_back(list, node);
        what(list_entry(node, struct http_conn, node), now_ms);
    }
}

static void each_connection(struct http_server *s,
                            void (*what)(struct http_conn *c, uint64_t now_ms))
{
    each_in(s, &s->conns, what);
    each_in(s, &s->idle, what);
}

static struct http_conn *longest_idle(struct http_server *s)
{
    return list_empty(&s->idle) ? NULL : list_first(&s->idle, struct http_conn, node);
}

static void close_expired(struct http_server *s, uint64_t now_ms)
{
    struct http_conn *c;

    while ((c = longest_idle(s)) != NULL &&
           http_conn_phase_over(c, s->options.keep_alive_timeout_ms, now_ms)) {
        http_conn_sweep(c, now_ms);
        if (c == longest_idle(s)) /* it had time to send GOAWAY */
            http_conn_close(c);
    }
}

/* One that has sent something is about to be served. */
bool http_server_make_room(struct http_server *s)
{
    struct list *it;
    int looks = 0;

    list_for_each (it, &s->idle) {
        struct http_conn *c = list_entry(it, struct http_conn, node);

        if (!transport_has_input(&c->transport)) {
            http_conn_close(c);
            return true;
        }
        if (++looks == ROOM_LOOKS_MAX)
            return false;
    }
    return false;
}

void http_server_help(struct http_server *s)
{
    const struct http_connections *all = s->options.connections;

    for (int i = 0; i < HELP_MAX; ++i) {
        if (all == NULL || atomic_load_explicit(&all->waiting, memory_order_relaxed) == 0 ||
            !http_server_make_room(s))
            return;
    }
}

static void on_sweep(struct timer *t)
{
    struct http_server *s = container_of(t, struct http_server, sweep);

    close_expired(s, loop_now_ms(s->loop));
    each_in(s, &s->conns, http_conn_sweep);
    if (s->draining)
        each_in(s, &s->idle, http_conn_sweep);
    http_server_help(s);
    http_accept_resume(s);
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

static void say_goaway(struct http_conn *c, uint64_t now_ms)
{
    (void)now_ms;
    if (c->state == CONN_HTTP2)
        http2_drain(c, false);
}

void http_server_retire(struct http_server *s, void (*done)(void *context), void *context)
{
    ASSERT(!s->draining);
    s->draining = true;
    s->drained = done;
    s->drained_context = context;
    http_accept_close(s);
    s->drain_ms = loop_now_ms(s->loop);
    each_connection(s, say_goaway);
    check_end_of_drain(s);
}

static void drain(struct http_conn *c, uint64_t now_ms)
{
    (void)now_ms;
    http_conn_drain(c);
}

static void cut(struct http_conn *c, uint64_t now_ms)
{
    (void)now_ms;
    http_conn_close(c);
}

void http_server_shut_idle(struct http_server *s)
{
    s->shuts_idle = true;
    http_tunnels_end(s);
    each_connection(s, drain);
}

void http_server_drain(struct http_server *s, void (*done)(void *context), void *context)
{
    http_server_retire(s, done, context);
    http_server_shut_idle(s);
}

void http_server_cut(struct http_server *s)
{
    http_tunnels_end(s);
    each_connection(s, cut);
}

/* ---- life ---- */

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
    list_init(&s->idle);
    list_init(&s->closed);
    slab_init(&s->conn_slab, sizeof(struct http_conn));
    list_init(&s->tunnels);
    timer_init(&s->sweep, on_sweep);
    s->end_of_drain.run = run_end_of_drain;
    http_held_start_server(s);
    http1_start_server(s);
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
    changed.connections = s->options.connections;
    changed.body_totals = s->options.body_totals;
    changed.exempt = s->options.exempt;
    changed.context = s->options.context;
    s->options = changed;
    timer_start(s->loop, &s->sweep, sweep_ms(o));
    http_accept_set(s);
}

void http_server_destroy(struct http_server *s)
{
    if (s == NULL)
        return;
    ASSERT(s->nconns == 0);
    ASSERT(s->ntunnels == 0);
    while (!list_empty(&s->closed))
        http_conn_destroy(list_first(&s->closed, struct http_conn, node));
    http_accept_fini(s);
    timer_stop(&s->sweep);
    list_remove(&s->end_of_drain.node);
    http_held_stop_server(s);
    http1_stop_server(s);
    free(s->read_room);
    body_file_bin_fini(&s->body_bin);
    http1_response_fini(s);
    slab_fini(&s->conn_slab);
    http2_scratch_fini(&s->http2_scratch);
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
