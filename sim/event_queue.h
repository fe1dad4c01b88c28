/* SPDX-License-Identifier: Apache-2.0
 *
 * What happens next: events by time, those of one time in the order in which they were added.
 * Embedded; zeroed, it is empty. One thread.
 */
#ifndef RLB_SIM_EVENT_QUEUE_H
#define RLB_SIM_EVENT_QUEUE_H

#include "common/base/base.h"

struct event {
    uint64_t at_ns;
    uint64_t order; /* the queue's */
    void *what;     /* the caller's */
    uint64_t value; /* the caller's */
};

struct event_queue {
    struct event *heap;
    size_t n, room;
    uint64_t next_order;
};

void event_queue_fini(struct event_queue *q);
void event_queue_add(struct event_queue *q, uint64_t at_ns, void *what, uint64_t value);
/* The next one, or NULL; valid until the next call that changes the queue. */
const struct event *event_queue_peek(const struct event_queue *q);
/* The queue is not empty. */
struct event event_queue_take(struct event_queue *q);

#endif
