/* SPDX-License-Identifier: Apache-2.0
 *
 * What a client is shown of a failure where show_errors is on. Pure function.
 */
#ifndef RLB_AGENT_FRONT_ERROR_BODY_H
#define RLB_AGENT_FRONT_ERROR_BODY_H

#include "worker-agent/process/failures.h"

struct error_facts {
    struct slice reason;           /* the answer by itself: "no process" */
    const struct failure *failure; /* the newest that may explain it; or NULL */
    /* What the process that had the request has written last; or NULL. */
    const struct last_lines *lines;
    long pid; /* its */
    uint64_t now_ms;
};

/* The Content-Security-Policy of such a body: nothing in it is run, loaded or framed. */
#define ERROR_BODY_POLICY "default-src 'none'; frame-ancestors 'none'"

/* Append the body: plain text, or HTML with every byte of others escaped. */
void error_body(const struct error_facts *e, bool html, struct text *out);

#endif
