/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection each: a process may close it after any answer, and there are few.
 */
#include "worker-agent/warm_up.h"

#include <stdlib.h>

#include "common/base/text.h"

static void try_next(struct warm_up *w);

static void close_conn(struct warm_up *w)
{
    if (w->conn != NULL)
        http1_close(w->conn);
    w->conn = NULL;
}

/* The present one is over. */
static void finished(struct warm_up *w, bool good)
{
    if (good)
        ++w->answered;
    else
        ++w->failed;
    close_conn(w);
    ++w->at;
    try_next(w);
}

static void on_head(void *context, const struct http1_head *head, bool final)
{
    struct warm_up *w = context;

    w->status = head->status;
    if (final)
        finished(w, w->status == 200);
}

static void on_body(void *context, struct http1_body *body, bool last)
{
    struct warm_up *w = context;

    http1_body_release(body);
    if (last)
        finished(w, w->status == 200);
}

static void on_error(void *context, enum err e)
{
    (void)e;
    finished(context, false);
}

static void on_upgrade(void *context, const struct http1_head *head)
{
    /* It was not asked for. */
    (void)head;
    finished(context, false);
}

static const struct http1_events events = {on_head, on_body, NULL, on_error, on_upgrade};

static void on_connected(void *context, struct http1_conn *c, enum err e)
{
    struct warm_up *w = context;

    w->attempt = NULL;
    if (e != ERR_OK) {
        finished(w, false);
        return;
    }
    w->conn = c;
    w->status = 0;
    const struct http1_request request = {
        .head = slice_of(w->heads[w->at]), .events = &events, .context = w};
    http1_request(c, &request);
}

static void end(struct warm_up *w)
{
    warm_up_stop(w);
    w->done(w);
}

static void try_next(struct warm_up *w)
{
    if (w->at == w->n)
        end(w);
    else
        w->attempt = http1_connect(w->loop, &w->addr, w->limit_ms, on_connected, w);
}

static void on_total(struct timer *t)
{
    struct warm_up *w = container_of(t, struct warm_up, total);

    ++w->failed;
    end(w);
}

static char *make_head(const struct warm_target *t)
{
    struct text head = {0};

    text_addf(&head, "GET %.*s HTTP/1.1\r\nHost: %.*s\r\n", SLICE_FMT(t->target),
              SLICE_FMT(t->host));
    if (t->cls.len > 0)
        text_addf(&head, "Resumelb-Class: %.*s\r\n", SLICE_FMT(t->cls));
    text_add(&head, SLICE_LIT("Resumelb-Warm-Up: 1\r\nUser-Agent: resumelb-agent\r\n"
                              "Connection: close\r\n\r\n"));
    (void)text_cstr(&head);
    return head.p;
}

bool warm_up_start(struct warm_up *w, struct loop *l, const struct addr *a,
                   const struct warm_targets *targets, uint64_t limit_ms)
{
    const struct warm_target *top[WARM_WANTED_MAX];
    size_t n = warm_targets_top(targets, top);

    if (n == 0)
        return false;
    w->loop = l;
    w->addr = *a;
    w->limit_ms = limit_ms;
    w->heads = xcalloc(n, sizeof(char *));
    for (w->n = 0; w->n < n; ++w->n)
        w->heads[w->n] = make_head(top[w->n]);
    w->at = 0;
    w->answered = w->failed = 0;
    timer_init(&w->total, on_total);
    timer_start(l, &w->total, limit_ms);
    try_next(w);
    return true;
}

void warm_up_stop(struct warm_up *w)
{
    if (w->loop == NULL)
        return;
    if (w->attempt != NULL)
        http1_connect_cancel(w->attempt);
    w->attempt = NULL;
    if (w->conn != NULL)
        http1_cancel(w->conn);
    close_conn(w);
    timer_stop(&w->total);
    while (w->n > 0)
        free(w->heads[--w->n]);
    free(w->heads);
    w->heads = NULL;
    w->loop = NULL;
}
