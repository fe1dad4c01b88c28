/* SPDX-License-Identifier: Apache-2.0
 *
 * A player: one loop, so many clients, each with at most one connection and one request on it.
 *
 *   IDLE -- a request is due --> CONNECTING -> ASKED -- answer or error --> IDLE
 *
 * Closed loop: the next request is due when a client is free. Paced: when the log says; when no
 * client is free then it waits, and its latency counts from when it was due, so that a server that
 * is slow cannot hide it by taking fewer.
 */
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/upstream/http1_client.h"
#include "ctl/simulate/playback.h"

enum { CHECK_MS = 50, PACE_AHEAD_US = 1000 };

struct player;

struct client {
    struct list node; /* in player.idle */
    struct player *player;
    struct http1_connect *attempt;
    struct http1_conn *conn;
    struct loop_deferred next;
    size_t request;
    uint64_t began_us;
    bool reused; /* the connection has served before */
};

struct player {
    struct playback *p;
    struct playback_server *s;
    struct loop *loop;
    struct client *clients;
    struct list idle;
    struct timer pace, check;
    uint64_t started_us;
    size_t next; /* request */
    size_t running;
    bool over; /* interrupted: nothing new is begun */
    sigset_t ending;
};

static void ask(struct client *c);
static void begin(struct player *y);

static struct playback_record *record(struct client *c)
{
    return &c->player->s->records[c->request];
}

/* ---- the end of a request ---- */

static void drop_connection(struct client *c)
{
    if (c->conn != NULL)
        http1_close(c->conn);
    c->conn = NULL;
    c->reused = false;
}

static void now_idle(struct loop_deferred *d)
{
    struct client *c = container_of(d, struct client, next);
    struct player *y = c->player;

    list_push_front(&y->idle, &c->node);
    --y->running;
    begin(y);
    if (y->running == 0 && (y->over || y->next == y->p->n))
        loop_stop(y->loop);
}

static void finish(struct client *c, enum err e)
{
    struct playback_record *r = record(c);
    uint64_t spent_us = clock_mono_us() - c->began_us;

    r->played = true;
    r->latency_us = spent_us < UINT32_MAX ? (uint32_t)spent_us : UINT32_MAX;
    r->error = (uint16_t)e;
    if (e != ERR_OK)
        r->status = 0;
    if (c->conn != NULL && (e != ERR_OK || !http1_reusable(c->conn)))
        drop_connection(c);
    c->reused = c->conn != NULL;
    loop_defer(c->player->loop, &c->next);
}

/* ---- events ---- */

static void take_loads(struct client *c, const struct http1_head *head)
{
    uint64_t n = 0;

    for (size_t i = 0; i < head->nheaders; ++i) {
        if (slice_eq_nocase(head->headers[i].name, slice_of(c->player->p->loads_header)) &&
            parse_u64(head->headers[i].value, PLAYBACK_NO_LOADS - 1, &n))
            record(c)->loads = (uint32_t)n;
    }
}

static void on_head(void *context, const struct http1_head *head, bool final)
{
    struct client *c = context;

    record(c)->status = (uint16_t)head->status;
    take_loads(c, head);
    if (final)
        finish(c, ERR_OK);
}

static void on_body(void *context, struct http1_body *body, bool last)
{
    http1_body_release(body);
    if (last)
        finish(context, ERR_OK);
}

static void on_error(void *context, enum err e)
{
    struct client *c = context;
    /* An idle connection that ends when it is reused: the server had closed it. */
    bool again = c->reused && !http1_any_received(c->conn);

    drop_connection(c);
    if (again)
        ask(c);
    else
        finish(c, e);
}

static const struct http1_events events = {
    .on_head = on_head, .on_body = on_body, .on_error = on_error};

