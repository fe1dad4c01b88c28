/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection is a descriptor and a watch on it. At most one short line is being sent: a socket
 * that does not accept all of it at once is treated as failed. At most one line is expected, so
 * bytes behind it are a fault. Connections belong to servers; a server that is removed leaves the
 * ring at once, and stays in memory while a connection needs it.
 *
 * Call and connection refer to each other while the call is ASKED or HELD. Code that separates them
 * must first decide about the connection and call the owner last, because the owner may then do
 * anything, including destroying the client.
 *
 * A connection may exist without a call: an idle one, a connection attempt that outlives its call
 * (the daemon's state needs the result, and the next call can use the connection), a probe, a
 * RELEASE, and a wait that our own clock has ended. If the daemon is about to end that wait itself,
 * its TIMEOUT is awaited and the connection is reused; otherwise the connection is closed.
 */
#include "common/counters/pool_counter_client.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/counters/pool_counter_line.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CONNECT_TIMEOUT_MS = 100,
    RESPONSE_TIMEOUT_MS = 250,
    IDLE_MS = 60000,
    IDLE_MAX = 64,
    /* The maximum time-out that a daemon accepts. */
    WIRE_SECONDS_MAX = INT32_MAX,
    /* The daemon counts whole seconds, from a little later. If it will end a wait within this time
     * after us, its TIMEOUT is awaited, so that the connection can be reused. */
    EXPIRY_SLACK_MS = 50,
    /* No data is exchanged while a lock is held. These detect within about a minute that the
     * daemon's host has vanished. */
    KEEPALIVE_AFTER_S = 30,
    KEEPALIVE_EVERY_S = 10,
    KEEPALIVE_PROBES = 3,
};

/*
 *   CONNECTING -> ASKING -> HELD -> RELEASING -> IDLE -> ASKING ...
 *        |           |                             ^
 *        |           +-- responded, not LOCKED -----+
 *        |           +-- no time left -> EXPIRING -+  or closed
 *        +-- no call needs it any more ------------+
 *        +-- a probe (an IDLE connection may be used for it): GREETING -> IDLE
 *        +-- a query whether the daemon knows slots: INQUIRING -> closed
 */
enum pool_counter_conn_state {
    POOL_COUNTER_CONN_CONNECTING,
    POOL_COUNTER_CONN_GREETING,  /* a probe: STATS UPTIME is sent */
    POOL_COUNTER_CONN_INQUIRING, /* STATS SLOTS is sent */
    POOL_COUNTER_CONN_ASKING,    /* an acquire is sent */
    POOL_COUNTER_CONN_HELD,      /* it was LOCKED */
    POOL_COUNTER_CONN_RELEASING, /* a RELEASE is sent; no call waits for the response */
    POOL_COUNTER_CONN_EXPIRING,  /* our clock has ended a wait; the daemon's own will any moment */
    POOL_COUNTER_CONN_IDLE,
};

struct pool_counter_conn {
    struct list in_server; /* all */
    struct list in_idle;   /* IDLE; the latest first */
    struct pool_counter_server *server;
    struct pool_counter_call *call; /* CONNECTING: or NULL. ASKING, HELD: never NULL. Else NULL */
    struct loop *loop;
    int fd;                     /* -1: no socket could be created, or it is closed */
    struct watch *watch;        /* of FD */
    struct timer timer;         /* of every state but ASKING and HELD */
    struct loop_deferred later; /* an attempt that failed at once; ASKING: its server is suspended;
                                   closed: it is freed */
    enum pool_counter_trouble trouble; /* that LATER reports */
    uint8_t state;                     /* enum pool_counter_conn_state */
    bool reused;                       /* was idle: the daemon may have closed it meanwhile */
    bool probe;                        /* to see whether the daemon responds */
    bool inquiry;                      /* to see whether it knows slots */
    uint64_t expires_ms;               /* ASKING: when the daemon ends the wait, or later */
    size_t in_len;
    char in[POOL_COUNTER_RESPONSE_LINE_MAX];
};

struct pool_counter_server {
    struct list in_retired; /* removed: no key is assigned to it; freed with its last connection */
    struct pool_counter_client *client;
    char *name;
    struct addr addr;
    struct pool_counter_daemon *daemon; /* one reference: what all loops know of it */
    uint64_t suspensions;               /* suspensions of the daemon that this client has applied */
    struct timer watch;    /* while a response is awaited, or the daemon is suspended */
    uint64_t asked_ms;     /* the last time that something was sent */
    struct list all, idle; /* connections */
    unsigned nidle;
};

