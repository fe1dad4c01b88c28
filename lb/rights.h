/* SPDX-License-Identifier: Apache-2.0
 *
 * Setting `user`: what root alone can do is done first (addresses bound, keys read, state_dir
 * made), then the load balancer becomes that user, before any thread is there and before a byte is
 * read from anybody. Main thread.
 */
#ifndef RLB_LB_RIGHTS_H
#define RLB_LB_RIGHTS_H

#include "lb/lb.h"

struct bound_admin;

/*
 * When LB's settings name a user that we are not: bind what is to be bound, into LB's parts, and
 * become that user. False: it cannot be (logged).
 */
bool rights_settle(struct lb *lb) must_check;
/* A socket for the admin ADDRESS that was bound before, the caller's from now on; -1: there is
 * none. B may be NULL. */
int bound_admin_take(struct bound_admin *b, const struct addr *address);
void bound_admin_destroy(struct bound_admin *b);

#endif
