/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding out whether a process serves: asking its ready_probe until it answers with a status below
 * 500; or, without one, connecting until that works (for processes that bind their address
 * themselves). Embedded in the process. Control loop only. Bounded by whoever started it
 * (start_timeout).
 */
#ifndef RLB_AGENT_PROCESS_READINESS_H
#define RLB_AGENT_PROCESS_READINESS_H

#include "common/event/loop.h"
#include "common/upstream/http_fetch.h"

struct readiness {
    struct loop *loop;
    struct addr addr;
    const char *path;    /* NULL: connecting is enough; borrowed */
    uint64_t timeout_ms; /* of one try */
    unsigned delay_ms;   /* before the next try */
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
