/* SPDX-License-Identifier: Apache-2.0
 *
 *   YAML ----------------------+
 *   limits/NAME --------+--> live_limit (per name) --+
 *   children of limits --> the set of names         +--> assemble, once a turn --> snapshot
 *
 * A counter is retained by name for as long as a limit has it or a request holds it: if a limit is
 * removed and added again, its counter continues.
 */
#include "lb/core/limits_live.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/map.h"
#include "common/tree/live_settings.h"
#include "lb/core/lb.h"
#include "lb/limits/limit_lease.h"

/* Part of the snapshot: which limits the tree had. */
static const char names_part[] = "limits";

enum {
    /* Number of invalid names in the tree that are logged, once each; further ones are not. */
    WARNED_MAX = 100,
};

/* `place` of a counter that YAML does not have. */
#define NOWHERE SIZE_MAX

/* One limit's settings: YAML's, overlaid by its node in the tree, or the node's alone. */
struct live_limit {
    struct log_subject subject;
    struct map_node node; /* in its owner's table, by name */
    struct limits_live *owner;
    char *path;              /* the node's */
    const char *name, *part; /* ends of PATH; the latter is the part of the snapshot */
    struct live_settings *engine;
    struct live_settings_counts reported; /* its counts that the metrics include */
    size_t index;                         /* in YAML's list, or NOWHERE */
    struct text page;                     /* YAML's */
    bool listed;                          /* its node is among the tree's */
    bool recalled;    /* the snapshot had it; its engine has not taken that yet */
    bool crowded_out; /* beyond LIMITS_MAX */
};

struct limits_live {
    struct application *app;
    char *path;                /* of limits */
    struct limit_config unset; /* what YAML has of a counter that it does not name */
    struct map limits;         /* of live_limit, by name */
    struct map counters;       /* of limit_counter, by name; one reference each */
    struct tree *tree;         /* NULL: not started */
    struct snapshot *snapshot;
    uint64_t wait_ms;
    struct tree_watch *watch; /* the children of limits */
    struct timer wait;
    bool received;   /* the children of limits, at least once */
    json_t *warned;  /* names that were logged */
    bool serverless; /* some limit requires a daemon, and there is none */
    struct loop_deferred later;
};

static void schedule_assembly(struct limits_live *l)
{
    loop_defer_once(l->app->lb->control, &l->later);
}

/* ---- one limit: for its engine ---- */

static void limits_describe(const struct log_subject *self, struct log_text *out)
{
    const struct live_limit *r = (const struct live_limit *)(const void *)self;

    log_put(out, "application=%s limit_name=%s", r->owner->app->name, r->name);
}

static bool limits_check(void *context, const void *s, char why[SETTINGS_WHY_ROOM])
{
    const struct live_limit *r = context;
    struct limit limit;
    struct limit_problem p;

    if (limit_compile(r->name, s, &limit, &p)) {
        limit_fini(&limit);
        return true;
    }
    snprintf(why, SETTINGS_WHY_ROOM, "%s", p.why);
    return false;
}

/*
 * Only the configuration file may let clients get responses to other clients: the tree cannot turn
 * that on. The first choice of each of these rows, the default, shares nothing.
 */
static bool is_allowed(const struct setting_row *row, const void *s, const void *yaml,
                       char why[SETTINGS_WHY_ROOM])
{
    bool sharing = strcmp(row->name, "mode") == 0 || strcmp(row->name, "on_full") == 0 ||
                   strcmp(row->name, "on_timeout") == 0 || strcmp(row->name, "on_busy") == 0;

    if (!sharing || *(const int *)(const void *)((const char *)s + row->offset) == 0 ||
        settings_same(row, s, yaml))
        return true;
    snprintf(why, SETTINGS_WHY_ROOM,
             "shares responses between clients: the configuration file must have the same value");
    return false;
}

static uint64_t limits_hold_ms(void *context, unused_ const void *now)
{
    const struct live_limit *r = context;

    return r->owner->app->settings->s.settings_hold_ms;
}

static void on_limits_changed(void *context, unused_ bool values)
{
    struct live_limit *r = context;
    struct live_settings_counts now;

    live_settings_counts(r->engine, &now);
    application_count_settings(r->owner->app, &now, &r->reported);
    if (now.held || now.remembered)
        r->recalled = false;
    schedule_assembly(r->owner);
}

/* ---- one limit: its life ---- */

