/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/limits/limit_rule.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- counters ---- */

struct limit_counter *limit_counter_create(const char *name)
{
    struct limit_counter *c = xcalloc(1, sizeof(*c));

    atomic_init(&c->refs, 1);
    c->name = xstrdup(name);
    pthread_mutex_init(&c->lock, NULL);
    c->table = counter_table_create(LIMIT_KEYS_MAX, LIMIT_WAITERS_MAX);
    c->coalescing = counter_table_create(LIMIT_KEYS_MAX, LIMIT_WAITERS_MAX);
    c->top = topk_create(TOPK_ENTRIES, COUNTER_NAME_MAX);
    return c;
}

struct limit_counter *limit_counter_ref(struct limit_counter *c)
{
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    return c;
}

void limit_counter_unref(struct limit_counter *c)
{
    if (c == NULL || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
        return;
    counter_table_destroy(c->table);
    counter_table_destroy(c->coalescing);
    topk_destroy(c->top);
    pthread_mutex_destroy(&c->lock);
    free(c->name);
    free(c);
}

/* ---- rules ---- */

bool limit_name_is_valid(struct slice name)
{
    return name.len != 0 && name.len <= LIMIT_NAME_MAX && name.p[0] != '.' &&
           slice_is_word(name, "._-");
}

void limit_name_check(const struct config *c, const struct config_node *at, const char *what,
                      struct slice name, struct diag *d)
{
    if (!limit_name_is_valid(name))
        config_complain(
            c, at, d,
            "%s: a name consists of letters, digits, . _ - (at most %d, not beginning with a dot)",
            what, LIMIT_NAME_MAX);
}

bool limit_rule_compile(const char *name, const struct counter_settings *s, struct limit_rule *out,
                        struct limit_problem *p)
{
    if (s->workers > s->maxqueue) {
        p->row = "maxqueue";
        snprintf(p->why, sizeof(p->why),
                 "workers (%lld) is above maxqueue (%lld), which includes requests in progress",
                 (long long)s->workers, (long long)s->maxqueue);
        return false;
    }
    if (s->slots != 0 && s->slots < s->workers) {
        p->row = "slots";
        snprintf(p->why, sizeof(p->why),
                 "slots (%lld), of all keys together, is below workers (%lld) of one key",
                 (long long)s->slots, (long long)s->workers);
        return false;
    }
    struct request_match *match = request_match_compile(s, s->key, s->mode, p);
    if (match == NULL)
        return false;
    *out = (struct limit_rule){.name = xstrdup(name), .match = match};
    out->copies = s->mode == LIMIT_ANY || s->on_full == LIMIT_ANSWER_STALE ||
                  s->on_timeout == LIMIT_ANSWER_STALE || s->on_busy == LIMIT_BUSY_STALE;
    counter_settings_copy(s, &out->s);
    return true;
}

void limit_rule_fini(struct limit_rule *rule)
{
    limit_counter_unref(rule->counter);
    request_match_destroy(rule->match);
    counter_settings_fini(&rule->s);
    text_fini(&rule->page);
    free(rule->name);
}

/* ---- sets ---- */

struct limit_rules *limit_rules_create(const struct limit_rule *rules, size_t n)
{
    struct limit_rules *r = xcalloc(1, sizeof(*r));

    ASSERT(n <= LIMIT_RULES_MAX);
    atomic_init(&r->refs, 1);
    r->n = n;
    r->rules = xcalloc(n + 1, sizeof(*r->rules));
    for (size_t i = 0; i < n; ++i) {
        r->rules[i] = rules[i];
        r->any_copies = r->any_copies || rules[i].copies;
    }
    return r;
}

struct limit_rules *limit_rules_ref(struct limit_rules *r)
{
    if (r != NULL)
        atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
    return r;
}

void limit_rules_unref(struct limit_rules *r)
{
    if (r == NULL || atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < r->n; ++i)
        limit_rule_fini(&r->rules[i]);
    free(r->rules);
    free(r);
}
