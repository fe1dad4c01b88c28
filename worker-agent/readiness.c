/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/readiness.h"

#include <stdlib.h>

#include "common/base/text.h"

enum { DELAY_FIRST_MS = 10, DELAY_MAX_MS = 250 };

static void try_once(struct readiness *r);

static void again(struct readiness *r)
{
    timer_start(r->loop, &r->retry, r->delay_ms);
    r->delay_ms = r->delay_ms * 2 < DELAY_MAX_MS ? r->delay_ms * 2 : DELAY_MAX_MS;
}

static void close_conn(struct readiness *r)
{
    if (r->conn != NULL)
        http1_close(r->conn);
    r->conn = NULL;
}

static void on_head(void *context, const struct http1_head *head, bool final)
{
    struct readiness *r = context;

    r->last_status = head->status;
    if (!final)
        http1_cancel(r->conn);
    close_conn(r);
    if (head->status < 500)
        r->ready(r);
    else
        again(r);
}

static void on_body(void *context, struct http1_body *body, bool last)
{
    /* Cancelled at the head. */
    (void)context;
    (void)last;
    http1_body_release(body);
}

static void on_error(void *context, enum err e)
{
    struct readiness *r = context;

    (void)e;
    close_conn(r);
    again(r);
}

static void on_upgrade(void *context, const struct http1_head *head)
{
    /* It was not asked for. */
    (void)head;
    on_error(context, ERR_BAD_RESPONSE);
}

static const struct http1_events events = {on_head, on_body, NULL, on_error, on_upgrade};

static void on_connected(void *context, struct http1_conn *c, enum err e)
{
    struct readiness *r = context;

    r->attempt = NULL;
    if (e != ERR_OK) {
        again(r);
        return;
    }
    r->conn = c;
    if (r->path == NULL) {
        close_conn(r);
        r->ready(r);
        return;
    }
    const struct http1_request request = {.head = slice_of(r->head),
                                          .first_byte_timeout_ms = r->timeout_ms,
                                          .between_bytes_timeout_ms = r->timeout_ms,
                                          .events = &events,
                                          .context = r};
    http1_request(c, &request);
}

static void try_once(struct readiness *r)
{
    r->attempt = http1_connect(r->loop, &r->addr, r->timeout_ms, on_connected, r);
}

static void on_retry(struct timer *t)
{
    try_once(container_of(t, struct readiness, retry));
}

void readiness_start(struct readiness *r, struct loop *l, const struct addr *a, const char *path,
                     uint64_t timeout_ms)
{
    r->loop = l;
    r->addr = *a;
    r->path = path;
    r->timeout_ms = timeout_ms;
    r->delay_ms = DELAY_FIRST_MS;
    if (path != NULL)
        r->head = xasprintf("GET %s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: resumelb-agent\r\n"
                            "Connection: close\r\n\r\n",
                            path);
    timer_init(&r->retry, on_retry);
    try_once(r);
}

void readiness_stop(struct readiness *r)
{
    if (r->loop == NULL)
        return;
    if (r->attempt != NULL)
        http1_connect_cancel(r->attempt);
    r->attempt = NULL;
    if (r->conn != NULL)
        http1_cancel(r->conn);
    close_conn(r);
    timer_stop(&r->retry);
    free(r->head);
    r->head = NULL;
    r->loop = NULL;
}
