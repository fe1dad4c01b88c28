/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounded queue of requests that every worker rejected; they are retried instead of failed, as the
 * workers' queues get shorter and processes that died are replaced. One queue for each data loop
 * and application, in order of arrival. Each answered request allows two retries, and each tick
 * one. So a queue of any length costs overloaded workers only a few requests a second, and it
 * empties as fast as they serve once they accept requests again. A struct refused_wait is embedded
 * in an exchange, which owns it.
 */
#ifndef RLB_LB_CORE_REFUSED_LINE_H
#define RLB_LB_CORE_REFUSED_LINE_H

#include "common/event/loop.h"

struct refused_wait {
    struct list node;
    bool in_line; /* counted; else NODE is in the list of released ones, or in no list */
    /* On the loop, never inside of a call of this module: try again; it is out of the line. */
    void (*go_on)(struct refused_wait *w);
};

struct refused_line {
    struct loop *loop;
    struct list waiting;
    struct timer tick;
    unsigned turns;      /* how many the next tick releases; 0: one */
    _Atomic size_t *all; /* how many wait in the lines of all loops */
};

void refused_line_init(struct refused_line *line, struct loop *l, _Atomic size_t *all);

/*
 * AGAIN: W comes back with nothing, and has its old place. False when MAX wait already, on all
 * loops together.
 */
bool refused_line_join(struct refused_line *line, struct refused_wait *w, size_t max, bool again);
/* Cancels the wait: go_on is not called any more. Harmless if it is not in the queue. */
void refused_line_leave(struct refused_line *line, struct refused_wait *w);
/* A worker has answered a request. */
void refused_line_served(struct refused_line *line);

#endif
