/* SPDX-License-Identifier: Apache-2.0
 *
 * What one would do without resumes: the least backlog (with what other load balancers have in
 * hand), of several the one nearest to the front. Who is brought in because of overload has the
 * least, and needs no rule of its own.
 */
#include "lb/pool_internal.h"

static struct worker *pick(struct pool *p, const struct pool_request *r, struct worker *front,
                           struct pool_pick *out)
{
    uint64_t since_ms = pool_reports_since(&p->settings, out->started_ms);
    struct worker *best = front;
    uint64_t least = UINT64_MAX;

    /* Nobody before FRONT may be picked. */
    for (struct list *it = &front->place_node; it != &p->line && least != 0; it = it->next) {
        struct worker *w = list_entry(it, struct worker, place_node);
        uint64_t backlog = worker_backlog(w) + worker_others(w, since_ms);

        if (backlog < least && !pool_excludes(r, w) && !pool_spares(out, w)) {
            best = w;
            least = backlog;
        }
    }
    out->reason = PICK_CLASSLESS;
    return best;
}

const struct pool_rule pool_rule_classless = {.pick = pick};
