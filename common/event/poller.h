/* SPDX-License-Identifier: Apache-2.0
 *
 * A loop's wait, and the descriptors that are watched without libh2o: the inside of loop.c, which
 * owns it. One thread's. poller.c says how it works.
 */
#ifndef RLB_EVENT_POLLER_H
#define RLB_EVENT_POLLER_H

#include "common/base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct epoll_event;
struct loop;
struct pollfd;

/* That one wait can tell of: as many as libh2o asks for, but for one, which may be the bell's. */
enum { LOOP_WAIT_EVENTS = 255 };

#define LOOP_WAIT_FOREVER UINT64_MAX

struct loop_wait {
    uint64_t count;
    bool complete;     /* this turn's has told of all sockets that were ready, */
    bool epoll_after;  /* but epoll's were asked for after the near ones */
    bool idle;         /* the last one has told of nothing, or only that it is time */
    bool on;           /* between loop_wait_begin and the call of epoll_wait */
    int epoll;         /* libh2o's; -1 before the first wait */
    uint64_t rings_ms; /* the timer, next; LOOP_WAIT_FOREVER: it has rung, or was never set */
    struct list near;  /* watches beside epoll, oldest first */
    size_t nnear;
    struct list changed; /* watches of which epoll does not know yet what is wanted */
    struct list ready;   /* watches that this wait told of, and that have not run yet */
    struct pollfd *polled;
    size_t polled_room;
    /* What a turn does not look at, mostly. */
    int timer_fd; /* ends waits */
    int wake_fd;  /* an eventfd that libh2o watches, */
    void *bell;   /* by this socket, whose callback calls loop_wait_run */
    size_t watches;
    const struct epoll_event *told; /* what the library gets instead of a wait; NULL: it waits */
    int ntold;
    uint64_t until_ms; /* and what it waits for at most */
};

/* WAKE_FD and BELL are borrowed until loop_wait_fini, before which every watch must have been
 * stopped. */
void loop_wait_init(struct loop_wait *w, int wake_fd, void *bell);
void loop_wait_fini(struct loop_wait *w);
/*
 * Wait until UNTIL_MS of the monotonic clock (0: not at all; it may be over sooner, with nothing to
 * tell), once the library has waited before. Returns how many of EVENTS, which has room for
 * LOOP_WAIT_EVENTS, are filled in: those of the library's sockets, but for the bell's. -1 with
 * errno. loop_wait_run calls back for the watches that are ready then.
 */
int loop_wait_directly(struct loop_wait *w, struct epoll_event *events, uint64_t until_ms);
/* What libh2o waits for next on this thread is W's, and no longer than to UNTIL_MS, as above. */
void loop_wait_begin(struct loop_wait *w, uint64_t until_ms);
/* It does not wait, but gets what this wait has told of: N EVENTS, which stay until loop_wait_end,
 * and the bell for the watches that are ready. */
void loop_wait_replay(struct loop_wait *w, const struct epoll_event *events, int n);
/* It has waited, unless it FAILED before it came to that. */
void loop_wait_end(struct loop_wait *w, bool failed);
/* L's, on its thread. */
struct loop_wait *loop_wait_of(struct loop *l);
/* Call back for the watches that are ready. */
void loop_wait_run(struct loop_wait *w);

#endif
