/* SPDX-License-Identifier: Apache-2.0
 *
 * A lock for critical sections of some hundred instructions that are entered several times per
 * request. Without contention, locking and unlocking take two instructions each and no call; a
 * pthread_mutex_t takes sixty. A latch is one word, embedded in its owner; all zero is unlocked. On
 * contention the thread polls for a moment, then sleeps in the kernel until the latch is released.
 * A latch is not recursive, not fair, and has no condition variable; use pthread_mutex_t for these.
 *
 *     free --lock--> held --unlock--> free
 *                     |  another thread fails to lock
 *                     v
 *                 awaited --unlock--> free, and one sleeping thread is woken
 *
 * Any thread. The memory may be freed as soon as the last holder has released the latch and no
 * other thread can lock it: unlocking accesses the word once.
 *
 * Latches are annotated as mutexes for the thread sanitizer, which reports lock order inversions.
 * The sanitizer then ignores the implementation of the latch itself; a source file that defines
 * LATCH_NOT_ANNOTATED omits the annotations, so that the implementation is checked.
 */
#pragma once

#include "common/base/base.h"

#if defined(__SANITIZE_THREAD__) && !defined(LATCH_NOT_ANNOTATED)
#include <sanitizer/tsan_interface.h>
#define LATCH_ANNOTATE(event, ...) __tsan_mutex_##event(__VA_ARGS__)
#else
#define LATCH_ANNOTATE(event, ...) ((void)0)
#endif

struct latch {
    atomic_uint state;
};

enum { LATCH_FREE, LATCH_HELD, LATCH_AWAITED };

/* Slow path of latch_lock(), for a latch that was locked by another thread. */
void latch_wait_(struct latch *l) cold_;
void latch_wake_(struct latch *l) cold_;

static inline void latch_lock(struct latch *l)
{
    unsigned state = LATCH_FREE;

    LATCH_ANNOTATE(pre_lock, l, 0);
    if (!atomic_compare_exchange_strong_explicit(&l->state, &state, LATCH_HELD,
                                                 memory_order_acquire, memory_order_relaxed))
        latch_wait_(l);
    LATCH_ANNOTATE(post_lock, l, 0, 0);
}

static inline void latch_unlock(struct latch *l)
{
    unsigned before;

    LATCH_ANNOTATE(pre_unlock, l, 0);
    before = atomic_exchange_explicit(&l->state, LATCH_FREE, memory_order_release);
    ASSERT(before != LATCH_FREE);
    if (before == LATCH_AWAITED)
        latch_wake_(l);
    LATCH_ANNOTATE(post_unlock, l, 0);
}
