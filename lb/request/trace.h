/* SPDX-License-Identifier: Apache-2.0
 *
 * The trace a request belongs to (W3C Trace Context): the setting trace_context. On the exchange's
 * loop.
 */
#ifndef RLB_LB_REQUEST_TRACE_H
#define RLB_LB_REQUEST_TRACE_H

#include "lb/request/exchange.h"

/*
 * X has its application, and untrusted claims are gone: join the trace it names, or begin one; its
 * worker is told of a span of ours. Nothing with trace_context off: fields pass as they are.
 */
void exchange_trace(struct exchange *x);

#endif
