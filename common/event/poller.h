/* SPDX-License-Identifier: Apache-2.0
 *
 * How a loop waits: for its watched descriptors, its next timer and calls from other threads. Part
 * of the loop, which embeds it; only loop.c includes this. The loop's thread, except poller_wake.
 * How it works is described in poller.c.
 */
#ifndef RLB_EVENT_POLLER_H
#define RLB_EVENT_POLLER_H

#include "common/base/list.h"
#include "common/base/slab.h"

struct loop;
struct pollfd;
struct watch;

/* The number of descriptors that one wait can report. */
enum { POLLER_EVENTS_MAX = 256 };

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

void poller_init(struct poller *p);
/* Every watch must have been stopped. */
void poller_fini(struct poller *p);
/*
 * Waits until UNTIL_MS of the monotonic clock (0: does not wait), until a descriptor is ready, or
 * until poller_wake. It may return earlier. Returns false with errno if the wait failed; what was
 * found ready before is kept for poller_run.
 */
bool poller_wait(struct poller *p, uint64_t until_ms) must_check;
/* Calls the callbacks of the watches that the wait has reported. */
void poller_run(struct poller *p);
/* Any thread: makes the present wait return, or the next one. */
void poller_wake(struct poller *p);
/* Whether everything has been reported, and run except clients' callbacks: see loop_heard_all. */
static inline bool poller_heard_all(const struct poller *p)
{
    return p->complete && p->workers.left == 0;
}

/* The poller of L, on L's thread. Defined by loop.c. */
struct poller *poller_of(struct loop *l);

#endif
