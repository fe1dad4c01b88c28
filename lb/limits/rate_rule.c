/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/limits/rate_rule.h"

#include <stdio.h>
#include <stdlib.h>

static bool problem(struct limit_problem *p, const char *row, const char *why)
{
    p->row = row;
    snprintf(p->why, sizeof(p->why), "%s: %s", row, why);
    return false;
}

static bool read_rate(const struct rate_settings *s, struct rate *out, struct limit_problem *p)
{
    uint64_t count = 0;

    if (s->rate == NULL)
        return problem(p, "rate", "is required, such as 100/s");
    if (rate_parse(slice_of(s->rate), &count, &out->interval_ns) != ERR_OK)
        return problem(p, "rate",
                       "expected a number from 1 to 1000000 in a time: 100/s, 5/m, "
                       "1000/h or 10/d");
    out->burst = s->burst != 0 ? (uint64_t)s->burst : count;
    if (out->interval_ns > RATE_FILL_MAX_NS / out->burst)
        return problem(p, "burst",
                       "at this rate the bucket would take more than 30 days to be refilled");
    return true;
}

bool rate_rule_compile(const char *name, const struct rate_settings *s,
                       const struct counter_settings *match, struct rate_rule *out,
                       struct limit_problem *p)
{
    const char *key = s->key != NULL ? s->key : "{REMOTE_ADDR}";
    struct rate_rule rule = {.status = (int)s->status,
                             .retry_after = s->retry_after,
                             .shadow = s->shadow,
                             .max_keys = (size_t)s->max_keys};

    if (!read_rate(s, &rule.rate, p) || !limit_match_compile(match, &rule.match, p))
        return false;
    rule.key = limit_key_compile(key, LIMIT_EACH, p);
    if (rule.key == NULL) {
        limit_match_destroy(rule.match);
        return false;
    }
    rule.name = xstrdup(name);
    *out = rule;
    return true;
}

void rate_rule_fini(struct rate_rule *rule)
{
    rate_counter_unref(rule->counter);
    limit_match_destroy(rule->match);
    limit_key_destroy(rule->key);
    free(rule->name);
}

/* ---- sets ---- */

struct rate_rules *rate_rules_ref(struct rate_rules *r)
{
    if (r != NULL)
        atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
    return r;
}

void rate_rules_unref(struct rate_rules *r)
{
    if (r == NULL || atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < r->n; ++i)
        rate_rule_fini(&r->rules[i]);
    free(r);
}

static struct rate_counter *kept(const struct rate_rules *old, const struct rate_rule *rule)
{
    for (size_t i = 0; old != NULL && i < old->n; ++i) {
        if (strcmp(old->rules[i].name, rule->name) == 0 &&
            old->rules[i].max_keys == rule->max_keys && old->rules[i].counter != NULL)
            return rate_counter_ref(old->rules[i].counter);
    }
    return NULL;
}

void rate_rules_attach(struct rate_rules *r, const struct rate_rules *old)
{
    for (size_t i = 0; i < r->n; ++i) {
        struct rate_rule *rule = &r->rules[i];

        if (rule->counter == NULL)
            rule->counter = kept(old, rule);
        if (rule->counter == NULL)
            rule->counter = rate_counter_create(rule->max_keys);
    }
}

/* ---- reading ---- */

/* Where ROW of the rate at MAP stands, or the rate itself. */
static const struct config_node *place(const struct config_node *map, const char *row)
{
    const struct config_node *match = config_get(map, "match");
    const struct config_node *at = config_get(map, row);

    if (at == NULL && match != NULL && match->kind == CONFIG_MAP)
        at = config_get(match, row);
    return at != NULL ? at : map;
}

static void read_rule(const struct config *c, const struct config_node *key,
                      const struct config_node *map, struct rate_rules *r, struct diag *d)
{
    struct rate_settings s;
    struct counter_settings match;
    struct limit_problem p;
    unsigned before = d->errors;

    if (map->kind != CONFIG_MAP) {
        config_complain(c, map, d, "rates: expected {rate, ...} here");
        return;
    }
    if (!limit_name_is_good(key->text)) {
        config_complain(
            c, key, d,
            "rates: a name consists of letters, digits, . _ - (at most %d, not beginning with "
            "a dot)",
            LIMIT_NAME_MAX);
    }
    settings_read(&rate_settings_table, c, map, &s, NULL, d);
    settings_read(&match_table, c, s.match, &match, NULL, d);
    char *name = xslicedup(key->text);
    if (d->errors == before) {
        if (rate_rule_compile(name, &s, &match, &r->rules[r->n], &p))
            ++r->n;
        else
            config_complain(c, place(map, p.row), d, "%s", p.why);
    }
    free(name);
    settings_fini(&match_table, &match);
    settings_fini(&rate_settings_table, &s);
}

struct rate_rules *rate_rules_read(const struct config *c, const struct config_node *node,
                                   struct diag *d)
{
    if (node == NULL)
        return NULL;
    if (node->kind != CONFIG_MAP) {
        config_complain(c, node, d, "rates: expected NAME: {...} lines here");
        return NULL;
    }
    if (node->n > RATE_RULES_MAX) {
        config_complain(c, node->keys[RATE_RULES_MAX], d,
                        "rates: at most %d, because each request is checked against all of them",
                        RATE_RULES_MAX);
        return NULL;
    }
    struct rate_rules *r = xcalloc(1, sizeof(*r));

    atomic_init(&r->refs, 1);
    for (size_t i = 0; i < node->n; ++i)
        read_rule(c, node->keys[i], node->items[i], r, d);
    return r;
}
