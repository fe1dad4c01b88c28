/* SPDX-License-Identifier: Apache-2.0
 *
 * What libh2o's loop does in a turn, done without calling it: the inside of loop.c. It stands in
 * private fields of libh2o's sockets, so it is locked to this version of the library, and tried out
 * by each loop. One thread's. loop_library.c says how it works.
 */
#ifndef RLB_NET_LOOP_LIBRARY_H
#define RLB_NET_LOOP_LIBRARY_H

#include <stdbool.h>

#include <h2o.h>

struct epoll_event;

/* Whether libh2o is the one this is made for; BELL, a socket that libh2o waits for without reading
 * it, is tried out. Aborts if not. */
void loop_library_check(h2o_loop_t *l, h2o_socket_t *bell);
/* Whether epoll knows what L's sockets wait for, and none is to be freed. If not, libh2o has to run
 * before the next wait. */
bool loop_library_settled(h2o_loop_t *l);
/* How long of WAIT_MS L's timers let the loop wait. */
int loop_library_wait_ms(h2o_loop_t *l, unsigned wait_ms);
/* L's clock is to be right before anything of libh2o's runs. */
void loop_library_set_clock(h2o_loop_t *l);
/* Whether all N events of L's sockets are of those that loop_library_hear can deal with. */
bool loop_library_takes(const struct epoll_event *events, int n);
/* What was found readable is pending. */
void loop_library_hear(const struct epoll_event *events, int n);
/* Call back for what is pending, and for the timers that are due. */
void loop_library_run(h2o_loop_t *l);

#endif
