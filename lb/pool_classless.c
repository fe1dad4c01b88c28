/* SPDX-License-Identifier: Apache-2.0
 *
 * What one would do without resumes: the least backlog, of several the one nearest to the front.
 */
#include "lb/pool_internal.h"

static struct worker *pick(struct pool *p, const struct pool_request *r, struct worker *front,
                           struct pool_pick *out)
{
    struct worker *best = front;

    /* Nobody before FRONT may be picked. */
    for (struct list *it = &front->place_node; it != &p->line; it = it->next) {
        struct worker *w = list_entry(it, struct worker, place_node);

        if (best->backlog == 0)
            break;
        if (w->backlog < best->backlog && !pool_excludes(r, w))
            best = w;
    }
    out->reason = PICK_CLASSLESS;
    return best;
}

const struct pool_rule pool_rule_classless = {.pick = pick};
