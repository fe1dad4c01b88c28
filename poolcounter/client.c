/* SPDX-License-Identifier: Apache-2.0
 *
 * One client: its bytes, and the execution of its lines, with the original's order of checks
 * (docs/guide/poolcounter.md).
 *
 * It is read once a turn, into the server's one buffer; the rest of a line is copied and put before
 * the next read. Responses are collected and sent at once. If the socket does not accept them all,
 * the client is not read until it has: so what is stored for it is bounded, and it loses nothing.
 * One that accepts nothing for send_timeout is closed.
 *
 * A client's locks are a stack; only the newest may wait. A woken lock is in the server's `woken`
 * until its client is notified. The wake-up counts as sent from then on, so that it precedes the
 * response to the client's next line.
 */
#include "poolcounter/server_internal.h"

#include <errno.h>
#include <limits.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"

/* ---- time-outs of a client ---- */

/* Bytes in transit to C. */
static int unread_bytes(const struct server_client *c)
{
    int bytes = 0;

    return ioctl(c->fd, SIOCOUTQ, &bytes) == 0 ? bytes : INT_MAX;
}

static void wait_for_reader(struct server_client *c)
{
    c->responses->unread = unread_bytes(c);
    server_timer_start(c->server, &c->patience, c->server->config->s.send_timeout_ms);
}

static void patience_over(struct timer *t)
{
    struct server_client *c = container_of(t, struct server_client, patience);
    struct server *s = c->server;
    uint64_t idle_timeout_ms = s->config->s.idle_timeout_ms;

    if (c->responses != NULL && unread_bytes(c) < c->responses->unread) {
        wait_for_reader(c);
        return;
    }
    if (c->responses != NULL) {
        stat_add(s->cell, STAT_slow_clients_closed, 1);
        log_info(NULL, "client-closed", "reason=\"does not read responses\" locks=%u", c->nlocks);
        client_close(c);
        return;
    }
    if (idle_timeout_ms == 0)
        return;
    uint64_t due_ms = c->active_ms + idle_timeout_ms;
    if (c->nlocks == 0 && due_ms <= server_now_ms(s)) {
        stat_add(s->cell, STAT_idle_clients_closed, 1);
        client_close(c);
        return;
    }
    /* It has been active, or holds a lock: check again later, not at every line. */
    server_timer_start(s, t,
                       due_ms > server_now_ms(s) ? due_ms - server_now_ms(s) : idle_timeout_ms);
}

void client_watch_idling(struct server_client *c)
{
    if (c->responses != NULL)
        return;
    if (c->server->config->s.idle_timeout_ms != 0)
        server_timer_start(c->server, &c->patience, c->server->config->s.idle_timeout_ms);
    else
        timer_stop(&c->patience);
}

/* ---- out ---- */

static void watch_for(struct server_client *c, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = c};

    /* A change of an existing registration allocates nothing. */
    int failed = epoll_ctl(c->server->epoll, EPOLL_CTL_MOD, c->fd, &event);
    ASSERT(failed == 0);
}

/* Returns the number of bytes that the socket accepted; SIZE_MAX if the connection is broken. */
static size_t try_send(const struct server_client *c, struct slice bytes)
{
    ssize_t n = TEMP_FAILURE_RETRY(send(c->fd, bytes.p, bytes.len, MSG_NOSIGNAL));

    if (n >= 0)
        return (size_t)n;
    return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : SIZE_MAX;
}

/* May close C. */
static void send_response(struct server_client *c, struct slice bytes)
{
    bool waits = c->responses != NULL;

    if (c->fd < 0)
        return;
    if (!waits) {
        size_t sent = try_send(c, bytes);

        if (sent == bytes.len)
            return;
        if (sent != SIZE_MAX) {
            stat_add(c->server->cell, STAT_failed_sends, 1);
            bytes = (struct slice){bytes.p + sent, bytes.len - sent};
            c->responses = malloc(sizeof(*c->responses));
        }
        /* The connection is broken, or memory is exhausted. */
        if (c->responses == NULL) {
            client_close(c);
            return;
        }
        c->responses->len = 0;
    }
    struct responses *a = c->responses;
    /* At most one wake-up can come while its lines are not run. */
    ASSERT(bytes.len <= sizeof(a->bytes) - a->len);
    memcpy(a->bytes + a->len, bytes.p, bytes.len);
    a->len += bytes.len;
    if (waits)
        return;
    watch_for(c, EPOLLOUT);
    wait_for_reader(c);
}

static void add_line(struct server_client *c, struct slice line)
{
    text_add(&c->server->responses, line);
}

