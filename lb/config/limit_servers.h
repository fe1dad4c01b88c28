/* SPDX-License-Identifier: Apache-2.0
 *
 * The pool counter daemons of an application, as its setting pool_counter_servers lists them. Plain
 * computation; any thread.
 */
#ifndef RLB_LB_CONFIG_LIMIT_SERVERS_H
#define RLB_LB_CONFIG_LIMIT_SERVERS_H

#include "common/config/settings.h"
#include "common/limiter/counter_client.h"

/*
 * Addresses only (a name would have to be asked for while requests wait), none of them twice, at
 * most COUNTER_SERVERS_MAX. False: WHY says what is wrong, *AT which item of L it is.
 */
bool limit_servers_check(const struct text_list *l, size_t *at,
                         char why[SETTINGS_WHY_ROOM]) must_check;
/*
 * L, which is good, to OUT; returns how many. Their names, which keys are spread by, are borrowed
 * from L: as they are written, so all load balancers that share daemons write them the same.
 */
size_t limit_servers(const struct text_list *l,
                     struct counter_server_address out[COUNTER_SERVERS_MAX]);

#endif
