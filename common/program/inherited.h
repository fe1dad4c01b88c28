/* SPDX-License-Identifier: Apache-2.0
 *
 * Resources that exist before the program serves: in a hot upgrade (protocol: upgrade.h), what the
 * old process passed on; and sockets that were bound as root before the process switched to another
 * user. Blocks, within bounds, until the program is ready. Owned by the program; main thread only.
 * All functions except inherited_begin(), inherited_listen() and inherited_ready() accept NULL,
 * which means that nothing was inherited.
 *
 * If the old process exits, at any time after `begin`, the new process starts to serve.
 */
#pragma once

#include "common/base/text.h"
#include "common/event/loop.h"
#include "common/net/addr.h"
#include "common/program/privileges.h"
#include "common/program/upgrade.h"

struct inherited;

/*
 * Receives what the old process, if there is one, passes before `begin`. Removes UPGRADE_VARIABLE
 * from the environment. Returns false if the variable or a message is invalid (logged); *OUT is
 * NULL then. Must be called before threads are started.
 */
bool inherited_begin(struct inherited **out) must_check;
/* Whether there is an old process. */
bool inherited_from_old(const struct inherited *h);
/*
 * Listens at ADDRESS now, unless H has a socket for it. The file of a unix socket gets MODE, and
 * the user of P as its owner. Returns false on failure (logged).
 */
bool inherited_listen(struct inherited *h, const struct addr *address, unsigned mode,
                      const struct privileges *p) must_check;

/* Returned descriptors are owned by the caller; -1: there is none, or it was already taken. */

/*
 * Creates DIRECTORY with MODE if it does not exist, and locks the file NAME in it: with the lock
 * that the old process passed, or with a new lock. Returns the descriptor, or -1 on failure
 * (logged).
 */
int inherited_lock_directory(struct inherited *h, const char *directory, unsigned mode,
                             const char *name);
/* Returns the socket bound to ADDRESS, or, if ADDRESS has port 0, the one passed with NAME and
 * NUMBER at any port of the same host. NAME is NULL for the admin address: no other port then. */
int inherited_take_socket(struct inherited *h, const struct addr *address, const char *name,
                          int number);
/*
 * Takes all sockets of one listener, the first that is bound to ADDRESS (may be NULL) or was passed
 * with NAME. Returns their number; *OUT, which the caller frees, has each socket once.
 */
size_t inherited_take_listener(struct inherited *h, const struct addr *address, const char *name,
                               int **out);
/* Appends to OUT what upgrade_pass_text() passed. Returns false if there is none, or on failure. */
bool inherited_take_text(struct inherited *h, const char *op, const char *name, int number,
                         struct text *out);

/*
 * To be called when everything is prepared: waits until the old process has released what it owns,
 * or has exited. Returns false if it does neither in time, or sends an unexpected message (logged).
 */
bool inherited_take_over(struct inherited *h) must_check;

struct inherited_events {
    void (*message)(void *context, const char *op); /* of the old process's tick() */
    void (*gone)(void *context);                    /* it exited; destroy the struct then */
};
/*
 * To be called when the program accepts: notifies the old process or, if there is none, the service
 * manager, and closes what was not taken. EVENTS (may be NULL) are called on L until the old
 * process exits. Without events, or an old process, *H is destroyed and set to NULL.
 */
void inherited_ready(struct inherited **h, struct loop *l, const struct inherited_events *events,
                     void *context);
/* Closes what was not taken; after inherited_ready() also unlinks such unix sockets. */
void inherited_destroy(struct inherited *h);
