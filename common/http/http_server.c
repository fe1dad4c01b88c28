/* SPDX-License-Identifier: Apache-2.0
 *
 * The server: its options; its listeners, which accept with as few system calls as possible, on the
 * loop that has the fewest in flight (http_balance.h); and what is done for all connections: the
 * sweep, which applies time limits by their phases, and the drain.
 */
#include "common/base/log.h"
#include "common/http/http_server_internal.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    SWEEP_MS_MIN = 20,
    SWEEP_MS_MAX = 1000,
    HELP_MAX = 64,          /* idle connections closed per sweep for other loops */
    ROOM_CHECKS_MAX = 16,   /* idle connections examined that have all sent something */
    ACCEPTS_PER_EVENT = 16, /* then connections that exist have their turn */
    FULL_EVENTS = 8,        /* in a row, then more are accepted at a time */
    ACCEPT_AGAIN_MS = 100,  /* after descriptors or memory ran out */
    /* A client that has vanished without closing is noticed after about two minutes. */
    KEEP_ALIVE_IDLE_S = 60,
    KEEP_ALIVE_INTERVAL_S = 15,
    KEEP_ALIVE_PROBES = 4,
    DEFER_S = 1, /* one round of the kernel's retries, then it is accepted as it is */
    USER_TIMEOUT_MAX_MS = 24 * 3600 * 1000,
};

void http_server_rejected(struct http_conn *c, enum request_fault f, int status,
                          const struct http_request *req)
{
    struct http_server *s = c->server;
    struct http_rejection r = {.conn = c, .fault = f, .status = status};

    http_server_count(&s->counts.rejected[f]);
    if (s->options.on_rejected == NULL)
        return;
    if (req != NULL) {
        r.version = req->version;
        r.method = req->method;
        r.target = req->target;
        r.host = req->authority;
    } else if (c->state == CONN_HTTP2) {
        r.version = 0x200;
    }
    s->options.on_rejected(s->options.context, &r);
}

