/* SPDX-License-Identifier: Apache-2.0
 *
 * Setting `user`: what root alone can do is done first (addresses bound, keys read, state_dir
 * made), then the load balancer becomes that user, before any thread is there and before a byte is
 * read from anybody. Main thread.
 */
#ifndef RLB_LB_RIGHTS_H
#define RLB_LB_RIGHTS_H

#include "lb/lb.h"

/*
 * When LB's settings name a user that we are not: bind what is to be bound, into LB's parts, and
 * become that user. False: it cannot be (logged).
 */
bool rights_settle(struct lb *lb) must_check;

#endif
