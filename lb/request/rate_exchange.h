/* SPDX-License-Identifier: Apache-2.0
 *
 * Request rates on an exchange's way: after its class is known, before anything is held or waited
 * for. On the exchange's loop.
 */
#ifndef RLB_LB_REQUEST_RATE_EXCHANGE_H
#define RLB_LB_REQUEST_RATE_EXCHANGE_H

#include "lb/request/exchange.h"

/* True: X may go on. False: X is refused. */
bool exchange_rate(struct exchange *x);

#endif
