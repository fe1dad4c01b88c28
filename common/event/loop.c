/* SPDX-License-Identifier: Apache-2.0
 *
 * One turn:
 *
 *     wait -> watches, clients' last -> timers -> messages -> each turn -> deferred -> (next turn)
 *
 * The wait, and the callbacks of watches, are the poller's (poller.c). The wait ends when the first
 * timer of the wheel (timer_wheel.c) is due.
 *
 * A thread that posts a message wakes the loop by a system call only if the loop has announced that
 * it is about to wait. Both sides write a flag, then read that of the other: the poster sets
 * has_mail and reads SLEEPING; the loop sets SLEEPING and reads has_mail. These operations are
 * sequentially consistent, so at least one of the two notices the other. The poster that finds
 * SLEEPING set clears it, so that of many posters only one makes the call.
 */
#include "common/event/loop.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/event/poller.h"
#include "common/event/timer_wheel.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum {
    /* The wait of a turn without a limit of its own. */
    WAIT_MAX_MS = 3600 * 1000,
    /* Turns in which a loop that is destroyed runs what has been posted or deferred. Work that
     * defers itself again and again must not prevent the end of the program. */
    LAST_TURNS_MAX = 1000,
    /* Blocks kept for reuse: the number of responses that are read within a few turns. */
    SPARE_BLOCKS_MAX = 16,
    /* In a turn: deferred work, and what that defers. */
    DEFERRED_ROUNDS = 2,
    /* The maximum age of the offset between the clocks. */
    WALL_OFFSET_AGE_US = 1000 * 1000,
};

/* What each turn uses is close together; what other threads write has cache lines of its own. */
struct loop {
    struct loop_time time; /* first: points to CLOCK */
    struct loop_clock clock;
    struct list each_turn;
    struct list deferred;
    unsigned index;
    pthread_t thread;
    size_t nspare_blocks;
    struct poller poller;
    void *spare_blocks[SPARE_BLOCKS_MAX];
    /* Sequentially consistent: see the head of this file. */
    _Alignas(CACHE_LINE_BYTES) atomic_bool has_mail; /* set and cleared under MUTEX */
    atomic_bool sleeping; /* a thread that clears it must call poller_wake */
    atomic_bool stop;
    /* Threads in loop_post or loop_stop: the loop may act on these before they have returned. */
    atomic_uint callers;
    pthread_mutex_t mutex;
    struct list mail; /* under MUTEX */
    _Alignas(CACHE_LINE_BYTES) struct timer_wheel wheel;
};

static void assert_own_thread(const struct loop *l)
{
    ASSERT(pthread_equal(l->thread, pthread_self()));
}

/* ---- time ---- */

uint64_t loop_read_clock_us(const struct loop *l)
{
    struct loop_clock *c = l->time.clock;
    uint64_t now_us = clock_mono_us();

    if (c->in_turn) {
        c->now_us = now_us;
        c->now_ms = now_us / 1000;
    }
    return now_us;
}

/* NOW_US: of the loop's clock, which may be behind the time at which the clocks are compared. */
static void compare_clocks(struct loop_clock *c, uint64_t now_us)
{
    c->wall_offset_us = clock_wall_us() - clock_mono_us();
    c->wall_checked_us = now_us;
}

uint64_t loop_wall_ms(const struct loop *l)
{
    struct loop_clock *c = l->time.clock;
    uint64_t now_us = loop_now_us(l);

    if (now_us - c->wall_checked_us >= WALL_OFFSET_AGE_US)
        compare_clocks(c, now_us);
    return (now_us + c->wall_offset_us) / 1000;
}

/* ---- timers ---- */

void timer_init(struct timer *t, void (*expired)(struct timer *t))
{
    *t = (struct timer){.expired = expired};
    list_init(&t->node);
}

void timer_start(struct loop *l, struct timer *t, uint64_t delay_ms)
{
    uint64_t due_ms = delay_ms != 0 ? loop_due_ms(l, delay_ms) : loop_now_ms(l);

    timer_start_at(l, t, due_ms);
}

void timer_start_at(struct loop *l, struct timer *t, uint64_t due_ms)
{
    ASSERT(t->expired != NULL);
    assert_own_thread(l);
    /* A timer that is restarted at each step is mostly restarted within the same millisecond. */
    if (t->due_ms == due_ms && list_linked(&t->node))
        return;
    list_remove(&t->node);
    t->due_ms = due_ms;
    timer_wheel_add(&l->wheel, t);
}

