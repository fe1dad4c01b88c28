/* SPDX-License-Identifier: Apache-2.0
 *
 * What an operator can do at the admin address: POST /actions/drain, undrain, confirm-removal,
 * forget, reload, with the actions_token. The request's body is a JSON object, the answer too.
 * Control thread.
 *
 *   drain, undrain   {"worker": NAME, "application": NAME}   no new requests to that address
 *   confirm-removal  {"worker": NAME, "application": NAME}   of held workers; without a worker: all
 *   forget           {"worker": NAME, "class": CLASS, "application": NAME}   skills; each may be
 *                    left out: of all workers, of all classes
 *   reload           {}   as by SIGHUP
 *
 * Without an application: of the only one. Of several, forget means all, and the others require it.
 */
#ifndef RLB_LB_STATUS_ACTIONS_H
#define RLB_LB_STATUS_ACTIONS_H

#include "common/program/admin.h"
#include "lb/core/lb.h"

/* Add them to A, which LB outlives. */
void actions_add(struct lb *lb, struct admin *a);

#endif
