/* SPDX-License-Identifier: Apache-2.0
 *
 * One turn:
 *
 *     before wait -> wait, h2o's callbacks -> timers -> mailbox -> each turn -> deferred -> (again)
 *
 * The wait, and what libh2o does after one, is ours in most turns (loop_library.c): libh2o's own
 * turn is for sockets that are new, closed or wait to be written.
 *
 * libh2o drains the sockets it has called "pending" before it frees closed ones, and relies on
 * that: a socket that is written and closed outside of h2o_evloop_run would be freed while still in
 * the pending list. So after each of our own phases the pending callbacks are run, as libh2o does
 * after its timers. It also means that nothing is pending when we wait. Waking is cheap: who posts
 * writes to the eventfd only when the loop has said that it is about to sleep. libh2o's own clock
 * is wall time; ours is monotonic, and read once a turn, for both.
 *
 * What it waits for besides libh2o's sockets, and what is known of a wait, is in poller.c.
 */
#include "common/event/loop.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/event/loop_library.h"
#include "common/event/poller.h"
#include "common/event/timer_wheel.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <h2o.h>

enum {
    /* What libh2o is told to wait at most, and a turn without a limit of its own. */
    WAIT_MAX_MS = 3600 * 1000,
    /* Input buffers a thread keeps for reuse: its connections with input at any one moment. */
    SPARE_BUFFERS_MAX = 1024,
    /* The turns in which a loop that ends runs what was posted or put off: who puts himself off
     * again and again must not keep the program from ending. */
    LAST_TURNS_MAX = 1000,
    /* Blocks kept for use again: as many responses are read within a turn, or a few turns. */
    SPARE_BLOCKS_MAX = 16,
    /* In a turn: what is put off, and what that puts off. */
    DEFERRED_ROUNDS = 2,
};

/* What each turn looks at stands together, as other loops' turns come between this one's; and what
 * others write is on a line of its own. */
struct loop {
    struct loop_time time; /* first: of CLOCK */
    struct loop_clock clock;
    struct loop_library library;
    struct list before_wait;
    struct list each_turn;
    struct list deferred;
    bool again; /* callbacks ran after each_turn: another turn must come before we sleep */
    unsigned index;
    pthread_t thread;
    struct loop_wait wait;
    size_t nspare_blocks;
    void *spare_blocks[SPARE_BLOCKS_MAX];
    h2o_socket_t *bell; /* watches wake_fd */
    int wake_fd;
    /*
     * Who posts says so in has_mail, then looks at sleeping; the loop says sleeping, then looks at
     * has_mail. All of these in one order, so that one of the two sees the other.
     */
    _Alignas(CACHE_LINE_BYTES) atomic_bool has_mail; /* set and cleared under mutex */
    atomic_bool sleeping; /* who finds it set clears it, and must write to wake_fd */
    atomic_bool stop;
    /* In loop_post or loop_stop at the moment: what they say may be heard before they have left. */
    atomic_uint callers;
    pthread_mutex_t mutex;
    struct list mail; /* under mutex */
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
    /* Where it stands already: what is set anew at each step mostly is so within a millisecond. */
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
    /* Those started meanwhile with no delay come in the next turn, or a loop could starve itself.
     */
    list_init(&due);
    list_splice_back(&due, &l->wheel.due);
    while ((node = list_pop_front(&due)) != NULL) {
        struct timer *t = list_entry(node, struct timer, node);
        t->expired(t);
    }
}

/* ---- mailbox ---- */

static void wake(struct loop *l)
{
    uint64_t one = 1;

    /* EAGAIN would mean that the counter is full, so the loop wakes anyway. */
    while (write(l->wake_fd, &one, sizeof(one)) == -1 && errno == EINTR)
        continue;
}

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
    /* Its own thread posts within a turn, whose callbacks come before its mail, or between two. */
    bool must_wake = !pthread_equal(l->thread, pthread_self()) && take_sleep(l);
    pthread_mutex_unlock(&l->mutex);
    if (must_wake)
        wake(l);
    atomic_fetch_sub(&l->callers, 1); /* the last of L that is touched */
}

