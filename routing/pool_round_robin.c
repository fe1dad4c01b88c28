/* SPDX-License-Identifier: Apache-2.0
 *
 * Each worker in turn, regardless of the class and of the requests in flight. The list of eligible
 * workers is ordered by the time of the last pick, least recent first, so its front is the next
 * worker. A new worker is next.
 */
#include "routing/pool_internal.h"

static void choose(struct pool *p, const struct pool_question *q, struct pool_choice *out)
{
    out->worker = q->front;
    out->reason = PICK_TURN;
    if (q->explain == NULL)
        return;
    pool_explain_candidate(q->explain, q->front, 0, 0, NULL);
    pool_explain_step(q->explain, "next in order", p->neligible, 1);
}

const struct pool_rule pool_rule_round_robin = {.choose = choose};
