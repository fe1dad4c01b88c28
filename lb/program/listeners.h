/* SPDX-License-Identifier: Apache-2.0
 *
 * The sockets that clients come by: bound all or none, then given to each data loop. Owned by lb.c;
 * control thread.
 */
#ifndef RLB_LB_PROGRAM_LISTENERS_H
#define RLB_LB_PROGRAM_LISTENERS_H

#include "lb/config/configuration.h"
#include "lb/core/lb.h"

struct inherited;
struct listeners;

/*
 * Binds every address of CONFIG, with a socket for each of NLOOPS loops (unix: one shared socket),
 * or takes the sockets of that address over from INHERITED (may be NULL). Clients cannot connect
 * yet. Ownership of CONFIG's TLS settings passes to the listeners. On failure logs the error,
 * leaves nothing bound and returns NULL.
 */
struct listeners *listeners_create(struct configuration *config, unsigned nloops,
                                   struct inherited *inherited);
/*
 * Starts listening and gives each loop its sockets, which accept connections from now on. Must be
 * called once. Until listeners_withdraw the certificate files are checked every second. Returns
 * false if another process listens on one of the addresses (logged).
 */
bool listeners_open(struct listeners *ls, struct lb *lb);
/* The address listener I is bound to (a port of 0 resolved). */
const struct addr *listeners_address(const struct listeners *ls, size_t i);
size_t listeners_count(const struct listeners *ls);
/* Call before accepting stops: unix sockets lose their names. */
void listeners_withdraw(struct listeners *ls);
/* Call when another process accepts from the same sockets and this one stops: it keeps the names.
 */
void listeners_leave(struct listeners *ls);
typedef void (*listener_socket_fn)(void *context, size_t listener, const struct addr *configured,
                                   int fd);
/* Once open, and before a drain: each socket, which stays the loops' own. */
void listeners_each_socket(const struct listeners *ls, listener_socket_fn each, void *context);
/* SIGHUP: new connections have the certificates of CONFIG, if that matches. */
void listeners_take_certificates(struct listeners *ls, const struct configuration *config);
/* Whether CONFIG wants the sockets that are there. */
bool listeners_match(const struct listeners *ls, const struct configuration *config);
/* The loops' copies are closed. NULL is fine. */
void listeners_destroy(struct listeners *ls);

#endif
