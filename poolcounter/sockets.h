/* SPDX-License-Identifier: Apache-2.0
 *
 * The sockets that the server listens on: bound by us, or given to us. Their descriptors are the
 * caller's. Before threads start.
 */
#ifndef RLB_POOLCOUNTER_SOCKETS_H
#define RLB_POOLCOUNTER_SOCKETS_H

#include "poolcounter/configuration.h"

struct sockets {
    int fds[LISTENERS_MAX];
    size_t n;
};

/*
 * Those that are given by LISTEN_FDS (systemd), or else as descriptor 0. A socket that does not
 * listen is none. Takes the variables out of the environment, and puts /dev/null in the place of
 * descriptor 0. None given: OUT is empty.
 */
void sockets_inherit(struct sockets *out);
/*
 * Bind and listen at each address; what cannot be is logged. False: then none is open.
 *   mode  of unix sockets, 0 leaves it
 */
bool sockets_open(const struct addr *addresses, size_t n, int backlog, unsigned mode,
                  struct sockets *out) must_check;

#endif