struct pool_counter_client {
    struct loop *loop;
    uint64_t connect_timeout_ms, response_timeout_ms, idle_ms;
    unsigned max_idle;
    struct pool_counter_health *health;
    struct pool_counter_server *servers[POOL_COUNTER_SERVERS_MAX];
    size_t nservers;
    struct list retired;
    struct hash_ring *ring;
    size_t calls; /* not FREE */
    struct pool_counter_client_stats stats;
};

/* What a connection reports; each may close C. */
static void on_client_connected(void *context);
static void on_response(struct pool_counter_conn *c, const struct pool_counter_response *r);
static void on_end(struct pool_counter_conn *c, enum pool_counter_trouble why);

/* ---- connections ---- */

static void on_client_readable(void *context)
{
    struct pool_counter_conn *c = context;
    ssize_t n = recv(c->fd, c->in + c->in_len, sizeof(c->in) - c->in_len, MSG_DONTWAIT);
    struct pool_counter_response response;
    size_t used;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        on_end(c, POOL_COUNTER_TROUBLE_CLOSED);
        return;
    }
    c->in_len += (size_t)n;
    enum err e = pool_counter_response_parse((struct slice){c->in, c->in_len}, &response, &used);
    /* The original's response to STATS with a word that it does not know has no newline. */
    if (e == ERR_NOT_FOUND && c->state == POOL_COUNTER_CONN_INQUIRING &&
        slice_is((struct slice){c->in, c->in_len}, "ERROR WRONG_STAT")) {
        e = ERR_OK;
        response = (struct pool_counter_response){.kind = POOL_COUNTER_RESPONSE_ERROR};
        used = c->in_len;
    }
    if (e == ERR_NOT_FOUND)
        return;
    if (e != ERR_OK || used != c->in_len) {
        on_end(c, POOL_COUNTER_TROUBLE_FAULT);
        return;
    }
    c->in_len = 0;
    on_response(c, &response);
}

/* Whether the socket accepts LINE as a whole. */
static bool send_line(struct pool_counter_conn *c, struct slice line)
{
    return TEMP_FAILURE_RETRY(send(c->fd, line.p, line.len, MSG_DONTWAIT | MSG_NOSIGNAL)) ==
           (ssize_t)line.len;
}

/* The same for a line that gets a response immediately; C is in STATE afterwards. */
static bool send_and_await(struct pool_counter_conn *c, enum pool_counter_conn_state state,
                           struct slice line)
{
    c->state = (uint8_t)state;
    timer_start(c->loop, &c->timer, c->server->client->response_timeout_ms);
    return send_line(c, line);
}

static enum pool_counter_trouble trouble_of_errno(int error)
{
    switch (error) {
    case 0:
        return POOL_COUNTER_TROUBLE_NONE;
    case ETIMEDOUT:
        return POOL_COUNTER_TROUBLE_CONNECT_TIMEOUT;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
    case EADDRNOTAVAIL: /* out of local ports */
    case EAGAIN:        /* the same; or the queue of a unix socket is full for the moment */
        return POOL_COUNTER_TROUBLE_SYSTEM;
    default:
        return POOL_COUNTER_TROUBLE_CONNECT;
    }
}

static void client_run_end(struct loop_deferred *d)
{
    struct pool_counter_conn *c = container_of(d, struct pool_counter_conn, later);

    on_end(c, c->trouble);
}

/* Returns an errno; 0 if connected or in progress. */
static int start_connect(struct pool_counter_conn *c, const struct addr *a)
{
    int fd = socket(a->sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd == -1)
        return errno;
    if (a->sa.sa_family != AF_UNIX)
        (void)addr_tune_socket(fd, KEEPALIVE_AFTER_S, KEEPALIVE_EVERY_S, KEEPALIVE_PROBES);
    int error = connect(fd, &a->sa, a->len) == 0 ? 0 : errno;
    if (error != 0 && error != EINPROGRESS) {
        close(fd);
        return error;
    }
    c->fd = fd;
    c->watch = watch_start_as_is(c->loop, fd, on_client_readable, c);
    watch_read(c->watch, false);
    watch_write(c->watch, on_client_connected);
    return 0;
}

static void on_client_timer(struct timer *t)
{
    struct pool_counter_conn *c = container_of(t, struct pool_counter_conn, timer);

    on_end(c, c->state == POOL_COUNTER_CONN_CONNECTING ? POOL_COUNTER_TROUBLE_CONNECT_TIMEOUT
                                                       : POOL_COUNTER_TROUBLE_SILENT);
}

