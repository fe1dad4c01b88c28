/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/core/limit_status.h"

#include "common/base/clock.h"
#include "lb/config/configuration.h"
#include "lb/core/lb.h"
#include "lb/limits/limit_rule.h"

static uint64_t relaxed(_Atomic uint64_t *n)
{
    return atomic_load_explicit(n, memory_order_relaxed);
}

/* ---- one counter ---- */

static void copy_key(struct limit_key_view *to, struct slice key)
{
    to->len = key.len < sizeof(to->key) ? key.len : sizeof(to->key);
    memcpy(to->key, key.p, to->len);
}

static void add_waits(const struct counter_stats *s, struct limit_view *out)
{
    out->waiting += s->waiting;
    out->keys += s->keys;
    out->waited_locked_us += s->waited_me_us + s->waited_any_us;
    out->waited_done_us += s->waited_good_us;
    out->waited_timeout_us += s->wasted_us;
}

void limit_view(const struct limit_rule *rule, uint64_t now_us, struct limit_view *out,
                struct limit_keys_view *keys)
{
    struct limit_counter *c = rule->counter;
    struct limit_figures *f = &c->figures;
    struct topk_row rows[LIMIT_TOP_KEYS];

    *out = (struct limit_view){0};
    pthread_mutex_lock(&c->lock);
    const struct counter_stats *s = counter_stats(c->table);
    const struct counter_lock *longest = counter_oldest(c->table);
    out->held = s->held;
    out->acquired = s->acquired;
    out->waited_us = topk_total(c->top);
    add_waits(s, out);
    /* A request that holds a place there asks the daemon: it is counted with those already. */
    add_waits(counter_stats(c->coalescing), out);
    if (longest != NULL && now_us > longest->since_us)
        out->longest_us = now_us - longest->since_us;
    if (keys != NULL) {
        keys->longest.len = 0;
        if (longest != NULL)
            copy_key(&keys->longest, counter_key_of(longest));
        keys->n = topk_read(c->top, rows, LIMIT_TOP_KEYS);
        for (size_t i = 0; i < keys->n; ++i) {
            struct limit_key_view *k = &keys->top[i];

            copy_key(k, rows[i].key);
            k->waited_us = rows[i].sum;
            k->over_us = rows[i].over;
            k->waits = rows[i].count;
        }
    }
    pthread_mutex_unlock(&c->lock);
    out->coalesced = relaxed(&f->coalesced);
    out->stale = relaxed(&f->stale);
    out->refused_full = relaxed(&f->refused_full);
    out->refused_timeout = relaxed(&f->refused_timeout);
    out->refused_connections = relaxed(&f->refused_connections);
    out->shadow_full = relaxed(&f->shadow_full);
    out->shadow_busy = relaxed(&f->shadow_busy);
    out->unreachable_open = relaxed(&f->unreachable_open);
    out->unreachable_closed = relaxed(&f->unreachable_closed);
    out->abandoned = relaxed(&f->abandoned);
    out->lost = relaxed(&f->daemon_lost);
    out->daemon_held = relaxed(&f->daemon_held);
    out->daemon_waiting = relaxed(&f->daemon_waiting);
    /* Both places: requests that began before `where` changed are still counted at the other one.
     */
    out->held += out->daemon_held;
    out->waiting += out->daemon_waiting;
    out->acquired += relaxed(&f->daemon_locked);
}

/* ---- daemons ---- */

size_t limit_daemons(const struct application *a, struct limit_daemon_view *out)
{
    struct counter_server_address servers[COUNTER_SERVERS_MAX];
    size_t n = limit_servers(&a->settings->s.pool_counter_servers, servers);

    for (size_t i = 0; i < n; ++i) {
        struct counter_daemon_state v =
            counter_health_view(a->counter_health, servers[i].name, &servers[i].addr, 0);

        out[i] = (struct limit_daemon_view){.name = servers[i].name,
                                            .addr = servers[i].addr,
                                            .resting = v.resting,
                                            .connections = v.connections,
                                            .idle = v.idle};
    }
    return n;
}

