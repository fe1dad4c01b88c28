/* SPDX-License-Identifier: Apache-2.0
 *
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
#include "common/event/poller.h"
#include "common/base/log.h"
#include "common/event/loop.h"
#include "common/event/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

enum {
    /* Watches beside epoll; poll(2) checks each of them in every call. */
    POLLED_MAX = 8,
    /* Waits with a second call after which a polled watch is registered in epoll. */
    SECOND_CALLS_MAX = 1,
    /* The events of each enum watch_level. */
    ON_FAILURE = EPOLLERR | EPOLLHUP,
    ON_END = ON_FAILURE | EPOLLRDHUP,
    ON_BYTES = ON_END | EPOLLIN,
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

/* ---- creation ---- */

static void register_own(struct poller *p, int *fd)
{
    struct epoll_event e = {.events = EPOLLIN | EPOLLET, .data.ptr = fd};

    ASSERT(*fd != -1);
    int failed = epoll_ctl(p->epoll, EPOLL_CTL_ADD, *fd, &e);
    ASSERT(failed == 0);
}

void poller_init(struct poller *p)
{
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
}

void poller_fini(struct poller *p)
{
    slab_fini(&p->watches);
    close(p->wake_fd);
    close(p->timer_fd);
    close(p->epoll);
    free(p->poll_set);
}