static void run_free(struct loop_deferred *d)
{
    free(container_of(d, struct pool_counter_conn, later));
}

/* Starts connecting; on_client_connected or on_end is called later. Returns NULL if the limit of
 * connections to the daemon is reached. BEYOND ignores the limit: for a probe, for a query, or in
 * place of a dead connection. */
static struct pool_counter_conn *conn_open(struct pool_counter_server *s, bool beyond)
{
    struct pool_counter_client *client = s->client;

    if (!pool_counter_daemon_reserve(s->daemon, beyond))
        return NULL;
    struct pool_counter_conn *c = xcalloc(1, sizeof(*c));
    c->loop = client->loop;
    c->fd = -1;
    c->state = POOL_COUNTER_CONN_CONNECTING;
    c->later.run = client_run_end;
    c->server = s;
    timer_init(&c->timer, on_client_timer);
    list_push_back(&s->all, &c->in_server);
    ++client->stats.opened;
    c->trouble = trouble_of_errno(start_connect(c, &s->addr));
    if (c->trouble != POOL_COUNTER_TROUBLE_NONE)
        loop_defer_once(c->loop, &c->later);
    else
        timer_start(c->loop, &c->timer, client->connect_timeout_ms);
    return c;
}

static void end_probe(struct pool_counter_conn *c)
{
    if (c->probe)
        pool_counter_daemon_end_probe(c->server->daemon);
    c->probe = false;
}

static void leave_idle(struct pool_counter_conn *c)
{
    if (c->state != POOL_COUNTER_CONN_IDLE)
        return;
    list_remove(&c->in_idle);
    --c->server->nidle;
    pool_counter_daemon_count_idle(c->server->daemon, -1);
}

/* Frees S if it was removed, and has no connection any more. */
static void server_free_if_unused(struct pool_counter_server *s)
{
    if (!list_linked(&s->in_retired) || !list_empty(&s->all))
        return;
    timer_stop(&s->watch);
    pool_counter_daemon_put(s->daemon);
    list_remove(&s->in_retired);
    free(s->name);
    free(s);
}

/* Detaches C from its server, which may be freed by this. C is freed at the end of the turn. */
static void conn_close(struct pool_counter_conn *c)
{
    struct pool_counter_server *s = c->server;

    ASSERT(s != NULL);
    timer_stop(&c->timer);
    list_remove(&c->later.node);
    /* Closed in an orderly way, whatever the connection holds: a reset that is lost is not sent
     * again, and the daemon would keep a place occupied. */
    watch_stop(c->watch);
    c->watch = NULL;
    if (c->fd != -1)
        close(c->fd);
    c->fd = -1;
    end_probe(c);
    if (c->inquiry)
        pool_counter_daemon_slots(s->daemon, POOL_COUNTER_SLOTS_UNKNOWN);
    pool_counter_daemon_release(s->daemon);
    leave_idle(c);
    list_remove(&c->in_server);
    c->server = NULL;
    server_free_if_unused(s);
    c->later.run = run_free;
    /* Not linked: removed above, and C, which has no server any more, is not closed again. */
    loop_defer(c->loop, &c->later);
}

/* The latest idle connection that seems alive, for use; NULL if there is none. */
static struct pool_counter_conn *take_idle(struct pool_counter_server *s)
{
    while (!list_empty(&s->idle)) {
        struct pool_counter_conn *c = list_first(&s->idle, struct pool_counter_conn, in_idle);
        char byte;

        /* The peer may have closed it, or sent bytes, since the loop last polled. */
        if (recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 ||
            (errno != EAGAIN && errno != EINTR)) {
            conn_close(c);
            continue;
        }
        leave_idle(c);
        timer_stop(&c->timer);
        c->reused = true;
        return c;
    }
    return NULL;
}

/* Makes C idle, or closes it when there are enough, or its server was removed. */
static void make_idle(struct pool_counter_conn *c)
{
    struct pool_counter_server *s = c->server;

    ASSERT(c->call == NULL);
    end_probe(c);
    if (list_linked(&s->in_retired) || s->nidle >= s->client->max_idle) {
        conn_close(c);
        return;
    }
    c->state = POOL_COUNTER_CONN_IDLE;
    list_push_front(&s->idle, &c->in_idle);
    ++s->nidle;
    pool_counter_daemon_count_idle(s->daemon, 1);
    timer_start(c->loop, &c->timer, s->client->idle_ms);
}

/* ---- whether the daemon responds ---- */

