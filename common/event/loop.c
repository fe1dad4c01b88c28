/* SPDX-License-Identifier: Apache-2.0
 *
 * One turn:
 *
 *     wait -> watches, clients' last -> timers -> messages -> each turn -> deferred -> (next turn)
 *
 * The poller implements the wait, and calls the callbacks of watches. The wait ends when the first
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
#include "common/base/memory.h"
#include "common/event/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

/* ---- the poller: how a loop waits, and calls the callbacks of watches ---- */

/*
 * Descriptors are watched in one of two ways. Registering a descriptor in epoll costs a system call
 * to add and one to remove it. This is cheap for a descriptor that stays, and expensive for a
 * connection that serves one request here and then continues on another loop. So a new watch starts
 * beside epoll: the loop waits in poll(2) on the few such descriptors and on epoll itself. If only
 * polled descriptors are ready, this is the only system call. If epoll is ready as well, a second
 * call (epoll_wait) fetches its events, and the watches that were polled then are registered before
 * the next wait. If there are more than a few, the oldest are registered at once, because poll(2)
 * checks each descriptor in every call. With no polled watch the loop waits in epoll_wait alone.
 *
 * Interest in a registered descriptor is changed just before the wait, and only if it differs from
 * what epoll knows: interest that is dropped and resumed within a turn costs no system call. Only
 * watch_stop removes a descriptor at once, because it may continue to exist elsewhere.
 *
 * What a wait reports is stored in two arrays, one for clients' watches, which run last, and one
 * for all others. An array, instead of a list node in each watch, keeps a watch at 64 bytes.
 *
 * A wait has no time-out: with one, the kernel sets and cancels a timer in each call, although the
 * next timer of the loop is mostly the same as before, or a later one. Instead, a timerfd is set to
 * the earliest time that was needed. It is set again only if an earlier time is needed, or after it
 * has expired. If the timer that it was set for has been stopped meanwhile, one turn is wasted.
 *
 * The timerfd, and the eventfd by which other threads wake the loop, are edge-triggered, so they
 * need not be read.
 */

enum {
    /* The number of descriptors that one wait can report. */
    POLLER_EVENTS_MAX = 256,
    /* Watches beside epoll; poll(2) checks each of them in every call. */
    POLLED_MAX = 8,
    /* Waits with a second call after which a polled watch is registered in epoll. */
    SECOND_CALLS_MAX = 1,
    /* The events of each enum watch_level. */
    ON_FAILURE = EPOLLERR | EPOLLHUP,
    ON_END = ON_FAILURE | EPOLLRDHUP,
    ON_BYTES = ON_END | EPOLLIN,
};

#define POLLER_FOREVER UINT64_MAX

/* Watches that the last wait has reported, in order. */
struct poller_ready {
    unsigned n;
    unsigned left; /* of these: not stopped, and their last callback has not been called */
    struct {
        struct watch *watch; /* NULL: stopped since */
        uint32_t found;
    } at[POLLER_EVENTS_MAX];
};

struct poller {
    uint64_t waits;
    uint64_t alarm_ms; /* when the timerfd expires next; POLLER_FOREVER: not set */
    bool complete;     /* the wait of this turn has reported every ready descriptor */
    bool epoll_after;  /* in this wait epoll was queried after the polled watches */
    bool idle;         /* the last wait reported nothing except the timer */
    int epoll;
    struct list polled;  /* watches beside epoll, oldest first */
    struct list changed; /* watches in epoll with an interest that may have changed */
    unsigned npolled;
    unsigned poll_room;
    struct pollfd *poll_set; /* room for POLL_ROOM; epoll itself comes first */
    int timer_fd, wake_fd;
    struct slab watches;
    struct poller_ready workers; /* all watches that are not clients' */
    struct poller_ready clients;
};

struct watch {
    struct list node; /* in POLLED, or in CHANGED */
    struct loop *loop;
    void (*readable)(void *context);
    void (*writable)(void *context);
    void *context;
    int fd;
    uint16_t wanted;      /* ON_... and EPOLLOUT; 0: neither polled nor to be in epoll */
    uint16_t known;       /* what epoll knows of WANTED; 0: not registered */
    uint16_t ready_at;    /* its place among those ready, counted from 1; 0: none */
    uint8_t second_calls; /* while it was polled */
    bool client;
    bool ended; /* according to the event that READABLE is called for */
};

