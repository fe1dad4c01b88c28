/* SPDX-License-Identifier: Apache-2.0
 *
 * Running timers, ordered by due time. Time is an argument. Embedded in its owner; timers are owned
 * by their callers. One thread.
 */
#pragma once

#include "common/base/list.h"

/* See timer_init() in loop.h. */
struct timer {
    struct list node;
    uint64_t due_ms;
    void (*expired)(struct timer *t); /* may restart the timer, or free the object that holds it */
};

enum {
    WHEEL_BITS = 6,
    WHEEL_SLOTS = 1 << WHEEL_BITS,
    WHEEL_LEVELS =
        (64 + WHEEL_BITS - 1) / WHEEL_BITS, /* every due time has a slot: no overflow list */
    WHEEL_SEARCH_MAX = 16, /* members of a slot that are searched for the first one due */
};

struct timer_wheel {
    uint64_t tick_ms;            /* all timers due until then have left the slots */
    uint64_t next_ms;            /* no slot with members begins before it */
    struct list due;             /* expired timers, in the order in which they expired */
    uint64_t used[WHEEL_LEVELS]; /* bit s: slot s may have members (stopping a timer does not clear
                                    it) */
    struct list slots[WHEEL_LEVELS][WHEEL_SLOTS];
};

/* ---- pauses of the process ---- */

enum {
    /* A thread with timers waits at most so long, so that it notices a pause. */
    TIMER_WAIT_MAX_MS = 2000,
    /* More than this between two turns is a pause, and counts as the other: more than nothing, so
     * that timers expire even if all turns are that slow. */
    TIMER_PAUSE_MS = TIMER_WAIT_MAX_MS + 3000,
    TIMER_PAUSE_COUNTED_MS = 100,
};

/* Which part of STEP_MS, the time between two turns, was a pause and is not the time of timers. */
static inline uint64_t timer_pause_ms(uint64_t step_ms)
{
    return step_ms > TIMER_PAUSE_MS ? step_ms - TIMER_PAUSE_COUNTED_MS : 0;
}

/* ---- the wheel ---- */

void timer_wheel_init(struct timer_wheel *w, uint64_t now_ms);
/* Adds T, which is in no list, to the slot of its due_ms. */
void timer_wheel_add(struct timer_wheel *w, struct timer *t);
/* Moves every timer due until NOW_MS to the due list. If the clock went back, nothing changes. */
void timer_wheel_advance(struct timer_wheel *w, uint64_t now_ms);
/* A lower bound of timer_wheel_next without searching: earlier than necessary if the timer that it
 * was computed for has been stopped. */
static inline uint64_t timer_wheel_bound(const struct timer_wheel *w)
{
    return list_empty(&w->due) ? w->next_ms : w->tick_ms;
}
/*
 * A time at or before the next due time, and after tick_ms unless a timer is due already;
 * UINT64_MAX if no timer runs. (For distant timers: when they must be moved to a lower level.)
 * EXACT, for a loop that is idle: the next due time itself, unless its slot has more than
 * WHEEL_SEARCH_MAX members, because each of them is examined.
 */
uint64_t timer_wheel_next(struct timer_wheel *w, bool exact);
