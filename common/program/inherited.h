/* SPDX-License-Identifier: Apache-2.0
 *
 * What exists before the program serves: in a hot upgrade (upgrade.h has the protocol), what the
 * old process passed on, and when to start accepting; and sockets that were bound as root before
 * the process switched to another user. Blocks, within bounds, until the program is ready. Owned by
 * the program; main thread only. All functions except inherited_begin() and inherited_ready()
 * accept NULL, which means that nothing was inherited.
 *
 * If the old process exits, at any time after `begin`, the new process starts to serve.
 */
#ifndef RLB_PROGRAM_INHERITED_H
#define RLB_PROGRAM_INHERITED_H

#include "common/base/text.h"
#include "common/event/loop.h"
#include "common/net/addr.h"
#include "common/program/privileges.h"
#include "common/program/upgrade.h"

struct inherited;

/*
 * Receive what the old process, if there is one, passes before `begin`. Removes UPGRADE_VARIABLE
 * from the environment. Returns false if the variable or what comes is not valid (logged); *OUT is
 * NULL then. Must be called before threads are started.
 */
bool inherited_begin(struct inherited **out) must_check;
/* Whether there is an old process. */
bool inherited_from_old(const struct inherited *h);
/*
 * Listen at ADDRESS now, unless there is a socket for it; a unix socket has MODE, and becomes the
 * user's of P. False: it cannot be (logged).
 */
bool inherited_listen(struct inherited *h, const struct addr *address, unsigned mode,
                      const struct privileges *p) must_check;

/* Descriptors become the caller's; -1: not there, or already taken. */

/*
 * Creates DIRECTORY with MODE if it does not exist, and locks the file NAME in it: with the lock
 * that the old process passed, or with a new lock. Returns the descriptor, or -1 on failure
 * (logged).
 */
int inherited_lock_directory(struct inherited *h, const char *directory, unsigned mode,
                             const char *name);
/* The socket bound to ADDRESS, or, if ADDRESS has port 0, the one passed with NAME and NUMBER at
 * any port of the same host. NAME NULL: of the admin address. */
int inherited_take_socket(struct inherited *h, const struct addr *address, const char *name,
                          int number);
/*
 * All sockets of one listener, which is the first that is bound to ADDRESS (may be NULL) or was
 * passed with NAME: returns how many, and in *OUT, which the caller frees, each socket once.
 */
size_t inherited_take_listener(struct inherited *h, const struct addr *address, const char *name,
                               int **out);
/* Append to OUT what upgrade_pass_text() passed, if there is such a text. */
bool inherited_take_text(struct inherited *h, const char *op, const char *name, int number,
                         struct text *out);

/*
 * Everything is prepared: wait until the old process released what it owns, or exited. Returns
 * false if it does neither in time, or sends an unexpected message (logged).
 */
bool inherited_take_over(struct inherited *h) must_check;

struct inherited_events {
    void (*message)(void *context, const char *op); /* of the old process's tick() */
    void (*gone)(void *context);                    /* it exited; destroy the struct then */
};
/*
 * The program accepts: notifies the old process or, if there is none, the service manager. Closes
 * what was not taken. EVENTS (may be NULL) are called on L until the old process exits. Without
 * events, or an old process, *H is destroyed, and NULL then.
 */
void inherited_ready(struct inherited **h, struct loop *l, const struct inherited_events *events,
                     void *context);
/* Closes what was not taken; after inherited_ready() also removes its unix sockets' paths. */
void inherited_destroy(struct inherited *h);

#endif