_Static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLERR == POLLERR &&
                   EPOLLHUP == POLLHUP && EPOLLRDHUP == POLLRDHUP,
               "events have the same values in epoll and poll");
_Static_assert(sizeof(struct watch) <= 64, "a watch fits into one cache line");

enum {
    /* The wait of a turn without a limit of its own. */
    WAIT_MAX_MS = 3600 * 1000,
    /* Turns in which a loop that is destroyed runs what has been posted or deferred. Work that
     * defers itself again and again must not prevent the end of the program. */
    LAST_TURNS_MAX = 1000,
    /* Blocks kept for reuse: the number of responses that are read within a few turns. */
    SPARE_BLOCKS_MAX = 16,
    /* Rounds of deferred work in a turn: the work, and what it defers. */
    DEFERRED_ROUNDS = 2,
    /* The maximum age of the offset between the clocks. */
    WALL_OFFSET_AGE_US = 1000 * 1000,
};

/* Members used in each turn are adjacent; those that other threads write have their own cache
 * lines. */
struct loop {
    struct loop_clock clock; /* first: see loop_now_us() */
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
    uint64_t turn_ms; /* monotonic time of the last turn */
};

/* Any thread: makes the present wait return, or the next one. */
static void poller_wake(struct poller *p)
{
    uint64_t one = 1;

    /* EAGAIN would mean that the counter is at its maximum; nothing reads it, but 2^64 calls are
     * out of reach. */
    (void)!TEMP_FAILURE_RETRY(write(p->wake_fd, &one, sizeof(one)));
}

/* ---- ready watches ---- */

static struct poller_ready *ready_of(struct poller *p, const struct watch *w)
{
    return w->client ? &p->clients : &p->workers;
}

static void add_ready(struct poller *p, struct watch *w, uint32_t events)
{
    struct poller_ready *r = ready_of(p, w);

    /* A descriptor that has failed accepts no bytes: writing reports the error. */
    if ((events & ON_FAILURE) != 0)
        events |= EPOLLOUT;
    r->at[r->n].watch = w;
    r->at[r->n].found = events & w->wanted;
    w->ready_at = (uint16_t)++r->n;
    ++r->left;
}

static void leave_ready(struct poller_ready *r, struct watch *w)
{
    r->at[w->ready_at - 1].watch = NULL;
    w->ready_at = 0;
    --r->left;
}

static void run_ready(struct poller_ready *r)
{
    for (unsigned i = 0; i < r->n; ++i) {
        struct watch *w = r->at[i].watch;
        uint32_t found = r->at[i].found;

        if (w == NULL)
            continue;
        if ((found & w->wanted & EPOLLOUT) == 0)
            leave_ready(r, w);
        if ((found & w->wanted & ON_BYTES) != 0) {
            w->ended = (found & ON_END) != 0;
            w->readable(w->context);
        }
        /* Any callback may stop any watch. */
        w = r->at[i].watch;
        if (w == NULL)
            continue;
        leave_ready(r, w);
        if ((w->wanted & EPOLLOUT) != 0) {
            void (*writable)(void *) = w->writable;
            watch_write(w, NULL);
            writable(w->context);
        }
    }
    ASSERT(r->left == 0);
    r->n = 0;
}

/* ---- the wait ---- */

static void leave_polled(struct poller *p, struct watch *w)
{
    list_remove(&w->node);
    --p->npolled;
}

static void register_excess(struct poller *p)
{
    struct watch *w;

    list_for_each_entry_safe (w, &p->polled, node) {
        struct epoll_event e = {.events = w->wanted, .data.ptr = w};

        if (p->npolled <= POLLED_MAX && w->second_calls < SECOND_CALLS_MAX)
            continue;
        if (epoll_ctl(p->epoll, EPOLL_CTL_ADD, w->fd, &e) != 0) {
            log_error(NULL, "watch-failed", "loop=%u reason=\"%s\"", w->loop->index,
                      strerror(errno));
            return; /* the watch stays polled */
        }
        w->known = w->wanted;
        leave_polled(p, w);
    }
}

