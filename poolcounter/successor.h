/* SPDX-License-Identifier: Apache-2.0
 *
 * SIGUSR1: this program is started anew, with the listening sockets. Both accept until the new one
 * says that it serves; then this one accepts no more, serves its clients to the last, and ends. The
 * new one's counters begin empty: what clients of this one hold stays theirs, and is not counted
 * there. If the new one ends before it serves, or is late, this one goes on as if nothing had been.
 * Owned by the program. Main thread.
 */
#ifndef RLB_POOLCOUNTER_SUCCESSOR_H
#define RLB_POOLCOUNTER_SUCCESSOR_H

#include "poolcounter/program.h"

/* For the new process: the admin address's sockets, and where it says that it serves. */
#define SUCCESSOR_ADMIN_VARIABLE "RESUMELB_POOLCOUNTER_ADMIN_SOCKETS"
#define SUCCESSOR_READY_VARIABLE "RESUMELB_POOLCOUNTER_READY"

/* Start it. While one is there, nothing happens. */
void successor_start(struct program *p);
/* No more patience: what has been started and does not serve yet is ended. */
void successor_abandon(struct program *p);
/* In the new process: tell the one before, if there is one, that we serve. */
void successor_say_ready(void);

#endif
