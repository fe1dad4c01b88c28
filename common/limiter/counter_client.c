/* SPDX-License-Identifier: Apache-2.0
 *
 * The requests of calls over their connections, and the handling of the answers. Call and
 * connection refer to each other while the call is ASKED or HELD. Code that separates them must
 * first decide about the connection and call the owner last, because the owner may then do
 * anything, including destroying the client.
 *
 * A connection may exist without a call: a connection attempt that outlives its call's deadline
 * (the server's breaker needs the result, and the next call can use the connection), a probe, a
 * RELEASE, and a wait that our own clock has ended. If the daemon is about to end that wait itself,
 * its TIMEOUT is awaited and the connection is reused; otherwise the connection is closed.
 */
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/limiter/counter_client_internal.h"

#include <stdlib.h>

enum {
    CONNECT_TIMEOUT_MS = 100,
    ANSWER_TIMEOUT_MS = 250,
    IDLE_MS = 60000,
    IDLE_MAX = 64,
    /* The maximum time-out that a daemon accepts. */
    WIRE_SECONDS_MAX = INT32_MAX,
    /* The daemon counts whole seconds, from a little later. A wait that it ends this long after us
     * is left to it, which saves a connection. */
    EXPIRY_SLACK_MS = 50,
};

/* ---- calls ---- */

/* CALL has nothing more to wait for. */
static void settle(struct counter_call *call, enum counter_call_state state)
{
    timer_stop(&call->deadline);
    list_remove(&call->later.node);
    free((char *)(uintptr_t)call->ask.key.p);
    call->ask.key = SLICE_NULL;
    call->state = state;
    if (state == COUNTER_CALL_FREE)
        --call->client->calls;
}

/* The last thing its caller does: the owner may do anything. */
static void answer(struct counter_call *call, enum counter_answer r, enum counter_trouble why)
{
    struct counter_client_stats *stats = &call->client->stats;

    ++stats->results[r];
    if (r == COUNTER_UNREACHABLE)
        ++stats->unreachable[why];
    call->why = why;
    settle(call, r == COUNTER_LOCKED ? COUNTER_CALL_HELD : COUNTER_CALL_FREE);
    call->answered(call, r);
}

static void run_later(struct loop_deferred *d)
{
    struct counter_call *call = container_of(d, struct counter_call, later);

    answer(call, call->result, call->why);
}

static void answer_later(struct counter_call *call, enum counter_answer r, enum counter_trouble why)
{
    call->result = r;
    call->why = why;
    loop_defer(call->client->loop, &call->later);
}

static void join(struct counter_call *call, struct counter_conn *c)
{
    call->conn = c;
    c->call = call;
}

/* The connection's call; they know each other no more. NULL when there was none. */
static struct counter_call *part(struct counter_conn *c)
{
    struct counter_call *call = c->call;

    c->call = NULL;
    if (call != NULL)
        call->conn = NULL;
    return call;
}

/* ---- what is sent ---- */

/* The remaining time of CALL, in whole seconds. */
static uint64_t wire_seconds(const struct counter_call *call, uint64_t now_ms)
{
    uint64_t left_ms = call->due_ms > now_ms ? call->due_ms - now_ms : 1;
    uint64_t seconds = left_ms / 1000 + (left_ms % 1000 != 0);

    if (call->ask.timeout_ms == 0)
        return 0;
    return seconds < WIRE_SECONDS_MAX ? seconds : WIRE_SECONDS_MAX;
}

/* The request of C's call. False: C is dead. */
static bool send_acquire(struct counter_conn *c)
{
    struct counter_ask ask = c->call->ask;
    uint64_t now_ms = loop_now_ms(c->loop);
    char line[COUNTER_REQUEST_LINE_MAX];

    ask.timeout_ms = wire_seconds(c->call, now_ms) * 1000;
    c->state = COUNTER_CONN_ASKING;
    c->expires_ms = now_ms + ask.timeout_ms;
    counter_server_watch(c->server);
    if (ask.slots != 0)
        counter_server_inquire(c->server, counter_type_of(ask.key));
    return counter_conn_send(c, (struct slice){line, counter_acquire_print(&ask, line)});
}

bool counter_conn_send_and_await(struct counter_conn *c, enum counter_conn_state state,
                                 struct slice line)
{
    c->state = (uint8_t)state;
    timer_start(c->loop, &c->timer, c->server->client->answer_timeout_ms);
    return counter_conn_send(c, line);
}

