/* SPDX-License-Identifier: Apache-2.0
 *
 * The trace a request belongs to (W3C Trace Context): the setting trace_context. On the exchange's
 * loop.
 */
#ifndef RLB_LB_REQUEST_TRACE_H
#define RLB_LB_REQUEST_TRACE_H

#include "lb/request/exchange.h"

/*
 * To be called when X has its application and untrusted header fields were removed. Joins the trace
 * named by the request or begins a new one; the worker receives the id of a span of ours. Does
 * nothing if trace_context is off: the fields then pass unchanged.
 */
void exchange_trace(struct exchange *x);

#endif