static void set_page(struct live_limit *r, const struct limit_config *yaml)
{
    text_clear(&r->page);
    text_add(&r->page, text_slice(&yaml->page));
}

static const struct settings_table *const tables[] = {&limit_table, &match_table};

static struct live_limit *limit_create(struct limits_live *l, const char *name,
                                       const struct limit_config *yaml, size_t index,
                                       uint64_t wait_ms)
{
    struct live_limit *r = xcalloc(1, sizeof(*r));

    r->subject.describe = limits_describe;
    r->owner = l;
    r->path = xasprintf("%s/%s", l->path, name);
    r->name = r->path + strlen(l->path) + 1;
    r->part = r->path + strlen(l->path) - strlen(names_part);
    r->index = index;
    set_page(r, yaml);
    r->engine = live_settings_create(&(struct live_settings_options){.loop = l->app->lb->control,
                                                                     .tables = tables,
                                                                     .ntables = ARRAY_LEN(tables),
                                                                     .yaml = &yaml->s,
                                                                     .origins = yaml->origins,
                                                                     .path = r->path,
                                                                     .subject = r,
                                                                     .check = limits_check,
                                                                     .allowed = is_allowed,
                                                                     .hold_ms = limits_hold_ms,
                                                                     .changed = on_limits_changed,
                                                                     .context = r});
    map_add(&l->limits, &r->node, r->name, strlen(r->name));
    if (l->tree != NULL)
        live_settings_follow(r->engine, l->tree, l->snapshot, r->part, wait_ms);
    return r;
}

/* FORGET: its part of the snapshot is deleted as well. */
static void limit_destroy(struct live_limit *r, bool forget)
{
    struct live_settings_counts none = {0};

    map_remove(&r->owner->limits, &r->node);
    if (forget && r->owner->snapshot != NULL)
        snapshot_delete(r->owner->snapshot, r->part);
    live_settings_destroy(r->engine);
    none.changes = r->reported.changes;
    none.rejections = r->reported.rejections;
    application_count_settings(r->owner->app, &none, &r->reported);
    text_fini(&r->page);
    free(r->path);
    free(r);
}

/* YAML was read again. */
static void limit_set_yaml(struct live_limit *r, const struct limit_config *yaml, size_t index)
{
    r->index = index;
    set_page(r, yaml);
    live_settings_set_yaml(r->engine, &yaml->s, yaml->origins);
}

/* ---- one limit: what it is ---- */

static const struct setting_row *row_called(const char *name)
{
    const struct setting_row *row = settings_find(&limit_table, slice_of(name));

    return row != NULL ? row : settings_find(&match_table, slice_of(name));
}

static bool from_tree(const struct live_limit *r, const char *name)
{
    return live_settings_origin(r->engine, row_called(name)) == ORIGIN_TREE;
}

/*
 * Returns why the limit does not count anything, or NULL if it does. A limit that only the tree has
 * counts only if its node sets `workers`, and `key` or a pattern to match, all of them valid: an
 * overlay that is left after its YAML limit was removed must not become a limit for all requests.
 */
static const char *limit_idle_reason(const struct live_limit *r)
{
    static const char *const subjects[] = {"key", "class", "path", "method"};
    bool any = false;

    if (r->index != NOWHERE)
        return NULL;
    if (!from_tree(r, "workers"))
        return "not in the configuration file, and the tree has no property workers";
    for (size_t i = 0; i < ARRAY_LEN(subjects); ++i) {
        if (from_tree(r, subjects[i]))
            any = true;
        else if (live_settings_rejection(r->engine, row_called(subjects[i])) != NULL)
            return "its match or key is rejected";
    }
    return any ? NULL
               : "not in the configuration file, and the tree has none of key, class, path and "
                 "method";
}

/* Neither YAML nor the tree has it, nor is anything held. */
static bool limit_is_over(const struct live_limit *r)
{
    struct live_settings_counts now;

    live_settings_counts(r->engine, &now);
    if (r->index != NOWHERE || r->listed || r->recalled || now.held || now.remembered)
        return false;
    for (size_t t = 0; t < ARRAY_LEN(tables); ++t) {
        for (size_t i = 0; i < tables[t]->n; ++i) {
            if (live_settings_origin(r->engine, &tables[t]->rows[i]) == ORIGIN_TREE)
                return false;
        }
    }
    return true;
}