static void update_epoll(struct poller *p, struct watch *w)
{
    struct epoll_event e = {.events = w->wanted, .data.ptr = w};

    if (w->wanted == w->known)
        return;
    int op = w->wanted != 0 ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;
    int failed = epoll_ctl(p->epoll, op, w->fd, &e);
    ASSERT(!failed);
    w->known = w->wanted;
}

static unsigned ready_room(const struct poller *p)
{
    return POLLER_EVENTS_MAX - p->workers.n - p->clients.n;
}

/* Returns the number of EVENTS filled in, or -1 with errno set. */
static int wait_beside_epoll(struct poller *p, struct epoll_event *events, int timeout_ms)
{
    unsigned n = 0;
    struct watch *w;

    if (p->poll_room < p->npolled + 1) {
        p->poll_room = p->npolled + POLLED_MAX + 1;
        p->poll_set = xrealloc(p->poll_set, p->poll_room * sizeof(*p->poll_set));
    }
    p->poll_set[n++] = (struct pollfd){.fd = p->epoll, .events = POLLIN};
    list_for_each_entry (w, &p->polled, node)
        p->poll_set[n++] = (struct pollfd){.fd = w->fd, .events = (short)w->wanted};
    ASSERT(n == p->npolled + 1);
    int nready = sys_poll(p->poll_set, n, timeout_ms);
    if (nready <= 0)
        return nready;
    n = 1;
    list_for_each_entry (w, &p->polled, node) {
        uint32_t found = (uint32_t)p->poll_set[n++].revents;

        ASSERT((found & POLLNVAL) == 0); /* closed before watch_stop */
        if (p->poll_set[0].revents != 0)
            ++w->second_calls;
        /* One place is left for an event of epoll. */
        if (found != 0 && ready_room(p) > 1)
            add_ready(p, w, found);
    }
    if (p->poll_set[0].revents == 0)
        return 0;
    p->epoll_after = true;
    return sys_epoll_wait(p->epoll, events, (int)ready_room(p), 0);
}

/*
 * Waits until UNTIL_MS of the monotonic clock (0: does not wait), until a descriptor is ready, or
 * until poller_wake. It may return earlier. Returns false with errno if the wait failed; what was
 * found ready before is kept for run_ready.
 */
