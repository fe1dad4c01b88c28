/* SPDX-License-Identifier: Apache-2.0
 *
 * The load balancer's data of a worker: the context of a struct worker. Created by membership on
 * the control thread; freed with the worker's last reference (any thread). Data loops may change
 * only atomic and locked members.
 */
#pragma once

#include "common/base/file.h"
#include "common/base/latch.h"
#include "common/net/addr.h"
#include "common/skills/home_records.h"
#include "common/skills/meter.h"
#include "lb/core/application.h"
#include "lb/rules/budget.h"

/* Why a worker in the pool may not be picked at present; any of them. */
enum member_unavailable {
    MEMBER_EJECTED = 1,   /* it failed */
    MEMBER_DRAINING = 2,  /* reported by itself */
    MEMBER_SILENT = 4,    /* its stream broke; one reconnect is in progress */
    MEMBER_UNHEALTHY = 8, /* its checks fail (active_check.h) */
    MEMBER_DRAINED = 16,  /* requested by an operator */
    MEMBER_RESERVE = 32,  /* workers of a lower priority number are available */
};

enum {
    MEMBER_SHARE_ALL = 1000,
};

/* The file of a self-measured worker. */
struct self_measured {
    struct list node; /* self_measure->workers, which has a reference to the worker */
    struct state_file file;
    uint64_t written; /* meter_generation that is in the file; the writer's */
    bool leaving;     /* under self_measure's lock */
};

struct member {
    struct application *app;
    struct worker *worker; /* borrowed: the worker owns this struct */
    struct addr addr;
    struct tls_peer *tls;         /* TLS peer of its address, counted; NULL: no TLS */
    struct conn_backend *backend; /* counted */
    bool has_feed;    /* its resume comes by a stream: Resumelb-Unprocessed is honored */
    bool has_standby; /* failures of its address are reported (member_report) */
    /* Control thread: its own limits, -1: the application's; and the concurrency of its agent.
     * Call member_settings_changed after a change. */
    int64_t max_connections, max_tunnels;
    int share; /* the part of max_connections that it gets, of MEMBER_SHARE_ALL */
    unsigned concurrency;
    /* It serves one request at a time, so that a tunnel blocks all others. */
    _Atomic bool serves_one;
    struct tunnel_limit tunnels;
    /* In the pool, and why not to be picked; under app->members_lock. */
    bool joined;
    struct list node;     /* app->members, while joined */
    unsigned priority;    /* written by the control thread only */
    unsigned unavailable; /* enum member_unavailable */
    struct failure_record failed;
    _Atomic bool has_failures; /* FAILED is not empty; may be read without the lock */
    /* Self-measured: the meter under its lock, taken before app->members_lock; NULL: a feed. */
    struct latch meter_lock;
    struct meter *meter;
    /* Self-measured, and there are peers: what this load balancer decided and used (peers.h), under
     * its lock, which is the last one; else NULL. */
    struct latch homes_lock;
    struct home_records *homes;
    uint64_t homes_published;      /* the change up to which peers have it; control thread */
    struct self_measured measured; /* self_measure.c's */
    char version[VERSION_MAX + 1]; /* self-measured: as configured or registered */
    /* Counters for status page and metrics; relaxed. */
    _Atomic uint64_t requests, failures, service_us, connect_failures;
    struct loop_message report;
    _Atomic bool reporting, certain; /* REPORT is posted, with a reference to the worker */
    /* Ejection: until when, monotonic ms; 0: not. */
    _Atomic uint64_t ejected_until_ms;
    _Atomic unsigned ejected_why; /* enum worker_fault */
};

static inline struct member *member_of(const struct worker *w)
{
    return worker_context(w);
}

/* Whether a tunnel blocks all other requests to M. Any loop; no lock. */
static inline bool member_serves_one(const struct member *m)
{
    return atomic_load_explicit(&m->serves_one, memory_order_relaxed);
}

/* Whether a failed worker may soon return: another process behind an agent, or a standby. */
static inline bool member_may_return(const struct member *m)
{
    return m->has_feed || m->has_standby;
}

/* ---- the control thread ---- */

/*
 * Creates a worker with its member, not in the pool yet, and returns a reference to the worker.
 *   name     canonical address
 *   version  "": unknown, as INSTANCE
 *   from     app, addr, tls (a reference is acquired), has_feed, has_standby and limits; the rest
 *            is zero
 */
struct worker *member_create(const char *name, const char *instance, const char *version,
                             const struct member *from);
/* backend.c: the address of M has failed. CERTAIN: the worker cannot be reached there. */
void member_report(struct member *m, bool certain);
/* A resume is known (R may be empty): the first adds M to the pool, a later one replaces it. */
void member_resume(struct member *m, const struct resume *r, const char *version,
                   const char *fingerprint);
/* Removes it from the pool; member_resume may add it again. Requests in flight continue. */
void member_leave(struct member *m);
/* The application's settings, or limits of M, have changed. */
void member_settings_changed(struct member *m);
/* Only the workers of the lowest priority number that are available are used. To be called at
 * intervals: one that is available again is not noticed at once. */
void member_update_reserve(struct application *a);
void member_set_priority(struct member *m, unsigned priority);
bool member_in_reserve(const struct member *m);
/* The meter of a self-measured worker under these settings. */
struct meter_settings member_meter_settings(const struct app_settings *s);

/* ---- any loop ---- */

/* A reason not to pick it begins or ends. Returns false if that was so already. Any thread. */
bool member_set_unavailable(struct member *m, enum member_unavailable why, bool on);
/*
 * self_measure.c: records the end of one exchange with this worker. Updates the counters; for a
 * self-measured worker also the meter, which may publish a new resume to the pool and so wake
 * waiting requests.
 *   hash    class_hash of CLS
 *   failed  the status was 5xx, or the response is incomplete
 *   passing M is not a home of CLS
 */
void member_served(struct member *m, struct slice cls, uint64_t hash, uint64_t service_us,
                   bool failed, bool passing);
/* A request of CLS is about to be sent to M with the decision R, which is not passing. M has
 * records (m->homes). */
void member_housed(struct member *m, struct slice cls, const struct home_report *r);
/* A request of CLS at M, a home of CLS, has ended. M has records. */
void member_home_served(struct member *m, struct slice cls, uint64_t service_us);
/* It did not respond: may eject it for a while. */
void member_failed(struct member *m, enum worker_fault f, uint64_t now_ms);
/* Resets its failure record. */
void member_clear_failures(struct member *m) cold_;
/* It has begun a response, so it lives. */
static inline void member_responded(struct member *m)
{
    if (atomic_load_explicit(&m->has_failures, memory_order_relaxed))
        member_clear_failures(m);
}

/* ---- ejection ---- */

/*
 * Any loop: if an ejected worker is to be probed by a request, counts one there. The caller sends
 * the request, a GET, to the worker of OUT; member_probed must be called with the result.
 */
bool member_probe(struct application *a, uint64_t now_us, struct pool_pick *out) cold_;
/* The probe of M, by a request, has passed, or has not: it failed, or was aborted. */
void member_probed(struct member *m, bool passed) cold_;
/* Control thread: workers have left; if only ejected ones remain, ends all ejections at once. */
void ejection_check(struct application *a);
/*
 * Any loop: to be called when a request finds no worker besides those in TRIED. Ends all ejections
 * at once. Returns false if no other worker is ejected.
 */
bool ejection_fail_open(struct application *a, struct worker *const *tried, size_t ntried) cold_;
/* Control thread, when no exchange is left: drops all ejections and probes. */
void ejection_stop(struct application *a);
