/* SPDX-License-Identifier: Apache-2.0
 *
 * The application's header rules, done to one exchange's messages. On its loop.
 */
#ifndef RLB_LB_REQUEST_HEADER_APPLY_H
#define RLB_LB_REQUEST_HEADER_APPLY_H

#include "lb/request/exchange.h"

/* X has its class: change the request's fields, for keys, copies and workers. */
void exchange_change_request(struct exchange *x);
/* Whether an answer of a worker's would be changed. */
bool exchange_changes_response(const struct exchange *x);
/*
 * Change the fields of X's answer, which are in its request's response.
 *   ours  the answer is none of a worker's: what describes a body or its keeping is left alone
 */
void exchange_change_response(struct exchange *x, bool ours);

#endif