static bool poller_wait(struct poller *p, uint64_t until_ms)
{
    struct epoll_event events[POLLER_EVENTS_MAX];
    int timeout_ms = until_ms == 0 ? 0 : -1;
    struct watch *w;

    ++p->waits;
    p->epoll_after = false;
    while ((w = list_pop_entry(&p->changed, struct watch, node)) != NULL)
        update_epoll(p, w);
    register_excess(p);
    if (until_ms != 0 && until_ms < p->alarm_ms) {
        struct itimerspec at = {
            .it_value = {.tv_sec = (time_t)(until_ms / 1000),
                         .tv_nsec = (long)(until_ms % 1000) * 1000000},
        };

        int failed = timerfd_settime(p->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
        ASSERT(!failed);
        p->alarm_ms = until_ms;
    }
    int n = list_empty(&p->polled) ? sys_epoll_wait(p->epoll, events, POLLER_EVENTS_MAX, timeout_ms)
                                   : wait_beside_epoll(p, events, timeout_ms);
    /* There was room for all, also for those of polled watches, as more than one place is free. */
    p->complete = n >= 0 && n + 1 < (int)ready_room(p);
    p->idle = p->workers.n + p->clients.n == 0;
    for (int i = 0; i < n; ++i) {
        if (events[i].data.ptr == &p->timer_fd) {
            p->alarm_ms = POLLER_FOREVER;
            continue;
        }
        p->idle = false;
        if (events[i].data.ptr != &p->wake_fd)
            add_ready(p, events[i].data.ptr, events[i].events);
    }
    return n >= 0;
}

/* ---- watches ---- */

static void set_wanted(struct watch *w, uint32_t wanted)
{
    struct poller *p = &w->loop->poller;
    uint32_t before = w->wanted;

    w->wanted = (uint16_t)wanted;
    if (w->known != 0) {
        if (!list_linked(&w->node))
            list_push_back(&p->changed, &w->node);
    } else if (before == 0 && wanted != 0) {
        w->second_calls = 0;
        list_push_back(&p->polled, &w->node);
        ++p->npolled;
    } else if (before != 0 && wanted == 0) {
        leave_polled(p, w);
    }
}

struct watch *watch_start_as_is(struct loop *l, int fd, void (*readable)(void *context),
                                void *context)
{
    struct watch *w = slab_alloc(&l->poller.watches);

    ASSERT(fd >= 0);
    *w = (struct watch){.loop = l, .fd = fd, .readable = readable, .context = context};
    list_init(&w->node);
    set_wanted(w, ON_BYTES);
    return w;
}

struct watch *watch_start(struct loop *l, int fd, void (*readable)(void *context), void *context)
{
    int flags = fcntl(fd, F_GETFL);

    ASSERT(flags != -1);
    if ((flags & O_NONBLOCK) == 0)
        (void)fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    return watch_start_as_is(l, fd, readable, context);
}

void watch_set_client(struct watch *w)
{
    w->client = true;
}

void watch_hand_over(struct watch *w, void (*readable)(void *context), void *context)
{
    w->readable = readable;
    w->context = context;
}

void watch_read_level(struct watch *w, enum watch_level level)
{
    static const uint32_t on[] = {
        [WATCH_FAILURE] = ON_FAILURE, [WATCH_END] = ON_END, [WATCH_BYTES] = ON_BYTES};

    set_wanted(w, (w->wanted & EPOLLOUT) | on[level]);
}

void watch_read(struct watch *w, bool on)
{
    watch_read_level(w, on ? WATCH_BYTES : WATCH_NOTHING);
}

bool watch_reads(const struct watch *w)
{
    return (w->wanted & EPOLLIN) != 0;
}

bool watch_ended(const struct watch *w)
{
    return w->ended;
}

bool watch_is_current(const struct watch *w)
{
    /* The thread may have been suspended between the two calls of the wait. */
    return w->known != 0 || !w->loop->poller.epoll_after;
}

void watch_write(struct watch *w, void (*writable)(void *context))
{
    w->writable = writable;
    set_wanted(w, (w->wanted & ON_BYTES) | (writable != NULL ? (uint32_t)EPOLLOUT : 0));
}

bool watch_writes(const struct watch *w)
{
    return (w->wanted & EPOLLOUT) != 0;
}

void watch_stop(struct watch *w)
{
    if (w == NULL)
        return;
    struct poller *p = &w->loop->poller;
    set_wanted(w, 0);
    update_epoll(p, w); /* at once: the descriptor may continue to exist elsewhere */
    list_remove(&w->node);
    if (w->ready_at != 0)
        leave_ready(ready_of(p, w), w);
    slab_free(&p->watches, w);
}

_Static_assert(offsetof(struct loop, clock) == 0, "as loop_now_us() expects");

static void assert_own_thread(const struct loop *l)
{
    ASSERT(pthread_equal(l->thread, pthread_self()));
}

/* ---- time ---- */

/* Reading the time may update the clock, also through a pointer to a constant loop. */
static struct loop_clock *clock_of(const struct loop *l)
{
    return (struct loop_clock *)(uintptr_t)&l->clock;
}

uint64_t loop_read_clock_us(const struct loop *l)
{
    struct loop_clock *c = clock_of(l);
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
    struct loop_clock *c = clock_of(l);
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
    uint64_t due_ms = delay_ms != 0 ? loop_due_ms(l, delay_ms) : loop_active_ms(l);

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
    struct timer *t;

    timer_wheel_advance(&l->wheel, loop_active_ms(l));
    /* Timers that are started here without delay expire in the next turn; otherwise a timer that
     * restarts itself would keep this turn from ending. */
    list_take(&due, &l->wheel.due);
    while ((t = list_pop_entry(&due, struct timer, node)) != NULL)
        t->expired(t);
}

/* ---- messages ---- */

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
    bool must_wake =
        !pthread_equal(l->thread, pthread_self()) && atomic_exchange(&l->sleeping, false);
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
    bool must_wake = atomic_exchange(&l->sleeping, false);
    pthread_mutex_unlock(&l->mutex);
    if (must_wake)
        poller_wake(&l->poller);
    atomic_fetch_sub(&l->callers, 1);
}

