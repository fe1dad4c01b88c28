/* SPDX-License-Identifier: Apache-2.0
 *
 * A loop waits here: by itself in most turns, and in the others when libh2o waits, whose epoll_wait
 * is ours: a function by the name of libc's, which a program that is linked with the library has it
 * call. libh2o does not say how many sockets a wait has told of, at most 256; here it is known. And
 * here other descriptors are waited for as well, without a socket of libh2o's for each.
 *
 * To watch a descriptor in epoll costs two system calls, in and out of it, whatever becomes of it
 * in between. That is nothing for what stays, and much for a connection that serves one request
 * here and is taken by another loop then. So each watch begins beside epoll ("near"), and the wait
 * is a poll of the few near ones and of epoll itself. As long as only near ones have anything to
 * tell that is the only call; when epoll has too, it has to be asked, by a second. A watch that was
 * there then goes into epoll before the next wait: so one costs three calls at worst, where
 * foresight would take two, and none where nothing else happens meanwhile. When there are many, the
 * oldest go into epoll at once, as a poll looks at each descriptor anew.
 *
 * What is ready here is run before the callbacks of accepted sockets. Where libh2o runs these, it
 * is run from the callback of one socket of libh2o's, the bell, that epoll_wait then claims to have
 * heard of. The bell watches the eventfd that wakes the loop, edge-triggered, so that nobody has to
 * read it.
 *
 * A wait with a time-out has the kernel set a timer and take it back, each time. Timers that a loop
 * waits for mostly stay, or make way for later ones. So waits have no end, and a timerfd rings when
 * the first of those is due: it is set only when another comes before that. What it was set for may
 * have gone when it rings; that costs one turn.
 */
#include "common/event/poller.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/event/loop.h"
#include "common/event/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum {
    /* Polled beside epoll; each costs every poll a look. */
    NEAR_MAX = 8,
    /* Second calls for epoll that a near watch lives through. */
    NEAR_LOST_MAX = 1,
};

/* Events of ours in libh2o's epoll; sockets are aligned. */
enum { MARK_OURS = 1 };

struct watch {
    struct list node;       /* near, or changed */
    struct list ready_node; /* ready */
    struct loop *loop;
    int fd;
    unsigned lost;     /* second calls while it was near */
    uint32_t wanted;   /* EPOLLIN and EPOLLOUT, as poll has them; 0: not near */
    uint32_t in_epoll; /* what epoll knows to be wanted; 0: it is not there */
    uint32_t found;    /* while ready: of those wanted */
    void (*readable)(void *context);
    void (*writable)(void *context);
    void *context;
};

_Static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLERR == POLLERR &&
                   EPOLLHUP == POLLHUP,
               "what is said of a descriptor is the same in both");

/* Of the loop that is about to wait on this thread. */
static _Thread_local struct loop_wait *waiting;

void loop_wait_init(struct loop_wait *w, int wake_fd, void *bell)
{
    *w = (struct loop_wait){
        .epoll = -1, .wake_fd = wake_fd, .bell = bell, .rings_ms = LOOP_WAIT_FOREVER};
    w->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    ASSERT(w->timer_fd != -1);
    list_init(&w->near);
    list_init(&w->changed);
    list_init(&w->ready);
}

void loop_wait_fini(struct loop_wait *w)
{
    ASSERT(w->watches == 0);
    close(w->timer_fd);
    free(w->polled);
    w->polled = NULL;
}

void loop_wait_begin(struct loop_wait *w, uint64_t until_ms)
{
    ++w->count;
    w->until_ms = until_ms;
    w->on = true;
    waiting = w;
}

void loop_wait_replay(struct loop_wait *w, const struct epoll_event *events, int n)
{
    w->told = events;
    w->ntold = n;
    w->on = true;
    waiting = w;
}

void loop_wait_end(struct loop_wait *w, bool failed)
{
    /* Else the library was linked so that it waits past us, and no watch would ever be heard. */
    ASSERT(failed || !w->on);
    w->on = false;
    w->told = NULL;
    waiting = NULL;
}

