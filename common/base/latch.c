/* SPDX-License-Identifier: Apache-2.0
 *
 * The contended path of a latch. A thread that has slept, or is about to sleep, sets the state to
 * awaited when it acquires the latch, because other threads may be sleeping, too. A superfluous
 * wake-up is harmless; a missing one is not.
 */
#include "common/base/latch.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    /* Number of polls before sleeping: critical sections take about as long. */
    POLLS_MAX = 100,
};

static long futex(struct latch *l, int operation, unsigned value)
{
    return syscall(SYS_futex, &l->state, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

void latch_wait_(struct latch *l)
{
    int saved = errno;

    for (int i = 0; i < POLLS_MAX; ++i) {
        unsigned state = LATCH_FREE;

        if (atomic_load_explicit(&l->state, memory_order_relaxed) == LATCH_FREE &&
            atomic_compare_exchange_weak_explicit(&l->state, &state, LATCH_HELD,
                                                  memory_order_acquire, memory_order_relaxed))
            return;
            /* Delayed as processor manuals recommend. */
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
    }
    while (atomic_exchange_explicit(&l->state, LATCH_AWAITED, memory_order_acquire) != LATCH_FREE) {
        /* Whether it was woken, interrupted, or the state had changed: try again. */
        long rc = futex(l, FUTEX_WAIT, LATCH_AWAITED);

        ASSERT(rc == 0 || errno == EAGAIN || errno == EINTR);
    }
    errno = saved;
}

void latch_wake_(struct latch *l)
{
    int saved = errno;

    /* The latch may have been acquired and freed by now; the wake-up then has no effect. */
    (void)futex(l, FUTEX_WAKE, 1);
    errno = saved;
}
