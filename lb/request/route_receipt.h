/* SPDX-License-Identifier: Apache-2.0
 *
 * The response field Resumelb-Route: what became of a request, for clients that the setting
 * route_receipt names. On the exchange's loop.
 */
#ifndef RLB_LB_REQUEST_ROUTE_RECEIPT_H
#define RLB_LB_REQUEST_ROUTE_RECEIPT_H

#include "lb/request/exchange.h"

/* Whether X's client is one that gets it. */
bool exchange_wants_receipt(const struct exchange *x);
/*
 * X's answer is about to begin: add the field where its client is one that gets it.
 *   class="a.example"; worker="10.0.0.1:9000"; why=skilled; backlog=0; tries=1; limit_us=0;
 *   worker_us=12; connection_us=3
 * Without a pick all from `worker` on but the waits is left out.
 */
void exchange_add_receipt(struct exchange *x) apart;

#endif