static void run_timers(struct loop *l)
{
    struct list due;
    struct list *node;

    timer_wheel_advance(&l->wheel, loop_now_ms(l));
    /* Timers that are started here without delay expire in the next turn; otherwise a timer that
     * restarts itself would keep this turn from ending. */
    list_init(&due);
    list_splice_back(&due, &l->wheel.due);
    while ((node = list_pop_front(&due)) != NULL) {
        struct timer *t = list_entry(node, struct timer, node);
        t->expired(t);
    }
}

/* ---- messages ---- */

/* Whether the caller must wake the loop. */
static bool take_sleep(struct loop *l)
{
    return atomic_exchange(&l->sleeping, false);
}

void loop_post(struct loop *l, struct loop_message *m)
{
    ASSERT(m->run != NULL);
    atomic_fetch_add(&l->callers, 1);
    pthread_mutex_lock(&l->mutex);
    ASSERT(!list_linked(&m->node));
    list_push_back(&l->mail, &m->node);
    atomic_store(&l->has_mail, true);
    /* The loop's own thread posts within a turn, and messages are run after its callbacks, or
     * between two turns. */
    bool must_wake = !pthread_equal(l->thread, pthread_self()) && take_sleep(l);
    pthread_mutex_unlock(&l->mutex);
    if (must_wake)
        poller_wake(&l->poller);
    atomic_fetch_sub(&l->callers, 1); /* the last access to L */
}

void loop_stop(struct loop *l)
{
    atomic_fetch_add(&l->callers, 1);
    pthread_mutex_lock(&l->mutex);
    atomic_store(&l->stop, true);
    bool must_wake = take_sleep(l);
    pthread_mutex_unlock(&l->mutex);
    if (must_wake)
        poller_wake(&l->poller);
    atomic_fetch_sub(&l->callers, 1);
}

static void run_mail(struct loop *l)
{
    struct list mail;
    struct list *node;

    atomic_store_explicit(&l->sleeping, false, memory_order_relaxed);
    if (!atomic_load(&l->has_mail))
        return;
    list_init(&mail);
    pthread_mutex_lock(&l->mutex);
    atomic_store(&l->has_mail, false);
    list_splice_back(&mail, &l->mail);
    pthread_mutex_unlock(&l->mutex);
    while ((node = list_pop_front(&mail)) != NULL) {
        struct loop_message *m = list_entry(node, struct loop_message, node);
        m->run(m);
    }
}

/* ---- end of turn ---- */

static void append(struct loop *l, struct list *all, struct loop_deferred *d)
{
    assert_own_thread(l);
    ASSERT(d->run != NULL);
    ASSERT(!list_linked(&d->node));
    list_push_back(all, &d->node);
}

void loop_defer(struct loop *l, struct loop_deferred *d)
{
    append(l, &l->deferred, d);
}

void loop_each_turn(struct loop *l, struct loop_deferred *d)
{
    append(l, &l->each_turn, d);
}

static void run_each(struct list *all)
{
    struct list now;
    struct list *node;

    /* A single one, as in most loops, is run in place. */
    if (all->next == all->prev) {
        if (!list_empty(all)) {
            struct loop_deferred *only = list_entry(all->next, struct loop_deferred, node);
            only->run(only);
        }
        return;
    }
    list_init(&now);
    list_splice_back(&now, all);
    /* Each is put back before it runs, so that it, or another one, can remove it. */
    while ((node = list_pop_front(&now)) != NULL) {
        struct loop_deferred *d = list_entry(node, struct loop_deferred, node);
        list_push_back(all, &d->node);
        d->run(d);
    }
}

static void run_deferred_once(struct loop *l)
{
    struct list now;
    struct list *node;

    list_init(&now);
    list_splice_back(&now, &l->deferred);
    while ((node = list_pop_front(&now)) != NULL) {
        struct loop_deferred *d = list_entry(node, struct loop_deferred, node);

        /* After splicing, NOW is not a node. NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage) */
        d->run(d);
    }
}

/* Two rounds, because the end of a response mostly defers the end of its request. What remains is
 * run in a turn that does not wait. */
static void run_deferred(struct loop *l)
{
    for (int i = 0; i < DEFERRED_ROUNDS && !list_empty(&l->deferred); ++i)
        run_deferred_once(l);
}

/* ---- turns ---- */