void poller_wake(struct poller *p)
{
    uint64_t one = 1;

    /* EAGAIN would mean that the counter is at its maximum; nothing reads it, but 2^64 calls are
     * out of reach. */
    while (write(p->wake_fd, &one, sizeof(one)) == -1 && errno == EINTR)
        continue;
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

/* Any callback may stop any watch. */
static void run_at(struct poller_ready *r, unsigned i)
{
    struct watch *w = r->at[i].watch;
    uint32_t found = r->at[i].found;

    if (w == NULL)
        return;
    if ((found & w->wanted & EPOLLOUT) == 0)
        leave_ready(r, w);
    if ((found & w->wanted & ON_BYTES) != 0) {
        w->ended = (found & ON_END) != 0;
        w->readable(w->context);
    }
    w = r->at[i].watch;
    if (w == NULL)
        return;
    leave_ready(r, w);
    if ((w->wanted & EPOLLOUT) != 0) {
        void (*writable)(void *) = w->writable;
        watch_write(w, NULL);
        writable(w->context);
    }
}

static void run_ready(struct poller_ready *r)
{
    for (unsigned i = 0; i < r->n; ++i)
        run_at(r, i);
    ASSERT(r->left == 0);
    r->n = 0;
}

void poller_run(struct poller *p)
{
    run_ready(&p->workers);
    run_ready(&p->clients);
}

/* ---- before the wait ---- */

static void enter_polled(struct poller *p, struct watch *w)
{
    w->second_calls = 0;
    list_push_back(&p->polled, &w->node);
    ++p->npolled;
}

static void leave_polled(struct poller *p, struct watch *w)
{
    list_remove(&w->node);
    --p->npolled;
}

/* Returns false if epoll rejects it; the watch stays polled then. */
static bool register_polled(struct poller *p, struct watch *w)
{
    struct epoll_event e = {.events = w->wanted, .data.ptr = w};

    if (epoll_ctl(p->epoll, EPOLL_CTL_ADD, w->fd, &e) != 0) {
        log_error(NULL, "watch-refused", "loop=%u reason=\"%s\"", loop_index(w->loop),
                  strerror(errno));
        return false;
    }
    w->known = w->wanted;
    leave_polled(p, w);
    return true;
}

static void register_excess(struct poller *p)
{
    struct list *it, *next;

    list_for_each_safe (it, next, &p->polled) {
        struct watch *w = list_entry(it, struct watch, node);

        if (p->npolled <= POLLED_MAX && w->second_calls < SECOND_CALLS_MAX)
            continue;
        if (!register_polled(p, w))
            return;
    }
}

static void update_epoll(struct poller *p, struct watch *w)
{
    struct epoll_event e = {.events = w->wanted, .data.ptr = w};

    if (w->wanted == w->known)
        return;
    int failed = epoll_ctl(p->epoll, w->wanted != 0 ? EPOLL_CTL_MOD : EPOLL_CTL_DEL, w->fd, &e);
    ASSERT(failed == 0);
    w->known = w->wanted;
}

static void update_changed(struct poller *p)
{
    struct list *node;

    while ((node = list_pop_front(&p->changed)) != NULL)
        update_epoll(p, list_entry(node, struct watch, node));
}

/* The timerfd is to expire by UNTIL_MS. */
static void set_alarm(struct poller *p, uint64_t until_ms)
{
    struct itimerspec at = {
        .it_value = {.tv_sec = (time_t)(until_ms / 1000),
                     .tv_nsec = (long)(until_ms % 1000) * 1000000},
    };

    if (p->alarm_ms <= until_ms)
        return;
    int failed = timerfd_settime(p->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
    ASSERT(failed == 0);
    p->alarm_ms = until_ms;
}

/* ---- the wait ---- */

static unsigned ready_room(const struct poller *p)
{
    return POLLER_EVENTS_MAX - p->workers.n - p->clients.n;
}

static void fill_poll_set(struct poller *p)
{
    unsigned n = 0;
    struct list *it;

    if (p->poll_room < p->npolled + 1) {
        p->poll_room = p->npolled + POLLED_MAX + 1;
        p->poll_set = xrealloc(p->poll_set, p->poll_room * sizeof(*p->poll_set));
    }
    p->poll_set[n++] = (struct pollfd){.fd = p->epoll, .events = POLLIN};
    list_for_each (it, &p->polled) {
        const struct watch *w = list_entry(it, struct watch, node);
        p->poll_set[n++] = (struct pollfd){.fd = w->fd, .events = (short)w->wanted};
    }
    ASSERT(n == p->npolled + 1);
}

/* Stores the polled watches that are ready, leaving room for one event of epoll. */
static void take_polled(struct poller *p)
{
    unsigned i = 1;
    struct list *it;

    list_for_each (it, &p->polled) {
        struct watch *w = list_entry(it, struct watch, node);
        uint32_t found = (uint32_t)p->poll_set[i++].revents;

        ASSERT((found & POLLNVAL) == 0); /* closed before watch_stop */
        if (p->poll_set[0].revents != 0)
            ++w->second_calls;
        if (found != 0 && ready_room(p) > 1)
            add_ready(p, w, found);
    }
}

/* The number of EVENTS filled in; -1 with errno. */
static int wait_beside_epoll(struct poller *p, struct epoll_event *events, int timeout_ms)
{
    fill_poll_set(p);
    int n = sys_poll(p->poll_set, p->npolled + 1, timeout_ms);
    if (n <= 0)
        return n;
    take_polled(p);
    if (p->poll_set[0].revents == 0)
        return 0;
    p->epoll_after = true;
    return sys_epoll_wait(p->epoll, events, (int)ready_room(p), 0);
}

static void take_events(struct poller *p, const struct epoll_event *events, int n)
{
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
}

bool poller_wait(struct poller *p, uint64_t until_ms)
{
    struct epoll_event events[POLLER_EVENTS_MAX];
    int timeout_ms = until_ms == 0 ? 0 : -1;

    ++p->waits;
    p->epoll_after = false;
    update_changed(p);
    if (!list_empty(&p->polled))
        register_excess(p);
    if (until_ms != 0)
        set_alarm(p, until_ms);
    int n = list_empty(&p->polled) ? sys_epoll_wait(p->epoll, events, POLLER_EVENTS_MAX, timeout_ms)
                                   : wait_beside_epoll(p, events, timeout_ms);
    /* A place that stays free: there was room for all, also for those of take_polled. */
    p->complete = n >= 0 && n + 1 < (int)ready_room(p);
    take_events(p, events, n);
    return n >= 0;
}

/* ---- watches ---- */

static void want(struct watch *w, uint32_t wanted)
{
    struct poller *p = poller_of(w->loop);
    uint32_t before = w->wanted;

    w->wanted = (uint16_t)wanted;
    if (w->known != 0) {
        if (!list_linked(&w->node))
            list_push_back(&p->changed, &w->node);
    } else if (before == 0 && wanted != 0) {
        enter_polled(p, w);
    } else if (before != 0 && wanted == 0) {
        leave_polled(p, w);
    }
}

static struct watch *start(struct loop *l, int fd, bool client, void (*readable)(void *context),
                           void *context)
{
    struct watch *w = slab_take(&poller_of(l)->watches);

    ASSERT(fd >= 0);
    *w = (struct watch){
        .loop = l, .fd = fd, .client = client, .readable = readable, .context = context};
    list_init(&w->node);
    want(w, ON_BYTES);
    return w;
}

struct watch *watch_start(struct loop *l, int fd, void (*readable)(void *context), void *context)
{
    int flags = fcntl(fd, F_GETFL);

    ASSERT(flags != -1);
    if ((flags & O_NONBLOCK) == 0)
        (void)fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    return start(l, fd, false, readable, context);
}

struct watch *watch_start_as_is(struct loop *l, int fd, void (*readable)(void *context),
                                void *context)
{
    return start(l, fd, false, readable, context);
}

struct watch *watch_start_client(struct loop *l, int fd, void (*readable)(void *context),
                                 void *context)
{
    return start(l, fd, true, readable, context);
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

    want(w, (w->wanted & EPOLLOUT) | on[level]);
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

bool watch_heard(const struct watch *w)
{
    /* The thread may have been suspended between the two calls of the wait. */
    return w->known != 0 || !poller_of(w->loop)->epoll_after;
}

void watch_write(struct watch *w, void (*writable)(void *context))
{
    w->writable = writable;
    want(w, (w->wanted & ON_BYTES) | (writable != NULL ? (uint32_t)EPOLLOUT : 0));
}

bool watch_writes(const struct watch *w)
{
    return (w->wanted & EPOLLOUT) != 0;
}

void watch_stop(struct watch *w)
{
    if (w == NULL)
        return;
    struct poller *p = poller_of(w->loop);
    want(w, 0);
    update_epoll(p, w); /* at once: the descriptor may continue to exist elsewhere */
    list_remove(&w->node);
    if (w->ready_at != 0)
        leave_ready(ready_of(p, w), w);
    slab_give(&p->watches, w);
}