void http_server_read_counts(const struct http_server *s, struct http_server_counts *out)
{
    const uint64_t *from = (const uint64_t *)&s->counts;

    for (size_t i = 0; i < sizeof(*out) / sizeof(*from); ++i)
        ((uint64_t *)out)[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

static bool is_full(const struct http_server *s)
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

bool http_server_declines(struct http_conn *c, const struct http_request *req)
{
    const struct http_server_options *o = &c->server->options;

    return o->declines != NULL && o->declines(o->context, req, c);
}

/* ---- listeners ---- */

static void set_accepting(struct http_server *s, bool on)
{
    const struct http_listener *l;

    s->accept_paused = !on;
    http_server_load_changed(s);
    list_for_each_entry (l, &s->listeners, node)
        watch_read(l->watch, on);
}

static void pause_accepting(struct http_server *s)
{
    if (s->accept_paused)
        return;
    http_server_count(&s->counts.accept_pauses);
    set_accepting(s, false);
}

static void wait_for_room(struct http_server *s, bool waits)
{
    struct http_connections *all = s->options.connections;

    if (all == NULL || s->waits_for_room == waits)
        return;
    s->waits_for_room = waits;
    if (waits)
        atomic_fetch_add_explicit(&all->waiting, 1, memory_order_relaxed);
    else
        atomic_fetch_sub_explicit(&all->waiting, 1, memory_order_relaxed);
}

/*
 * Counts one more connection, before it is accepted: what is in transit to another loop
 * has a descriptor, too, and several loops accept at the same time.
 */
static bool take_connection(struct http_server *s)
{
    const struct http_server_options *o = &s->options;

    if (o->connections == NULL)
        return !is_full(s);
    size_t before = atomic_fetch_add_explicit(&o->connections->n, 1, memory_order_relaxed);
    if (o->max_connections == 0 || before < o->max_connections)
        return true;
    http_accept_release(s);
    return false;
}

void http_accept_release(struct http_server *s)
{
    if (s->options.connections != NULL)
        atomic_fetch_sub_explicit(&s->options.connections->n, 1, memory_order_relaxed);
}

void http_accept_resume(struct http_server *s)
{
    bool full = is_full(s) && list_empty(&s->idle); /* those make room */

    if (!s->accept_paused || s->held || full || timer_running(&s->accept_again))
        return;
    wait_for_room(s, false);
    set_accepting(s, true);
}

static void on_accept_again(struct timer *t)
{
    http_accept_resume(container_of(t, struct http_server, accept_again));
}

void http_server_load_changed(struct http_server *s)
{
    uint64_t in_flight = s->accept_paused ? UINT64_MAX : (uint64_t)s->nconns + s->nrequests;

    if (s->balanced)
        http_balance_set_load(s->options.balance, loop_index(s->loop), in_flight);
}

void http_server_hold(struct http_server *s, bool hold)
{
    s->held = hold;
    if (hold && !s->accept_paused)
        set_accepting(s, false);
    else
        http_accept_resume(s);
}

/* Closes the connection that has been idle for longest. Connections with unread input are skipped,
 * as they are about to be served. False: none was closed. */
static bool make_room(struct http_server *s)
{
    struct http_conn *c;
    int checked = 0;

    list_for_each_entry (c, &s->idle, node) {
        if (!transport_has_input(&c->transport)) {
            http_conn_close(c);
            return true;
        }
        if (++checked == ROOM_CHECKS_MAX)
            return false;
    }
    return false;
}

/* Take on a connection that is this loop's. */
static void server_serve(struct http_listener *l, const struct http_accepted *a)
{
    const struct http_listen_options *o = &l->options;

    if (o->allows == NULL || o->allows(l->server->options.context, o->tag, &a->peer)) {
        http_conn_accept(l, a->fd, &a->peer);
        return;
    }
    close(a->fd);
    http_accept_release(l->server);
}

/* One that another loop has accepted. */
static void server_take(void *context, const struct http_accepted *a)
{
    const struct http_server *s = context;
    struct http_listener *l;

    list_for_each_entry (l, &s->listeners, node) {
        if (l->options.number == a->listener) {
            server_serve(l, a);
            return;
        }
    }
    UNREACHABLE(); /* the server leaves the balance before its first listener is closed */
}

/*
 * A call that finds no connection costs as much as one that accepts one. So at_a_time is set to the
 * number that the last event had, and doubled after FULL_EVENTS events in a row that reached it.
 */
static void on_accept(void *listener)
{
    struct http_listener *l = listener;
    struct http_server *s = l->server;
    struct http_balance *balance = s->options.balance;
    struct http_accepted a;

    for (unsigned i = 0; i < l->at_a_time; ++i) {
        if (s->held)
            return;
        if (!take_connection(s) && !(make_room(s) && take_connection(s))) {
            wait_for_room(s, true);
            pause_accepting(s);
            return;
        }
        a.listener = l->options.number;
        a.peer.len = sizeof(a.peer.un);
        a.fd = accept4(l->fd, &a.peer.sa, &a.peer.len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (a.fd < 0) {
            int error = errno;
            http_accept_release(s);
            l->at_a_time = i != 0 ? i : 1;
            l->full_events = 0;
            /* Anything else concerns one connection (accept(2)), or no connection was waiting. */
            if (error != EMFILE && error != ENFILE && error != ENOBUFS && error != ENOMEM)
                return;
            log_warn(NULL, "accept-failed", "reason=\"%s\" connections=%zu for_ms=%d",
                     strerror(error), s->nconns, ACCEPT_AGAIN_MS);
            timer_start(s->loop, &s->accept_again, ACCEPT_AGAIN_MS);
            pause_accepting(s);
            /* Descriptors freed meanwhile are for requests that wait for a worker's connection. */
            (void)make_room(s);
            return;
        }
        /* For a unix path without a NUL, Linux may return one byte more than the structure has. */
        if (a.peer.len > sizeof(a.peer.un))
            a.peer.len = sizeof(a.peer.un);
        http_server_count(&s->counts.accepted);
        if (balance == NULL ||
            !http_balance_pass_on(balance, loop_index(s->loop), &a, loop_now_ms(s->loop)))
            server_serve(l, &a);
    }
    if (++l->full_events < FULL_EVENTS)
        return;
    l->full_events = 0;
    if (l->at_a_time < ACCEPTS_PER_EVENT)
        l->at_a_time *= 2;
}

void http_listener_release(struct http_listener *l)
{
    ASSERT(l->refs != 0);
    if (--l->refs != 0)
        return;
    SSL_CTX_free(l->options.ssl);
    free(l);
}

/*
 * A client that has vanished while data for it is queued is detected as early as an idle one; the
 * kernel would retry for a quarter of an hour. This time-out also counts while a client responds
 * but accepts no data; send_timeout is the limit for that, so this must not be shorter.
 */
static void set_user_timeout(const struct http_server *s, int fd)
{
    uint64_t send_ms = s->options.send_timeout_ms;
    uint64_t gone_ms =
        UINT64_C(1000) * (KEEP_ALIVE_IDLE_S + KEEP_ALIVE_PROBES * KEEP_ALIVE_INTERVAL_S);
    uint64_t ms = send_ms > gone_ms / 2 ? 2 * send_ms : gone_ms;
    unsigned set = send_ms == 0 || ms > USER_TIMEOUT_MAX_MS ? USER_TIMEOUT_MAX_MS : (unsigned)ms;

    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &set, sizeof(set));
}

struct http_listener *http_server_listen(struct http_server *s, int fd,
                                         const struct http_listen_options *o)
{
    /* Also off: the socket may come from another process. */
    const int defer_s = o->defer_accept ? DEFER_S : 0;
    struct http_listener *l = xcalloc(1, sizeof(*l));
    struct addr local = {0};

    ASSERT(!s->draining);
    l->server = s;
    l->fd = fd;
    l->options = *o;
    if (o->ssl != NULL)
        SSL_CTX_up_ref(o->ssl);
    l->at_a_time = 1;
    l->refs = 1;
    /* The socket's, where all its connections have the same. */
    if (addr_of_socket(fd, &local) == ERR_OK && !addr_is_wildcard(&local))
        l->local = addr_plain(&local);
    setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &defer_s, sizeof(defer_s));
    /* Accepted sockets inherit these. */
    (void)addr_tune_socket(fd, KEEP_ALIVE_IDLE_S, KEEP_ALIVE_INTERVAL_S, KEEP_ALIVE_PROBES);
    set_user_timeout(s, fd);
    l->watch = watch_start_as_is(s->loop, fd, on_accept, l);
    watch_set_client(l->watch);
    watch_read(l->watch, !s->accept_paused);
    list_push_back(&s->listeners, &l->node);
    /* The others are added in this turn, before a connection of another loop can be taken. */
    if (!s->balanced && s->options.balance != NULL) {
        s->balanced = true;
        http_balance_join(s->options.balance, loop_index(s->loop), s->loop, server_take, s);
        http_server_load_changed(s);
    }
    return l;
}

void http_server_each_socket(const struct http_server *s,
                             void (*each)(void *context, int fd, void *tag), void *context)
{
    const struct http_listener *l;

    list_for_each_entry (l, &s->listeners, node)
        each(context, l->fd, l->options.tag);
}

void http_listener_close(struct http_listener *l)
{
    struct http_server *s = l->server;

    /* Connections from other loops are taken before the first listener is closed. */
    if (s->balanced) {
        s->balanced = false;
        http_balance_leave(s->options.balance, loop_index(s->loop));
    }
    list_remove(&l->node);
    watch_stop(l->watch);
    l->watch = NULL;
    close(l->fd);
    http_listener_release(l);
}

static void close_listeners(struct http_server *s)
{
    while (!list_empty(&s->listeners))
        http_listener_close(list_first(&s->listeners, struct http_listener, node));
}

/* ---- heads that wait for the first bytes of their body ---- */

/*
 * Nearly all of them wait for less than the turn, and all for the same time. So they are in one
 * list, the first to be sent at its front (with several hold times they are inserted in order),
 * with one timer for all; it may expire for one that has been sent meanwhile. Those that are held
 * for the rest of the turn only have a list of their own.
 */

static struct http_response *first_of(const struct list *held)
{
    return list_first(held, struct http_response, held_node);
}

static void on_held_timer(struct timer *t)
{
    struct http_server *s = container_of(t, struct http_server, held_timer);
    uint64_t now_ms = loop_active_ms(s->loop);
    struct list due;
    struct list *node;

    /* Entries added meanwhile are handled later, so that the loop cannot starve itself. */
    list_init(&due);
    list_splice_back(&due, &s->begun_responses);
    while (!list_empty(&s->held_responses) && first_of(&s->held_responses)->held_until_ms <= now_ms)
        list_push_back(&due, list_pop_front(&s->held_responses));
    while ((node = list_pop_front(&due)) != NULL)
        http_response_flush(list_entry(node, struct http_response, held_node));
    /* If there are new begun_responses, http_schedule_flush() has started the timer for them. */
    if (list_empty(&s->begun_responses) && !list_empty(&s->held_responses))
        timer_start_at(s->loop, t, first_of(&s->held_responses)->held_until_ms);
}

void http_schedule_flush(struct http_response *r, uint64_t hold_ms)
{
    struct http_server *s = r->conn->server;
    struct list *line = hold_ms != 0 ? &s->held_responses : &s->begun_responses;
    struct list *behind = line->prev;
    uint64_t until_ms = hold_ms != 0 ? loop_due_ms(s->loop, hold_ms) : loop_active_ms(s->loop);

    r->held_until_ms = until_ms;
    while (behind != line &&
           list_entry(behind, struct http_response, held_node)->held_until_ms > until_ms)
        behind = behind->prev;
    list_push_front(behind, &r->held_node);
    if (!timer_running(&s->held_timer) || s->held_timer.due_ms > until_ms)
        timer_start_at(s->loop, &s->held_timer, until_ms);
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
    uint64_t slow_ms = min_nonzero(
        min_nonzero(o->min_body_rate_grace_ms, o->min_send_rate_grace_ms), o->send_timeout_ms);
    uint64_t ms = min_nonzero(min_nonzero(o->header_timeout_ms, o->body_timeout_ms),
                              min_nonzero(o->keep_alive_timeout_ms, slow_ms)) /
                  4;

    if (ms == 0 || ms > SWEEP_MS_MAX)
        return SWEEP_MS_MAX;
    return ms < SWEEP_MS_MIN ? SWEEP_MS_MIN : ms;
}

/* Calls WHAT for each connection in LIST; any of them may be closed or moved meanwhile. */
static void each_in(struct list *list, void (*what)(struct http_conn *c))
{
    struct list rest;
    struct list *node;

    list_init(&rest);
    list_splice_back(&rest, list);
    while ((node = list_pop_front(&rest)) != NULL) {
        list_push_back(list, node);
        what(list_entry(node, struct http_conn, node));
    }
}

static void each_connection(struct http_server *s, void (*what)(struct http_conn *c))
{
    each_in(&s->conns, what);
    each_in(&s->idle, what);
}

static void on_sweep(struct timer *t)
{
    struct http_server *s = container_of(t, struct http_server, sweep);
    const struct http_server_options *o = &s->options;
    const struct http_connections *all = o->connections;

    while (!list_empty(&s->idle)) {
        struct http_conn *c = list_first(&s->idle, struct http_conn, node);

        if (!http_conn_phase_over(c, o->keep_alive_timeout_ms, loop_active_ms(s->loop)))
            break;
        if (c->state == CONN_HTTP2)
            http2_end_idle(c);
        else
            http_conn_close(c);
    }
    each_in(&s->conns, http_conn_sweep);
    if (s->draining)
        each_in(&s->idle, http_conn_sweep);
    /* If a server of another loop waits for room and has no idle connection: close some of ours. */
    for (int i = 0; i < HELP_MAX; ++i) {
        if (all == NULL || atomic_load_explicit(&all->waiting, memory_order_relaxed) == 0 ||
            !make_room(s))
            break;
    }
    http_accept_resume(s);
    timer_start(s->loop, &s->sweep, sweep_ms(o));
}

/* ---- drain ---- */

static void run_end_of_drain(struct loop_deferred *d)
{
    struct http_server *s = container_of(d, struct http_server, end_of_drain);
    void (*done)(void *) = s->drained;

    if (s->nconns != 0 || s->ntunnels != 0 || done == NULL)
        return;
    s->drained = NULL;
    done(s->drained_context);
}

static void check_end_of_drain(struct http_server *s)
{
    if (s->draining && s->nconns == 0 && s->ntunnels == 0)
        loop_defer_once(s->loop, &s->end_of_drain);
}

void http_server_conn_closed(struct http_server *s)
{
    http_server_load_changed(s);
    http_accept_resume(s);
    check_end_of_drain(s);
}

static void send_goaway(struct http_conn *c)
{
    if (c->state == CONN_HTTP2)
        http2_drain(c, false);
}

void http_server_retire(struct http_server *s, void (*done)(void *context), void *context)
{
    ASSERT(!s->draining);
    /* First: those that are taken from other loops are drained like the others. */
    close_listeners(s);
    s->draining = true;
    s->drained = done;
    s->drained_context = context;
    s->drain_ms = loop_active_ms(s->loop);
    each_connection(s, send_goaway);
    check_end_of_drain(s);
}

void http_server_shut_idle(struct http_server *s)
{
    s->shuts_idle = true;
    http_tunnels_end(s);
    each_connection(s, http_conn_drain);
}

void http_server_drain(struct http_server *s, void (*done)(void *context), void *context)
{
    http_server_retire(s, done, context);
    http_server_shut_idle(s);
}

void http_server_cut(struct http_server *s)
{
    http_tunnels_end(s);
    each_connection(s, http_conn_close);
}

/* ---- life ---- */

static void set_options(struct http_server *s, const struct http_server_options *o)
{
    s->options = *o;
    s->options.sinks.shares = &s->body_shares;
}

struct http_server *http_server_create(struct loop *l, const struct http_server_options *o)
{
    struct http_server *s = xcalloc(1, sizeof(*s));

    s->loop = l;
    set_options(s, o);
    if (o->sinks.totals != NULL)
        body_shares_init(&s->body_shares, o->sinks.totals, l);
    s->pipe[0] = s->pipe[1] = -1;
    s->server_name = xslicedup(o->server_name);
    list_init(&s->listeners);
    timer_init(&s->accept_again, on_accept_again);
    body_file_bin_init(&s->body_bin, s->loop);
    list_init(&s->conns);
    list_init(&s->idle);
    list_init(&s->closed);
    slab_init(&s->conn_slab, sizeof(struct http_conn));
    list_init(&s->tunnels);
    timer_init(&s->sweep, on_sweep);
    s->end_of_drain.run = run_end_of_drain;
    list_init(&s->begun_responses);
    list_init(&s->held_responses);
    timer_init(&s->held_timer, on_held_timer);
    list_init(&s->http1_server_spares);
    timer_start(l, &s->sweep, sweep_ms(o));
    return s;
}

void http_server_set(struct http_server *s, const struct http_server_options *o)
{
    const struct http_listener *l;

    ASSERT(o->balance == s->options.balance);
    ASSERT(o->connections == s->options.connections);
    ASSERT(o->sinks.totals == s->options.sinks.totals);
    set_options(s, o);
    timer_start(s->loop, &s->sweep, sweep_ms(o));
    list_for_each_entry (l, &s->listeners, node)
        set_user_timeout(s, l->fd);
    http_accept_resume(s);
}

void http_server_destroy(struct http_server *s)
{
    if (s == NULL)
        return;
    ASSERT(s->nconns == 0);
    ASSERT(s->ntunnels == 0);
    while (!list_empty(&s->closed))
        http_conn_destroy(list_first(&s->closed, struct http_conn, node));
    wait_for_room(s, false);
    close_listeners(s);
    timer_stop(&s->accept_again);
    timer_stop(&s->sweep);
    list_remove(&s->end_of_drain.node);
    timer_stop(&s->held_timer);
    http1_server_stop(s);
    free(s->read_room);
    if (s->options.sinks.totals != NULL)
        body_shares_fini(&s->body_shares);
    body_file_bin_fini(&s->body_bin);
    if (s->pipe[0] != -1) {
        close(s->pipe[0]);
        close(s->pipe[1]);
    }
    slab_fini(&s->conn_slab);
    http2_scratch_fini(&s->http2_scratch);
    free(s->server_name);
    free(s);
}

size_t http_server_connections(const struct http_server *s)
{
    return s->nconns;
}
