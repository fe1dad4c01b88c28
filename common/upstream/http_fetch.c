/* SPDX-License-Identifier: Apache-2.0
 *
 *   start --> attempt --> conn --> done
 *
 * While connecting, the attempt's own timer is the limit; from then on it is ours.
 */
#include "common/upstream/http_fetch.h"

#include <errno.h>

void http_fetch_stop(struct http_fetch *f)
{
    if (f->loop == NULL)
        return;
    timer_stop(&f->timer);
    http1_client_connect_cancel(&f->attempt);
    http1_client_close(&f->conn);
    text_fini(&f->q.bytes);
    f->loop = NULL;
}

static void fetch_finish(struct http_fetch *f, enum err e)
{
    http_fetch_stop(f);
    f->q.events->done(f, e);
}

static void on_fetch_head(void *context, const struct http1_head *head, bool final)
{
    struct http_fetch *f = context;
    struct http1_client_conn *conn = f->conn;

    f->status = head->status;
    if (f->q.events->on_head != NULL)
        f->q.events->on_head(f, head);
    if ((final || f->q.head_only) && f->conn == conn)
        fetch_finish(f, ERR_OK);
}

static void on_fetch_body(void *context, struct body_piece *body, bool last)
{
    struct http_fetch *f = context;
    struct http1_client_conn *conn = f->conn;
    bool too_large = false;

    /* Another connection of F cannot have the same address: memory goes at the end of the turn. */
    for (size_t i = 0; i < body->nparts && !too_large && f->conn == conn; ++i) {
        f->body_bytes += body->parts[i].len;
        too_large = f->q.body_max != 0 && f->body_bytes > f->q.body_max;
        if (!too_large && f->q.events->on_body != NULL)
            f->q.events->on_body(f, body->parts[i]);
    }
    body_piece_release(body);
    if ((last || too_large) && f->conn == conn)
        fetch_finish(f, too_large ? ERR_TOO_LARGE : ERR_OK);
}

static void on_fetch_error(void *context, const struct http1_client_failure *failure)
{
    fetch_finish(context, failure->error);
}

/* No upgrade is requested, so that a 101 is an error. */
static const struct http1_client_events exchange_events = {
    .on_head = on_fetch_head, .on_body = on_fetch_body, .on_error = on_fetch_error};

static void on_fetch_connected(void *context, struct http1_client_conn *conn, enum err e)
{
    struct http_fetch *f = context;

    f->connect_errno = conn == NULL ? errno : 0;
    f->attempt = NULL;
    f->conn = conn;
    if (conn == NULL || f->q.bytes.len == 0) {
        fetch_finish(f, e);
        return;
    }
    const struct http1_client_request r = {
        .head = text_slice(&f->q.bytes), .events = &exchange_events, .context = f};

    if (f->due_ms != 0)
        timer_start_at(f->loop, &f->timer, f->due_ms);
    else if (f->q.timeout_ms != 0)
        timer_start(f->loop, &f->timer, f->q.timeout_ms);
    http1_client_request(conn, &r);
}

static void on_fetch_timer(struct timer *t)
{
    fetch_finish(container_of(t, struct http_fetch, timer), ERR_TIMEOUT);
}

void http_fetch_start(struct http_fetch *f, struct loop *l, const struct http_fetch_request *q)
{
    bool together = q->connect_timeout_ms == 0;

    ASSERT(f->loop == NULL);
    *f = (struct http_fetch){.loop = l, .q = *q};
    timer_init(&f->timer, on_fetch_timer);
    if (together) {
        ASSERT(q->timeout_ms != 0);
        f->due_ms = loop_due_ms(l, q->timeout_ms);
    }
    f->attempt = http1_client_connect_tls(l, q->addr, q->peer, NULL,
                                          together ? q->timeout_ms : q->connect_timeout_ms,
                                          on_fetch_connected, f);
    f->q.addr = NULL;
    f->q.peer = NULL;
}

void http_fetch_extend(struct http_fetch *f, uint64_t timeout_ms)
{
    timer_start(f->loop, &f->timer, timeout_ms);
}
