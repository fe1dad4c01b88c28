/* SPDX-License-Identifier: Apache-2.0
 *
 * Execution of the lines, with the original's order of checks (docs/guide/poolcounter.md). A
 * client's locks are a stack; only the newest may wait. A woken lock is in the server's `woken`
 * until its client is notified. The wake-up counts as sent from then on, so that it precedes the
 * answer to the client's next line.
 */
#include "poolcounter/server_internal.h"

#include <stdlib.h>

/* ---- answers ---- */

static void reply(struct client *c, struct slice line)
{
    text_add(&c->server->replies, line);
}

static void reply_counted(struct client *c, struct slice line, enum poolcounter_stat stat)
{
    stat_add(c->server->cell, stat, 1);
    reply(c, line);
}

/* ---- the stack ---- */

static struct client_lock *lock_at(struct client *c, size_t i)
{
    return i == 0 ? &c->first : &c->more[i - 1];
}

struct client_lock *commands_newest(struct client *c)
{
    return c->nlocks != 0 ? lock_at(c, c->nlocks - 1U) : NULL;
}

/* The one above the newest, or NULL: out of memory. Most clients never have a second one. */
static struct client_lock *next_lock(struct client *c)
{
    if (c->nlocks == 0) {
        c->first.client = c;
        return &c->first;
    }
    if (c->more == NULL) {
        c->more = calloc(CLIENT_LOCKS_MAX - 1, sizeof(*c->more));
        if (c->more == NULL)
            return NULL;
        for (size_t i = 0; i < CLIENT_LOCKS_MAX - 1; ++i)
            c->more[i].client = c;
    }
    return lock_at(c, c->nlocks);
}

static bool is_waiting(struct client *c)
{
    struct client_lock *cl = commands_newest(c);

    return cl != NULL && cl->lock.state == COUNTER_WAITING;
}

static bool is_woken(const struct client_lock *cl)
{
    return cl->lock.state != COUNTER_WAITING && list_linked(&cl->lock.in_key);
}

bool commands_is_woken(struct client *c)
{
    struct client_lock *cl = commands_newest(c);

    return cl != NULL && is_woken(cl);
}

/* ---- figures by type and by key ---- */

/* The key is copied, because C's lock has none after a DONE. Out of memory, this wait is not in the
 * figures. */
static void start_wait(struct client *c, struct slice key)
{
    c->wait_since_us = c->server->now_us;
    c->wait_key = malloc(key.len);
    if (c->wait_key == NULL)
        return;
    memcpy(c->wait_key, key.p, key.len);
    c->wait_key_bytes = key.len;
}

/* C waits no more, however that came. Returns for how long it has. */
static uint64_t note_wait_over(struct client *c)
{
    struct server *s = c->server;
    uint64_t waited_us = s->now_us - c->wait_since_us;

    if (c->wait_key != NULL)
        topk_add(s->top, (struct slice){c->wait_key, c->wait_key_bytes}, waited_us);
    free(c->wait_key);
    c->wait_key = NULL;
    return waited_us;
}

/* CL, which has been woken, is taken out of the list; whether it holds. */
static bool note_woken(struct client_lock *cl)
{
    struct server *s = cl->client->server;
    struct type_figures *figures = &cl->type->figures;
    uint64_t waited_us = note_wait_over(cl->client);

    list_remove(&cl->lock.in_key);
    stat_observe(s->cell, STAT_wait_us, waited_us);
    figures->waited_us += waited_us;
    --figures->waiting;
    if (cl->lock.woken == COUNTER_DONE) {
        ++figures->done;
        return false;
    }
    ++figures->acquired;
    ++figures->held;
    return true;
}

/* CL, which holds or waits, is about to be given back. */
static void note_end(struct client_lock *cl)
{
    struct server *s = cl->client->server;
    struct type_figures *figures = &cl->type->figures;

    if (cl->lock.state == COUNTER_WAITING) {
        (void)note_wait_over(cl->client);
        --figures->waiting;
        return;
    }
    uint64_t worked_us = s->now_us - cl->lock.since_us;
    stat_observe(s->cell, STAT_work_us, worked_us);
    figures->worked_us += worked_us;
    --figures->held;
}

/* ---- acquire ---- */

static void acquire_new(struct client *c, struct counter_ask *ask)
{
    struct server *s = c->server;
    struct client_lock *cl = next_lock(c);
    struct slice type = counter_type_of(ask->key);

    if (cl == NULL) {
        reply(c, SLICE_LIT("ERROR OUT_OF_MEMORY\n"));
        return;
    }
    cl->type = types_get(&s->types, type);
    /* A key without ':' is all of its type: that matters to limits only. */
    if (type.len != ask->key.len || ask->slots != 0 || s->config->ntypes != 0)
        ask->type = type;
    struct type_figures *figures = &cl->type->figures;
    switch (counter_acquire(s->table, &cl->lock, ask, s->now_us)) {
    case COUNTER_LOCKED:
        ++c->nlocks;
        ++figures->acquired;
        ++figures->held;
        reply(c, SLICE_LIT("LOCKED\n"));
        break;
    case COUNTER_WAIT:
        ++c->nlocks;
        ++figures->waiting;
        start_wait(c, ask->key);
        server_timer_start(s, &c->wait, ask->timeout_ms);
        break;
    case COUNTER_QUEUE_FULL:
        ++figures->full;
        reply(c, SLICE_LIT("QUEUE_FULL\n"));
        break;
    case COUNTER_TIMEOUT:
        ++figures->timeouts;
        reply(c, SLICE_LIT("TIMEOUT\n"));
        break;
    case COUNTER_NO_ROOM:
        ++figures->no_room;
        reply(c, SLICE_LIT("ERROR OUT_OF_MEMORY\n"));
        break;
    case COUNTER_DONE:
    case COUNTER_UNREACHABLE:
        UNREACHABLE();
    }
}

