/* SPDX-License-Identifier: Apache-2.0
 *
 * What libh2o's loop does in a turn, done without calling it: the inside of loop.c. It stands in
 * private fields of libh2o's sockets, so it is locked to this version of the library, and tried out
 * by each loop. One thread's. loop_library.c says how it works.
 */
#ifndef RLB_EVENT_LOOP_LIBRARY_H
#define RLB_EVENT_LOOP_LIBRARY_H

#include <stdbool.h>
#include <stdint.h>

#include <h2o.h>

struct epoll_event;

/* Embedded in its loop. */
struct loop_library {
    h2o_loop_t *h2o;
    uint64_t first_ms;         /* of libh2o's clock: none of its timers is due before that */
    bool told;                 /* of each timer that is linked; else first_ms is looked for */
    uint64_t ahead_us;         /* of the monotonic clock is libh2o's, which is wall time */
    uint64_t looked_us;        /* at which of the monotonic clock that was so */
    struct loop_library *next; /* of this thread's */
};

/* H2O is borrowed until loop_library_fini, this thread's, and has no timer yet. */
void loop_library_init(struct loop_library *lib, h2o_loop_t *h2o);
void loop_library_fini(struct loop_library *lib);
/* Whether libh2o is the one this is made for; BELL, a socket that libh2o waits for without reading
 * it, is tried out. Aborts if not. */
void loop_library_check(struct loop_library *lib, h2o_socket_t *bell);
/* Whether epoll knows what libh2o's sockets wait for, and none is to be freed. If not, libh2o has
 * to run before the next wait. */
bool loop_library_settled(const struct loop_library *lib);
/*
 * Until when, of the monotonic clock, libh2o's timers let the loop wait that would wait to
 * UNTIL_MS. 0: not at all.
 */
uint64_t loop_library_until_ms(struct loop_library *lib, uint64_t until_ms);
/* It is NOW_US of the monotonic clock: libh2o's is to be right before anything of libh2o's runs. */
void loop_library_set_clock(struct loop_library *lib, uint64_t now_us);
/* Whether all N events of libh2o's sockets are of those that loop_library_hear can deal with. */
bool loop_library_takes(const struct epoll_event *events, int n);
/* What was found readable is pending. */
void loop_library_hear(const struct epoll_event *events, int n);
/* Call back for what is pending, and for the timers that are due. */
void loop_library_run(struct loop_library *lib);
/* A turn of libh2o's own has been: it has read the clock, and run timers. */
void loop_library_ran(struct loop_library *lib);

#endif
