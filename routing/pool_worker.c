/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers (worker.h): their references, and what they report.
 */
#include "routing/pool_internal.h"

#include <stdlib.h>

static void pool_worker_describe(const struct log_subject *self, struct log_text *out)
{
    const struct worker *w = (const struct worker *)(const void *)self;

    log_put(out, "worker=%s", w->name);
}

struct worker *worker_create(const struct worker_options *o)
{
    struct worker *w = xcalloc(1, sizeof(*w));

    ASSERT(o->concurrency >= 1);
    w->subject.describe = pool_worker_describe;
    atomic_init(&w->refs, 1);
    w->name = xslicedup(o->name);
    w->name_bytes = o->name.len;
    w->instance = xslicedup(o->instance);
    w->concurrency = o->concurrency;
    w->context = o->context;
    w->context_release = o->context_release;
    list_init(&w->in_flight);
    w->of = w;
    return w;
}

struct worker *worker_ref(struct worker *w)
{
    unsigned before = atomic_fetch_add_explicit(&w->refs, 1, memory_order_relaxed);

    ASSERT(before >= 1);
    return w;
}

void worker_unref(struct worker *w)
{
    if (w == NULL)
        return;
    unsigned before = atomic_fetch_sub_explicit(&w->refs, 1, memory_order_acq_rel);

    ASSERT(before >= 1);
    if (before != 1)
        return;
    ASSERT(w->state == WORKER_OUTSIDE);
    ASSERT(list_empty(&w->in_flight));
    ASSERT(w->slots == NULL);
    ASSERT(w->mirror == NULL);
    ASSERT(w->notes == NULL);
    ASSERT(w->policy == NULL);
    ASSERT(w->stored.rows == NULL);
    if (w->context_release != NULL)
        w->context_release(w->context);
    free(w->instance);
    free(w->name);
    free(w);
}

void worker_report(struct worker *w, uint64_t total, uint64_t now_ms)
{
    uint64_t own = worker_backlog(w);
    uint64_t report = 0;

    ASSERT(total <= WORKER_REPORT_MAX);
    if (total > own)
        report = (now_ms << WORKER_REPORT_BITS) | (total - own);
    /* Usually nothing changes: without a write, readers keep the cache line. */
    if (report != atomic_load_explicit(&w->report, memory_order_relaxed))
        atomic_store_explicit(&w->report, report, memory_order_relaxed);
}

uint64_t worker_in_flight(const struct worker *w)
{
    return worker_backlog(w);
}

void worker_declined(struct worker *w, uint64_t now_ms)
{
    atomic_store_explicit(&w->full_until_ms, now_ms + WORKER_REJECTION_MS, memory_order_relaxed);
}

void worker_responded(struct worker *w)
{
    /* Usually it is 0 already: do not write, so that readers keep the cache line. */
    if (atomic_load_explicit(&w->full_until_ms, memory_order_relaxed) != 0)
        atomic_store_explicit(&w->full_until_ms, 0, memory_order_relaxed);
}

bool worker_is_over(const struct worker *w)
{
    return worker_backlog(w) > w->concurrency;
}

const char *worker_name(const struct worker *w)
{
    return w->name;
}

struct slice worker_name_slice(const struct worker *w)
{
    return (struct slice){w->name, w->name_bytes};
}

const char *worker_instance(const struct worker *w)
{
    return w->instance;
}

void *worker_context(const struct worker *w)
{
    return w->context;
}