/* Applies the shared state of S's daemon: waiting calls end if it is suspended. */
static struct pool_counter_daemon_state check_daemon(struct pool_counter_server *s)
{
    struct pool_counter_daemon_state now =
        pool_counter_daemon_read(s->daemon, loop_now_ms(s->client->loop));
    struct pool_counter_conn *c;

    if (now.suspensions == s->suspensions)
        return now;
    s->suspensions = now.suspensions;
    while (!list_empty(&s->idle)) /* of a removed server there are none: S stays */
        conn_close(list_first(&s->idle, struct pool_counter_conn, in_idle));
    /* Waiting calls end as UNREACHABLE, like calls that are made during the suspension. */
    list_for_each_entry (c, &s->all, in_server) {
        if (c->state == POOL_COUNTER_CONN_ASKING) {
            c->trouble = POOL_COUNTER_TROUBLE_SILENT;
            loop_defer_once(c->loop, &c->later);
        }
    }
    return now;
}

/* Record that C's daemon has responded, or has failed to. */
static void daemon_succeeded(struct pool_counter_conn *c)
{
    struct pool_counter_server *s = c->server;

    if (pool_counter_daemon_responded(s->daemon, loop_now_ms(c->loop)))
        log_info(NULL, "pool-counter-server-restored", "server=%s", s->name);
}

static void daemon_failed(struct pool_counter_conn *c)
{
    struct pool_counter_server *s = c->server;
    uint64_t suspended_ms = pool_counter_daemon_failed(s->daemon, c->probe, loop_now_ms(c->loop));

    /* At once: the next probe of a daemon that may hang, or the wait for the suspension's end. */
    if (c->probe || suspended_ms != 0)
        timer_start(c->loop, &s->watch, 0);
    if (suspended_ms == 0)
        return;
    ++s->client->stats.suspensions;
    (void)check_daemon(s); /* C itself is not among those closed */
    log_warn(NULL, "pool-counter-server-suspended", "server=%s for_ms=%llu", s->name,
             (unsigned long long)suspended_ms);
}

static void probe_server(struct pool_counter_server *s)
{
    struct pool_counter_conn *c = take_idle(s);

    ++s->client->stats.probes;
    if (c == NULL)
        c = conn_open(s, true);
    c->probe = true;
    if (c->reused && !send_and_await(c, POOL_COUNTER_CONN_GREETING, POOL_COUNTER_UPTIME_LINE))
        conn_close(c);
}

static void on_watch(struct timer *t)
{
    struct pool_counter_server *s = container_of(t, struct pool_counter_server, watch);
    uint64_t silent_ms = s->client->response_timeout_ms;
    struct loop *l = s->client->loop;
    struct pool_counter_daemon_state now = check_daemon(s);
    bool awaited = s->asked_ms > now.responded_ms;
    const struct pool_counter_conn *c;

    list_for_each_entry (c, &s->all, in_server)
        awaited = awaited || c->state == POOL_COUNTER_CONN_ASKING;
    if (!now.suspended && !awaited)
        return;
    if (now.suspended)
        timer_start(l, &s->watch,
                    now.suspended_ms != 0 ? now.suspended_ms : POOL_COUNTER_SUSPENSION_FIRST_MS);
    else
        timer_start(l, &s->watch, silent_ms);
    if (pool_counter_daemon_begin_probe(s->daemon, silent_ms, loop_now_ms(l)))
        probe_server(s);
}

/* A request was sent to S that may get a response late: checks whether the daemon responds at all.
 */
static void watch_daemon(struct pool_counter_server *s)
{
    struct loop *l = s->client->loop;

    s->asked_ms = loop_now_ms(l);
    if (!timer_running(&s->watch))
        timer_start(l, &s->watch, s->client->response_timeout_ms);
}

/* ---- calls ---- */

/* Ends what CALL waits for, frees its key, and sets its state. */
static void settle_call(struct pool_counter_call *call, enum pool_counter_call_state state)
{
    timer_stop(&call->deadline);
    list_remove(&call->later.node);
    free((char *)(uintptr_t)call->ask.key.p);
    call->ask.key = SLICE_NULL;
    call->state = state;
    if (state == POOL_COUNTER_CALL_FREE)
        --call->client->calls;
}

/* Reports R to the owner. The caller must return then: the owner may even destroy the client. */
static void report_result(struct pool_counter_call *call, enum counter_result r,
                          enum pool_counter_trouble why)
{
    call->why = why;
    settle_call(call, r == COUNTER_LOCKED ? POOL_COUNTER_CALL_HELD : POOL_COUNTER_CALL_FREE);
    call->responded(call, r);
}