void loop_stop(struct loop *l)
{
    atomic_fetch_add(&l->callers, 1);
    pthread_mutex_lock(&l->mutex);
    atomic_store(&l->stop, true);
    bool must_wake = take_sleep(l);
    pthread_mutex_unlock(&l->mutex);
    if (must_wake)
        wake(l);
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

void loop_defer(struct loop *l, struct loop_deferred *d)
{
    assert_own_thread(l);
    ASSERT(d->run != NULL);
    ASSERT(!list_linked(&d->node));
    list_push_back(&l->deferred, &d->node);
}

void loop_each_turn(struct loop *l, struct loop_deferred *d)
{
    assert_own_thread(l);
    ASSERT(d->run != NULL);
    ASSERT(!list_linked(&d->node));
    list_push_back(&l->each_turn, &d->node);
}

void loop_before_wait(struct loop *l, struct loop_deferred *d)
{
    assert_own_thread(l);
    ASSERT(d->run != NULL);
    ASSERT(!list_linked(&d->node));
    list_push_back(&l->before_wait, &d->node);
}

static void run_each(struct list *all)
{
    struct list now;
    struct list *node;

    /* One alone, as in most loops, is run where it is. */
    if (all->next == all->prev) {
        if (!list_empty(all)) {
            struct loop_deferred *only = list_entry(all->next, struct loop_deferred, node);
            only->run(only);
        }
        return;
    }
    list_init(&now);
    list_splice_back(&now, all);
    /* Each goes back before it runs, so that it, or another, can take it out for good. */
    while ((node = list_pop_front(&now)) != NULL) {
        struct loop_deferred *d = list_entry(node, struct loop_deferred, node);
        list_push_back(all, &d->node);
        d->run(d);
    }
}

/* Run the socket callbacks that are due without waiting (see the head of this file), which is all
 * that libh2o does in this; whether any was. */
static bool run_pending(struct loop *l)
{
    if (l->library.h2o->_pending_as_client == NULL && l->library.h2o->_pending_as_server == NULL)
        return false;
    h2o_timeout__do_post_callback(l->library.h2o);
    return true;
}

static void run_deferred_once(struct loop *l)
{
    struct list now;
    struct list *node;

    list_init(&now);
    list_splice_back(&now, &l->deferred);
    while ((node = list_pop_front(&now)) != NULL) {
        struct loop_deferred *d = list_entry(node, struct loop_deferred, node);

        /* Spliced, NOW's own head is no node. NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage) */
        d->run(d);
    }
}

/* And what they put off, as most do: the end of an answer puts off the end of its request. What is
 * left after that has a turn without sleep. Whether socket callbacks were run. */
static bool run_deferred(struct loop *l)
{
    bool ran = false;

    for (int i = 0; i < DEFERRED_ROUNDS && !list_empty(&l->deferred); ++i) {
        run_deferred_once(l);
        ran |= run_pending(l);
    }
    return ran;
}

/* ---- waits ---- */

uint64_t loop_waits(const struct loop *l)
{
    return l->wait.count;
}

bool loop_heard_all(const struct loop *l)
{
    return l->wait.complete && l->library.h2o->_pending_as_client == NULL &&
           list_empty(&l->wait.ready);
}

/* ---- turns ---- */

/* When the first timer is due, or a time before that. */
static uint64_t next_timer_ms(struct loop *l)
{
    uint64_t bound_ms = timer_wheel_bound(&l->wheel);

    /* What ends the waits rings before that: no need to know which is the first. */
    if (l->wait.rings_ms <= bound_ms)
        return bound_ms;
    /* Who slept to the end of his wait looks closer for how long he may, so that he is not woken
     * only to sort his timers; who is busy has others to look at. */
    return l->wait.idle ? timer_wheel_next_due(&l->wheel) : timer_wheel_next(&l->wheel);
}

/* Until when the loop may wait; 0: not at all. */
static uint64_t prepare_wait(struct loop *l, unsigned max_wait_ms)
{
    if (max_wait_ms == 0 || l->again || !list_empty(&l->deferred))
        return 0;
    uint64_t until_ms = next_timer_ms(l);
    if (until_ms <= l->wheel.tick_ms)
        return 0;
    if (max_wait_ms < WAIT_MAX_MS) {
        uint64_t last_ms = clock_mono_us() / 1000 + 1 + max_wait_ms; /* not before it is over */
        until_ms = until_ms < last_ms ? until_ms : last_ms;
    }
    atomic_store(&l->sleeping, true);
    return atomic_load(&l->has_mail) || atomic_load(&l->stop) ? 0 : until_ms;
}

static void tell_failed_wait(const struct loop *l)
{
    if (errno != EINTR)
        log_error(NULL, "loop-wait-failed", "loop=%u errno=%d", l->index, errno);
}

/* When epoll refuses the last socket whose interest changed, libh2o leaves the tail of that list
 * inside the socket it has taken out; those after it would be lost. */
static void mend_library(struct loop *l)
{
    h2o_evloop_t *h2o = l->library.h2o;

    tell_failed_wait(l);
    if (h2o->_statechanged.head == NULL)
        h2o->_statechanged.tail_ref = &h2o->_statechanged.head;
}

/* libh2o's turn, with a wait of its own or not, as was said. */
static void run_library(struct loop *l)
{
    int failed = h2o_evloop_run(l->library.h2o, WAIT_MAX_MS);

    loop_wait_end(&l->wait, failed != 0);
    if (failed != 0)
        mend_library(l);
    loop_library_ran(&l->library);
}

/* Wait, and run what is due: without libh2o, unless it has to tell epoll something before, or to
 * write something then. */
static void wait_and_run(struct loop *l, uint64_t until_ms)
{
    struct epoll_event events[LOOP_WAIT_EVENTS];

    if (!loop_library_settled(&l->library)) {
        loop_wait_begin(&l->wait, until_ms);
        run_library(l);
        return;
    }
    if (until_ms != 0)
        until_ms = loop_library_until_ms(&l->library, until_ms);
    int n = loop_wait_directly(&l->wait, events, until_ms);
    if (n < 0) {
        tell_failed_wait(l);
        return;
    }
    if (!loop_library_takes(events, n)) {
        loop_wait_replay(&l->wait, events, n);
        run_library(l);
        return;
    }
    loop_library_set_clock(&l->library, loop_now_us(l)); /* the one time that it is read */
    loop_library_hear(events, n);
    loop_wait_run(&l->wait);
    loop_library_run(&l->library);
}

void loop_turn(struct loop *l, unsigned max_wait_ms)
{
    assert_own_thread(l);
    ASSERT(!l->time.clock->in_turn);
    *l->time.clock = (struct loop_clock){.in_turn = true};
    l->again |= run_pending(l); /* of calls made between the turns */
    run_each(&l->before_wait);
    uint64_t until_ms = prepare_wait(l, max_wait_ms);
    l->time.clock->now_us = 0;
    wait_and_run(l, until_ms);
    run_timers(l);
    (void)run_pending(l);
    run_mail(l);
    (void)run_pending(l);
    run_each(&l->each_turn);
    l->again = run_pending(l);
    l->again |= run_deferred(l);
    l->wait.complete = false;
    *l->time.clock = (struct loop_clock){0};
}

void loop_run(struct loop *l)
{
    while (!atomic_load(&l->stop))
        loop_turn(l, WAIT_MAX_MS);
    atomic_store(&l->stop, false);
}

/* ---- the bell ---- */

static void on_bell(h2o_socket_t *sock, const char *err)
{
    struct loop *l = sock->data;

    (void)err; /* nothing is read here, so nothing fails */
    loop_wait_run(&l->wait);
}

static void start_bell(struct loop *l)
{
    l->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    ASSERT(l->wake_fd != -1);
    l->bell = h2o_evloop_socket_create(l->library.h2o, l->wake_fd, H2O_SOCKET_FLAG_DONT_READ);
    l->bell->data = l;
    h2o_socket_read_start(l->bell, on_bell);
    loop_wait_init(&l->wait, l->wake_fd, l->bell);
    /* By libh2o, for once: does it wait in what stands in for epoll_wait? */
    loop_wait_begin(&l->wait, 0);
    run_library(l);
    l->wait.complete = false;
    loop_library_check(&l->library, l->bell);
}

static void stop_bell(struct loop *l)
{
    h2o_socket_export_t info;

    loop_wait_fini(&l->wait);
    h2o_socket_read_stop(l->bell);
    int failed = h2o_socket_export(l->bell, &info);
    ASSERT(failed == 0);
    h2o_buffer_dispose(&info.input);
    close(l->wake_fd);
}

struct loop_wait *loop_wait_of(struct loop *l)
{
    assert_own_thread(l);
    return &l->wait;
}

/* ---- blocks ---- */

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

/* ---- life ---- */

struct loop *loop_create(unsigned index)
{
    struct loop *l = xcalloc_lines(1, sizeof(*l));

    l->index = index;
    l->thread = pthread_self();
    loop_library_init(&l->library, h2o_evloop_create());
    /* This thread's buffers stay in memory: a reservation fails only where libh2o would map a file
     * instead, and it neither expects that everywhere nor closes the file then. */
    h2o_socket_buffer_prototype.mmap_settings = NULL;
    l->time.clock = &l->clock;
    timer_wheel_init(&l->wheel, clock_mono_us() / 1000);
    list_init(&l->before_wait);
    list_init(&l->each_turn);
    list_init(&l->deferred);
    list_init(&l->mail);
    int failed = pthread_mutex_init(&l->mutex, NULL);
    ASSERT(failed == 0);
    h2o_socket_buffer_prototype.allocator.max = SPARE_BUFFERS_MAX;
    start_bell(l);
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
    /* What was posted or put off runs; it may free what nobody else would. The last turns also let
     * libh2o free the sockets that were closed. */
    unsigned turns = 0;
    do
        loop_turn(l, 0);
    while (has_work(l) && ++turns < LAST_TURNS_MAX);
    while (atomic_load(&l->callers) != 0)
        sched_yield(); /* within some instructions of their end */
    stop_bell(l);
    loop_library_fini(&l->library);
    /* Leaves its epoll descriptor open, and gives no way to close it. */
    h2o_evloop_destroy(l->library.h2o);
    h2o_mem_recycle_t *spare = &h2o_socket_buffer_prototype.allocator;
    while (spare->cnt != 0)
        free(h2o_mem_alloc_recycle(spare, 1));
    while (l->nspare_blocks != 0)
        free(l->spare_blocks[--l->nspare_blocks]);
    pthread_mutex_destroy(&l->mutex);
    free(l);
}

struct st_h2o_evloop_t *loop_h2o(struct loop *l)
{
    return l->library.h2o;
}

unsigned loop_index(const struct loop *l)
{
    return l->index;
}
