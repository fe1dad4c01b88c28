/* SPDX-License-Identifier: Apache-2.0
 *
 * Determines whether a process serves: requests its ready_probe until the response has a status
 * below 500, or, without a ready_probe, connects until that succeeds (for processes that bind their
 * address themselves). Embedded in the process. Control loop only. The caller limits the total time
 * (start_timeout).
 */
#ifndef RLB_AGENT_PROCESS_READINESS_H
#define RLB_AGENT_PROCESS_READINESS_H

#include "common/event/loop.h"
#include "common/upstream/http_fetch.h"

struct readiness {
    struct loop *loop;
    struct addr addr;
    const char *path;    /* NULL: a successful connect is sufficient; borrowed */
    uint64_t timeout_ms; /* of one attempt */
    unsigned delay_ms;   /* before the next attempt */
    struct http_fetch fetch;
    struct timer retry;
    int last_status;                    /* of the last answer; 0: none */
    void (*ready)(struct readiness *r); /* once, unless stopped */
};

/* R is zeroed or stopped. */
void readiness_start(struct readiness *r, struct loop *l, const struct addr *a, const char *path,
                     uint64_t timeout_ms);
void readiness_stop(struct readiness *r);

#endif