/* WATCH may be gone after this. */
static void run_watch(struct loop_wait *w, struct watch *watch)
{
    uint32_t found = watch->found & watch->wanted;

    watch->found = 0;
    if ((found & EPOLLIN) != 0) {
        if ((found & EPOLLOUT) != 0) {
            watch->found = EPOLLOUT; /* next, unless it is stopped */
            list_push_front(&w->ready, &watch->ready_node);
        }
        watch->readable(watch->context);
    } else if ((found & EPOLLOUT) != 0) {
        void (*writable)(void *) = watch->writable;
        watch_write(watch, NULL);
        writable(watch->context);
    }
}

void loop_wait_run(struct loop_wait *w)
{
    struct list *node;

    while ((node = list_pop_front(&w->ready)) != NULL)
        run_watch(w, list_entry(node, struct watch, ready_node));
}

/* ---- before the wait ---- */

/* As what the timer's events are marked. */
static uint64_t timer_mark(const struct loop_wait *w)
{
    return (uintptr_t)w | MARK_OURS;
}

/* libh2o has put the eventfd into EPOLL just now, level-triggered. */
static void adopt_epoll(struct loop_wait *w, int epoll)
{
    struct epoll_event e = {.events = EPOLLIN | EPOLLET, .data.ptr = w->bell};

    w->epoll = epoll;
    int failed = epoll_ctl(epoll, EPOLL_CTL_MOD, w->wake_fd, &e);
    ASSERT(failed == 0);
    e.data.u64 = timer_mark(w);
    failed = epoll_ctl(epoll, EPOLL_CTL_ADD, w->timer_fd, &e);
    ASSERT(failed == 0);
}

static void enter_near(struct loop_wait *w, struct watch *watch)
{
    watch->lost = 0;
    list_push_back(&w->near, &watch->node);
    ++w->nnear;
}

static void leave_near(struct loop_wait *w, struct watch *watch)
{
    list_remove(&watch->node);
    --w->nnear;
}

/* False: epoll does not take it, now. */
static bool put_into_epoll(struct loop_wait *w, struct watch *watch)
{
    struct epoll_event e = {.events = watch->wanted, .data.u64 = (uintptr_t)watch | MARK_OURS};

    if (epoll_ctl(w->epoll, EPOLL_CTL_ADD, watch->fd, &e) != 0) {
        log_error(NULL, "watch-refused", "loop=%u errno=%d", loop_index(watch->loop), errno);
        return false;
    }
    watch->in_epoll = watch->wanted;
    leave_near(w, watch);
    return true;
}

static void tell_epoll(struct loop_wait *w, struct watch *watch)
{
    struct epoll_event e = {.events = watch->wanted, .data.u64 = (uintptr_t)watch | MARK_OURS};

    if (watch->wanted == watch->in_epoll)
        return;
    int failed =
        epoll_ctl(w->epoll, watch->wanted != 0 ? EPOLL_CTL_MOD : EPOLL_CTL_DEL, watch->fd, &e);
    ASSERT(failed == 0);
    watch->in_epoll = watch->wanted;
}

static void tell_changes(struct loop_wait *w)
{
    struct list *node;

    while ((node = list_pop_front(&w->changed)) != NULL)
        tell_epoll(w, list_entry(node, struct watch, node));
}

static void part_with_near_ones(struct loop_wait *w)
{
    struct list *it = w->near.next;

    while (it != &w->near) {
        struct watch *watch = list_entry(it, struct watch, node);
        it = it->next;
        if (w->nnear <= NEAR_MAX && watch->lost < NEAR_LOST_MAX)
            continue;
        if (!put_into_epoll(w, watch))
            return; /* all of them are polled until it does */
    }
}

/* ---- the wait ---- */

/* An error, or the end of both directions, concerns whoever waits for anything. */
static void set_ready(struct loop_wait *w, struct watch *watch, uint32_t events)
{
    if ((events & (EPOLLERR | EPOLLHUP)) != 0)
        events |= EPOLLIN | EPOLLOUT;
    watch->found |= events & watch->wanted;
    if (!list_linked(&watch->ready_node))
        list_push_back(&w->ready, &watch->ready_node);
}

static void note_lost(struct loop_wait *w)
{
    struct list *it;

    list_for_each (it, &w->near)
        ++list_entry(it, struct watch, node)->lost;
}

