/* SPDX-License-Identifier: Apache-2.0
 *
 * A turn of libh2o's loop tells epoll what its sockets wait for, waits, writes what sockets take
 * again, calls back for those that are readable, and looks through its timers. In most turns there
 * is nothing to be told and nothing to be written, and no timer is due: what is left of all that is
 * to mark the sockets that are readable as pending. That is done here, by the fields that libh2o
 * does it by; whatever it would do beyond that is left to libh2o (loop.c).
 *
 * A socket that stopped reading and started again within a turn, as with each request, is on
 * libh2o's list of those whose interest has changed, though it has not: it is taken off that.
 *
 * Timers are linked by h2o_timeout_link, which is ours: a function by the name of libh2o's, which
 * its own calls come to as those of epoll_wait do (poller.c). It does what libh2o's does, and
 * keeps in mind when the first timer is due, so that the lists of timers are gone through when that
 * time has come, and not before and after each wait. What was linked may have gone by then: the
 * time in mind is never later than that of the first. A libh2o that was linked so that its calls
 * stay inside it (-Bsymbolic-functions) has its lists gone through each time.
 *
 * libh2o's clock is wall time, in a field that its timers and caches are compared with. A turn
 * reads one clock only, the monotonic one, and sets that field by how far the wall clock was ahead
 * when last looked at: after each turn of libh2o's, which sets the field itself, and at least once
 * in CLOCK_US while there are turns. So a wall clock that is set is noticed as late as that.
 */
#include "common/event/loop_library.h"
#include "common/base/base.h"
#include "common/base/clock.h"

#include <sys/epoll.h>
#include <sys/time.h>

#if H2O_VERSION_MAJOR != 2 || H2O_VERSION_MINOR != 2 || H2O_LIBRARY_VERSION_MAJOR != 0 ||          \
    H2O_LIBRARY_VERSION_MINOR != 13
#error "This stands in private fields of libh2o 2.2's sockets; look whether it still may"
#endif

enum {
    POLLED_READ = H2O_SOCKET_FLAG_IS_POLLED_FOR_READ,
    POLLED_WRITE = H2O_SOCKET_FLAG_IS_POLLED_FOR_WRITE,
    /* For so long the wall clock is taken to go as the monotonic one does. */
    CLOCK_US = 1000 * 1000,
};

/* Of libh2o's clock: no timer is due then, and it can still be reckoned with. */
#define NEVER_MS (UINT64_MAX / 1024)

/* This thread's. */
static _Thread_local struct loop_library *libraries;

void loop_library_init(struct loop_library *lib, h2o_loop_t *h2o)
{
    *lib = (struct loop_library){.h2o = h2o, .first_ms = NEVER_MS, .next = libraries};
    libraries = lib;
    loop_library_ran(lib);
}

void loop_library_fini(struct loop_library *lib)
{
    struct loop_library **at = &libraries;

    while (*at != lib)
        at = &(*at)->next;
    *at = lib->next;
}

/* What libh2o has behind a socket. */
struct inner {
    h2o_socket_t super;
    int fd;
    int flags;
    h2o_loop_t *loop;
    struct {
        size_t n;
        h2o_iovec_t *left, room[4];
    } write;
    struct inner *next_pending;      /* itself: it is not */
    struct inner *next_statechanged; /* the same */
};

static struct inner *inner_of(h2o_socket_t *sock)
{
    return container_of(sock, struct inner, super);
}

/* ---- before the wait ---- */

/* Whether epoll knows what S, which is not closed, waits for. */
static bool is_told(const struct inner *s)
{
    bool reads = s->super._cb.read != NULL;
    bool writes = s->super._cb.write != NULL;

    return (s->flags & H2O_SOCKET_FLAG_IS_DISPOSED) == 0 &&
           reads == ((s->flags & POLLED_READ) != 0) && writes == ((s->flags & POLLED_WRITE) != 0);
}