static void run_later(struct loop_deferred *d)
{
    struct pool_counter_call *call = container_of(d, struct pool_counter_call, later);

    report_result(call, call->result, call->why);
}

static void respond_later(struct pool_counter_call *call, enum counter_result r,
                          enum pool_counter_trouble why)
{
    call->result = r;
    call->why = why;
    loop_defer_once(call->client->loop, &call->later);
}

static void client_join(struct pool_counter_call *call, struct pool_counter_conn *c)
{
    call->conn = c;
    c->call = call;
}

/* Separates C from its call. Returns the call, or NULL if there was none. */
static struct pool_counter_call *detach_call(struct pool_counter_conn *c)
{
    struct pool_counter_call *call = c->call;

    c->call = NULL;
    if (call != NULL)
        call->conn = NULL;
    return call;
}

/* The request of C's call, with the remaining time in whole seconds. False: C is dead. */
static bool send_acquire(struct pool_counter_conn *c)
{
    struct counter_request ask = c->call->ask;
    uint64_t now_ms = loop_active_ms(c->loop);
    uint64_t left_ms = c->call->due_ms > now_ms ? c->call->due_ms - now_ms : 1;
    uint64_t seconds = left_ms / 1000 + (left_ms % 1000 != 0);
    char line[POOL_COUNTER_REQUEST_LINE_MAX];

    if (ask.timeout_ms != 0)
        ask.timeout_ms = (seconds < WIRE_SECONDS_MAX ? seconds : WIRE_SECONDS_MAX) * 1000;
    c->state = POOL_COUNTER_CONN_ASKING;
    c->expires_ms = now_ms + ask.timeout_ms;
    watch_daemon(c->server);
    if (ask.slots != 0 &&
        pool_counter_daemon_needs_slots(c->server->daemon, counter_type_of(ask.key)))
        conn_open(c->server, true)->inquiry = true;
    return send_line(c, (struct slice){line, pool_counter_acquire_print(&ask, line)});
}

static void on_client_connected(void *context)
{
    struct pool_counter_conn *c = context;
    bool sent = true;
    int error = 0;
    socklen_t len = sizeof(error);

    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
        error = errno;
    if (error != 0) {
        on_end(c, trouble_of_errno(error));
        return;
    }
    watch_read(c->watch, true);
    timer_stop(&c->timer);
    if (c->call != NULL)
        sent = send_acquire(c);
    else if (c->probe)
        sent = send_and_await(c, POOL_COUNTER_CONN_GREETING, POOL_COUNTER_UPTIME_LINE);
    else if (c->inquiry)
        sent = send_and_await(c, POOL_COUNTER_CONN_INQUIRING, POOL_COUNTER_SLOTS_LINE);
    else
        make_idle(c);
    if (!sent)
        on_end(c, POOL_COUNTER_TROUBLE_CLOSED);
}

/* ---- ends ---- */

/* Whether C was idle, and was closed because its daemon has exited or restarted: that is no
 * evidence about the daemon that runs now. */
static bool is_stale(const struct pool_counter_conn *c, enum pool_counter_trouble why)
{
    return why == POOL_COUNTER_TROUBLE_CLOSED && c->reused && c->in_len == 0 &&
           !list_linked(&c->server->in_retired);
}

/* Sends the call again over a new connection; the limit may be exceeded by one for a moment. */
static void repeat_call(struct pool_counter_conn *c)
{
    struct pool_counter_call *call = detach_call(c);

    ++call->client->stats.repeated;
    client_join(call, conn_open(c->server, true));
    conn_close(c);
}

/* Whether the end of C is a failure of its daemon. */
static bool is_failure(const struct pool_counter_conn *c, enum pool_counter_trouble why)
{
    switch ((enum pool_counter_conn_state)c->state) {
    case POOL_COUNTER_CONN_CONNECTING:
    case POOL_COUNTER_CONN_GREETING:
        return why != POOL_COUNTER_TROUBLE_SYSTEM && !is_stale(c, why);
    case POOL_COUNTER_CONN_INQUIRING:
        return why == POOL_COUNTER_TROUBLE_SILENT;
    case POOL_COUNTER_CONN_ASKING:
        return true;
    case POOL_COUNTER_CONN_HELD:
    case POOL_COUNTER_CONN_RELEASING:
    case POOL_COUNTER_CONN_EXPIRING:
        return why != POOL_COUNTER_TROUBLE_CLOSED;
    case POOL_COUNTER_CONN_IDLE:
        return false;
    }
    UNREACHABLE();
}

