/* SPDX-License-Identifier: Apache-2.0
 *
 * What an agent gets from the one before it, which started it to be followed (upgrade.h): listening
 * sockets, the lock of state_dir, and what its slots had measured. Blocking, within bounds, until
 * the agent serves; then it belongs to the control loop, until the one before has gone. Owned by
 * the agent.
 *
 * Between the two is a socket pair with one message a packet, as keeper_wire.h has them; the new
 * program finds its end by its number in HEIR_VARIABLE.
 *
 *   the one before                        the new one
 *   lock + descriptor                ->
 *   socket {application, slot} + it  ->   (each; without the two: of no application)
 *   begin {v}                        ->
 *                                    <-   prepared   (all that can be done while the other serves)
 *   (accepts nobody from here on, starts and registers nothing)
 *   resume {application, slot} + it  ->   (the text of a resume file, in a memory file)
 *   go                               ->
 *                                    <-   ready      (it has the processes, and accepts)
 *   (finishes its requests)
 *   sealed                           ->   (it sends to no process any more; the new one may end
 * any) (waits for what its clients get of the new one, and exits)
 *
 * The end of either's socket says that it has died. Before `ready` the one before then goes on as
 * if nothing had happened; after it, as well, as long as it is there. The new one goes on without
 * what it has not got.
 */
#ifndef RLB_AGENT_HEIR_H
#define RLB_AGENT_HEIR_H

#include "common/base/text.h"
#include "common/event/loop.h"
#include "common/net/addr.h"

#define HEIR_VARIABLE "RESUMELB_UPGRADE_FD"

enum {
    HEIR_VERSION = 1,
    /* Slots of all applications and admin addresses. */
    HEIR_SOCKETS_MAX = 65536,
    /* In place of a slot's number: the application's own address. */
    HEIR_NO_SLOT = -1,
};

struct heir;

/*
 * Hear from the one before, if there is one (*OUT; NULL: there is none). Takes HEIR_VARIABLE out of
 * the environment. False: there is one, but it does not say what it should (logged).
 */
bool heir_begin(struct heir **out) must_check;
/* The locked descriptor of state_dir's lock, the caller's from now on; -1: not inherited. */
int heir_take_lock(struct heir *h);
/*
 * The socket that listens at ADDRESS, or (ADDRESS having port 0) is of that slot, the caller's from
 * now on; -1: there is none. APPLICATION NULL: it is no application's. H may be NULL.
 */
int heir_take_socket(struct heir *h, const struct addr *address, const char *application, int slot);
/*
 * Say that all is prepared, and wait until the one before has let go, or died. False: it does
 * neither in time, or says what it should not (logged).
 */
bool heir_take_over(struct heir *h) must_check;
/* What the slot has measured, appended to OUT. False: nothing is there. H may be NULL. */
bool heir_take_resume(struct heir *h, const char *application, int slot, struct text *out);
struct heir_events {               /* later */
    void (*sealed)(void *context); /* the one before sends to no process any more */
    void (*gone)(void *context);   /* it has ended; destroy H then */
};
/* We serve. */
void heir_ready(struct heir *h, struct loop *l, const struct heir_events *e, void *context);
/* What has not been taken is closed. NULL is fine. */
void heir_destroy(struct heir *h);

#endif
