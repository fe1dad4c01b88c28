/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a worker, as the pool's modules use them (pool_internal.h). The pool's lock guards
 * what is not constant after creation, except the reference count and what is atomic.
 */
#ifndef RLB_ROUTING_WORKER_INTERNAL_H
#define RLB_ROUTING_WORKER_INTERNAL_H

#include <stdatomic.h>

#include "common/base/list.h"
#include "common/base/log.h"
#include "common/skills/resume.h"
#include "common/stats/decay.h"
#include "routing/worker.h"

/* Bits of a worker's report: the lower ones are a number of requests, the higher ones a time in ms.
 */
enum { WORKER_REPORT_BITS = 24 };

enum worker_call {
    WORKER_NOT_CALLED,
    WORKER_TO_WAKE,
    WORKER_WOKEN, /* it was to be woken and has received its request: it is ineligible */
    WORKER_RELIEVES,
};

enum worker_place { WORKER_OUTSIDE, WORKER_INELIGIBLE, WORKER_ELIGIBLE, WORKER_LEAVING };

struct worker {
    struct log_subject subject; /* first */
    atomic_uint refs;
    char *name;
    size_t name_bytes; /* without its end */
    char *incarnation;
    unsigned concurrency;
    void *context;
    void (*context_release)(void *context);

    /* The following members belong to the pool, which frees what they point to when W leaves. */
    struct pool *pool; /* NULL outside */
    enum worker_place place;
    struct list place_node;  /* pool->ineligible, ->eligible or ->leaving, as PLACE specifies */
    struct list member_node; /* pool->members */
    struct list called_node; /* pool->called: those to be woken and those that relieve */
    enum worker_call call;   /* of a member */
    bool has_shown;          /* its last resume had skills */
    bool unavailable;
    struct version *version;  /* NULL if not a member */
    _Atomic uint64_t backlog; /* written under the lock, read by worker_report without */
    struct decayed mean;
    /* Requests in flight from other load balancers and the time of the report (WORKER_REPORT_BITS);
     * 0: none. Written without the lock, so both are in one word and change together. */
    _Atomic uint64_t report;
    /* it rejected a request; written without the lock; 0: it did not */
    _Atomic uint64_t full_until_ms;
    struct list in_flight; /* pool_pick.node_, oldest first */
    struct worker *of;     /* its report and rejections count: itself, or the mirrored worker */
    struct worker *mirror; /* in pool->shadow; or NULL */
    struct shadow_notes *notes; /* pool_shadow.c's; or NULL */
    void *policy;               /* pool_rule.worker_bytes of the policy's own, or NULL */
    struct skill_slot *slots;
    uint32_t nslots;
    uint32_t slots_room;
    uint32_t resume_no;
    struct resume kept; /* while ineligible */
    uint32_t lost;      /* changes whenever a score is deleted or its place changes */
    uint64_t looked_at; /* number of the last scan (pool->look) that included it */
};

static inline uint64_t worker_backlog(const struct worker *w)
{
    return atomic_load_explicit(&w->backlog, memory_order_relaxed);
}

/* Number of classes that W has a score for: it has either slots or what it kept. */
static inline size_t worker_nskills(const struct worker *w)
{
    return w->nslots + w->kept.n;
}

/* Under the lock: no other writer, so no locked instruction. */
static inline void worker_set_backlog(struct worker *w, uint64_t backlog)
{
    atomic_store_explicit(&w->backlog, backlog, memory_order_relaxed);
}

static inline uint64_t report_others(uint64_t report, uint64_t since_ms)
{
    if (report == 0 || report >> WORKER_REPORT_BITS < since_ms)
        return 0;
    return report & WORKER_REPORT_MAX;
}

/* Returns the known number of requests in flight at W from other load balancers. */
static inline uint64_t worker_others(const struct worker *w, uint64_t since_ms)
{
    return report_others(atomic_load_explicit(&w->of->report, memory_order_relaxed), since_ms);
}

/* Returns true if W recently rejected a request (WORKER_REFUSAL_MS). */
static inline bool worker_is_full(const struct worker *w, uint64_t now_ms)
{
    return atomic_load_explicit(&w->of->full_until_ms, memory_order_relaxed) > now_ms;
}

#endif