static void respond_counted(struct server_client *c, struct slice line, enum poolcounter_stat stat)
{
    stat_add(c->server->cell, stat, 1);
    add_line(c, line);
}

/* ---- the stack ---- */

static struct client_lock *lock_at(struct server_client *c, size_t i)
{
    return i == 0 ? &c->first : &c->more[i - 1];
}

/* C's newest lock, or NULL. */
static struct client_lock *newest_lock(struct server_client *c)
{
    return c->nlocks != 0 ? lock_at(c, c->nlocks - 1U) : NULL;
}

/* Returns a lock to push; NULL if out of memory. Most clients never have more than one. */
static struct client_lock *next_lock(struct server_client *c)
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

static bool is_waiting(struct server_client *c)
{
    struct client_lock *cl = newest_lock(c);

    return cl != NULL && cl->lock.state == COUNTER_WAITING;
}

/* Whether CL has been woken, and its client is not yet notified. */
static bool is_woken(const struct client_lock *cl)
{
    return cl->lock.state != COUNTER_WAITING && list_linked(&cl->lock.in_key);
}

/* ---- figures by type and by key ---- */

/* Counts the end of CL's wait, whatever the reason. Returns its duration [us]. */
static uint64_t note_wait_over(struct client_lock *cl)
{
    struct server_client *c = cl->client;
    struct server *s = c->server;
    uint64_t waited_us = s->now_us - c->wait_since_us;

    if (c->wait_key != NULL)
        topk_add(s->top, (struct slice){c->wait_key, c->wait_key_bytes}, waited_us);
    free(c->wait_key);
    c->wait_key = NULL;
    --cl->type->figures.waiting;
    return waited_us;
}

/* Removes CL, which was woken, from the server's `woken`. Returns true if it holds its lock. */
static bool note_woken(struct client_lock *cl)
{
    struct server *s = cl->client->server;
    struct type_figures *figures = &cl->type->figures;
    uint64_t waited_us = note_wait_over(cl);

    list_remove(&cl->lock.in_key);
    stat_observe(s->cell, STAT_wait_us, waited_us);
    figures->waited_us += waited_us;
    if (cl->lock.woken == COUNTER_DONE) {
        ++figures->done;
        return false;
    }
    ++figures->acquired;
    ++figures->held;
    return true;
}

/* Counts the end of CL, which holds or waits. Must be called before it is released or left. */
static void note_end(struct client_lock *cl)
{
    struct server *s = cl->client->server;
    struct type_figures *figures = &cl->type->figures;

    if (cl->lock.state == COUNTER_WAITING) {
        (void)note_wait_over(cl);
        return;
    }
    uint64_t worked_us = s->now_us - cl->lock.since_us;
    stat_observe(s->cell, STAT_work_us, worked_us);
    figures->worked_us += worked_us;
    --figures->held;
}

/* ---- lines ---- */

static void acquire_new(struct server_client *c, struct counter_request *ask)
{
    struct server *s = c->server;
    struct client_lock *cl = next_lock(c);
    struct slice type = counter_type_of(ask->key);

    if (cl == NULL) {
        add_line(c, SLICE_LIT("ERROR OUT_OF_MEMORY\n"));
        return;
    }
    cl->type = types_get(&s->types, type);
    /* A key without ':' is its own type, which matters only if there are limits. */
    if (type.len != ask->key.len || ask->slots != 0 || s->config->ntypes != 0)
        ask->type = type;
    struct type_figures *figures = &cl->type->figures;
    switch (counter_acquire(s->table, &cl->lock, ask, s->now_us)) {
    case COUNTER_LOCKED:
        ++c->nlocks;
        ++figures->acquired;
        ++figures->held;
        add_line(c, SLICE_LIT("LOCKED\n"));
        break;
    case COUNTER_WAIT:
        ++c->nlocks;
        ++figures->waiting;
        c->wait_since_us = s->now_us;
        /* Copied, because the lock has no key after a DONE. Out of memory, this wait is not in the
         * figures. */
        c->wait_key = malloc(ask->key.len);
        if (c->wait_key != NULL)
            memcpy(c->wait_key, ask->key.p, ask->key.len);
        c->wait_key_bytes = ask->key.len;
        server_timer_start(s, &c->wait, ask->timeout_ms);
        break;
    case COUNTER_QUEUE_FULL:
        ++figures->full;
        add_line(c, SLICE_LIT("QUEUE_FULL\n"));
        break;
    case COUNTER_TIMEOUT:
        ++figures->timeouts;
        add_line(c, SLICE_LIT("TIMEOUT\n"));
        break;
    case COUNTER_NO_ROOM:
        ++figures->no_room;
        add_line(c, SLICE_LIT("ERROR OUT_OF_MEMORY\n"));
        break;
    case COUNTER_DONE:
    case COUNTER_UNREACHABLE:
        UNREACHABLE();
    }
}