static void send_request(struct client *c)
{
    const struct playback *p = c->player->p;
    const struct playback_request *q = &p->requests[c->request];
    const char *host = p->texts.p + q->host_at;
    struct text head = {0};

    text_addf(&head, "GET %s HTTP/1.1\r\nHost: ", p->texts.p + q->target_at);
    text_add(&head, host[0] != '\0' ? slice_of(host) : text_slice(&c->player->s->host));
    text_add(&head, SLICE_LIT("\r\nUser-Agent: resumelbctl-playback\r\nAccept: */*\r\n\r\n"));
    struct http1_request r = {
        .head = text_slice(&head),
        .first_byte_timeout_ms = p->timeout_ms,
        .between_bytes_timeout_ms = p->timeout_ms,
        .events = &events,
        .context = c,
    };
    http1_request(c->conn, &r);
    text_fini(&head);
}

static void on_connected(void *context, struct http1_conn *conn, enum err e)
{
    struct client *c = context;

    c->attempt = NULL;
    c->conn = conn;
    if (conn != NULL)
        send_request(c);
    else
        finish(c, e);
}

static void ask(struct client *c)
{
    struct player *y = c->player;

    if (c->conn != NULL)
        send_request(c);
    else
        c->attempt = http1_connect(y->loop, &y->s->addr, y->p->timeout_ms, on_connected, c);
}

/* ---- when ---- */

/* Begin what is due, as far as clients are free. */
static void begin(struct player *y)
{
    struct playback *p = y->p;

    while (!y->over && y->next < p->n && !list_empty(&y->idle)) {
        uint64_t now_us = clock_mono_us();
        uint64_t due_us = now_us;

        if (p->speed > 0)
            due_us = y->started_us + (uint64_t)((double)p->requests[y->next].due_us / p->speed);
        if (due_us > now_us + PACE_AHEAD_US) {
            timer_start(y->loop, &y->pace, (due_us - now_us) / 1000);
            return;
        }
        struct client *c = list_entry(y->idle.next, struct client, node);
        list_remove(&c->node);
        ++y->running;
        c->request = y->next++;
        c->began_us = due_us < now_us ? due_us : now_us;
        record(c)->loads = PLAYBACK_NO_LOADS;
        ask(c);
    }
}

static void pace(struct timer *t)
{
    begin(container_of(t, struct player, pace));
}

/* Handles a request to exit: waits for the requests in progress, at most until they time out. */
static void check(struct timer *t)
{
    struct player *y = container_of(t, struct player, check);
    static const struct timespec at_once;

    if (sigtimedwait(&y->ending, NULL, &at_once) > 0) {
        y->over = y->p->interrupted = true;
        timer_stop(&y->pace);
        if (y->running == 0)
            loop_stop(y->loop);
    }
    timer_start(y->loop, &y->check, CHECK_MS);
}

void playback_run(struct playback *p, struct playback_server *s)
{
    struct player y = {.p = p, .s = s, .loop = loop_create(0)};

    s->records = xcalloc(p->n, sizeof(s->records[0]));
    y.clients = xcalloc(p->clients, sizeof(y.clients[0]));
    list_init(&y.idle);
    for (size_t i = 0; i < p->clients; ++i) {
        y.clients[i] = (struct client){.player = &y, .next.run = now_idle};
        list_push_back(&y.idle, &y.clients[i].node);
    }
    sigemptyset(&y.ending);
    sigaddset(&y.ending, SIGINT);
    sigaddset(&y.ending, SIGTERM);
    sigprocmask(SIG_BLOCK, &y.ending, NULL);
    signal(SIGPIPE, SIG_IGN); /* a server that hangs up is an error like others */
    timer_init(&y.pace, pace);
    timer_init(&y.check, check);
    timer_start(y.loop, &y.check, CHECK_MS);
    y.started_us = clock_mono_us();
    begin(&y);
    loop_run(y.loop);
    s->wall_s = (double)(clock_mono_us() - y.started_us) / 1e6;
    timer_stop(&y.pace);
    timer_stop(&y.check);
    for (size_t i = 0; i < p->clients; ++i)
        drop_connection(&y.clients[i]);
    loop_destroy(y.loop);
    free(y.clients);
}
