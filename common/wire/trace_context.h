/* SPDX-License-Identifier: Apache-2.0
 *
 * The trace context of requests (W3C Recommendation, 23 November 2021). Stateless.
 */
#pragma once

#include "common/base/text.h"

enum {
    TRACE_ID_LEN = 32,
    SPAN_ID_LEN = 16,
    /* "00-" trace id "-" span id "-" flags */
    TRACE_PARENT_LEN = 55,
    /* Of version 00: the caller may have recorded it. */
    TRACE_SAMPLED = 1,
    /* Of tracestate: what section 3.3.1.5 requires to be passed on, and no more. */
    TRACE_STATE_BYTES_MAX = 512,
    TRACE_STATE_MEMBERS_MAX = 32,
    /* The longest traceparent of a later version that is evaluated. */
    TRACE_PARENT_BYTES_MAX = 256,
};

struct trace_parent {
    char trace_id[TRACE_ID_LEN]; /* lower-case hex, not all zeros */
    char span_id[SPAN_ID_LEN];   /* likewise: the caller's ("parent-id") */
    unsigned flags;              /* 0..255 */
};

/*
 * Strictly: nothing around it, lower case, no zero ids, version 00 of exactly its length; a later
 * version is read as far as it is known (section 3.2.4). False: it is none, OUT is untouched.
 */
bool trace_parent_parse(struct slice value, struct trace_parent *out) must_check;
/* As version 00. */
void trace_parent_print(const struct trace_parent *p, char out[TRACE_PARENT_LEN]);
/*
 * Whether VALUE, of one field, may be passed on: key=value members within the limits. *MEMBERS is
 * the number of members in the fields before it; those of VALUE are added.
 */
bool trace_state_valid(struct slice value, size_t *members) must_check;
