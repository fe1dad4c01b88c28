/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes of one client. It is read once a turn, into the server's one buffer; what is left of a line
 * is copied aside and put before the next read. Answers are gathered and sent at once. When the
 * socket does not take them all, the client is not read until it has: so what is kept for it is
 * bounded, and it loses nothing. One that takes nothing for send_timeout is closed.
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
static int unread_bytes(const struct client *c)
{
    int bytes = 0;

    return ioctl(c->fd, SIOCOUTQ, &bytes) == 0 ? bytes : INT_MAX;
}

static void wait_for_reader(struct client *c)
{
    c->answers->unread = unread_bytes(c);
    server_timer_start(c->server, &c->patience, c->server->config->s.send_timeout_ms);
}

static void patience_over(struct timer *t)
{
    struct client *c = container_of(t, struct client, patience);
    struct server *s = c->server;
    uint64_t idle_timeout_ms = s->config->s.idle_timeout_ms;

    if (c->answers != NULL && unread_bytes(c) < c->answers->unread) {
        wait_for_reader(c);
        return;
    }
    if (c->answers != NULL) {
        stat_add(s->cell, STAT_slow_clients_closed, 1);
        log_info(NULL, "client-closed", "reason=\"does not read replies\" locks=%u", c->nlocks);
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
    /* It has been active, or holds: look again, not at every line. */
    server_timer_start(s, t,
                       due_ms > server_now_ms(s) ? due_ms - server_now_ms(s) : idle_timeout_ms);
}

static void watch_idling(struct client *c)
{
    if (c->server->config->s.idle_timeout_ms != 0)
        server_timer_start(c->server, &c->patience, c->server->config->s.idle_timeout_ms);
    else
        timer_stop(&c->patience);
}

void client_configured(struct client *c)
{
    if (c->answers == NULL)
        watch_idling(c);
}

/* ---- out ---- */

static void watch_for(struct client *c, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = c};

    /* It is watched already, so there is nothing to run out of. */
    int failed = epoll_ctl(c->server->epoll, EPOLL_CTL_MOD, c->fd, &event);
    ASSERT(failed == 0);
}

/* The socket has not taken BYTES. False: out of memory. */
static bool keep_answers(struct client *c, struct slice bytes)
{
    stat_add(c->server->cell, STAT_failed_sends, 1);
    c->answers = malloc(sizeof(*c->answers));
    if (c->answers == NULL)
        return false;
    ASSERT(bytes.len <= sizeof(c->answers->bytes));
    memcpy(c->answers->bytes, bytes.p, bytes.len);
    c->answers->len = bytes.len;
    watch_for(c, EPOLLOUT);
    wait_for_reader(c);
    return true;
}

/* How much the socket took; SIZE_MAX: it is broken. */
static size_t try_send(const struct client *c, struct slice bytes)
{
    ssize_t n;

    do
        n = send(c->fd, bytes.p, bytes.len, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n >= 0)
        return (size_t)n;
    return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : SIZE_MAX;
}

void client_send(struct client *c, struct slice bytes)
{
    if (c->fd < 0)
        return;
    if (c->answers != NULL) {
        struct answers *a = c->answers;

        /* At most one wake-up can come while its lines are not run. */
        ASSERT(bytes.len <= sizeof(a->bytes) - a->len);
        memcpy(a->bytes + a->len, bytes.p, bytes.len);
        a->len += bytes.len;
        return;
    }
    size_t sent = try_send(c, bytes);
    if (sent == bytes.len)
        return;
    if (sent == SIZE_MAX || !keep_answers(c, (struct slice){bytes.p + sent, bytes.len - sent}))
        client_close(c);
}

/* ---- in ---- */

static bool keep_rest(struct client *c, struct slice in)
{
    if (in.len > c->rest_bytes) {
        char *larger = realloc(c->rest, in.len);

        if (larger == NULL)
            return false;
        c->rest = larger;
    } else if (in.len == 0) {
        free(c->rest);
        c->rest = NULL;
    }
    if (in.len != 0)
        memcpy(c->rest, in.p, in.len);
    c->rest_bytes = (uint32_t)in.len;
    return true;
}

static void flush(struct client *c)
{
    struct slice bytes = text_slice(&c->server->replies);

    text_clear(&c->server->replies);
    if (bytes.len != 0)
        client_send(c, bytes);
}

/* Run the lines of IN, which is in the server's buffer, until they are run or answers wait. */
static void run_lines(struct client *c, struct slice in)
{
    enum counter_cut cut = CUT_LINE;
    struct slice line;
    bool skipping = c->skipping;

    ASSERT(c->server->replies.len == 0);
    while (cut != CUT_REST && c->fd >= 0 && c->answers == NULL) {
        cut = counter_line_cut(&in, &skipping, &line);
        if (cut == CUT_LINE)
            commands_run(c, line);
        else if (cut == CUT_LONG)
            commands_too_long(c);
        if (cut == CUT_REST || c->server->replies.len >= ANSWERS_PAUSE_BYTES)
            flush(c);
    }
    c->skipping = skipping;
    if (c->fd >= 0 && !keep_rest(c, in))
        client_close(c);
}

static void client_read(struct client *c)
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

/* The socket takes answers again. */
static void client_write(struct client *c)
{
    struct answers *a = c->answers;
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
    c->answers = NULL;
    watch_for(c, EPOLLIN);
    watch_idling(c);
    memcpy(c->server->input, c->rest_bytes != 0 ? c->rest : "", c->rest_bytes);
    run_lines(c, (struct slice){c->server->input, c->rest_bytes});
}

void client_ready(struct client *c, uint32_t events)
{
    /* Closed earlier in this round. */
    if (c->fd < 0)
        return;
    if (commands_is_woken(c)) {
        commands_wake(commands_newest(c));
        if (c->fd < 0)
            return;
    }
    if (c->answers == NULL)
        client_read(c);
    else if ((events & (EPOLLERR | EPOLLHUP)) != 0)
        client_close(c);
    else
        client_write(c);
}

/* ---- life ---- */

struct client *client_create(struct server *s, int fd, struct address_count *source)
{
    struct client *c = calloc(1, sizeof(*c));
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
    timer_init(&c->wait, commands_expire);
    timer_init(&c->patience, patience_over);
    list_push_back(&s->clients, &c->node);
    ++s->nclients;
    stat_add(s->cell, STAT_connections, 1);
    watch_idling(c);
    return c;
}

void client_close(struct client *c)
{
    struct server *s = c->server;

    if (c->fd < 0)
        return;
    /* Closing is not sufficient: a process that is being started has a copy of the descriptor until
     * its exec, and epoll would report events for it, with a pointer to freed memory. */
    (void)epoll_ctl(s->epoll, EPOLL_CTL_DEL, c->fd, NULL);
    close(c->fd);
    c->fd = -1;
    commands_leave(c);
    timer_stop(&c->patience);
    address_counts_leave(s->sources, &c->source);
    free(c->rest);
    free(c->answers);
    free(c->more);
    c->rest = NULL;
    c->answers = NULL;
    c->more = NULL;
    list_remove(&c->node);
    list_push_back(&s->closed, &c->node);
    --s->nclients;
    stat_add(s->cell, STAT_connections, -1);
    listeners_resume(s);
}
