/* SPDX-License-Identifier: Apache-2.0
 *
 * Host names of workers to addresses, on a thread of its own: the system's resolver blocks. Owned
 * by lb.c, used by the control thread. A name server that hangs holds up neither traffic nor the
 * end of the process: a thread inside a look-up is left behind.
 */
#ifndef RLB_LB_RESOLVER_H
#define RLB_LB_RESOLVER_H

#include "common/event/loop.h"
#include "common/net/addr.h"

struct resolver;

/* One name's look-up. Embedded in who asks; the resolver copies what it needs. */
struct resolve_request {
    struct resolver_job *job; /* the resolver's: the look-up under way, or NULL */
    /* On the loop. ERR_OK: ADDRS, N of them. Never after resolver_cancel. */
    void (*done)(struct resolve_request *r, enum err e, const struct addr *addrs, size_t n);
};

/* Answers come on L. */
struct resolver *resolver_create(struct loop *l);
/* Every request is answered or cancelled. NULL is fine. */
void resolver_destroy(struct resolver *r);
/* NAME:PORT. One look-up at a time for each request. */
void resolver_ask(struct resolver *r, struct slice name, struct resolve_request *q);
/* Harmless when nothing is under way. */
void resolver_cancel(struct resolve_request *q);

#endif
