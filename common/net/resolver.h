/* SPDX-License-Identifier: Apache-2.0
 *
 * Resolves host names on a thread, because the system's resolver blocks. Used by the thread's loop.
 */
#ifndef RLB_NET_RESOLVER_H
#define RLB_NET_RESOLVER_H

#include "common/event/worker_thread.h"
#include "common/net/addr.h"

/* The look-up of one name. Embedded in its owner; the resolver copies what it needs. */
struct resolve_request {
    struct resolver_job *job; /* the resolver's: the look-up in progress, or NULL */
    /* On the loop. ERR_OK: ADDRS, N of them. Never after resolver_cancel. */
    void (*done)(struct resolve_request *r, enum err e, const struct addr *addrs, size_t n);
};

/*
 * Looks up NAME:PORT on T. One look-up at a time for each request. Each must be answered or
 * cancelled before T is destroyed.
 */
void resolver_ask(struct worker_thread *t, struct slice name, struct resolve_request *q);
/* Harmless when no look-up is in progress. */
void resolver_cancel(struct resolve_request *q);

#endif