static void run_mail(struct loop *l)
{
    struct list mail;
    struct loop_message *m;

    atomic_store_explicit(&l->sleeping, false, memory_order_relaxed);
    if (!atomic_load(&l->has_mail))
        return;
    pthread_mutex_lock(&l->mutex);
    atomic_store(&l->has_mail, false);
    list_take(&mail, &l->mail);
    pthread_mutex_unlock(&l->mutex);
    while ((m = list_pop_entry(&mail, struct loop_message, node)) != NULL)
        m->run(m);
}

/* ---- end of turn ---- */

static void append_deferred(struct loop *l, struct list *all, struct loop_deferred *d)
{
    assert_own_thread(l);
    ASSERT(d->run != NULL);
    ASSERT(!list_linked(&d->node));
    list_push_back(all, &d->node);
}

void loop_defer_once(struct loop *l, struct loop_deferred *d)
{
    if (!list_linked(&d->node))
        append_deferred(l, &l->deferred, d);
}

void loop_defer(struct loop *l, struct loop_deferred *d)
{
    append_deferred(l, &l->deferred, d);
}

void loop_each_turn(struct loop *l, struct loop_deferred *d)
{
    append_deferred(l, &l->each_turn, d);
}

/* Runs all functions in ALL. AGAIN: they remain in ALL, for the next turn. */
static inline void run_all(struct list *all, bool again)
{
    struct list now;
    struct loop_deferred *d;

    if (list_empty(all))
        return;
    /* A single one, as in most loops, is run in place. */
    if (again && all->next == all->prev) {
        d = list_first(all, struct loop_deferred, node);
        d->run(d);
        return;
    }
    list_take(&now, all);
    while ((d = list_pop_entry(&now, struct loop_deferred, node)) != NULL) {
        /* Each is put back before it runs, so that it, or another one, can remove it. */
        if (again)
            list_push_back(all, &d->node);
        /* After splicing, NOW is not a node. NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage) */
        d->run(d);
    }
}

/* ---- turns ---- */

/* Returns the time [monotonic ms] until which the loop may wait; 0: it must not wait. */
static uint64_t prepare_wait(struct loop *l, unsigned max_wait_ms)
{
    if (max_wait_ms == 0 || !list_empty(&l->deferred))
        return 0;
    /* When the first timer is due, or a time before that. If the timerfd expires before that
     * anyway, the exact time is not needed. */
    uint64_t until_ms = timer_wheel_bound(&l->wheel);
    /* A loop that is idle determines the exact time, so that it is not woken only to sort its
     * timers; in a busy one this would cost more than it saves. */
    if (until_ms < l->poller.alarm_ms - l->clock.paused_ms)
        until_ms = timer_wheel_next(&l->wheel, l->poller.idle);
    if (until_ms <= l->wheel.tick_ms)
        return 0;
    if (until_ms != UINT64_MAX) {
        uint64_t most_ms = l->wheel.tick_ms + TIMER_WAIT_MAX_MS;
        until_ms = (until_ms < most_ms ? until_ms : most_ms) + l->clock.paused_ms;
    }
    if (max_wait_ms < WAIT_MAX_MS) {
        uint64_t last_ms = clock_mono_us() / 1000 + 1 + max_wait_ms; /* rounded up */
        until_ms = until_ms < last_ms ? until_ms : last_ms;
    }
    atomic_store(&l->sleeping, true);
    return atomic_load(&l->has_mail) || atomic_load(&l->stop) ? 0 : until_ms;
}

/* The turn begins: was the process paused? */
static void notice_pause(struct loop *l)
{
    uint64_t now_ms = loop_now_ms(l);
    uint64_t paused_ms = timer_pause_ms(now_ms - l->turn_ms);

    l->turn_ms = now_ms;
    /* A loop without timers may have waited that long. */
    if (paused_ms == 0 || timer_wheel_bound(&l->wheel) == UINT64_MAX)
        return;
    l->clock.paused_ms += paused_ms;
    log_warn(NULL, "process-paused", "loop=%u for_ms=%llu", l->index,
             (unsigned long long)paused_ms);
}