bool loop_library_settled(const struct loop_library *lib)
{
    h2o_loop_t *l = lib->h2o;
    struct inner *s;

    while ((s = (struct inner *)(void *)l->_statechanged.head) != NULL) {
        if (!is_told(s))
            return false;
        l->_statechanged.head = (void *)s->next_statechanged;
        s->next_statechanged = s;
    }
    l->_statechanged.tail_ref = &l->_statechanged.head;
    return true;
}

/* ---- timers ---- */

static void note_timer(h2o_loop_t *l, uint64_t due_ms)
{
    struct loop_library *lib = libraries;

    while (lib != NULL && lib->h2o != l)
        lib = lib->next;
    if (lib != NULL && due_ms < lib->first_ms)
        lib->first_ms = due_ms;
}

/* Called by libh2o, which is a shared library, in place of its own. */
__attribute__((visibility("default"), used)) void
h2o_timeout_link(h2o_loop_t *loop, h2o_timeout_t *timeout, h2o_timeout_entry_t *entry)
{
    h2o_linklist_insert(&timeout->_entries, &entry->_link);
    entry->registered_at = h2o_now(loop);
    h2o_timeout__do_link(loop, timeout, entry);
    note_timer(loop, entry->registered_at + timeout->timeout);
}

static uint64_t due_ms(const h2o_timeout_t *t)
{
    const h2o_timeout_entry_t *first =
        H2O_STRUCT_FROM_MEMBER(h2o_timeout_entry_t, _link, t->_entries.next);

    return first->registered_at + t->timeout;
}

/* When the first is due. */
static uint64_t find_first_ms(const h2o_loop_t *l)
{
    uint64_t first_ms = NEVER_MS;

    for (h2o_linklist_t *it = l->_timeouts.next; it != &l->_timeouts; it = it->next) {
        const h2o_timeout_t *t = H2O_STRUCT_FROM_MEMBER(h2o_timeout_t, _link, it);

        if (t->_entries.next != &t->_entries && due_ms(t) < first_ms)
            first_ms = due_ms(t);
    }
    return first_ms;
}

static void run_timers(struct loop_library *lib)
{
    h2o_loop_t *l = lib->h2o;

    for (h2o_linklist_t *it = l->_timeouts.next; it != &l->_timeouts; it = it->next) {
        h2o_timeout_t *t = H2O_STRUCT_FROM_MEMBER(h2o_timeout_t, _link, it);

        if (t->_entries.next != &t->_entries && due_ms(t) <= l->_now)
            h2o_timeout_run(l, t, l->_now);
    }
    lib->first_ms = find_first_ms(l);
}

/* Where libh2o does not tell of its timers. */
static void look_for_first(struct loop_library *lib)
{
    if (!lib->told)
        lib->first_ms = find_first_ms(lib->h2o);
}

uint64_t loop_library_until_ms(struct loop_library *lib, uint64_t until_ms)
{
    look_for_first(lib);
    if (lib->first_ms <= lib->h2o->_now)
        return 0;
    if (lib->first_ms >= NEVER_MS)
        return until_ms;
    uint64_t due_ms = (lib->first_ms * 1000 - lib->ahead_us + 999) / 1000;
    return due_ms < until_ms ? due_ms : until_ms;
}

/* ---- the clock ---- */

static void look_at_clock(struct loop_library *lib, uint64_t now_us)
{
    struct timeval wall;

    gettimeofday(&wall, NULL); /* as libh2o does */
    lib->ahead_us = (uint64_t)wall.tv_sec * 1000000 + (uint64_t)wall.tv_usec - now_us;
    lib->looked_us = now_us;
}

void loop_library_set_clock(struct loop_library *lib, uint64_t now_us)
{
    if (now_us - lib->looked_us >= CLOCK_US)
        look_at_clock(lib, now_us);
    lib->h2o->_now = (now_us + lib->ahead_us) / 1000;
}

/* ---- after the wait ---- */