/* ---- limits by name ---- */

static struct live_limit *limits_find(const struct limits_live *l, struct slice name)
{
    return map_entry(map_find(&l->limits, name.p, name.len), struct live_limit, node);
}

/* YAML's in its order, then the tree's by name. */
static int limits_compare(const void *a, const void *b)
{
    const struct live_limit *x = *(struct live_limit *const *)a;
    const struct live_limit *y = *(struct live_limit *const *)b;

    if (x->index != y->index)
        return x->index < y->index ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* All of them, sorted; to be freed. */
static struct live_limit **sorted_rules(const struct limits_live *l, size_t *n)
{
    struct live_limit **all = xcalloc(map_count(&l->limits) + 1, sizeof(struct live_limit *));

    *n = 0;
    map_for_each (struct live_limit, r, &l->limits, node)
        all[(*n)++] = r;
    qsort(all, *n, sizeof(struct live_limit *), limits_compare);
    return all;
}

/* ---- counters by name ---- */

static void drop_counter(struct limits_live *l, struct limit_counter *c)
{
    map_remove(&l->counters, &c->node);
    limit_counter_unref(c);
}

/* ---- effective limits ---- */

static void take_limit(struct limits_live *l, const struct live_limit *live, struct limit *out)
{
    const struct limit_settings *s = live_settings_now(live->engine);
    struct limit_counter *c = map_entry(map_find(&l->counters, live->name, strlen(live->name)),
                                        struct limit_counter, node);
    struct counter_limits limits = {0};
    struct limit_problem p;

    if (c == NULL) {
        c = limit_counter_create(live->name);
        map_add(&l->counters, &c->node, c->name, strlen(c->name));
    }
    /* limits_check rejects settings that do not compile. */
    bool compiled = limit_compile(live->name, s, out, &p);
    ASSERT(compiled);
    text_add(&out->page, text_slice(&live->page));
    out->counter = limit_counter_ref(c);
    c->used = true;
    /* Also with where: daemon: requests that already wait here stay in this queue. */
    if (!s->shadow)
        limits = (struct counter_limits){(uint32_t)s->workers, (uint32_t)s->slots};
    limit_counter_set(c, limits);
}

void limits_live_settings_changed(struct limits_live *l)
{
    const struct limit_set *now = l->app->settings->limits;
    bool required = false;

    for (size_t i = 0; now != NULL && i < now->n; ++i)
        required = required || now->limits[i].s.where == LIMIT_DAEMON;
    bool serverless = required && l->app->settings->s.pool_counter_servers.n == 0;
    if (serverless && !l->serverless) {
        log_warn(NULL, "limits-without-servers",
                 "application=%s reason=\"where: daemon, and there are no pool_counter_servers\" "
                 "action=\"apply on_unreachable\"",
                 l->app->name);
    }
    l->serverless = serverless;
}

static void assemble_rules(struct loop_deferred *later)
{
    struct limits_live *l = container_of(later, struct limits_live, later);
    struct limit limits[LIMITS_MAX];
    size_t n = 0;
    size_t nall;

    map_for_each_safe (struct live_limit, r, &l->limits, node) {
        if (limit_is_over(r))
            limit_destroy(r, true);
    }
    map_for_each (struct limit_counter, c, &l->counters, node)
        c->used = false;
    struct live_limit **all = sorted_rules(l, &nall);
    for (size_t i = 0; i < nall; ++i) {
        bool idle = limit_idle_reason(all[i]) != NULL;
        bool crowded_out = !idle && n == LIMITS_MAX;

        if (crowded_out && !all[i]->crowded_out)
            log_warn(all[i], "limit-rejected", "path=%s reason=\"more than %d\"", all[i]->path,
                     LIMITS_MAX);
        all[i]->crowded_out = crowded_out;
        if (!idle && !crowded_out)
            take_limit(l, all[i], &limits[n++]);
    }
    free(all);
    struct limit_set *set = n != 0 ? limit_set_create(limits, n) : NULL;
    if (set != NULL || l->app->settings->limits != NULL)
        application_set_limits(l->app, set);
    limit_set_unref(set);
    /* Counters without a limit no longer limit; they are freed when no request holds them. */
    map_for_each_safe (struct limit_counter, c, &l->counters, node) {
        if (c->used)
            continue;
        limit_counter_set(c, (struct counter_limits){0});
        /* Ours is the last reference, and no other code can create a new one from it. */
        if (atomic_load_explicit(&c->refs, memory_order_acquire) == 1)
            drop_counter(l, c);
    }
    /* For a start while the tree cannot be reached. */
    if (l->snapshot != NULL && l->received) {
        json_t *names = json_object();

        map_for_each (struct live_limit, r, &l->limits, node) {
            if (r->listed || r->index == NOWHERE)
                json_object_set_new(names, r->name, json_true());
        }
        snapshot_store(l->snapshot, names_part, names);
        json_decref(names);
    }
    limits_live_settings_changed(l);
}

/* ---- the tree ---- */

static void warn_name(const struct limits_live *l, struct slice name, const char *why)
{
    size_t n = name.len < LIMIT_NAME_MAX ? name.len : LIMIT_NAME_MAX;

    if (json_object_size(l->warned) >= WARNED_MAX || json_object_getn(l->warned, name.p, n) != NULL)
        return;
    json_object_setn_new_nocheck(l->warned, name.p, n, json_true());
    log_warn(NULL, "limit-rejected", "application=%s path=%s limit_name=\"%s\" reason=\"%s\"",
             l->app->name, l->path, log_shown(name), why);
}

/* The limit called NAME, created if there is none yet; NULL: NAME cannot have one. */
static struct live_limit *at_name(struct limits_live *l, const char *name, uint64_t wait_ms)
{
    struct live_limit *r = limits_find(l, slice_of(name));

    if (r != NULL)
        return r;
    /* This node is created by workers that register here. */
    if (strcmp(name, "providers") == 0)
        return NULL;
    if (!limit_name_is_valid(slice_of(name))) {
        warn_name(l, slice_of(name), "expected letters, digits, . _ -");
        return NULL;
    }
    size_t of_the_tree_alone = 0;
    map_for_each (struct live_limit, other, &l->limits, node)
        of_the_tree_alone += other->index == NOWHERE;
    if (of_the_tree_alone >= LIMITS_MAX) {
        warn_name(l, slice_of(name), "there are too many");
        return NULL;
    }
    return limit_create(l, name, &l->unset, NOWHERE, wait_ms);
}

/* Restores the limits of the snapshot; each limit then loads its own part of it. */
static void restore_rules(struct timer *wait)
{
    struct limits_live *l = container_of(wait, struct limits_live, wait);
    json_t *names = snapshot_part(l->snapshot, names_part);
    const char *name;
    json_t *value;

    json_object_foreach (names, name, value) {
        char *part = xasprintf("limits/%s", name);
        bool had_node = json_object_size(snapshot_part(l->snapshot, part)) > 0;
        struct live_limit *r = had_node ? at_name(l, name, 0) : NULL;

        if (r != NULL && r->index == NOWHERE)
            r->recalled = true;
        free(part);
    }
    schedule_assembly(l);
}

static void on_children(void *context, const struct tree_view *node)
{
    struct limits_live *l = context;
    const char *name;
    json_t *unused;
    bool empty = json_object_size(node->children) == 0;

    timer_stop(&l->wait);
    map_for_each (struct live_limit, r, &l->limits, node)
        r->listed = false;
    json_object_foreach (node->children, name, unused) {
        struct live_limit *r = at_name(l, name, l->wait_ms);

        if (r != NULL)
            r->listed = true;
    }
    /* A tree that was wiped: its last contents are held, as if their removal was observed. */
    if (!l->received && empty)
        restore_rules(&l->wait);
    l->received = true;
    schedule_assembly(l);
}

void limits_live_start(struct limits_live *l, struct tree *t, struct snapshot *m, uint64_t wait_ms)
{
    l->tree = t;
    l->snapshot = m;
    l->wait_ms = wait_ms;
    map_for_each (struct live_limit, r, &l->limits, node)
        live_settings_follow(r->engine, t, m, r->part, wait_ms);
    timer_start(l->app->lb->control, &l->wait, wait_ms);
    l->watch = tree_watch(t, l->path, on_children, l);
}

void limits_live_stop(struct limits_live *l)
{
    if (l->tree == NULL)
        return;
    timer_stop(&l->wait);
    tree_unwatch(l->watch);
    map_for_each (struct live_limit, r, &l->limits, node)
        live_settings_unfollow(r->engine);
    l->tree = NULL;
    l->snapshot = NULL;
}

/* ---- YAML, life ---- */

static void take_yaml(struct limits_live *l, const struct limit_configs *yaml)
{
    for (size_t i = 0; i < yaml->n; ++i) {
        const struct limit_config *c = &yaml->items[i];
        struct live_limit *r = limits_find(l, slice_of(c->name));

        if (r != NULL)
            limit_set_yaml(r, c, i);
        else
            limit_create(l, c->name, c, i, l->wait_ms);
    }
}

struct limits_live *limits_live_create(struct application *a, const struct limit_configs *yaml,
                                       const char *path)
{
    struct limits_live *l = xcalloc(1, sizeof(*l));

    l->app = a;
    l->path = xasprintf("%s/limits", path);
    settings_defaults(&limit_table, &l->unset.s);
    l->unset.origins = xcalloc(limit_table.n + match_table.n, sizeof(*l->unset.origins));
    l->warned = json_object();
    l->later.run = assemble_rules;
    list_init(&l->later.node);
    timer_init(&l->wait, restore_rules);
    take_yaml(l, yaml);
    assemble_rules(&l->later);
    return l;
}

void limits_live_set_yaml(struct limits_live *l, const struct limit_configs *yaml)
{
    map_for_each (struct live_limit, r, &l->limits, node) {
        size_t i = 0;

        while (i < yaml->n && strcmp(yaml->items[i].name, r->name) != 0)
            ++i;
        if (i == yaml->n && r->index != NOWHERE)
            limit_set_yaml(r, &l->unset, NOWHERE);
    }
    take_yaml(l, yaml);
    schedule_assembly(l);
}

void limits_live_destroy(struct limits_live *l)
{
    if (l == NULL)
        return;
    limits_live_stop(l);
    list_remove(&l->later.node);
    map_for_each_safe (struct live_limit, r, &l->limits, node)
        limit_destroy(r, false);
    application_set_limits(l->app, NULL);
    map_for_each_safe (struct limit_counter, c, &l->counters, node)
        drop_counter(l, c);
    json_decref(l->warned);
    limit_settings_fini(&l->unset.s);
    free(l->unset.origins);
    free(l->path);
    free(l);
}

/* ---- status ---- */

static void stored_key(struct limit_key_view *to, struct slice key)
{
    to->len = key.len < sizeof(to->key) ? key.len : sizeof(to->key);
    memcpy(to->key, key.p, to->len);
}

static void add_waits(const struct counter_stats *s, struct limit_view *out)
{
    out->waiting += s->waiting;
    out->keys += s->keys;
    out->waited_acquired_us += s->waited_me_us + s->waited_any_us;
    out->waited_done_us += s->waited_good_us;
    out->waited_timeout_us += s->wasted_us;
}

void limit_view(const struct limit *limit, uint64_t now_us, struct limit_view *out,
                struct limit_keys_view *keys)
{
    struct limit_counter *c = limit->counter;
    struct limit_figures *f = &c->figures;
    struct topk_row rows[LIMIT_TOP_KEYS];

    *out = (struct limit_view){0};
    pthread_mutex_lock(&c->lock);
    const struct counter_stats *s = counter_stats(c->table);
    const struct counter_lease *longest = counter_oldest(c->table);
    out->held = s->held;
    out->acquired = s->acquired;
    out->waited_us = topk_total(c->top);
    add_waits(s, out);
    /* Only waits: a request that holds a lock there is counted as one at the daemon. */
    add_waits(counter_stats(c->coalescing), out);
    if (longest != NULL && now_us > longest->since_us)
        out->longest_us = now_us - longest->since_us;
    if (keys != NULL) {
        keys->longest.len = 0;
        if (longest != NULL)
            stored_key(&keys->longest, counter_key_of(longest));
        keys->n = topk_read(c->top, rows, LIMIT_TOP_KEYS);
        for (size_t i = 0; i < keys->n; ++i) {
            struct limit_key_view *k = &keys->top[i];

            stored_key(k, rows[i].key);
            k->waited_us = rows[i].sum;
            k->over_us = rows[i].over;
            k->waits = rows[i].count;
        }
    }
    pthread_mutex_unlock(&c->lock);
#define LIMIT_COUNT(member, ...) out->member = load_relaxed(&f->member);
#include "lb/core/limit_figure.def"
    out->lost = load_relaxed(&f->daemon_lost);
    out->daemon_held = load_relaxed(&f->daemon_held);
    out->daemon_waiting = load_relaxed(&f->daemon_waiting);
    /* Both places: requests from before a change of `where` are counted at the other one. */
    out->held += out->daemon_held;
    out->waiting += out->daemon_waiting;
    out->acquired += load_relaxed(&f->daemon_acquired);
}

size_t limit_daemons(const struct application *a, struct limit_daemon_view *out)
{
    struct pool_counter_server_address servers[POOL_COUNTER_SERVERS_MAX];
    size_t n = limit_servers(&a->settings->s.pool_counter_servers, servers);

    for (size_t i = 0; i < n; ++i) {
        out[i] = (struct limit_daemon_view){.name = servers[i].name,
                                            .addr = servers[i].addr,
                                            .now = pool_counter_health_view(a->pool_counter_health,
                                                                            servers[i].name,
                                                                            &servers[i].addr, 0)};
    }
    return n;
}

void limit_status_put(const struct application *a, const char *name, struct json_writer *w)
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
    const struct limit_set *limits = a->settings->limits;
    struct limit_keys_view keys;
    struct limit_view v;
    size_t i = 0;

    while (limits != NULL && i < limits->n && strcmp(limits->limits[i].name, name) != 0)
        ++i;
    if (limits == NULL || i == limits->n) {
        json_put_null(w, "figures");
        return;
    }
    const struct limit_settings *s = &limits->limits[i].s;
    limit_view(&limits->limits[i], clock_mono_us(), &v, &keys);
    json_open_object(w, "figures");
    json_put_text(w, "where", slice_of(s->where == LIMIT_DAEMON ? "daemon" : "local"));
    json_put_text(w, "mode", slice_of(s->mode == LIMIT_ANY ? "any" : "each"));
    json_put_bool(w, "shadow", s->shadow);
    json_put_int(w, "workers", s->workers);
    json_put_int(w, "maxqueue", s->maxqueue);
    json_put_real(w, "timeout_s", (double)s->timeout_ms / 1e3);
    json_put_int(w, "slots", s->slots);
    for (i = 0; i < ARRAY_LEN(rows); ++i) {
        uint64_t n = *(const uint64_t *)((const char *)&v + rows[i].offset);

        if (rows[i].name != NULL && rows[i].type == TIME)
            json_put_real(w, rows[i].name, (double)n / 1e6);
        else if (rows[i].name != NULL)
            json_put_int(w, rows[i].name, (int64_t)n);
    }
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
    struct limit_daemon_view daemons[POOL_COUNTER_SERVERS_MAX];
    size_t n = limit_daemons(a, daemons);
    struct response_store_stats s;

    json_open_array(w, "pool_counter_servers");
    for (size_t i = 0; i < n; ++i) {
        json_open_object(w, NULL);
        json_put_text(w, "name", daemons[i].name);
        json_put_text(w, "address", slice_of(addr_text(&daemons[i].addr)));
        json_put_bool(w, "suspended", daemons[i].now.suspended);
        json_put_int(w, "connections", (int64_t)daemons[i].now.connections);
        json_put_int(w, "idle", (int64_t)daemons[i].now.idle);
        json_close_object(w);
    }
    json_close_array(w);
    response_store_read_stats(a->store, &s);
    json_open_object(w, "stored_responses");
#define STORED_FIGURE(member, ...) json_put_int(w, #member, (int64_t)s.member);
#include "lb/core/limit_figure.def"
    json_close_object(w);
}

void limits_live_describe(const struct limits_live *l, struct json_writer *w)
{
    size_t n;
    struct live_limit **all = sorted_rules(l, &n);

    json_open_array(w, "limits");
    for (size_t i = 0; i < n; ++i) {
        const struct live_limit *r = all[i];
        enum setting_origin origin = r->index != NOWHERE ? ORIGIN_YAML : ORIGIN_TREE;
        const char *why = r->crowded_out ? "too many limits" : limit_idle_reason(r);

        json_open_object(w, NULL);
        json_put_text(w, "name", slice_of(r->name));
        json_put_text(w, "origin", slice_of(setting_origin_text(origin)));
        json_put_bool(w, "in_force", why == NULL);
        if (why != NULL)
            json_put_text(w, "why", slice_of(why));
        live_settings_describe(r->engine, w);
        limit_status_put(l->app, r->name, w);
        json_close_object(w);
    }
    json_close_array(w);
    free(all);
}