void counter_conn_connected(struct counter_conn *c)
{
    bool sent = true;

    timer_stop(&c->timer);
    if (c->call != NULL)
        sent = send_acquire(c);
    else if (c->probe)
        sent = counter_conn_send_and_await(c, COUNTER_CONN_GREETING, COUNTER_UPTIME_LINE);
    else if (c->inquiry)
        sent = counter_conn_send_and_await(c, COUNTER_CONN_INQUIRING, COUNTER_SLOTS_LINE);
    else
        counter_server_keep(c);
    if (!sent)
        counter_conn_ended(c, COUNTER_TROUBLE_CLOSED);
}

/* ---- ends ---- */

/* The call, if there is one, was not decided. */
static void give_up(struct counter_conn *c, enum counter_trouble why)
{
    struct counter_call *call = part(c);

    counter_conn_close(c);
    if (call != NULL)
        answer(call, COUNTER_UNREACHABLE, why);
}

static void lose(struct counter_conn *c)
{
    struct counter_call *call = part(c);

    counter_conn_close(c);
    ++call->client->stats.lost;
    settle(call, COUNTER_CALL_LOST);
    if (call->lost != NULL)
        call->lost(call);
}

/* Whether C was idle, and was closed because its daemon has exited or restarted: that is no
 * evidence about the daemon that runs now. */
static bool is_stale(const struct counter_conn *c, enum counter_trouble why)
{
    return why == COUNTER_TROUBLE_CLOSED && c->reused && c->in_len == 0 && !c->server->retired;
}

/* Sends the call again over a new connection; the limit may be exceeded by one for a moment. */
static void repeat(struct counter_conn *c)
{
    struct counter_call *call = part(c);

    ASSERT(!call->again); /* what is sent again goes over a fresh connection */
    call->again = true;
    ++call->client->stats.repeated;
    join(call, counter_conn_open(c->server, true));
    counter_conn_close(c);
}

/* A daemon that closes the connection over an unknown word does not know it. */
static void end_inquiry(struct counter_conn *c, enum counter_trouble why)
{
    if (why == COUNTER_TROUBLE_SILENT) {
        counter_server_bad(c);
    } else {
        c->inquiry = false;
        counter_daemon_slots(c->server->daemon, COUNTER_SLOTS_IGNORED);
    }
    counter_conn_close(c);
}

void counter_conn_ended(struct counter_conn *c, enum counter_trouble why)
{
    switch ((enum counter_conn_state)c->state) {
    case COUNTER_CONN_CONNECTING:
    case COUNTER_CONN_GREETING:
        if (why != COUNTER_TROUBLE_SYSTEM && !is_stale(c, why))
            counter_server_bad(c);
        give_up(c, why);
        return;
    case COUNTER_CONN_INQUIRING:
        end_inquiry(c, why);
        return;
    case COUNTER_CONN_ASKING:
        if (is_stale(c, why)) {
            repeat(c);
            return;
        }
        counter_server_bad(c);
        give_up(c, why);
        return;
    case COUNTER_CONN_HELD:
        if (why != COUNTER_TROUBLE_CLOSED)
            counter_server_bad(c);
        lose(c);
        return;
    case COUNTER_CONN_RELEASING:
    case COUNTER_CONN_EXPIRING:
        c->server->client->stats.unreleased += c->state == COUNTER_CONN_RELEASING;
        if (why != COUNTER_TROUBLE_CLOSED)
            counter_server_bad(c);
        counter_conn_close(c);
        return;
    case COUNTER_CONN_KEPT:
        counter_conn_close(c);
        return;
    }
    UNREACHABLE();
}

void counter_conn_expired(struct counter_conn *c)
{
    if (c->state == COUNTER_CONN_KEPT)
        counter_conn_close(c);
    else if (c->state == COUNTER_CONN_CONNECTING)
        counter_conn_ended(c, COUNTER_TROUBLE_CONNECT_TIMEOUT);
    else
        counter_conn_ended(c, COUNTER_TROUBLE_SILENT);
}

/* A wait is over, and C's call gone. */
static void end_wait(struct counter_conn *c)
{
    uint64_t now_ms = loop_now_ms(c->loop);

    if (c->expires_ms <= now_ms + EXPIRY_SLACK_MS) {
        c->state = COUNTER_CONN_EXPIRING;
        timer_start(c->loop, &c->timer, EXPIRY_SLACK_MS + c->server->client->answer_timeout_ms);
    } else {
        counter_conn_close(c);
    }
}

/* The deadline of the call: its owner is notified now, whatever the daemon does. */
static void on_deadline(struct timer *t)
{
    struct counter_call *call = container_of(t, struct counter_call, deadline);
    struct counter_conn *c = call->conn;

    if (c->state == COUNTER_CONN_ASKING)
        list_remove(&c->end_later.node); /* its own time is up first */
    if (c->state == COUNTER_CONN_CONNECTING) {
        (void)part(c);
        answer(call, COUNTER_UNREACHABLE, COUNTER_TROUBLE_CONNECT_TIMEOUT);
    } else if (call->ask.timeout_ms == 0) {
        counter_conn_ended(c, COUNTER_TROUBLE_SILENT);
    } else {
        (void)part(c);
        end_wait(c);
        answer(call, COUNTER_TIMEOUT, COUNTER_TROUBLE_NONE);
    }
}

