/* SPDX-License-Identifier: Apache-2.0
 *
 * The process that has started us to be followed (upgrade.h): what it leaves us, and when we may
 * begin. Reading what is left blocks, within bounds, before any thread is there; then it belongs to
 * the control loop, until we serve. Owned by lb.c. Every function but predecessor_begin takes NULL:
 * there is none, which leaves nothing.
 *
 * Between the two is a socket pair with packets (common/net/packet.h); the new program finds its
 * end by its number in PREDECESSOR_VARIABLE.
 *
 *   the one before                       the new one
 *   lock + descriptor               ->   (of state_dir)
 *   listener {n, address} + it      ->   (each socket; address: as configured)
 *   admin + socket                  ->
 *   (resumes are written)
 *   begin {v}                       ->   (reads resumes, meets workers, opens what is not left)
 *                                   <-   prepared
 *   go                              ->   (accepts)
 *                                   <-   ready
 *   (drains)
 *
 * Before `go` the new one has done nothing that anybody could notice, and may be killed. The end of
 * the one before, at any time, lets the new one begin.
 */
#ifndef RLB_LB_PREDECESSOR_H
#define RLB_LB_PREDECESSOR_H

#include "common/event/loop.h"
#include "common/net/addr.h"

#define PREDECESSOR_VARIABLE "RESUMELB_UPGRADE_FD"

enum {
    PREDECESSOR_VERSION = 1,
    /* Listeners times data loops; the limit of descriptors is reached before. */
    PREDECESSOR_SOCKETS_MAX = 65536,
};

struct predecessor;

/*
 * Hear from the one before, if there is one (*OUT; NULL: there is none). Takes PREDECESSOR_VARIABLE
 * out of the environment. False: there is one, but it does not say what it should (logged).
 */
bool predecessor_begin(struct predecessor **out) must_check;
/* The lock of the state_dir FOLDER (or NULL), the caller's from now on; -1: it has not got that. */
int predecessor_take_lock(struct predecessor *p, const char *folder);
/* Whether it has sockets for what is configured as ADDRESS, or bound to it. */
bool predecessor_has_listener(const struct predecessor *p, const struct addr *address);
/* These sockets, each once: how many, and in *OUT, which the caller frees, as it closes them. */
size_t predecessor_take_listener(struct predecessor *p, const struct addr *address, int **out);
/* The admin socket bound to ADDRESS, the caller's from now on; -1: it has none. */
int predecessor_take_admin(struct predecessor *p, const struct addr *address);
/* Say that all is prepared; GO follows, when it lets us, or has ended. */
void predecessor_prepared(struct predecessor *p, struct loop *l, void (*go)(void *context),
                          void *context);
/*
 * We accept: say so, and drop what was left and is not wanted. Destroys P. False: nobody has heard
 * it (there is none, or it has ended).
 */
bool predecessor_serving(struct predecessor *p);
/* Whatever has not been taken is closed; it stays with the one before. */
void predecessor_destroy(struct predecessor *p);

#endif