static void acquire_lock(struct server_client *c, struct pool_counter_line *line)
{
    if (c->nlocks == CLIENT_LOCKS_MAX)
        respond_counted(c, SLICE_LIT("LOCK_HELD\n"), STAT_lock_mismatch);
    else if (is_waiting(c))
        respond_counted(c, SLICE_LIT("ERROR WAIT_FOR_RESPONSE\n"), STAT_lock_while_waiting);
    else if (!line->well_formed || line->ask.key.len > c->server->config->s.max_key_bytes)
        respond_counted(c, SLICE_LIT("ERROR BAD_SYNTAX\n"), STAT_bad_syntax);
    else
        acquire_new(c, &line->ask);
}

static void pc_client_release(struct server_client *c)
{
    struct server *s = c->server;
    struct client_lock *cl = newest_lock(c);

    if (cl == NULL) {
        respond_counted(c, SLICE_LIT("NOT_LOCKED\n"), STAT_release_mismatch);
        return;
    }
    note_end(cl);
    timer_stop(&c->wait);
    --c->nlocks;
    counter_release(s->table, &cl->lock, s->now_us, &s->woken);
    /* Waiters are notified before the client that has released. */
    server_deliver(s);
    add_line(c, SLICE_LIT("RELEASED\n"));
}

static void send_stats(struct server_client *c, struct slice what)
{
    struct server *s = c->server;
    struct stats_figures figures = {.counters = *counter_stats(s->table),
                                    .uptime_us = s->now_us - s->started_us};

    for (size_t i = 0; i < POOLCOUNTER_STATS; ++i)
        figures.stats[i] = (uint64_t)stats_sum(s->stats, i);
    if (!stats_text(&figures, what, s->config->s.extra_stats, &s->responses))
        respond_counted(c, SLICE_LIT("ERROR WRONG_STAT\n"), STAT_bad_commands);
}

/* Executes one line of C; a response that exists already is added to the server's responses. */
static void run_line(struct server_client *c, struct slice text)
{
    struct server *s = c->server;
    struct pool_counter_line line;

    stat_add(s->cell, STAT_commands, 1);
    pool_counter_line_parse(text, s->config->s.fractional_timeouts, &line);
    switch (line.verb) {
    case VERB_ACQUIRE:
        acquire_lock(c, &line);
        break;
    case VERB_RELEASE:
        pc_client_release(c);
        break;
    case VERB_STATS:
        send_stats(c, line.what);
        break;
    case VERB_NONE:
        respond_counted(c, SLICE_LIT("ERROR BAD_COMMAND\n"), STAT_bad_commands);
        break;
    }
}

/* ---- what happens to a waiter ---- */

void client_wake(struct client_lock *cl)
{
    struct server_client *c = cl->client;
    const struct client_lock *top = newest_lock(c);

    ASSERT(cl == top);
    timer_stop(&c->wait);
    bool holds = note_woken(cl);
    c->nlocks -= !holds;
    send_response(c, holds ? SLICE_LIT("LOCKED\n") : SLICE_LIT("DONE\n"));
}

static void wait_over(struct timer *t)
{
    struct server_client *c = container_of(t, struct server_client, wait);
    struct client_lock *cl = newest_lock(c);

    /* It may have been woken in this very round. */
    if (!is_waiting(c))
        return;
    (void)note_wait_over(cl);
    ++cl->type->figures.timeouts;
    --c->nlocks;
    counter_expire(c->server->table, &cl->lock, c->server->now_us);
    send_response(c, SLICE_LIT("TIMEOUT\n"));
}

/* ---- in ---- */