static void on_end(struct pool_counter_conn *c, enum pool_counter_trouble why)
{
    enum pool_counter_conn_state state = c->state;
    struct pool_counter_client_stats *stats = &c->server->client->stats;

    if (state == POOL_COUNTER_CONN_ASKING && is_stale(c, why)) {
        repeat_call(c);
        return;
    }
    if (is_failure(c, why)) {
        daemon_failed(c);
    } else if (state == POOL_COUNTER_CONN_INQUIRING) {
        /* A daemon that closes the connection over an unknown word does not know it. */
        c->inquiry = false;
        pool_counter_daemon_slots(c->server->daemon, POOL_COUNTER_SLOTS_IGNORED);
    }
    stats->unreleased += state == POOL_COUNTER_CONN_RELEASING;
    struct pool_counter_call *call = detach_call(c);
    conn_close(c);
    if (call == NULL)
        return;
    if (state != POOL_COUNTER_CONN_HELD) {
        report_result(call, COUNTER_UNREACHABLE, why);
        return;
    }
    ++stats->lost;
    settle_call(call, POOL_COUNTER_CALL_LOST);
    if (call->lost != NULL)
        call->lost(call);
}

/* The deadline of the call: its owner is notified now, whatever the daemon does. */
static void on_client_deadline(struct timer *t)
{
    struct pool_counter_call *call = container_of(t, struct pool_counter_call, deadline);
    struct pool_counter_conn *c = call->conn;

    if (c->state == POOL_COUNTER_CONN_ASKING)
        list_remove(&c->later.node); /* the deadline takes precedence over the suspension */
    if (c->state == POOL_COUNTER_CONN_CONNECTING) {
        (void)detach_call(c);
        report_result(call, COUNTER_UNREACHABLE, POOL_COUNTER_TROUBLE_CONNECT_TIMEOUT);
    } else if (call->ask.timeout_ms == 0) {
        on_end(c, POOL_COUNTER_TROUBLE_SILENT);
    } else {
        (void)detach_call(c);
        if (c->expires_ms <= loop_now_ms(c->loop) + EXPIRY_SLACK_MS) {
            c->state = POOL_COUNTER_CONN_EXPIRING;
            timer_start(c->loop, &c->timer,
                        EXPIRY_SLACK_MS + c->server->client->response_timeout_ms);
        } else {
            conn_close(c);
        }
        report_result(call, COUNTER_TIMEOUT, POOL_COUNTER_TROUBLE_NONE);
    }
}

/* ---- what is received ---- */

/* Handles R as the daemon's decision about C's call; any other response is a fault. */
static void on_decision(struct pool_counter_conn *c, const struct pool_counter_response *r)
{
    static const enum counter_result responses[] = {
        [POOL_COUNTER_RESPONSE_LOCKED] = COUNTER_LOCKED,
        [POOL_COUNTER_RESPONSE_DONE] = COUNTER_DONE,
        [POOL_COUNTER_RESPONSE_QUEUE_FULL] = COUNTER_QUEUE_FULL,
        [POOL_COUNTER_RESPONSE_TIMEOUT] = COUNTER_TIMEOUT,
    };
    struct pool_counter_call *call = c->call;

    if (r->kind == POOL_COUNTER_RESPONSE_ERROR)
        log_warn(NULL, "pool-counter-server-error", "server=%s reason=\"%.*s\"", c->server->name,
                 SLICE_FMT(r->text));
    if (r->kind >= ARRAY_LEN(responses) ||
        (r->kind == POOL_COUNTER_RESPONSE_DONE && call->ask.kind != COUNTER_ANY)) {
        on_end(c, POOL_COUNTER_TROUBLE_FAULT);
        return;
    }
    daemon_succeeded(c);
    if (r->kind == POOL_COUNTER_RESPONSE_LOCKED) {
        c->state = POOL_COUNTER_CONN_HELD;
    } else {
        (void)detach_call(c);
        make_idle(c);
    }
    report_result(call, responses[r->kind], POOL_COUNTER_TROUBLE_NONE);
}

