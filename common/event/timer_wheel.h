/* SPDX-License-Identifier: Apache-2.0
 *
 * Running timers, ordered by when they are due: the inside of loop.c. Time is an argument.
 * Embedded in its loop; owns no timer. One thread.
 */
#ifndef RLB_EVENT_TIMER_WHEEL_H
#define RLB_EVENT_TIMER_WHEEL_H

#include "common/event/loop.h"

enum {
    WHEEL_BITS = 6,
    WHEEL_SLOTS = 1 << WHEEL_BITS,
    WHEEL_LEVELS =
        (64 + WHEEL_BITS - 1) / WHEEL_BITS, /* every due time has a place: no overflow list */
    WHEEL_SEARCH_MAX = 16, /* members of a slot that are looked at for the first one due */
};

struct timer_wheel {
    uint64_t tick_ms; /* all timers due until then have left the slots */
    uint64_t next_ms; /* no slot with members begins before it */
    struct list due;  /* to be expired, in order of their due times */
    uint64_t
        used[WHEEL_LEVELS]; /* bit s: slot s may have members (a stopped timer leaves no trace) */
    struct list slots[WHEEL_LEVELS][WHEEL_SLOTS];
};

void timer_wheel_init(struct timer_wheel *w, uint64_t now_ms);
/* Put T, which is in no list, where its due_ms belongs. */
void timer_wheel_add(struct timer_wheel *w, struct timer *t);
/* Move every timer due until NOW_MS to the due list. A clock that went back changes nothing. */
void timer_wheel_advance(struct timer_wheel *w, uint64_t now_ms);
/* No timer is due before: as timer_wheel_next, but where it was stopped the time may be too early.
 * It is at hand. */
static inline uint64_t timer_wheel_bound(const struct timer_wheel *w)
{
    return list_empty(&w->due) ? w->next_ms : w->tick_ms;
}
/*
 * A time at or before the next due one, and after tick_ms unless something is due already;
 * UINT64_MAX when no timer runs. (For far timers it is when they must be sorted more finely.)
 */
uint64_t timer_wheel_next(struct timer_wheel *w);
/*
 * The same, and the next due time itself unless its slot has more than WHEEL_SEARCH_MAX members.
 * It looks at each of them: for who has nothing to do but to wait.
 */
uint64_t timer_wheel_next_due(struct timer_wheel *w);

#endif