/* When the first timer is due, or a time before that. */
static uint64_t next_timer_ms(struct loop *l)
{
    uint64_t bound_ms = timer_wheel_bound(&l->wheel);

    /* The timerfd expires before that anyway: the exact time is not needed. */
    if (l->poller.alarm_ms <= bound_ms)
        return bound_ms;
    /* A loop that is idle determines the exact time, so that it is not woken only to sort its
     * timers; a busy one has no time for it. */
    return l->poller.idle ? timer_wheel_next_due(&l->wheel) : timer_wheel_next(&l->wheel);
}

/* Until when the loop may wait; 0: not at all. */
static uint64_t prepare_wait(struct loop *l, unsigned max_wait_ms)
{
    if (max_wait_ms == 0 || !list_empty(&l->deferred))
        return 0;
    uint64_t until_ms = next_timer_ms(l);
    if (until_ms <= l->wheel.tick_ms)
        return 0;
    if (max_wait_ms < WAIT_MAX_MS) {
        uint64_t last_ms = clock_mono_us() / 1000 + 1 + max_wait_ms; /* rounded up */
        until_ms = until_ms < last_ms ? until_ms : last_ms;
    }
    atomic_store(&l->sleeping, true);
    return atomic_load(&l->has_mail) || atomic_load(&l->stop) ? 0 : until_ms;
}

void loop_turn(struct loop *l, unsigned max_wait_ms)
{
    assert_own_thread(l);
    ASSERT(!l->clock.in_turn);
    l->clock.in_turn = true;
    if (!poller_wait(&l->poller, prepare_wait(l, max_wait_ms)) && errno != EINTR)
        log_error(NULL, "loop-wait-failed", "loop=%u reason=\"%s\"", l->index, strerror(errno));
    poller_run(&l->poller);
    run_timers(l);
    run_mail(l);
    run_each(&l->each_turn);
    run_deferred(l);
    l->poller.complete = false;
    l->clock.in_turn = false;
    l->clock.now_us = 0;
}

void loop_run(struct loop *l)
{
    while (!atomic_load(&l->stop))
        loop_turn(l, WAIT_MAX_MS);
    atomic_store(&l->stop, false);
}

uint64_t loop_waits(const struct loop *l)
{
    return l->poller.waits;
}

bool loop_heard_all(const struct loop *l)
{
    return poller_heard_all(&l->poller);
}

struct poller *poller_of(struct loop *l)
{
    assert_own_thread(l);
    return &l->poller;
}

/* ---- buffers ---- */

void *loop_take_block(struct loop *l)
{
    assert_own_thread(l);
    return l->nspare_blocks != 0 ? l->spare_blocks[--l->nspare_blocks] : xmalloc(LOOP_BLOCK_BYTES);
}

void loop_give_block(struct loop *l, void *block)
{
    assert_own_thread(l);
    if (l->nspare_blocks == SPARE_BLOCKS_MAX)
        free(block);
    else
        l->spare_blocks[l->nspare_blocks++] = block;
}

/* ---- creation ---- */

struct loop *loop_create(unsigned index)
{
    struct loop *l = xcalloc_lines(1, sizeof(*l));
    uint64_t now_us = clock_mono_us();

    l->index = index;
    l->thread = pthread_self();
    l->time.clock = &l->clock;
    compare_clocks(&l->clock, now_us);
    timer_wheel_init(&l->wheel, now_us / 1000);
    list_init(&l->each_turn);
    list_init(&l->deferred);
    list_init(&l->mail);
    int failed = pthread_mutex_init(&l->mutex, NULL);
    ASSERT(failed == 0);
    poller_init(&l->poller);
    return l;
}

static bool has_work(struct loop *l)
{
    return atomic_load(&l->has_mail) || !list_empty(&l->deferred);
}

void loop_destroy(struct loop *l)
{
    if (l == NULL)
        return;
    assert_own_thread(l);
    unsigned turns = 0;
    do
        loop_turn(l, 0);
    while (has_work(l) && ++turns < LAST_TURNS_MAX);
    while (atomic_load(&l->callers) != 0)
        sched_yield(); /* they are a few instructions from returning */
    poller_fini(&l->poller);
    while (l->nspare_blocks != 0)
        free(l->spare_blocks[--l->nspare_blocks]);
    pthread_mutex_destroy(&l->mutex);
    free(l);
}

unsigned loop_index(const struct loop *l)
{
    return l->index;
}
