/* SPDX-License-Identifier: Apache-2.0
 *
 * A time-out that is set again, or cleared, far more often than it expires. Setting and clearing
 * only store the due time. The timer keeps running; when it expires, it is restarted for the stored
 * time, or stops if there is none. So a deadline passes at the same millisecond as a timer would
 * expire, and some timers expire without effect.
 *
 * Embedded in its owner; used by the loop's thread only. It must be stopped before its memory is
 * freed, and before another loop uses it.
 */
#ifndef RLB_EVENT_DEADLINE_H
#define RLB_EVENT_DEADLINE_H

#include "common/event/loop.h"

struct deadline {
    struct timer timer; /* due at DUE_MS or before */
    uint64_t due_ms;    /* 0: not set */
};

/* EXPIRED must call deadline_passed. */
static inline void deadline_init(struct deadline *d, void (*expired)(struct timer *t))
{
    timer_init(&d->timer, expired);
    d->due_ms = 0;
}

/* Sets D to DELAY_MS from now; not 0. */
static inline void deadline_set(struct loop *l, struct deadline *d, uint64_t delay_ms)
{
    d->due_ms = loop_due_ms(l, delay_ms);
    if (!timer_running(&d->timer) || d->timer.due_ms > d->due_ms)
        timer_start_at(l, &d->timer, d->due_ms);
}

/* Clears D; its timer may continue to run. */
static inline void deadline_clear(struct deadline *d)
{
    d->due_ms = 0;
}

static inline bool deadline_is_set(const struct deadline *d)
{
    return d->due_ms != 0;
}

static inline void deadline_stop(struct deadline *d)
{
    d->due_ms = 0;
    timer_stop(&d->timer);
}

/* To be called when D's timer has expired. Returns whether the deadline has passed; it is cleared
 * then. */
static inline bool deadline_passed(struct loop *l, struct deadline *d)
{
    if (d->due_ms == 0)
        return false;
    if (d->due_ms > loop_now_ms(l)) {
        timer_start_at(l, &d->timer, d->due_ms);
        return false;
    }
    d->due_ms = 0;
    return true;
}

#endif