static void fill_polled(struct loop_wait *w)
{
    size_t n = 0;
    struct list *it;

    if (w->polled_room < w->nnear + 1) {
        w->polled_room = w->nnear + NEAR_MAX + 1;
        w->polled = xrealloc(w->polled, w->polled_room * sizeof(*w->polled));
    }
    w->polled[n++] = (struct pollfd){.fd = w->epoll, .events = POLLIN};
    list_for_each (it, &w->near) {
        const struct watch *watch = list_entry(it, struct watch, node);
        w->polled[n++] = (struct pollfd){.fd = watch->fd, .events = (short)watch->wanted};
    }
    ASSERT(n == w->nnear + 1);
}

/* The timer rings by UNTIL_MS. */
static void set_timer(struct loop_wait *w, uint64_t until_ms)
{
    struct itimerspec at = {
        .it_value = {.tv_sec = (time_t)(until_ms / 1000),
                     .tv_nsec = (long)(until_ms % 1000) * 1000000},
    };

    if (w->rings_ms <= until_ms)
        return;
    int failed = timerfd_settime(w->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
    ASSERT(failed == 0);
    w->rings_ms = until_ms;
}

/* How many of EVENTS epoll has; -1 with errno. */
static int wait_near(struct loop_wait *w, struct epoll_event *events, int max, int timeout_ms)
{
    size_t i = 1;
    struct list *it;

    fill_polled(w);
    int n = sys_poll(w->polled, w->nnear + 1, timeout_ms);
    if (n <= 0)
        return n;
    list_for_each (it, &w->near) {
        uint32_t found = (uint32_t)w->polled[i++].revents;
        ASSERT((found & POLLNVAL) == 0); /* closed before watch_stop */
        if (found != 0)
            set_ready(w, list_entry(it, struct watch, node), found);
    }
    if (w->polled[0].revents == 0)
        return 0;
    note_lost(w);
    w->epoll_after = true;
    return sys_epoll_wait(w->epoll, events, max, 0);
}

/*
 * Leave in EVENTS, of N, what is of libh2o's sockets, but not the bell and the timer, which just
 * wake; how many.
 */
static int sort_out(struct loop_wait *w, struct epoll_event *events, int n)
{
    int left = 0;

    w->idle = list_empty(&w->ready);
    for (int i = 0; i < n; ++i) {
        uint64_t mark = events[i].data.u64;
        if (mark == timer_mark(w)) {
            w->rings_ms = LOOP_WAIT_FOREVER;
            continue;
        }
        w->idle = false;
        if ((mark & MARK_OURS) != 0)
            set_ready(w, (struct watch *)(uintptr_t)(mark & ~(uint64_t)MARK_OURS),
                      events[i].events);
        else if (events[i].data.ptr != w->bell)
            events[left++] = events[i];
    }
    return left;
}

static int wait_for_all(struct loop_wait *w, struct epoll_event *events, int max, uint64_t until_ms)
{
    int timeout_ms = -1;

    tell_changes(w);
    w->epoll_after = false;
    if (!list_empty(&w->near))
        part_with_near_ones(w);
    if (until_ms == 0 || !list_empty(&w->ready)) /* the wait before failed halfway */
        timeout_ms = 0;
    else
        set_timer(w, until_ms);
    int n = list_empty(&w->near) ? sys_epoll_wait(w->epoll, events, max, timeout_ms)
                                 : wait_near(w, events, max, timeout_ms);
    w->complete = n >= 0 && n < max;
    return n < 0 ? n : sort_out(w, events, n);
}

int loop_wait_directly(struct loop_wait *w, struct epoll_event *events, uint64_t until_ms)
{
    ++w->count;
    ASSERT(w->epoll != -1);
    return wait_for_all(w, events, LOOP_WAIT_EVENTS, until_ms);
}

/* The end of a wait that is to be TIMEOUT_MS, and to end by UNTIL_MS. */
static uint64_t end_of(int timeout_ms, uint64_t until_ms)
{
    if (timeout_ms == 0 || until_ms == 0)
        return 0;
    if (timeout_ms < 0)
        return until_ms;
    uint64_t end_ms = clock_mono_us() / 1000 + (uint64_t)timeout_ms + 1; /* not before it is over */
    return end_ms < until_ms ? end_ms : until_ms;
}

/* The library's wait: room for MAX, of which one is the bell's. */
static int wait_in_library(struct loop_wait *w, int epoll, struct epoll_event *events, int max,
                           int timeout_ms)
{
    int n = w->ntold;

    w->on = false;
    if (w->epoll == -1)
        adopt_epoll(w, epoll);
    ASSERT(w->epoll == epoll);
    if (w->told == NULL) {
        n = wait_for_all(w, events, max - 1, end_of(timeout_ms, w->until_ms));
    } else {
        ASSERT(n < max);
        memcpy(events, w->told, (size_t)n * sizeof(*events));
    }
    if (n >= 0 && !list_empty(&w->ready))
        events[n++] = (struct epoll_event){.events = EPOLLIN, .data.ptr = w->bell};
    return n;
}

/* Seen by libh2o, which is a shared library. */
__attribute__((visibility("default"), used)) int epoll_wait(int epoll, struct epoll_event *events,
                                                            int max, int timeout_ms)
{
    struct loop_wait *w = waiting;

    waiting = NULL; /* what callbacks wait for is their own */
    if (w == NULL || max < 2)
        return sys_epoll_wait(epoll, events, max, timeout_ms);
    return wait_in_library(w, epoll, events, max, timeout_ms);
}

/* ---- watched descriptors ---- */

/* What is in epoll changes there when the loop waits next, if it has not changed back. */
static void want(struct watch *watch, uint32_t wanted)
{
    struct loop_wait *w = loop_wait_of(watch->loop);
    uint32_t before = watch->wanted;

    watch->wanted = wanted;
    if (watch->in_epoll != 0) {
        if (!list_linked(&watch->node))
            list_push_back(&w->changed, &watch->node);
    } else if (before == 0 && wanted != 0) {
        enter_near(w, watch);
    } else if (before != 0 && wanted == 0) {
        leave_near(w, watch);
    }
}

struct watch *watch_start_as_is(struct loop *l, int fd, void (*readable)(void *context),
                                void *context)
{
    struct watch *watch = xmalloc(sizeof(*watch));

    ASSERT(fd >= 0);
    *watch = (struct watch){.loop = l, .fd = fd, .readable = readable, .context = context};
    list_init(&watch->node);
    list_init(&watch->ready_node);
    ++loop_wait_of(l)->watches;
    want(watch, EPOLLIN);
    return watch;
}

struct watch *watch_start(struct loop *l, int fd, void (*readable)(void *context), void *context)
{
    int flags = fcntl(fd, F_GETFL);

    ASSERT(flags != -1);
    if ((flags & O_NONBLOCK) == 0)
        (void)fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    return watch_start_as_is(l, fd, readable, context);
}

void watch_hand_over(struct watch *watch, void (*readable)(void *context), void *context)
{
    watch->readable = readable;
    watch->context = context;
}

void watch_read(struct watch *watch, bool on)
{
    want(watch, on ? watch->wanted | EPOLLIN : watch->wanted & ~(uint32_t)EPOLLIN);
}

bool watch_reads(const struct watch *watch)
{
    return (watch->wanted & EPOLLIN) != 0;
}

bool watch_heard(const struct watch *watch)
{
    const struct loop_wait *w = loop_wait_of(watch->loop);

    /* Between the two calls of one wait the thread may stand still for long. */
    return watch->in_epoll != 0 || !w->epoll_after;
}

void watch_write(struct watch *watch, void (*writable)(void *context))
{
    watch->writable = writable;
    want(watch, writable != NULL ? watch->wanted | EPOLLOUT : watch->wanted & ~(uint32_t)EPOLLOUT);
}

bool watch_writes(const struct watch *watch)
{
    return (watch->wanted & EPOLLOUT) != 0;
}

void watch_stop(struct watch *watch)
{
    if (watch == NULL)
        return;
    struct loop_wait *w = loop_wait_of(watch->loop);
    want(watch, 0);
    tell_epoll(w, watch); /* at once, as the descriptor may live on elsewhere */
    list_remove(&watch->node);
    list_remove(&watch->ready_node);
    --w->watches;
    free(watch);
}