/* ---- JSON ---- */

static void put_figures(struct json_writer *w, const struct limit_view *v)
{
    enum { COUNT, TIME };
    static const struct {
        const char *name; /* NULL: not by itself */
        int type;
        size_t offset; /* in struct limit_view: a uint64_t */
    } rows[] = {
#define LIMIT_FIGURE(member, json, type, ...) {json, type, offsetof(struct limit_view, member)},
#include "lb/core/limit_figure.def"
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); ++i) {
        uint64_t n = *(const uint64_t *)((const char *)v + rows[i].offset);

        if (rows[i].name != NULL && rows[i].type == TIME)
            json_put_real(w, rows[i].name, (double)n / 1e6);
        else if (rows[i].name != NULL)
            json_put_int(w, rows[i].name, (int64_t)n);
    }
}

void limit_status_put(const struct application *a, const char *name, struct json_writer *w)
{
    const struct limit_rules *rules = a->settings->limits;
    struct limit_keys_view keys;
    struct limit_view v;
    size_t i = 0;

    while (rules != NULL && i < rules->n && strcmp(rules->rules[i].name, name) != 0)
        ++i;
    if (rules == NULL || i == rules->n) {
        json_put_null(w, "figures");
        return;
    }
    const struct counter_settings *s = &rules->rules[i].s;
    limit_view(&rules->rules[i], clock_mono_us(), &v, &keys);
    json_open_object(w, "figures");
    json_put_text(w, "where", slice_of(s->where == LIMIT_DAEMON ? "daemon" : "local"));
    json_put_text(w, "mode", slice_of(s->mode == LIMIT_ANY ? "any" : "each"));
    json_put_bool(w, "shadow", s->shadow);
    json_put_int(w, "workers", s->workers);
    json_put_int(w, "maxqueue", s->maxqueue);
    json_put_real(w, "timeout_s", (double)s->timeout_ms / 1e3);
    json_put_int(w, "slots", s->slots);
    put_figures(w, &v);
    if (keys.longest.len != 0) {
        json_open_object(w, "longest");
        json_put_text(w, "key", (struct slice){keys.longest.key, keys.longest.len});
        json_put_real(w, "for_s", (double)v.longest_us / 1e6);
        json_close_object(w);
    } else {
        json_put_null(w, "longest");
    }
    json_open_array(w, "top");
    for (i = 0; i < keys.n; ++i) {
        const struct limit_key_view *k = &keys.top[i];

        json_open_object(w, NULL);
        json_put_text(w, "key", (struct slice){k->key, k->len});
        json_put_real(w, "waited_s", (double)k->waited_us / 1e6);
        json_put_real(w, "over_s", (double)k->over_us / 1e6);
        json_put_int(w, "waits", (int64_t)k->waits);
        json_close_object(w);
    }
    json_close_array(w);
    json_close_object(w);
}

void limit_status_describe(const struct application *a, struct json_writer *w)
{
    struct limit_daemon_view daemons[COUNTER_SERVERS_MAX];
    size_t n = limit_daemons(a, daemons);
    struct copies_stats s;

    json_open_array(w, "pool_counter_servers");
    for (size_t i = 0; i < n; ++i) {
        char address[ADDR_TEXT_MAX];

        json_open_object(w, NULL);
        json_put_text(w, "name", daemons[i].name);
        json_put_text(w, "address", slice_of(addr_format(&daemons[i].addr, address)));
        json_put_bool(w, "resting", daemons[i].resting);
        json_put_int(w, "connections", (int64_t)daemons[i].connections);
        json_put_int(w, "idle", (int64_t)daemons[i].idle);
        json_close_object(w);
    }
    json_close_array(w);
    copies_read_stats(a->copies, &s);
    json_open_object(w, "copies");
#define COPIES_FIGURE(member, ...) json_put_int(w, #member, (int64_t)s.member);
#include "lb/core/limit_figure.def"
    json_close_object(w);
}