bool loop_library_takes(const struct epoll_event *events, int n)
{
    for (int i = 0; i < n; ++i) {
        const struct inner *s = events[i].data.ptr;
        bool may_write = (events[i].events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0;

        if ((s->flags & POLLED_READ) == 0 || (may_write && (s->flags & POLLED_WRITE) != 0))
            return false;
    }
    return true;
}

static void make_pending(struct inner *s)
{
    struct st_h2o_evloop_socket_t **all = (s->flags & H2O_SOCKET_FLAG_IS_ACCEPTED_CONNECTION) != 0
                                              ? &s->loop->_pending_as_server
                                              : &s->loop->_pending_as_client;

    s->flags |= H2O_SOCKET_FLAG_IS_READ_READY;
    if (s->next_pending != s)
        return;
    s->next_pending = (struct inner *)(void *)*all;
    *all = (void *)s;
}

void loop_library_hear(const struct epoll_event *events, int n)
{
    for (int i = 0; i < n; ++i)
        make_pending(events[i].data.ptr);
}

void loop_library_run(struct loop_library *lib)
{
    h2o_loop_t *l = lib->h2o;

    if (l->_pending_as_client != NULL || l->_pending_as_server != NULL)
        h2o_timeout__do_post_callback(l);
    look_for_first(lib);
    if (lib->first_ms <= l->_now)
        run_timers(lib);
}

void loop_library_ran(struct loop_library *lib)
{
    look_at_clock(lib, clock_mono_us());
    if (lib->first_ms <= lib->h2o->_now)
        lib->first_ms = find_first_ms(lib->h2o);
}

/* ---- whether libh2o is as it is taken to be ---- */

static void on_trial(h2o_socket_t *sock, const char *err)
{
    (void)err;
    *(bool *)sock->data = true;
}

/* Do libh2o's own calls come to our h2o_timeout_link? */
static void check_link(struct loop_library *lib)
{
    struct sockaddr_in nowhere = {.sin_family = AF_INET};
    h2o_socketpool_t links;

    ASSERT(lib->first_ms == NEVER_MS);
    h2o_socketpool_init_by_address(&links, (void *)&nowhere, sizeof(nowhere), 0, 1);
    h2o_socketpool_set_timeout(&links, lib->h2o, 1);
    lib->told = lib->first_ms != NEVER_MS;
    look_for_first(lib);
    ASSERT(lib->first_ms != NEVER_MS);
    ASSERT(lib->first_ms == find_first_ms(lib->h2o));
    h2o_socketpool_dispose(&links);
    lib->first_ms = find_first_ms(lib->h2o);
    ASSERT(lib->first_ms == NEVER_MS);
}

void loop_library_check(struct loop_library *lib, h2o_socket_t *bell)
{
    h2o_loop_t *l = lib->h2o;
    struct inner *s = inner_of(bell);
    h2o_socket_cb ring = bell->_cb.read;
    void *data = bell->data;
    bool called = false;

    ASSERT(loop_library_settled(lib));
    ASSERT(s->fd == h2o_socket_get_fd(bell));
    ASSERT(s->loop == l);
    ASSERT((s->flags & POLLED_READ) != 0);
    ASSERT((s->flags & POLLED_WRITE) == 0);
    ASSERT((s->flags & H2O_SOCKET_FLAG_DONT_READ) != 0);
    ASSERT(s->next_pending == s);
    ASSERT(s->next_statechanged == s);
    h2o_socket_read_stop(bell);
    ASSERT((void *)l->_statechanged.head == s);
    ASSERT(l->_statechanged.tail_ref == (void *)&s->next_statechanged);
    ASSERT(!loop_library_settled(lib));
    bell->data = &called;
    h2o_socket_read_start(bell, on_trial);
    ASSERT(loop_library_settled(lib));
    ASSERT(l->_statechanged.head == NULL);
    make_pending(s);
    loop_library_run(lib);
    ASSERT(called);
    ASSERT(s->next_pending == s);
    ASSERT((s->flags & H2O_SOCKET_FLAG_IS_READ_READY) == 0);
    bell->data = data;
    h2o_socket_read_start(bell, ring);
    ASSERT(loop_library_settled(lib));
    check_link(lib);
}
