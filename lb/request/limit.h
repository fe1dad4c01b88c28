/* SPDX-License-Identifier: Apache-2.0
 *
 * LIMIT: an exchange's passage through its application's pool counters, between CLASSIFY and ROUTE.
 * Each matching rule is claimed, in order. Claims are held until the worker's side has ended (with
 * at most response_buffer bytes left for the client). A request above a limit waits, receives a
 * copy of another request's response, or is rejected. On the exchange's loop.
 */
#ifndef RLB_LB_REQUEST_LIMIT_H
#define RLB_LB_REQUEST_LIMIT_H

#include "lb/limits/limit_rule.h"
#include "lb/request/answer.h"
#include "lb/request/exchange.h"

/* Go through them, then on to ROUTE. */
void exchange_limit(struct exchange *x);
/*
 * The worker's side is over, or will not begin: everything claimed goes back, what is waited for is
 * left. Harmless when there is nothing.
 *   done  the work is: a whole response is there, and no failure of the server's
 */
void limit_give_all_back_(struct exchange *x, bool done);
static inline void limit_give_back(struct exchange *x, bool done)
{
    if (x->limits != NULL)
        limit_give_all_back_(x, done);
}
/* X is a tunnel now: what is not held until its end (hold_tunnels) goes back. */
void limit_give_upgraded_back_(struct exchange *x);
static inline void limit_upgraded(struct exchange *x)
{
    if (x->limits != NULL)
        limit_give_upgraded_back_(x);
}
/* Between turns: X goes. */
void limit_fini(struct exchange *x);
/* What a refusal by a rule says instead of the application's. */
void limit_refusal(const struct exchange *x, struct answer *a);

/* On the loop: other settings are in force. */
void limit_settings_changed(struct application_loop *al);
/* On the loop, at its end: no exchange is left. */
void limit_loop_end(struct application_loop *al);

/* ---- limit_copy.c: copies of responses ---- */

/* Whether X has what identifies its user (cache_check_user), as its fields are now. */
bool limit_has_user(struct exchange *x);
/*
 * X has its application, and its fields are those of the client: header rules, which may remove or
 * rename what identifies the user, come after it.
 */
static inline void limit_note_user(struct exchange *x)
{
    const struct limit_rules *rules = application_limits(x->al);

    if (rules != NULL && rules->any_copies)
        x->has_user = limit_has_user(x);
}
/* Whether the request may be answered by another one's response, and the other way round. */
bool limit_may_share(struct exchange *x);
/* The answer is a copy made while X waited since SINCE_US, if there is one; true: it is sent. */
bool limit_answer_shared(struct exchange *x, uint64_t since_us);
/* The answer is the last good copy, however old; DETAIL says why, for Cache-Status. */
bool limit_answer_stale(struct exchange *x, struct slice detail);
/* The response is to be copied, if limit_may_share. */
void limit_copy_wanted(struct exchange *x);
/* The worker's response: its head, the pieces of its body, its end; or it is taken back. */
void limit_copy_head(struct exchange *x, const struct http1_head *head);
void limit_copy_body(struct exchange *x, const struct http1_body *body);
void limit_copy_end(struct exchange *x);
void limit_copy_drop(struct exchange *x);

#endif
