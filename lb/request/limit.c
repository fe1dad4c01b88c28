/* SPDX-License-Identifier: Apache-2.0
 *
 *   walk -> the next rule that fits -> claim -> held ----> walk
 *                                        |  full, timed out, unreachable -> copy, or rejected
 *                                        +- waits: notified -> held, ...; done -> copy, or retry
 */
#include "lb/request/exchange.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "lb/limits/limit_claim.h"
#include "lb/request/answer.h"

static void walk(struct exchange *x);

/* ---- over a limit ---- */

static void count(_Atomic uint64_t *figure)
{
    atomic_fetch_add_explicit(figure, 1, memory_order_relaxed);
}

static void refuse(struct exchange *x, const struct limit_rule *rule, enum outcome o)
{
    x->refusal = rule;
    x->failure = o;
    exchange_fail(x, o);
}

/* Responds with a copy, if POLICY permits it and there is one. */
static bool stale(struct exchange *x, const struct limit_rule *rule, bool wanted,
                  const char *detail)
{
    if (!wanted || !limit_answer_stale(x, slice_of(detail)))
        return false;
    count(&rule->counter->figures.stale);
    return true;
}

static void on_full(struct exchange *x, const struct limit_rule *rule)
{
    if (stale(x, rule, rule->s.on_full == LIMIT_ANSWER_STALE, "full"))
        return;
    count(&rule->counter->figures.refused_full);
    refuse(x, rule, OUTCOME_LIMIT_FULL);
}

static void on_no_room(struct exchange *x, const struct limit_rule *rule)
{
    if (stale(x, rule, rule->s.on_full == LIMIT_ANSWER_STALE, "connections"))
        return;
    count(&rule->counter->figures.refused_connections);
    refuse(x, rule, OUTCOME_LIMIT_CONNECTIONS);
}

static void on_timeout(struct exchange *x, const struct limit_rule *rule)
{
    if (stale(x, rule, rule->s.on_timeout == LIMIT_ANSWER_STALE, "timeout"))
        return;
    count(&rule->counter->figures.refused_timeout);
    refuse(x, rule, OUTCOME_LIMIT_TIMEOUT);
}

/* Returns true if the request continues. */
static bool on_unreachable(struct exchange *x, const struct limit_rule *rule)
{
    if (rule->s.on_unreachable == LIMIT_OPEN || rule->s.shadow) {
        count(&rule->counter->figures.unreachable_open);
        return true;
    }
    count(&rule->counter->figures.unreachable_closed);
    refuse(x, rule, OUTCOME_LIMIT_UNREACHABLE);
    return false;
}

/* ---- claims ---- */

static void stop_counting_wait(struct exchange *x)
{
    if (!x->limit_waiting)
        return;
    x->limit_waiting = false;
    stat_add(x->al->stats, APP_STAT_limit_waiting, -1);
}

static bool take(struct exchange *x, struct limit_claim *c, enum limit_result r);

/* Another request has done the work; without a copy of its response, X does it itself. */
static bool on_done(struct exchange *x, struct limit_claim *c)
{
    struct limit_figures *f = &c->counter->figures;

    if (limit_answer_shared(x, c->begun_us)) {
        count(&f->coalesced);
        return false;
    }
    return take(x, c, limit_claim_again(c));
}

/* The counter is full at present: answers with a copy at once if there is one, or else waits. */
static bool on_busy(struct exchange *x, struct limit_claim *c)
{
    c->hurried = false;
    if (stale(x, c->rule, true, "busy"))
        return false;
    return take(x, c, limit_claim_ask(c, true));
}

/* True: on to the next rule. */
static bool take(struct exchange *x, struct limit_claim *c, enum limit_result r)
{
    switch (r) {
    case LIMIT_HELD:
        return true;
    case LIMIT_WAITS:
        if (!x->limit_waiting)
            stat_add(x->al->stats, APP_STAT_limit_waiting, 1);
        x->limit_waiting = true;
        return false;
    case LIMIT_DONE:
        return on_done(x, c);
    case LIMIT_FULL:
        on_full(x, c->rule);
        return false;
    case LIMIT_NO_ROOM:
        on_no_room(x, c->rule);
        return false;
    case LIMIT_TIMEOUT:
        if (c->hurried)
            return on_busy(x, c);
        on_timeout(x, c->rule);
        return false;
    case LIMIT_UNREACHABLE:
        return on_unreachable(x, c->rule);
    }
    UNREACHABLE();
}

