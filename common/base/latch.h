/* SPDX-License-Identifier: Apache-2.0
 *
 * A lock for what is held for some hundred instructions, and taken several times a request: where
 * nobody else has it, taking it and giving it back are two instructions each with no call, where a
 * pthread_mutex_t takes sixty. One word, embedded in its owner; zeroed, it is free. Who finds it
 * held looks again for a moment, then sleeps in the kernel until it is given back. Not recursive,
 * not fair, and no condition waits on it: for that there is pthread_mutex_t.
 *
 *     free --lock--> held --unlock--> free
 *                     |  who cannot have it
 *                     v
 *                 awaited --unlock--> free, and one who sleeps is woken
 *
 * Any thread. Its memory may go as soon as whoever had it last has given it back and nobody can
 * come for it: unlocking touches it once.
 *
 * The thread sanitizer is told of it as of a mutex: it reports two that are taken in both orders.
 * It then overlooks what the latch itself is made of; who defines LATCH_UNTOLD has that looked at.
 */
#ifndef RLB_BASE_LATCH_H
#define RLB_BASE_LATCH_H

#include <stdatomic.h>

#include "common/base/base.h"

#if defined(__SANITIZE_THREAD__) && !defined(LATCH_UNTOLD)
#include <sanitizer/tsan_interface.h>
#define LATCH_TELL(event, ...) __tsan_mutex_##event(__VA_ARGS__)
#else
#define LATCH_TELL(event, ...) ((void)0)
#endif

struct latch {
    atomic_uint state;
};

enum { LATCH_FREE, LATCH_HELD, LATCH_AWAITED };

/* latch.c: it is not free, or was not a moment ago. */
void latch_wait_(struct latch *l) rare;
void latch_wake_(struct latch *l) rare;

static inline void latch_lock(struct latch *l)
{
    unsigned state = LATCH_FREE;

    LATCH_TELL(pre_lock, l, 0);
    if (!atomic_compare_exchange_strong_explicit(&l->state, &state, LATCH_HELD,
                                                 memory_order_acquire, memory_order_relaxed))
        latch_wait_(l);
    LATCH_TELL(post_lock, l, 0, 0);
}

static inline void latch_unlock(struct latch *l)
{
    unsigned before;

    LATCH_TELL(pre_unlock, l, 0);
    before = atomic_exchange_explicit(&l->state, LATCH_FREE, memory_order_release);
    ASSERT(before != LATCH_FREE);
    if (before == LATCH_AWAITED)
        latch_wake_(l);
    LATCH_TELL(post_unlock, l, 0);
}

#endif
