/* SPDX-License-Identifier: Apache-2.0
 *
 * Each worker in turn, whatever the class and whatever it has in hand. The line has whoever was
 * picked least recently at its front: so the front of it is whose turn it is. A newcomer has the
 * next turn.
 */
#include "routing/pool_internal.h"

static void choose(struct pool *p, const struct pool_question *q, struct pool_choice *out)
{
    out->worker = q->front;
    out->reason = PICK_TURN;
    if (q->explain == NULL)
        return;
    pool_explain_candidate(q->explain, q->front, 0, 0, NULL);
    pool_explain_step(q->explain, "whose turn it is", p->nline, 1);
}

const struct pool_rule pool_rule_round_robin = {.choose = choose};
