/* SPDX-License-Identifier: Apache-2.0
 *
 * Replays a slot's most frequent requests to a new process, one after the other, before the process
 * receives traffic. These requests are neither metered nor counted as requests; a failed one is
 * counted, and the next one follows. Embedded in the process. Control loop only.
 *
 * Each request has its original Host and class, and "Resumelb-Warm-Up: 1", which clients cannot
 * send, so that an application that counts visits can distinguish it.
 */
#ifndef RLB_AGENT_PROCESS_WARM_UP_H
#define RLB_AGENT_PROCESS_WARM_UP_H

#include "common/event/loop.h"
#include "common/upstream/http_fetch.h"
#include "worker-agent/process/warm_targets.h"

struct warm_up {
    struct loop *loop; /* NULL: not in progress */
    struct addr addr;
    struct text heads[WARM_WANTED_MAX];
    size_t n, at;
    uint64_t due_ms; /* of all */
    struct http_fetch fetch;
    unsigned answered, failed;       /* with 200, and not; the rest was not sent */
    void (*done)(struct warm_up *w); /* once, later, unless stopped */
};

/*
 * W is zeroed or stopped. All requests together take at most LIMIT_MS. Returns false if there is
 * nothing to replay; done() is not called then.
 */
bool warm_up_start(struct warm_up *w, struct loop *l, const struct addr *a,
                   const struct warm_targets *targets, uint64_t limit_ms);
/* Harmless when it is not under way. */
void warm_up_stop(struct warm_up *w);
static inline bool warm_up_running(const struct warm_up *w)
{
    return w->loop != NULL;
}

#endif
