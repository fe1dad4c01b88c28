/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/process/readiness.h"

enum { DELAY_FIRST_MS = 10, DELAY_MAX_MS = 250 };

static void on_done(struct http_fetch *f, enum err e)
{
    struct readiness *r = container_of(f, struct readiness, fetch);

    if (f->status != 0)
        r->last_status = f->status;
    if (e == ERR_OK && f->status < 500) {
        r->ready(r);
        return;
    }
    timer_start(r->loop, &r->retry, r->delay_ms);
    r->delay_ms = r->delay_ms * 2 < DELAY_MAX_MS ? r->delay_ms * 2 : DELAY_MAX_MS;
}

static const struct http_fetch_events events = {.done = on_done};

static void try_once(struct readiness *r)
{
    struct http_fetch_request q = {
        .addr = &r->addr, .timeout_ms = r->timeout_ms, .head_only = true, .events = &events};

    if (r->path != NULL)
        text_addf(&q.bytes,
                  "GET %s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: resumelb-agent\r\n"
                  "Connection: close\r\n\r\n",
                  r->path);
    http_fetch_start(&r->fetch, r->loop, &q);
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
    timer_init(&r->retry, on_retry);
    try_once(r);
}

void readiness_stop(struct readiness *r)
{
    if (r->loop == NULL)
        return;
    http_fetch_stop(&r->fetch);
    timer_stop(&r->retry);
    r->loop = NULL;
}