static void on_result(struct limit_claim *c, enum limit_result r)
{
    struct exchange *x = c->owner;

    ASSERT(x->step == STEP_LIMIT);
    stop_counting_wait(x);
    if (take(x, c, r))
        walk(x);
}

static bool wants_copies(const struct counter_settings *s)
{
    return s->mode == LIMIT_ANY || s->on_full == LIMIT_ANSWER_STALE ||
           s->on_timeout == LIMIT_ANSWER_STALE || s->on_busy == LIMIT_BUSY_STALE;
}

/* NULL: it would be one too many. */
static struct limit_claim *begin(struct exchange *x, const struct limit_rule *rule,
                                 const struct classify_request *r)
{
    bool at_daemon = rule->s.where == LIMIT_DAEMON;
    bool shares = wants_copies(&rule->s) && limit_may_share(x);
    char room[LIMIT_KEY_MAX];

    if (x->nclaims == LIMIT_CLAIMS_MAX ||
        (at_daemon && x->ndaemon_claims == LIMIT_DAEMON_CLAIMS_MAX))
        return NULL;
    ++x->nclaims;
    x->ndaemon_claims += at_daemon;
    if (shares)
        limit_copy_wanted(x);
    struct limit_claim *c = limit_claim_create(
        rule, limit_rule_key(rule, x->cls, r, room),
        shares && rule->s.mode == LIMIT_ANY ? COUNTER_ANY : COUNTER_ME, x->home->loop,
        at_daemon ? application_counters(x->al, x->home->loop) : NULL);
    c->owner = x;
    c->on_result = on_result;
    list_push_front(&x->claims, &c->node);
    return c;
}

/* True: on to the next rule. */
static bool claim(struct exchange *x, const struct limit_rule *rule,
                  const struct classify_request *r)
{
    struct limit_claim *c = begin(x, rule, r);

    if (c == NULL) {
        log_warn(NULL, "pool-counter-skipped",
                 "application=%s pool_counter=%s reason=\"too many pool counters match\"",
                 x->app->name, rule->name);
        return on_unreachable(x, rule);
    }
    c->hurried = rule->s.on_busy == LIMIT_BUSY_STALE && x->copies_wanted && !rule->s.shadow;
    return take(x, c, limit_claim_ask(c, !c->hurried));
}

static noinline_ void walk(struct exchange *x)
{
    struct classify_request r;

    exchange_describe(x, &r);
    while (x->next_rule < x->limits->n) {
        const struct limit_rule *rule = &x->limits->rules[x->next_rule++];

        if (limit_rule_fits(rule, x->cls, &r) && !claim(x, rule, &r))
            return;
    }
    exchange_route(x);
}

void exchange_limit(struct exchange *x)
{
    struct limit_rules *rules = application_limits(x->al);

    if (rules == NULL || rules->n == 0) {
        exchange_route(x);
        return;
    }
    exchange_enter(x, STEP_LIMIT);
    list_init(&x->claims);
    x->next_rule = 0;
    x->limits = limit_rules_ref(rules);
    walk(x);
}

void limit_give_all_back_(struct exchange *x, bool done)
{
    struct list *node = NULL;

    stop_counting_wait(x);
    while ((node = list_pop_front(&x->claims)) != NULL)
        limit_claim_give_back(list_entry(node, struct limit_claim, node), done);
    x->nclaims = x->ndaemon_claims = 0;
}

void limit_give_upgraded_back_(struct exchange *x)
{
    struct list *node;
    struct list *next;

    list_for_each_safe (node, next, &x->claims) {
        struct limit_claim *c = list_entry(node, struct limit_claim, node);

        if (c->rule->s.hold_tunnels)
            continue;
        list_remove(&c->node);
        limit_claim_give_back(c, true);
    }
}

void limit_fini(struct exchange *x)
{
    ASSERT(x->limits == NULL || list_empty(&x->claims));
    limit_copy_drop(x);
    limit_rules_unref(x->limits);
}

void limit_refusal(const struct exchange *x, struct answer *a)
{
    const struct limit_rule *rule = x->refusal;

    if (rule == NULL)
        return;
    a->status = (int)rule->s.status;
    a->retry_after_ms = rule->s.retry_after_ms;
    if (text_slice(&rule->page).len != 0)
        a->page = text_slice(&rule->page);
}
