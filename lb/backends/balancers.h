/* SPDX-License-Identifier: Apache-2.0
 *
 * The load balancers that are registered for an application in the tree, this one included. The
 * pool computes the homes of classes from this set (pool_set_balancers). Part of the membership;
 * control thread.
 */
#ifndef RLB_LB_BACKENDS_BALANCERS_H
#define RLB_LB_BACKENDS_BALANCERS_H

#include "common/tree/tree.h"
#include "lb/core/application.h"

struct balancers;

/* The property of a registration that identifies a process, and its length with NUL. */
#define BALANCER_INSTANCE "instance"
enum { BALANCER_INSTANCE_ROOM = 33 };

/* Watches PATH of T. OWN: the instance of this process, as it registers. */
struct balancers *balancers_create(struct application *a, struct tree *t, const char *path,
                                   const char *own);
/* Releases the tree; the pool decides alone from now on. NULL is fine. */
void balancers_destroy(struct balancers *b);
/* Number of load balancers of the pool, including this one. */
size_t balancers_count(const struct balancers *b);

#endif
