/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/limits/limit.h"

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

DEFINE_REF(limit_counter)

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

/* ---- limits ---- */

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

bool limit_compile(const char *name, const struct limit_settings *s, struct limit *out,
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
    *out = (struct limit){.name = xstrdup(name), .match = match};
    out->stores = s->mode == LIMIT_ANY || s->on_full == LIMIT_RESPONSE_STALE ||
                  s->on_timeout == LIMIT_RESPONSE_STALE || s->on_busy == LIMIT_BUSY_STALE;
    limit_settings_copy(s, &out->s);
    return true;
}

void limit_fini(struct limit *limit)
{
    limit_counter_unref(limit->counter);
    request_match_destroy(limit->match);
    limit_settings_fini(&limit->s);
    text_fini(&limit->page);
    free(limit->name);
}

/* ---- sets ---- */

struct limit_set *limit_set_create(const struct limit *limits, size_t n)
{
    struct limit_set *r = xcalloc(1, sizeof(*r));

    ASSERT(n <= LIMITS_MAX);
    atomic_init(&r->refs, 1);
    r->n = n;
    r->limits = xcalloc(n + 1, sizeof(*r->limits));
    for (size_t i = 0; i < n; ++i) {
        r->limits[i] = limits[i];
        r->any_stores = r->any_stores || limits[i].stores;
    }
    return r;
}

DEFINE_REF(limit_set)

void limit_set_unref(struct limit_set *r)
{
    if (r == NULL || atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < r->n; ++i)
        limit_fini(&r->limits[i]);
    free(r->limits);
    free(r);
}
