/* SPDX-License-Identifier: Apache-2.0
 *
 * What a request of a class is expected to cost, in seconds of service: moving averages per class
 * and over all, of what this load balancer has measured. Embedded in a policy's state, which
 * registers each of its requests in flight (pool_hand) from begin to end. Under the pool's lock.
 *
 * Bounded like every table of classes: if a class is dropped while it has requests in flight, they
 * count for the average over all only.
 */
#ifndef RLB_ROUTING_POOL_COST_H
#define RLB_ROUTING_POOL_COST_H

#include "common/skills/classes.h"
#include "routing/pool.h"

struct cost_class;

struct cost_table {
    struct classes classes; /* of struct cost_class */
    double mean_s;          /* over all; 0 before the first */
};

void cost_init(struct cost_table *t, size_t max_classes);
/* The hands that are there must not be used any more. */
void cost_fini(struct cost_table *t);
/* NULL when the class is not known. */
struct cost_class *cost_find(const struct cost_table *t, struct slice cls);
/* Of a request of C, which may be NULL; > 0. */
double cost_expected_s(const struct cost_table *t, const struct cost_class *c);
/* One of CLS begins: fills H's entry, node and work_s. */
void cost_begin(struct cost_table *t, struct slice cls, struct pool_hand *h);
/* The request has ended; h->work_s stays for the caller. Only successful requests count as a
 * measurement of cost. */
void cost_end(struct cost_table *t, struct pool_hand *h, const struct pool_served *how);

#endif
