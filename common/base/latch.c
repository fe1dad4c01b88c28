/* SPDX-License-Identifier: Apache-2.0
 *
 * The slow half of a latch. Whoever has slept, or is about to, leaves it awaited while holding it:
 * others may sleep, too, and one wake-up too many does no harm, one too few would.
 */
#include "common/base/latch.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    /* Looks before it sleeps: what is done under it takes about as long. */
    LOOKS = 100,
};

/* What a processor does that looks at one word again and again. */
static void look_away(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static bool comes_free(struct latch *l)
{
    for (int i = 0; i < LOOKS; ++i) {
        unsigned state = LATCH_FREE;

        if (atomic_load_explicit(&l->state, memory_order_relaxed) == LATCH_FREE &&
            atomic_compare_exchange_weak_explicit(&l->state, &state, LATCH_HELD,
                                                  memory_order_acquire, memory_order_relaxed))
            return true;
        look_away();
    }
    return false;
}

static long futex(struct latch *l, int operation, unsigned value)
{
    return syscall(SYS_futex, &l->state, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

void latch_wait_(struct latch *l)
{
    int kept = errno;

    if (comes_free(l))
        return;
    while (atomic_exchange_explicit(&l->state, LATCH_AWAITED, memory_order_acquire) != LATCH_FREE) {
        /* Woken, interrupted, or no longer awaited: look again. */
        long rc = futex(l, FUTEX_WAIT, LATCH_AWAITED);

        ASSERT(rc == 0 || errno == EAGAIN || errno == EINTR);
    }
    errno = kept;
}

void latch_wake_(struct latch *l)
{
    int kept = errno;

    /* Whoever took it meanwhile may have freed it: then nobody sleeps there. */
    (void)futex(l, FUTEX_WAKE, 1);
    errno = kept;
}
