/* SPDX-License-Identifier: Apache-2.0
 *
 * Sockets that are bound before there is anybody to serve them: by root, who then becomes somebody
 * else (user_rights.h). Whoever serves an address takes its socket out. Owned by who creates it;
 * one thread.
 */
#ifndef RLB_NET_BOUND_SOCKETS_H
#define RLB_NET_BOUND_SOCKETS_H

#include "common/base/privileges.h"
#include "common/net/addr.h"

struct bound_sockets;

/* Room for MAX of them. */
struct bound_sockets *bound_sockets_create(size_t max);
/* Takes over FD, which listens at ADDRESS. */
void bound_sockets_add(struct bound_sockets *b, const struct addr *address, int fd);
/*
 * Listen at ADDRESS; a unix socket becomes the user's of P.
 *   mode  of a unix socket
 * False: it cannot be (logged).
 */
bool bound_sockets_listen(struct bound_sockets *b, const struct addr *address, unsigned mode,
                          const struct privileges *p) must_check;
/* The socket for ADDRESS, the caller's from now on; -1: there is none. B may be NULL. */
int bound_sockets_take(struct bound_sockets *b, const struct addr *address);
/* What has not been taken is closed. NULL is fine. */
void bound_sockets_destroy(struct bound_sockets *b);

#endif