/* ---- what is received ---- */

/* The daemon's decision about C's call. */
static void decide(struct counter_conn *c, enum counter_answer r)
{
    struct counter_call *call = c->call;

    counter_server_good(c);
    if (r == COUNTER_LOCKED) {
        c->state = COUNTER_CONN_HELD;
    } else {
        (void)part(c);
        counter_server_keep(c);
    }
    answer(call, r, COUNTER_TROUBLE_NONE);
}

static void on_decision(struct counter_conn *c, const struct counter_reply *r)
{
    switch (r->kind) {
    case COUNTER_REPLY_LOCKED:
        decide(c, COUNTER_LOCKED);
        return;
    case COUNTER_REPLY_QUEUE_FULL:
        decide(c, COUNTER_QUEUE_FULL);
        return;
    case COUNTER_REPLY_TIMEOUT:
        decide(c, COUNTER_TIMEOUT);
        return;
    case COUNTER_REPLY_DONE:
        if (c->call->ask.kind != COUNTER_ANY)
            break;
        decide(c, COUNTER_DONE);
        return;
    case COUNTER_REPLY_ERROR:
        log_warn(NULL, "counter-server-error", "server=%s reason=\"%.*s\"", c->server->name,
                 SLICE_FMT(r->text));
        break;
    case COUNTER_REPLY_LOCK_HELD:
    case COUNTER_REPLY_RELEASED:
    case COUNTER_REPLY_NOT_LOCKED:
    case COUNTER_REPLY_UPTIME:
    case COUNTER_REPLY_SLOTS:
        break;
    }
    counter_conn_ended(c, COUNTER_TROUBLE_FAULT);
}

/* C and its daemon owe each other nothing any more. */
static void on_settled(struct counter_conn *c)
{
    timer_stop(&c->timer);
    counter_server_good(c);
    counter_server_keep(c);
}

/* The daemon's reply to a wait that the client has ended. */
static void on_late_reply(struct counter_conn *c, enum counter_reply_kind kind)
{
    if (kind == COUNTER_REPLY_TIMEOUT) {
        on_settled(c);
        return;
    }
    /* It lives; what it may have granted goes back with the connection. */
    counter_server_good(c);
    counter_conn_close(c);
}

/* Closed in any case: the original ends its reply to an unknown word without a newline. */
static void on_slots_reply(struct counter_conn *c, enum counter_reply_kind kind)
{
    c->inquiry = false;
    counter_server_good(c);
    counter_daemon_slots(c->server->daemon,
                         kind == COUNTER_REPLY_SLOTS ? COUNTER_SLOTS_KNOWN : COUNTER_SLOTS_IGNORED);
    counter_conn_close(c);
}

void counter_conn_replied(struct counter_conn *c, const struct counter_reply *r)
{
    if (c->state == COUNTER_CONN_ASKING) {
        list_remove(&c->end_later.node);
        on_decision(c, r);
    } else if (c->state == COUNTER_CONN_GREETING && r->kind == COUNTER_REPLY_UPTIME) {
        on_settled(c);
    } else if (c->state == COUNTER_CONN_INQUIRING &&
               (r->kind == COUNTER_REPLY_SLOTS || r->kind == COUNTER_REPLY_ERROR)) {
        on_slots_reply(c, r->kind);
    } else if (c->state == COUNTER_CONN_RELEASING && r->kind == COUNTER_REPLY_RELEASED) {
        on_settled(c);
    } else if (c->state == COUNTER_CONN_EXPIRING) {
        on_late_reply(c, r->kind);
    } else {
        counter_conn_ended(c, COUNTER_TROUBLE_FAULT);
    }
}

/* ---- acquire, release, leave ---- */

static void init_call(struct counter_client *c, struct counter_call *call,
                      const struct counter_ask *ask)
{
    uint64_t limit_ms = ask->timeout_ms != 0 ? ask->timeout_ms : c->answer_timeout_ms;
    uint64_t now_ms = loop_now_ms(c->loop);
    char word[COUNTER_KEY_WIRE_MAX];

    call->client = c;
    call->conn = NULL;
    call->state = COUNTER_CALL_ASKED;
    call->why = COUNTER_TROUBLE_NONE;
    call->again = false;
    call->ask = *ask;
    call->ask.key.len = counter_key_escape(ask->key, word);
    call->ask.key.p = xslicedup((struct slice){word, call->ask.key.len});
    call->due_ms = limit_ms < UINT64_MAX - now_ms ? now_ms + limit_ms : UINT64_MAX;
    call->later = (struct loop_deferred){.run = run_later};
    timer_init(&call->deadline, on_deadline);
    ++c->calls;
    ++c->stats.calls;
}

