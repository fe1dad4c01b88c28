/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks a minimum transfer rate: the average over each full grace time must reach the rate. Bursts
 * and pauses within a grace time are allowed. Plain computation; time is an argument.
 */
#pragma once

#include "common/base/base.h"

/* All zero: no transfer is pending. */
struct pace {
    uint64_t since_ms; /* start of the current grace time; 0: not started */
    uint64_t bytes;    /* the byte count at that time */
};

/* No transfer is pending: the next check starts a new grace time. */
static inline void pace_reset(struct pace *p)
{
    *p = (struct pace){0};
}

/*
 * To be called while bytes are waiting to be transferred; BYTES is the total transferred so far.
 * Returns true if a grace time has ended and the average rate in it was below RATE [bytes per
 * second]; 0 disables the check. A new grace time starts after each one that has ended.
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

/* The same for any progress: returns true if BYTES has not changed for LIMIT_MS. A struct pace is
 * used for one of the two. */
static inline bool pace_stalled(struct pace *p, uint64_t bytes, uint64_t limit_ms, uint64_t now_ms)
{
    if (p->since_ms == 0 || bytes != p->bytes)
        *p = (struct pace){.since_ms = now_ms, .bytes = bytes};
    return now_ms - p->since_ms >= limit_ms;
}
