/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/limits/limit_rule.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "lb/limits/limit_counter.h"

/* ---- making ---- */

bool limit_name_is_good(struct slice name)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

    if (name.len == 0 || name.len > LIMIT_NAME_MAX || name.p[0] == '.')
        return false;
    for (size_t i = 0; i < name.len; ++i) {
        if (name.p[i] == '\0' || strchr(good, name.p[i]) == NULL)
            return false;
    }
    return true;
}

static bool check_across(const struct counter_settings *s, struct limit_problem *p)
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
    return true;
}

bool limit_rule_compile(const char *name, const struct counter_settings *s, struct limit_rule *out,
                        struct limit_problem *p)
{
    struct limit_match *match = NULL;

    if (!check_across(s, p) || !limit_match_compile(s, &match, p))
        return false;
    struct limit_key *key = limit_key_compile(s->key, s->mode, p);
    if (key == NULL) {
        limit_match_destroy(match);
        return false;
    }
    *out = (struct limit_rule){.name = xstrdup(name), .match = match, .key = key};
    counter_settings_copy(s, &out->s);
    return true;
}

void limit_rule_fini(struct limit_rule *rule)
{
    limit_counter_unref(rule->counter);
    limit_match_destroy(rule->match);
    limit_key_destroy(rule->key);
    counter_settings_fini(&rule->s);
    text_fini(&rule->page);
    free(rule->name);
}

/* ---- sets ---- */

static bool uses_copies(const struct counter_settings *s)
{
    return s->mode == LIMIT_ANY || s->on_full == LIMIT_ANSWER_STALE ||
           s->on_timeout == LIMIT_ANSWER_STALE || s->on_busy == LIMIT_BUSY_STALE;
}

struct limit_rules *limit_rules_create(const struct limit_rule *rules, size_t n)
{
    struct limit_rules *r = xcalloc(1, sizeof(*r));

    ASSERT(n <= LIMIT_RULES_MAX);
    atomic_init(&r->refs, 1);
    r->n = n;
    r->rules = xcalloc(n + 1, sizeof(*r->rules));
    for (size_t i = 0; i < n; ++i) {
        r->rules[i] = rules[i];
        r->any_copies = r->any_copies || uses_copies(&rules[i].s);
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

/* ---- requests ---- */

bool limit_rule_fits(const struct limit_rule *rule, struct slice cls,
                     const struct classify_request *r)
{
    return limit_match_fits(rule->match, cls, r);
}

struct slice limit_rule_key(const struct limit_rule *rule, struct slice cls,
                            const struct classify_request *r, char out[LIMIT_KEY_MAX])
{
    return limit_key_make(rule->key, rule->name, cls, r, out);
}
