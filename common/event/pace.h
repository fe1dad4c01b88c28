/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether bytes move at least so fast: over each grace time in full they have to make the rate on
 * average. Bursts and pauses within it are fine. Plain computation; time is an argument.
 */
#ifndef RLB_EVENT_PACE_H
#define RLB_EVENT_PACE_H

#include "common/base/base.h"

/* All zero: nothing waits. */
struct pace {
    uint64_t since_ms; /* when the present grace time began; 0: it has not */
    uint64_t bytes;    /* the count then */
};

/* Nothing waits any more: the next look begins anew. */
static inline void pace_rest(struct pace *p)
{
    *p = (struct pace){0};
}

/*
 * Bytes wait to move, and BYTES have moved in all. True: since the grace time began, so many that
 * they are fewer than RATE a second (0: any will do). Then, as after each grace time, a new one
 * begins.
 */
static inline bool pace_too_slow(struct pace *p, uint64_t bytes, uint64_t rate, uint64_t grace_ms,
                                 uint64_t now_ms)
{
    bool begun = p->since_ms != 0 && bytes >= p->bytes;
    uint64_t took_ms = begun ? now_ms - p->since_ms : 0;

    if (rate == 0 || (begun && took_ms < grace_ms))
        return false;
    bool slow = begun && (bytes - p->bytes) * 1000 < rate * took_ms;
    *p = (struct pace){.since_ms = now_ms, .bytes = bytes};
    return slow;
}

#endif