static void acquire(struct client *c, struct counter_line *line)
{
    if (c->nlocks == CLIENT_LOCKS_MAX)
        reply_counted(c, SLICE_LIT("LOCK_HELD\n"), STAT_lock_mismatch);
    else if (is_waiting(c))
        reply_counted(c, SLICE_LIT("ERROR WAIT_FOR_RESPONSE\n"), STAT_lock_while_waiting);
    else if (!line->well_formed || line->ask.key.len > c->server->config->s.max_key_bytes)
        reply_counted(c, SLICE_LIT("ERROR BAD_SYNTAX\n"), STAT_bad_syntax);
    else
        acquire_new(c, &line->ask);
}

/* ---- release ---- */

static void release(struct client *c)
{
    struct server *s = c->server;
    struct client_lock *cl = commands_newest(c);

    if (cl == NULL) {
        reply_counted(c, SLICE_LIT("NOT_LOCKED\n"), STAT_release_mismatch);
        return;
    }
    note_end(cl);
    timer_stop(&c->wait);
    --c->nlocks;
    counter_release(s->table, &cl->lock, s->now_us, &s->woken);
    /* Waiters are notified before the client that has released. */
    server_deliver(s, WAKES_MAX);
    reply(c, SLICE_LIT("RELEASED\n"));
}

/* ---- stats ---- */

static uint64_t sum(const struct server *s, enum poolcounter_stat stat)
{
    return (uint64_t)stats_sum(s->stats, stat);
}

static void stats(struct client *c, struct slice what)
{
    struct server *s = c->server;
    const struct stats_figures figures = {
        .counters = *counter_stats(s->table),
        .uptime_us = s->now_us - s->started_us,
        .connect_errors = sum(s, STAT_connect_errors),
        .failed_sends = sum(s, STAT_failed_sends),
        .lock_mismatch = sum(s, STAT_lock_mismatch),
        .lock_while_waiting = sum(s, STAT_lock_while_waiting),
        .release_mismatch = sum(s, STAT_release_mismatch),
        .connections = s->nclients,
        .bad_commands = sum(s, STAT_bad_commands),
    };

    if (!stats_text(&figures, what, s->config->s.extra_stats, &s->replies))
        reply_counted(c, SLICE_LIT("ERROR WRONG_STAT\n"), STAT_bad_commands);
}

/* ---- lines ---- */

void commands_run(struct client *c, struct slice text)
{
    struct server *s = c->server;
    struct counter_line line;

    stat_add(s->cell, STAT_commands, 1);
    counter_line_parse(text, s->config->s.fractional_timeouts, &line);
    switch (line.verb) {
    case VERB_ACQUIRE:
        acquire(c, &line);
        break;
    case VERB_RELEASE:
        release(c);
        break;
    case VERB_STATS:
        stats(c, line.what);
        break;
    case VERB_NONE:
        reply_counted(c, SLICE_LIT("ERROR BAD_COMMAND\n"), STAT_bad_commands);
        break;
    }
}

void commands_too_long(struct client *c)
{
    stat_add(c->server->cell, STAT_commands, 1);
    stat_add(c->server->cell, STAT_lines_too_long, 1);
    reply_counted(c, SLICE_LIT("ERROR BAD_COMMAND\n"), STAT_bad_commands);
}

/* ---- what happens to a waiter ---- */

void commands_wake(struct client_lock *cl)
{
    struct client *c = cl->client;

    ASSERT(cl == commands_newest(c));
    timer_stop(&c->wait);
    if (note_woken(cl)) {
        client_send(c, SLICE_LIT("LOCKED\n"));
        return;
    }
    --c->nlocks;
    client_send(c, SLICE_LIT("DONE\n"));
}

void commands_expire(struct timer *t)
{
    struct client *c = container_of(t, struct client, wait);
    struct client_lock *cl = commands_newest(c);

    /* It may have been woken in this very round. */
    if (!is_waiting(c))
        return;
    (void)note_wait_over(c);
    --cl->type->figures.waiting;
    ++cl->type->figures.timeouts;
    --c->nlocks;
    counter_expire(c->server->table, &cl->lock, c->server->now_us);
    client_send(c, SLICE_LIT("TIMEOUT\n"));
}

void commands_leave(struct client *c)
{
    struct server *s = c->server;

    timer_stop(&c->wait);
    while (c->nlocks != 0) {
        struct client_lock *cl = commands_newest(c);

        if (is_woken(cl))
            (void)note_woken(cl);
        --c->nlocks;
        if (cl->lock.state == COUNTER_FREE)
            continue;
        note_end(cl);
        counter_leave(s->table, &cl->lock, s->now_us, &s->woken);
    }
}
