/* SPDX-License-Identifier: Apache-2.0
 *
 * A time-out that is set anew, or called off, far more often than it passes. Only the time is
 * noted then: the timer stays where it is, and looks at what is noted when it expires; it goes on
 * to that time, or rests. So a deadline passes when a timer of its own would expire, to the
 * millisecond, for the price of a few timers that expire in vain.
 * Embedded; a timer on its loop, whose thread alone has it. To be stopped before its memory goes,
 * and before another loop has it.
 */
#ifndef RLB_EVENT_DEADLINE_H
#define RLB_EVENT_DEADLINE_H

#include "common/event/loop.h"

struct deadline {
    struct timer timer; /* runs at DUE_MS at the latest */
    uint64_t due_ms;    /* 0: there is none */
};

/* EXPIRED of the timer asks deadline_passed. */
static inline void deadline_init(struct deadline *d, void (*expired)(struct timer *t))
{
    timer_init(&d->timer, expired);
    d->due_ms = 0;
}

/* DELAY_MS, not 0, from now. */
static inline void deadline_set(struct loop *l, struct deadline *d, uint64_t delay_ms)
{
    d->due_ms = loop_due_ms(l, delay_ms);
    if (!timer_running(&d->timer) || d->timer.due_ms > d->due_ms)
        timer_start_at(l, &d->timer, d->due_ms);
}

/* There is none any more; the timer may run on. */
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

/* D's timer has expired: whether the deadline has passed; there is none then. */
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
