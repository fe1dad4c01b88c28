/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/limits/rate_rule.h"

#include <stdlib.h>

/* ---- counters ---- */

struct rate_counter *rate_counter_create(size_t max_keys)
{
    struct rate_counter *c = xcalloc(1, sizeof(*c));

    atomic_init(&c->refs, 1);
    c->max_keys = max_keys;
    c->nshards = max_keys < RATE_SHARDED_KEYS ? 1 : RATE_SHARDS;
    for (unsigned i = 0; i < c->nshards; ++i) {
        pthread_mutex_init(&c->shards[i].lock, NULL);
        c->shards[i].table = lru_create(max_keys / c->nshards);
    }
    return c;
}

DEFINE_REF(rate_counter)

void rate_counter_unref(struct rate_counter *c)
{
    if (c == NULL || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (unsigned i = 0; i < c->nshards; ++i) {
        lru_destroy(c->shards[i].table);
        pthread_mutex_destroy(&c->shards[i].lock);
    }
    free(c);
}

uint64_t rate_counter_take(struct rate_counter *c, uint64_t key, uint64_t now_ns,
                           const struct rate *r)
{
    /* Tables use the low bits. */
    struct rate_shard *s = &c->shards[(key >> 48) % c->nshards];

    pthread_mutex_lock(&s->lock);
    uint64_t wait_ns = rate_take(s->table, key, now_ns, r);
    pthread_mutex_unlock(&s->lock);
    return wait_ns;
}

void rate_counter_view(struct rate_counter *c, struct rate_view *out)
{
    *out = (struct rate_view){.passed = atomic_load_explicit(&c->passed, memory_order_relaxed),
                              .rejected = atomic_load_explicit(&c->rejected, memory_order_relaxed),
                              .shadow_rejected =
                                  atomic_load_explicit(&c->shadow_rejected, memory_order_relaxed)};
    for (unsigned i = 0; i < c->nshards; ++i) {
        struct rate_shard *s = &c->shards[i];

        pthread_mutex_lock(&s->lock);
        out->keys += lru_count(s->table);
        out->evicted += lru_evicted(s->table);
        pthread_mutex_unlock(&s->lock);
    }
}

/* ---- rules ---- */

/*
 * Compiles a rule of S, with the patterns of MATCH (class, path, method), into OUT, without a name.
 * Returns false with the error in P; then OUT need not be freed.
 */
static bool compile_rule(const struct rate_settings *s, const struct limit_settings *match,
                         struct rate_rule *out, struct limit_problem *p)
{
    const char *key = s->key != NULL ? s->key : "{REMOTE_ADDR}";
    struct rate_rule rule = {.status = (int)s->status,
                             .retry_after = s->retry_after,
                             .shadow = s->shadow,
                             .max_keys = (size_t)s->max_keys};
    uint64_t count = 0;

    if (s->rate == NULL)
        return limit_problem_set(p, "rate", "is required, such as 100/s");
    if (rate_parse(slice_of(s->rate), &count, &rule.rate.interval_ns) != ERR_OK)
        return limit_problem_set(p, "rate",
                                 "expected a number from 1 to 1000000 in a time: 100/s, 5/m, "
                                 "1000/h or 10/d");
    rule.rate.burst = s->burst != 0 ? (uint64_t)s->burst : count;
    if (rule.rate.interval_ns > RATE_FILL_MAX_NS / rule.rate.burst)
        return limit_problem_set(
            p, "burst", "at this rate the bucket would take more than 30 days to be refilled");
    rule.match = request_match_compile(match, key, LIMIT_EACH, p);
    if (rule.match == NULL)
        return false;
    *out = rule;
    return true;
}

/* ---- sets ---- */

DEFINE_REF(rate_rules)

void rate_rules_unref(struct rate_rules *r)
{
    if (r == NULL || atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < r->n; ++i) {
        rate_counter_unref(r->rules[i].counter);
        request_match_destroy(r->rules[i].match);
        free(r->rules[i].name);
    }
    free(r);
}

void rate_rules_attach(struct rate_rules *r, const struct rate_rules *old)
{
    size_t nold = old != NULL ? old->n : 0;

    if (r == NULL)
        return;
    for (size_t i = 0; i < r->n; ++i) {
        struct rate_rule *rule = &r->rules[i];

        for (size_t k = 0; k < nold && rule->counter == NULL; ++k) {
            const struct rate_rule *before = &old->rules[k];

            if (before->counter != NULL && before->max_keys == rule->max_keys &&
                strcmp(before->name, rule->name) == 0)
                rule->counter = rate_counter_ref(before->counter);
        }
        if (rule->counter == NULL)
            rule->counter = rate_counter_create(rule->max_keys);
    }
}

/* ---- reading ---- */

static void read_rule(const struct config *c, const struct config_node *key,
                      const struct config_node *map, struct rate_rules *r, struct diag *d)
{
    struct rate_settings s;
    struct limit_settings match;
    struct limit_problem p;
    unsigned before = d->errors;

    if (map->kind != CONFIG_MAP) {
        config_complain(c, map, d, "rates: expected {rate, ...} here");
        return;
    }
    limit_name_check(c, key, "rates", key->text, d);
    settings_read(&rate_settings_table, c, map, &s, NULL, d);
    settings_read(&match_table, c, s.match, &match, NULL, d);
    if (d->errors == before) {
        if (compile_rule(&s, &match, &r->rules[r->n], &p))
            r->rules[r->n++].name = xslicedup(key->text);
        else
            config_complain(c, limit_row_node(map, p.row), d, "%s", p.why);
    }
    settings_fini(&match_table, &match);
    settings_fini(&rate_settings_table, &s);
}

struct rate_rules *rate_rules_read(const struct config *c, const struct config_node *node,
                                   struct diag *d)
{
    if (node == NULL || !limit_map_check(c, node, "rates", RATE_RULES_MAX, d))
        return NULL;
    struct rate_rules *r = xcalloc(1, sizeof(*r));

    atomic_init(&r->refs, 1);
    for (size_t i = 0; i < node->n; ++i)
        read_rule(c, node->keys[i], node->items[i], r, d);
    return r;
}