static void on_response(struct pool_counter_conn *c, const struct pool_counter_response *r)
{
    bool knows_slots = r->kind == POOL_COUNTER_RESPONSE_SLOTS;

    if (c->state == POOL_COUNTER_CONN_ASKING) {
        list_remove(&c->later.node);
        on_decision(c, r);
    } else if ((c->state == POOL_COUNTER_CONN_GREETING &&
                r->kind == POOL_COUNTER_RESPONSE_UPTIME) ||
               (c->state == POOL_COUNTER_CONN_RELEASING &&
                r->kind == POOL_COUNTER_RESPONSE_RELEASED) ||
               (c->state == POOL_COUNTER_CONN_EXPIRING &&
                r->kind == POOL_COUNTER_RESPONSE_TIMEOUT)) {
        /* The expected response: the connection can be reused. */
        timer_stop(&c->timer);
        daemon_succeeded(c);
        make_idle(c);
    } else if (c->state == POOL_COUNTER_CONN_EXPIRING) {
        /* The daemon responds; what it may have granted is released with the connection. */
        daemon_succeeded(c);
        conn_close(c);
    } else if (c->state == POOL_COUNTER_CONN_INQUIRING &&
               (knows_slots || r->kind == POOL_COUNTER_RESPONSE_ERROR)) {
        c->inquiry = false;
        daemon_succeeded(c);
        pool_counter_daemon_slots(c->server->daemon, knows_slots ? POOL_COUNTER_SLOTS_KNOWN
                                                                 : POOL_COUNTER_SLOTS_IGNORED);
        /* In any case: the original ends its response to an unknown word without a newline. */
        conn_close(c);
    } else {
        on_end(c, POOL_COUNTER_TROUBLE_FAULT);
    }
}

/* ---- acquire, release, leave ---- */

void pool_counter_client_acquire(struct pool_counter_client *c, struct pool_counter_call *call,
                                 const struct counter_request *ask)
{
    uint64_t limit_ms = ask->timeout_ms != 0 ? ask->timeout_ms : c->response_timeout_ms;
    uint64_t now_ms = loop_active_ms(c->loop);
    char key[POOL_COUNTER_KEY_WIRE_MAX];

    ASSERT(call->state == POOL_COUNTER_CALL_FREE);
    ASSERT(call->responded != NULL);
    ASSERT(ask->workers != 0);
    ASSERT(ask->maxqueue != 0);
    call->client = c;
    call->conn = NULL;
    call->state = POOL_COUNTER_CALL_ASKED;
    call->why = POOL_COUNTER_TROUBLE_NONE;
    call->ask = *ask;
    call->ask.key.len = pool_counter_key_escape(ask->key, key);
    call->ask.key.p = xslicedup((struct slice){key, call->ask.key.len});
    call->due_ms = limit_ms < UINT64_MAX - now_ms ? now_ms + limit_ms : UINT64_MAX;
    call->later = (struct loop_deferred){.run = run_later};
    timer_init(&call->deadline, on_client_deadline);
    ++c->calls;
    size_t at = hash_ring_find(c->ring, call->ask.key);
    struct pool_counter_server *s = at != SIZE_MAX ? c->servers[at] : NULL;
    struct pool_counter_conn *conn = NULL;
    if (s == NULL) {
        respond_later(call, COUNTER_UNREACHABLE, POOL_COUNTER_TROUBLE_NO_SERVER);
    } else if (check_daemon(s).suspended) {
        watch_daemon(s);
        respond_later(call, COUNTER_UNREACHABLE, POOL_COUNTER_TROUBLE_SUSPENDED);
    } else if ((conn = take_idle(s)) != NULL) {
        ++c->stats.reused;
        client_join(call, conn);
        if (!send_acquire(conn))
            repeat_call(conn);
    } else if ((conn = conn_open(s, false)) != NULL) {
        client_join(call, conn);
    } else {
        respond_later(call, COUNTER_NO_ROOM, POOL_COUNTER_TROUBLE_NONE);
    }
    if (call->conn != NULL)
        timer_start(c->loop, &call->deadline, limit_ms);
}

void pool_counter_client_release(struct pool_counter_call *call)
{
    struct pool_counter_conn *c = call->conn;

    if (call->state == POOL_COUNTER_CALL_HELD) {
        (void)detach_call(c);
        if (!send_and_await(c, POOL_COUNTER_CONN_RELEASING, POOL_COUNTER_RELEASE_LINE))
            on_end(c, POOL_COUNTER_TROUBLE_CLOSED);
    } else {
        ASSERT(call->state == POOL_COUNTER_CALL_LOST);
    }
    settle_call(call, POOL_COUNTER_CALL_FREE);
}

void pool_counter_client_leave(struct pool_counter_call *call)
{
    struct pool_counter_conn *c = call->conn;

    if (call->state == POOL_COUNTER_CALL_FREE)
        return;
    if (c != NULL) {
        bool asked = c->state == POOL_COUNTER_CONN_ASKING || c->state == POOL_COUNTER_CONN_HELD;
        (void)detach_call(c);
        if (asked || list_linked(&c->server->in_retired))
            conn_close(c);
    }
    settle_call(call, POOL_COUNTER_CALL_FREE);
}

