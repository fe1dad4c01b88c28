/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection each: a process may close it after any answer, and there are few.
 */
#include "worker-agent/process/warm_up.h"

static void try_next(struct warm_up *w);

static void end(struct warm_up *w)
{
    warm_up_stop(w);
    w->done(w);
}

static void on_done(struct http_fetch *f, enum err e)
{
    struct warm_up *w = container_of(f, struct warm_up, fetch);

    if (e == ERR_OK && f->status == 200)
        ++w->answered;
    else
        ++w->failed;
    if (++w->at == w->n || loop_now_ms(w->loop) >= w->due_ms)
        end(w);
    else
        try_next(w);
}

static const struct http_fetch_events events = {.done = on_done};

static void try_next(struct warm_up *w)
{
    const struct http_fetch_request q = {.addr = &w->addr,
                                         .bytes = w->heads[w->at],
                                         .timeout_ms = w->due_ms - loop_now_ms(w->loop),
                                         .events = &events};

    w->heads[w->at] = (struct text){0};
    http_fetch_start(&w->fetch, w->loop, &q);
}

static struct text make_head(const struct warm_target *t)
{
    struct text head = {0};

    text_addf(&head, "GET %.*s HTTP/1.1\r\nHost: %.*s\r\n", SLICE_FMT(t->target),
              SLICE_FMT(t->host));
    if (t->cls.len > 0)
        text_addf(&head, "Resumelb-Class: %.*s\r\n", SLICE_FMT(t->cls));
    text_add(&head, SLICE_LIT("Resumelb-Warm-Up: 1\r\nUser-Agent: resumelb-agent\r\n"
                              "Connection: close\r\n\r\n"));
    return head;
}

bool warm_up_start(struct warm_up *w, struct loop *l, const struct addr *a,
                   const struct warm_targets *targets, uint64_t limit_ms)
{
    struct warm_target top[WARM_WANTED_MAX];
    size_t n = warm_targets_top(targets, top);

    if (n == 0)
        return false;
    w->loop = l;
    w->addr = *a;
    w->due_ms = loop_due_ms(l, limit_ms);
    for (w->n = 0; w->n < n; ++w->n)
        w->heads[w->n] = make_head(&top[w->n]);
    w->at = 0;
    w->answered = w->failed = 0;
    try_next(w);
    return true;
}

void warm_up_stop(struct warm_up *w)
{
    if (w->loop == NULL)
        return;
    http_fetch_stop(&w->fetch);
    while (w->n > 0)
        text_fini(&w->heads[--w->n]);
    w->loop = NULL;
}