/* Run the lines of IN, which is in the server's buffer, until they are run or responses wait. */
static void run_lines(struct server_client *c, struct slice in)
{
    struct server *s = c->server;
    enum pool_counter_cut cut = CUT_LINE;
    struct slice line;
    bool skipping = c->skipping;

    ASSERT(s->responses.len == 0);
    while (cut != CUT_REST && c->fd >= 0 && c->responses == NULL) {
        cut = pool_counter_line_cut(&in, &skipping, &line);
        if (cut == CUT_LINE) {
            run_line(c, line);
        } else if (cut == CUT_LONG) {
            stat_add(s->cell, STAT_commands, 1);
            stat_add(s->cell, STAT_lines_too_long, 1);
            respond_counted(c, SLICE_LIT("ERROR BAD_COMMAND\n"), STAT_bad_commands);
        }
        struct slice responses = text_slice(&s->responses);
        if (cut != CUT_REST && responses.len < RESPONSES_PAUSE_BYTES)
            continue;
        text_clear(&s->responses);
        if (responses.len != 0)
            send_response(c, responses);
    }
    c->skipping = skipping;
    if (c->fd < 0)
        return;
    if (in.len > c->rest_bytes) {
        char *larger = realloc(c->rest, in.len);

        if (larger == NULL) {
            client_close(c);
            return;
        }
        c->rest = larger;
    } else if (in.len == 0) {
        free(c->rest);
        c->rest = NULL;
    }
    if (in.len != 0)
        memcpy(c->rest, in.p, in.len);
    c->rest_bytes = (uint32_t)in.len;
}

static void client_read(struct server_client *c)
{
    struct server *s = c->server;
    size_t rest = c->rest_bytes;
    ssize_t n = recv(c->fd, s->input + rest, READ_BYTES, 0);

    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return;
    if (n <= 0) {
        client_close(c);
        return;
    }
    if (rest != 0)
        memcpy(s->input, c->rest, rest);
    c->active_ms = server_now_ms(s);
    run_lines(c, (struct slice){s->input, rest + (size_t)n});
}

/* The socket takes responses again. */
static void client_write(struct server_client *c)
{
    struct responses *a = c->responses;
    size_t sent = try_send(c, (struct slice){a->bytes, a->len});

    if (sent == SIZE_MAX) {
        client_close(c);
        return;
    }
    a->len -= sent;
    memmove(a->bytes, a->bytes + sent, a->len);
    if (a->len != 0) {
        if (sent != 0)
            wait_for_reader(c);
        return;
    }
    free(a);
    c->responses = NULL;
    watch_for(c, EPOLLIN);
    client_watch_idling(c);
    memcpy(c->server->input, c->rest_bytes != 0 ? c->rest : "", c->rest_bytes);
    run_lines(c, (struct slice){c->server->input, c->rest_bytes});
}

void client_ready(struct server_client *c, uint32_t events)
{
    if (c->fd >= 0 && c->nlocks != 0 && is_woken(newest_lock(c)))
        client_wake(newest_lock(c));
    /* Closed by that, or earlier in this round. */
    if (c->fd < 0)
        return;
    if (c->responses == NULL)
        client_read(c);
    else if ((events & (EPOLLERR | EPOLLHUP)) != 0)
        client_close(c);
    else
        client_write(c);
}

/* ---- life ---- */

struct server_client *client_create(struct server *s, int fd, struct address_count *source)
{
    struct server_client *c = calloc(1, sizeof(*c));
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};

    if (c == NULL || epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        free(c);
        close(fd);
        return NULL;
    }
    c->watched.kind = WATCHED_CLIENT;
    c->fd = fd;
    c->server = s;
    c->source = source;
    c->active_ms = server_now_ms(s);
    timer_init(&c->wait, wait_over);
    timer_init(&c->patience, patience_over);
    list_push_back(&s->clients, &c->node);
    ++s->nclients;
    stat_add(s->cell, STAT_connections, 1);
    client_watch_idling(c);
    return c;
}

void client_close(struct server_client *c)
{
    struct server *s = c->server;

    if (c->fd < 0)
        return;
    /* Closing is not sufficient: a process that is being started has a copy of the descriptor until
     * its exec, and epoll would report events for it, with a pointer to freed memory. */
    (void)epoll_ctl(s->epoll, EPOLL_CTL_DEL, c->fd, NULL);
    close(c->fd);
    c->fd = -1;
    while (c->nlocks != 0) {
        struct client_lock *cl = newest_lock(c);

        if (is_woken(cl))
            (void)note_woken(cl);
        --c->nlocks;
        if (cl->lock.state == COUNTER_FREE)
            continue;
        note_end(cl);
        counter_leave(s->table, &cl->lock, s->now_us, &s->woken);
    }
    timer_stop(&c->wait);
    timer_stop(&c->patience);
    address_counts_remove(s->sources, &c->source);
    free(c->rest);
    free(c->responses);
    free(c->more);
    c->rest = NULL;
    c->responses = NULL;
    c->more = NULL;
    list_remove(&c->node);
    list_push_back(&s->closed, &c->node);
    --s->nclients;
    stat_add(s->cell, STAT_connections, -1);
    listeners_resume(s);
}