/* ---- the set of servers ---- */

/* The server of that name and address, taken out of OLD, or a new one. */
static struct pool_counter_server *take_or_create(struct pool_counter_client *c,
                                                  const struct pool_counter_server_address *a,
                                                  struct pool_counter_server **old, size_t nold)
{
    for (size_t i = 0; i < nold; ++i) {
        struct pool_counter_server *s = old[i];

        if (s != NULL && slice_is(a->name, s->name) && addr_equal(&a->addr, &s->addr)) {
            old[i] = NULL;
            return s;
        }
    }
    struct pool_counter_server *s = xcalloc(1, sizeof(*s));
    s->client = c;
    s->name = xslicedup(a->name);
    s->addr = a->addr;
    s->daemon = pool_counter_daemon_get(c->health, a->name, &a->addr);
    s->suspensions = pool_counter_daemon_read(s->daemon, 0).suspensions;
    timer_init(&s->watch, on_watch);
    list_init(&s->all);
    list_init(&s->idle);
    return s;
}

/* Removes S from use. Closes its connections, ALL or those that no call needs; it is freed with its
 * last one. */
static void retire_server(struct pool_counter_server *s, bool all)
{
    struct pool_counter_conn *c;

    list_remove(&s->in_retired); /* not to be freed in the loop */
    list_for_each_entry_safe (c, &s->all, in_server) {
        if (all || (c->call == NULL && c->state != POOL_COUNTER_CONN_RELEASING))
            conn_close(c);
    }
    list_push_back(&s->client->retired, &s->in_retired);
    server_free_if_unused(s);
}

void pool_counter_client_set_servers(struct pool_counter_client *c,
                                     const struct pool_counter_server_address *servers, size_t n)
{
    struct pool_counter_server *old[POOL_COUNTER_SERVERS_MAX];
    struct slice names[POOL_COUNTER_SERVERS_MAX];
    size_t nold = c->nservers;

    ASSERT(pool_counter_servers_check(servers, n) == ERR_OK);
    memcpy(old, c->servers, sizeof(old));
    for (size_t i = 0; i < n; ++i) {
        c->servers[i] = take_or_create(c, &servers[i], old, nold);
        names[i] = slice_of(c->servers[i]->name);
    }
    c->nservers = n;
    free(c->ring);
    c->ring = hash_ring_create(names, n);
    for (size_t i = 0; i < nold; ++i) {
        if (old[i] != NULL)
            retire_server(old[i], false);
    }
}

/* ---- life ---- */

struct pool_counter_client *pool_counter_client_create(struct loop *l,
                                                       const struct pool_counter_client_settings *s)
{
    struct pool_counter_client *c = xcalloc(1, sizeof(*c));

    c->loop = l;
    c->connect_timeout_ms = s->connect_timeout_ms != 0 ? s->connect_timeout_ms : CONNECT_TIMEOUT_MS;
    c->response_timeout_ms =
        s->response_timeout_ms != 0 ? s->response_timeout_ms : RESPONSE_TIMEOUT_MS;
    c->idle_ms = s->idle_ms != 0 ? s->idle_ms : IDLE_MS;
    ASSERT(s->health != NULL);
    c->health = s->health;
    c->max_idle = s->max_idle != 0 ? s->max_idle : IDLE_MAX;
    list_init(&c->retired);
    pool_counter_client_set_servers(c, NULL, 0);
    return c;
}

void pool_counter_client_set_timeouts(struct pool_counter_client *c, uint64_t connect_timeout_ms,
                                      uint64_t response_timeout_ms)
{
    ASSERT(connect_timeout_ms != 0);
    ASSERT(response_timeout_ms != 0);
    c->connect_timeout_ms = connect_timeout_ms;
    c->response_timeout_ms = response_timeout_ms;
    for (size_t i = 0; i < c->nservers; ++i) {
        if (timer_running(&c->servers[i]->watch))
            timer_start(c->loop, &c->servers[i]->watch, response_timeout_ms);
    }
}

void pool_counter_client_destroy(struct pool_counter_client *c)
{
    if (c == NULL)
        return;
    ASSERT(c->calls == 0);
    for (size_t i = 0; i < c->nservers; ++i)
        retire_server(c->servers[i], true);
    while (list_linked(&c->retired))
        retire_server(list_first(&c->retired, struct pool_counter_server, in_retired), true);
    free(c->ring);
    free(c);
}

const struct pool_counter_client_stats *
pool_counter_client_stats(const struct pool_counter_client *c)
{
    return &c->stats;
}