void loop_turn(struct loop *l, unsigned max_wait_ms)
{
    assert_own_thread(l);
    ASSERT(!l->clock.in_turn);
    l->clock.in_turn = true;
    if (!poller_wait(&l->poller, prepare_wait(l, max_wait_ms)) && errno != EINTR)
        log_error(NULL, "loop-wait-failed", "loop=%u reason=\"%s\"", l->index, strerror(errno));
    notice_pause(l);
    run_ready(&l->poller.workers);
    run_ready(&l->poller.clients);
    run_timers(l);
    run_mail(l);
    run_all(&l->each_turn, true);
    /* Two rounds, because the end of a response mostly defers the end of its request. What remains
     * is run in a turn that does not wait. */
    for (int i = 0; i < DEFERRED_ROUNDS; ++i)
        run_all(&l->deferred, false);
    l->poller.complete = false;
    l->clock.in_turn = false;
    l->clock.now_us = 0;
}

void loop_run(struct loop *l)
{
    l->turn_ms = loop_now_ms(l); /* what was before is the start of the program */
    while (!atomic_load(&l->stop))
        loop_turn(l, WAIT_MAX_MS);
    atomic_store(&l->stop, false);
}

void loop_settle(struct loop *l)
{
    unsigned turns = 0;

    do
        loop_turn(l, 0);
    while ((atomic_load(&l->has_mail) || !list_empty(&l->deferred)) && ++turns < LAST_TURNS_MAX);
}

uint64_t loop_waits(const struct loop *l)
{
    return l->poller.waits;
}

bool loop_reported_all(const struct loop *l)
{
    return l->poller.complete && l->poller.workers.left == 0;
}

/* ---- buffers ---- */

void *loop_alloc_block(struct loop *l)
{
    assert_own_thread(l);
    return l->nspare_blocks != 0 ? l->spare_blocks[--l->nspare_blocks] : xmalloc(LOOP_BLOCK_BYTES);
}

void loop_free_block(struct loop *l, void *block)
{
    assert_own_thread(l);
    if (l->nspare_blocks == SPARE_BLOCKS_MAX)
        free(block);
    else
        l->spare_blocks[l->nspare_blocks++] = block;
}

/* ---- creation ---- */

static void register_own(struct poller *p, int *fd)
{
    struct epoll_event e = {.events = EPOLLIN | EPOLLET, .data.ptr = fd};

    ASSERT(*fd != -1);
    int failed = epoll_ctl(p->epoll, EPOLL_CTL_ADD, *fd, &e);
    ASSERT(!failed);
}

struct loop *loop_create(unsigned index)
{
    struct loop *l = xcalloc_lines(1, sizeof(*l));
    struct poller *p = &l->poller;
    uint64_t now_us = clock_mono_us();

    l->index = index;
    l->thread = pthread_self();
    compare_clocks(&l->clock, now_us);
    timer_wheel_init(&l->wheel, now_us / 1000);
    l->turn_ms = now_us / 1000;
    list_init(&l->each_turn);
    list_init(&l->deferred);
    list_init(&l->mail);
    pthread_mutex_init(&l->mutex, NULL);
    p->alarm_ms = POLLER_FOREVER;
    list_init(&p->polled);
    list_init(&p->changed);
    slab_init(&p->watches, sizeof(struct watch));
    p->epoll = epoll_create1(EPOLL_CLOEXEC);
    ASSERT(p->epoll != -1);
    p->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    register_own(p, &p->timer_fd);
    p->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    register_own(p, &p->wake_fd);
    return l;
}

void loop_destroy(struct loop *l)
{
    if (l == NULL)
        return;
    loop_settle(l);
    while (atomic_load(&l->callers) != 0)
        sched_yield();             /* they are a few instructions from returning */
    slab_fini(&l->poller.watches); /* every watch must have been stopped */
    close(l->poller.wake_fd);
    close(l->poller.timer_fd);
    close(l->poller.epoll);
    free(l->poller.poll_set);
    while (l->nspare_blocks != 0)
        free(l->spare_blocks[--l->nspare_blocks]);
    pthread_mutex_destroy(&l->mutex);
    free(l);
}

unsigned loop_index(const struct loop *l)
{
    return l->index;
}
