/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules are gone through in the file's order. One that refuses ends it: those before it have
 * counted the request, those after it have not.
 */
#include "lb/request/rate_exchange.h"

#include "common/base/map.h"
#include "lb/limits/rate_rule.h"

static void count(_Atomic uint64_t *figure)
{
    atomic_fetch_add_explicit(figure, 1, memory_order_relaxed);
}

static uint64_t take(const struct exchange *x, const struct rate_rule *rule,
                     const struct classify_request *r)
{
    char room[LIMIT_KEY_MAX];
    struct slice key = limit_key_make(rule->key, rule->name, x->cls, r, room);

    return rate_counter_take(rule->counter, map_hash(key.p, key.len),
                             loop_now_us(x->home->loop) * 1000, &rule->rate);
}

static void refuse(struct exchange *x, const struct rate_rule *rule, uint64_t wait_ns)
{
    x->rate_status = rule->status;
    /* Rounded up: a request that is repeated after this time must pass. */
    x->rate_retry_ms = rule->retry_after ? (wait_ns + 999999) / 1000000 : 0;
    exchange_fail(x, OUTCOME_RATE_LIMITED);
}

static bool passes(struct exchange *x, const struct rate_rules *rules)
{
    struct classify_request r;

    exchange_describe(x, &r);
    for (size_t i = 0; i < rules->n; ++i) {
        const struct rate_rule *rule = &rules->rules[i];

        if (!limit_match_fits(rule->match, x->cls, &r))
            continue;
        uint64_t wait_ns = take(x, rule, &r);

        if (wait_ns == 0) {
            count(&rule->counter->passed);
        } else if (rule->shadow) {
            count(&rule->counter->shadow_refused);
        } else {
            count(&rule->counter->refused);
            refuse(x, rule, wait_ns);
            return false;
        }
    }
    return true;
}

bool exchange_rate(struct exchange *x)
{
    const struct rate_rules *rules = application_rates(x->al);

    return rules == NULL || rules->n == 0 || passes(x, rules);
}