static void ask_server(struct counter_call *call, struct counter_server *s)
{
    struct counter_client *client = call->client;

    if (counter_server_look(s).resting) {
        counter_server_watch(s);
        answer_later(call, COUNTER_UNREACHABLE, COUNTER_TROUBLE_RESTING);
        return;
    }
    struct counter_conn *c = counter_server_take(s);
    if (c != NULL) {
        ++client->stats.reused;
        join(call, c);
        if (!send_acquire(c))
            repeat(c);
    } else if ((c = counter_conn_open(s, false)) != NULL) {
        join(call, c);
    } else {
        answer_later(call, COUNTER_NO_ROOM, COUNTER_TROUBLE_NONE);
    }
}

void counter_client_acquire(struct counter_client *c, struct counter_call *call,
                            const struct counter_ask *ask)
{
    ASSERT(call->state == COUNTER_CALL_FREE);
    ASSERT(call->answered != NULL);
    ASSERT(ask->workers != 0);
    ASSERT(ask->maxqueue != 0);
    init_call(c, call, ask);
    struct counter_server *s = counter_server_of(c, call->ask.key);
    if (s == NULL)
        answer_later(call, COUNTER_UNREACHABLE, COUNTER_TROUBLE_NO_SERVER);
    else
        ask_server(call, s);
    if (call->conn != NULL)
        timer_start(c->loop, &call->deadline,
                    ask->timeout_ms != 0 ? ask->timeout_ms : c->answer_timeout_ms);
}

void counter_client_release(struct counter_call *call)
{
    struct counter_conn *c = call->conn;

    if (call->state == COUNTER_CALL_HELD) {
        (void)part(c);
        if (!counter_conn_send_and_await(c, COUNTER_CONN_RELEASING, COUNTER_RELEASE_LINE))
            counter_conn_ended(c, COUNTER_TROUBLE_CLOSED);
    } else {
        ASSERT(call->state == COUNTER_CALL_LOST);
    }
    settle(call, COUNTER_CALL_FREE);
}

void counter_client_leave(struct counter_call *call)
{
    struct counter_conn *c = call->conn;

    if (call->state == COUNTER_CALL_FREE)
        return;
    if (call->state == COUNTER_CALL_ASKED)
        ++call->client->stats.left;
    if (c != NULL) {
        bool asked = c->state == COUNTER_CONN_ASKING || c->state == COUNTER_CONN_HELD;
        (void)part(c);
        if (asked || c->server->retired)
            counter_conn_close(c);
    }
    settle(call, COUNTER_CALL_FREE);
}

/* ---- life ---- */

static uint64_t or_default(uint64_t value, uint64_t otherwise)
{
    return value != 0 ? value : otherwise;
}

struct counter_client *counter_client_create(struct loop *l,
                                             const struct counter_client_settings *s)
{
    struct counter_client *c = xcalloc(1, sizeof(*c));

    c->loop = l;
    c->connect_timeout_ms = or_default(s->connect_timeout_ms, CONNECT_TIMEOUT_MS);
    c->answer_timeout_ms = or_default(s->answer_timeout_ms, ANSWER_TIMEOUT_MS);
    c->idle_ms = or_default(s->idle_ms, IDLE_MS);
    ASSERT(s->health != NULL);
    c->health = s->health;
    c->max_idle = (unsigned)or_default(s->max_idle, IDLE_MAX);
    list_init(&c->retired);
    counter_client_set_servers(c, s->servers, s->nservers);
    return c;
}

void counter_client_set_timeouts(struct counter_client *c, uint64_t connect_timeout_ms,
                                 uint64_t answer_timeout_ms)
{
    ASSERT(connect_timeout_ms != 0);
    ASSERT(answer_timeout_ms != 0);
    c->connect_timeout_ms = connect_timeout_ms;
    c->answer_timeout_ms = answer_timeout_ms;
    for (size_t i = 0; i < c->nservers; ++i)
        counter_server_restart_watch(c->servers[i]);
}

void counter_client_destroy(struct counter_client *c)
{
    if (c == NULL)
        return;
    ASSERT(c->calls == 0);
    counter_server_drop_all(c);
    free(c);
}

const struct counter_client_stats *counter_client_stats(const struct counter_client *c)
{
    return &c->stats;
}
