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
 */
#include "common/net/loop_library.h"
#include "common/base/base.h"

#include <sys/epoll.h>
#include <sys/time.h>

#if H2O_VERSION_MAJOR != 2 || H2O_VERSION_MINOR != 2 || H2O_LIBRARY_VERSION_MAJOR != 0 ||          \
    H2O_LIBRARY_VERSION_MINOR != 13
#error "This stands in private fields of libh2o 2.2's sockets; look whether it still may"
#endif

enum {
    POLLED_READ = H2O_SOCKET_FLAG_IS_POLLED_FOR_READ,
    POLLED_WRITE = H2O_SOCKET_FLAG_IS_POLLED_FOR_WRITE,
    /* A turn takes less, as far as libh2o's timers are concerned. */
    TURN_MS = 1000,
};

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

bool loop_library_settled(h2o_loop_t *l)
{
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

static uint64_t due_ms(const h2o_timeout_t *t)
{
    const h2o_timeout_entry_t *first =
        H2O_STRUCT_FROM_MEMBER(h2o_timeout_entry_t, _link, t->_entries.next);

    return first->registered_at + t->timeout;
}

/* When the first of L's timers is due. */
static uint64_t wake_ms(const h2o_loop_t *l)
{
    uint64_t first_ms = UINT64_MAX;

    for (h2o_linklist_t *it = l->_timeouts.next; it != &l->_timeouts; it = it->next) {
        const h2o_timeout_t *t = H2O_STRUCT_FROM_MEMBER(h2o_timeout_t, _link, it);

        if (t->_entries.next != &t->_entries && due_ms(t) < first_ms)
            first_ms = due_ms(t);
    }
    return first_ms;
}

void loop_library_set_clock(h2o_loop_t *l)
{
    struct timeval now;

    gettimeofday(&now, NULL); /* as libh2o does */
    l->_now = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_usec / 1000;
}

int loop_library_wait_ms(h2o_loop_t *l, unsigned wait_ms)
{
    uint64_t first_ms = wake_ms(l);

    /* The clock is that of the last wait's end; most timers are due long after this one. */
    if (first_ms <= l->_now)
        return 0;
    if (first_ms - l->_now > (uint64_t)wait_ms + TURN_MS)
        return (int)wait_ms;
    loop_library_set_clock(l);
    if (first_ms <= l->_now)
        return 0;
    return first_ms - l->_now < wait_ms ? (int)(first_ms - l->_now) : (int)wait_ms;
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

void loop_library_run(h2o_loop_t *l)
{
    if (l->_pending_as_client != NULL || l->_pending_as_server != NULL)
        h2o_timeout__do_post_callback(l);
    for (h2o_linklist_t *it = l->_timeouts.next; it != &l->_timeouts; it = it->next) {
        h2o_timeout_t *t = H2O_STRUCT_FROM_MEMBER(h2o_timeout_t, _link, it);

        if (t->_entries.next != &t->_entries && due_ms(t) <= l->_now)
            h2o_timeout_run(l, t, l->_now);
    }
}

/* ---- whether libh2o is as it is taken to be ---- */

static void on_trial(h2o_socket_t *sock, const char *err)
{
    (void)err;
    *(bool *)sock->data = true;
}

void loop_library_check(h2o_loop_t *l, h2o_socket_t *bell)
{
    struct inner *s = inner_of(bell);
    h2o_socket_cb ring = bell->_cb.read;
    void *data = bell->data;
    bool called = false;

    ASSERT(loop_library_settled(l));
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
    ASSERT(!loop_library_settled(l));
    bell->data = &called;
    h2o_socket_read_start(bell, on_trial);
    ASSERT(loop_library_settled(l));
    ASSERT(l->_statechanged.head == NULL);
    make_pending(s);
    loop_library_run(l);
    ASSERT(called);
    ASSERT(s->next_pending == s);
    ASSERT((s->flags & H2O_SOCKET_FLAG_IS_READ_READY) == 0);
    bell->data = data;
    h2o_socket_read_start(bell, ring);
    ASSERT(loop_library_settled(l));
}
