/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker as the load balancer knows it: the context of a struct worker. Made by membership on the
 * control thread; freed with the worker's last reference (any thread). Constant for data loops but for
 * what is atomic or locked.
 */
#ifndef RLB_LB_MEMBER_H
#define RLB_LB_MEMBER_H

#include "common/core/meter.h"
#include "common/net/addr.h"
#include "lb/application.h"

#include <pthread.h>

struct member {
    struct application *app;
    struct worker *worker; /* borrowed: the worker owns us */
    struct addr addr;
    struct conn_backend *backend; /* counted */
    bool has_feed;                /* its resume comes by a stream: Resumelb-Unprocessed is honoured */
    /* Self-measured: the meter under its lock; NULL with a feed. */
    pthread_mutex_t meter_lock;
    struct meter *meter;
    /* Figures for the status page; relaxed. */
    _Atomic uint64_t requests, failures, service_us;
    /* Ejection (health.c): until when, monotonic ms; 0: not. */
    _Atomic uint64_t ejected_until_ms;
};

static inline struct member *member_of(const struct worker *w)
{
    return worker_context(w);
}

/*
 * Any loop: one exchange with this worker has ended.  Counts; and for self-measured workers feeds the
 * meter, which may make a new resume known to the pool (waking who waits).
 *   failed  5xx or no whole response
 */
void member_served(struct member *m, struct slice cls, uint64_t service_us, bool failed);
/* Any loop: it refused or did not accept a connection; may eject it for eject_time (health.c). */
void member_connect_failed(struct member *m, uint64_t now_ms);

#endif
