/* SPDX-License-Identifier: Apache-2.0
 *
 * `now` has the effective values, with the origin of each row. Rejections are those of the last
 * reading, one per row; a new one is logged and counted. A rejected value is replaced by that of
 * `now` if that came from the tree, so that a mistake does not undo the last valid value.
 */
#include "common/tree/live_settings.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"

enum {
    /* Interval of checks whether a hold that is over may end, while the tree is unreachable. */
    AWAY_CHECK_MS = 1000,
    /* Unknown names that are stored, so that each is logged once; further ones are not logged. */
    WARNED_MAX = 100,
    /* Bytes of such a name that are stored. */
    WARNED_NAME_MAX = 128,
    /* Bytes of a rejected value that are shown. */
    VALUE_SHOWN_MAX = 128,
};

/* The reason why the tree's value of a row is not effective. */
struct rejected_value {
    char *value; /* as it is in the tree, cut */
    char *why;   /* NULL: nothing is wrong */
    bool unreported;
};

struct values {
    void *s;
    enum setting_origin *origins;
};

struct live_settings {
    struct live_settings_options o;
    char *path;
    const struct setting_row **rows; /* of all tables */
    size_t nrows;
    struct values yaml, now;
    struct rejected_value *rejections; /* per row */
    json_t *properties;                /* the last good ones; NULL: none */
    json_t *warned;                    /* unknown names that were logged */
    uint64_t birth;                    /* of the node that PROPERTIES are from; 0: unknown */
    char *problem;                     /* of the last reading; NULL: none */
    bool received;                     /* the tree has reported the node */
    uint64_t restored_age_s, restored_ms;
    uint64_t held_ms;
    struct timer hold; /* while the node is missing or invalid: its last values stay */
    struct live_settings_counts counts;
    /* While the node is followed. */
    struct tree *tree;
    struct tree_watch *watch;
    struct snapshot *snapshot;
    char *part; /* of the snapshot */
    struct timer wait;
};

/* The node's value for row I; NULL if it has none, or JSON's null. Borrowed. */
static const json_t *property_of(const struct live_settings *l, size_t i)
{
    const json_t *value = json_object_get(l->properties, l->rows[i]->name);

    return json_is_null(value) ? NULL : value;
}

/* ---- rejected and unknown ---- */

/* A value as it is in the tree, without revealing secrets. */
static char *show_value(const struct setting_row *row, const json_t *value)
{
    struct text text = {0};
    char *shown;

    if (value == NULL)
        return xstrdup("(absent)");
    if (row->type == SETTING_SECRET)
        return xstrdup("***");
    if (!json_scalar_text(value, &text)) {
        char *dumped = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

        text_add(&text, slice_of(dumped != NULL ? dumped : "?"));
        free(dumped);
    }
    bool whole = text.len <= VALUE_SHOWN_MAX;
    shown =
        xasprintf("%.*s%s", (int)(whole ? text.len : VALUE_SHOWN_MAX), text.p, whole ? "" : "...");
    text_fini(&text);
    return shown;
}

/* Records why the tree's value of row I is not effective, to be logged once; WHY NULL: it is. */
static void live_reject(struct live_settings *l, size_t i, const char *why)
{
    struct rejected_value *r = &l->rejections[i];
    struct rejected_value old = *r;

    *r = (struct rejected_value){0};
    if (why != NULL) {
        const struct setting_row *row = l->rows[i];

        /* Reasons may quote the value. */
        r->why = xstrdup(row->type == SETTING_SECRET && row->when == SETTING_LIVE ? "invalid value"
                                                                                  : why);
        r->value = show_value(row, property_of(l, i));
        /* *R was cleared before it was freed. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
        r->unreported = old.unreported;
        if (old.why == NULL || strcmp(old.why, r->why) != 0 || strcmp(old.value, r->value) != 0) {
            ++l->counts.rejections;
            r->unreported = true;
        }
    }
    free(old.value);
    free(old.why);
}

/* Logs names that are in no table, each once. */
static void log_unknown(struct live_settings *l)
{
    const char *name;
    json_t *value;

    json_object_foreach (l->properties, name, value) {
        size_t n = strnlen(name, WARNED_NAME_MAX);
        /* Links have been followed; `type` is the tree's own. */
        bool known = slice_is(slice_of(name), "type") ||
                     slice_ends(slice_of(name), SLICE_LIT(" ->")) ||
                     slice_ends(slice_of(name), SLICE_LIT(" =>"));

        for (size_t i = 0; i < l->nrows && !known; ++i)
            known = strcmp(name, l->rows[i]->name) == 0;
        if (known || json_object_size(l->warned) >= WARNED_MAX ||
            json_object_getn(l->warned, name, n) != NULL)
            continue;
        json_object_setn_new_nocheck(l->warned, name, n, json_true());
        log_warn(l->o.subject, "setting-unknown", "path=%s setting=\"%s\"", l->path,
                 log_shown(slice_of(name)));
    }
}

/* ---- values ---- */

static void values_init(const struct live_settings *l, struct values *v)
{
    v->s = xcalloc(1, l->o.tables[0]->bytes);
    v->origins = xcalloc(l->nrows, sizeof(*v->origins));
}

static void values_fini(const struct live_settings *l, struct values *v)
{
    for (size_t t = 0; t < l->o.ntables; ++t)
        settings_fini(l->o.tables[t], v->s);
    free(v->s);
    free(v->origins);
}

/* Rows of type NODE are not copied: they point into a configuration, which may be freed. */
static void values_take(const struct live_settings *l, size_t i, const void *from,
                        enum setting_origin origin, struct values *to)
{
    if (l->rows[i]->type != SETTING_NODE)
        settings_take(l->rows[i], from, to->s);
    to->origins[i] = origin;
}

static void values_take_all(const struct live_settings *l, const void *from,
                            const enum setting_origin *origins, struct values *to)
{
    for (size_t i = 0; i < l->nrows; ++i)
        values_take(l, i, from, origins[i], to);
}

static bool values_same(const struct live_settings *l, size_t i, const struct values *a,
                        const struct values *b)
{
    return l->rows[i]->type == SETTING_NODE || settings_same(l->rows[i], a->s, b->s);
}

/* ---- one reading ---- */

static bool is_allowed(const struct live_settings *l, size_t i, const void *s,
                       char why[SETTINGS_WHY_ROOM])
{
    return l->o.allowed == NULL || l->o.allowed(l->rows[i], s, l->yaml.s, why);
}

/* Returns true if row I may retain its effective value after the tree's value was rejected. */
static bool may_stay(const struct live_settings *l, size_t i)
{
    char why[SETTINGS_WHY_ROOM];

    return l->now.origins[i] != ORIGIN_TREE || is_allowed(l, i, l->now.s, why);
}

/* Sets row I of C to VALUE, from the tree. Returns false, with the reason in WHY, if rejected. */
static bool take_property(const struct live_settings *l, size_t i, const json_t *value,
                          struct values *c, char why[SETTINGS_WHY_ROOM])
{
    const struct setting_row *row = l->rows[i];
    const double limit = 0x1p63;
    double real = json_real_value(value);
    struct text text = {0};
    bool good = false;

    /* A whole number loses its fraction, as in the original. */
    if (row->type == SETTING_INT && json_is_real(value) && real >= -limit && real < limit)
        text_addf(&text, "%lld", (long long)real);
    if (row->when == SETTING_LOCAL)
        snprintf(why, SETTINGS_WHY_ROOM, "is taken from the configuration file only");
    else if (row->when == SETTING_RELOAD)
        snprintf(why, SETTINGS_WHY_ROOM, "is taken from the configuration file, at SIGHUP");
    else if (row->when != SETTING_LIVE)
        snprintf(why, SETTINGS_WHY_ROOM, "needs a restart, with the configuration file");
    else if (text.len == 0 && !json_scalar_text(value, &text))
        snprintf(why, SETTINGS_WHY_ROOM, "not a single value: a number, a text, true or false");
    else
        good = settings_set(row, text_slice(&text), c->s, why) == ERR_OK;
    text_fini(&text);
    if (!good)
        return false;
    if (!is_allowed(l, i, c->s, why)) {
        values_take(l, i, l->yaml.s, l->yaml.origins[i], c);
        return false;
    }
    c->origins[i] = ORIGIN_TREE;
    return true;
}

static bool live_check(const struct live_settings *l, const struct values *c,
                       char why[SETTINGS_WHY_ROOM])
{
    return l->o.check == NULL || l->o.check(l->o.context, c->s, why);
}

/* The rules across fields: all rows that this reading changes are rejected together. */
static void check_across(struct live_settings *l, struct values *c)
{
    char why[SETTINGS_WHY_ROOM];

    if (live_check(l, c, why))
        return;
    for (size_t i = 0; i < l->nrows; ++i) {
        if (l->rows[i]->when != SETTING_LIVE || values_same(l, i, c, &l->now))
            continue;
        live_reject(l, i, why);
        if (may_stay(l, i))
            values_take(l, i, l->now.s, l->now.origins[i], c);
    }
    if (live_check(l, c, why))
        return;
    /* The rules have changed, and the previous values violate them: use YAML, which they permit. */
    for (size_t i = 0; i < l->nrows; ++i) {
        if (c->origins[i] != ORIGIN_TREE)
            continue;
        live_reject(l, i, why);
        values_take(l, i, l->yaml.s, l->yaml.origins[i], c);
    }
}

/* One line per changed row. Returns how many. */
static size_t log_changes(const struct live_settings *l, const struct values *c)
{
    struct text before = {0};
    struct text after = {0};
    size_t n = 0;

    for (size_t i = 0; i < l->nrows; ++i) {
        const struct setting_row *row = l->rows[i];

        if (values_same(l, i, c, &l->now))
            continue;
        ++n;
        text_clear(&before);
        text_clear(&after);
        settings_print(row, l->now.s, &before);
        settings_print(row, c->s, &after);
        log_info(l->o.subject, "setting-changed",
                 "path=%s setting=%s from=\"%s\" to=\"%s\" origin=%s", l->path, row->name,
                 log_shown(text_slice(&before)), log_shown(text_slice(&after)),
                 setting_origin_text(c->origins[i]));
    }
    text_fini(&before);
    text_fini(&after);
    return n;
}

static void read_again(struct live_settings *l)
{
    struct values c;
    uint64_t rejections = l->counts.rejections;

    values_init(l, &c);
    values_take_all(l, l->yaml.s, l->yaml.origins, &c);
    for (size_t i = 0; i < l->nrows; ++i) {
        const json_t *value = property_of(l, i);
        char why[SETTINGS_WHY_ROOM];
        bool good = value == NULL || take_property(l, i, value, &c, why);

        live_reject(l, i, good ? NULL : why);
        if (!good && l->now.origins[i] == ORIGIN_TREE && may_stay(l, i))
            values_take(l, i, l->now.s, ORIGIN_TREE, &c);
    }
    check_across(l, &c);
    size_t rejected = 0;
    for (size_t i = 0; i < l->nrows; ++i) {
        struct rejected_value *r = &l->rejections[i];

        rejected += r->why != NULL;
        if (r->unreported)
            log_warn(l->o.subject, "setting-rejected",
                     "path=%s setting=%s value=\"%s\" reason=\"%s\"", l->path, l->rows[i]->name,
                     r->value, r->why);
        r->unreported = false;
    }
    log_unknown(l);
    size_t changes = log_changes(l, &c);
    values_take_all(l, c.s, c.origins, &l->now);
    values_fini(l, &c);
    l->counts.changes += changes;
    bool counts = rejected != l->counts.rejected || rejections != l->counts.rejections;
    l->counts.rejected = rejected;
    if (changes > 0 || counts)
        l->o.changed(l->o.context, changes > 0);
}

/* ---- the node ---- */

static void end_hold(struct live_settings *l)
{
    timer_stop(&l->hold);
    l->counts.held = false;
    l->o.changed(l->o.context, false);
}

static void on_hold_over(struct timer *t)
{
    struct live_settings *l = container_of(t, struct live_settings, hold);
    struct tree_status tree = {.connected = true};

    /* While the tree is unreachable, a missing node is not confirmed as deleted. */
    if (l->tree != NULL)
        tree_status(l->tree, &tree);
    if (!tree.connected) {
        timer_start(l->o.loop, &l->hold, AWAY_CHECK_MS);
        return;
    }
    log_warn(l->o.subject, "settings-hold-expired",
             "path=%s reason=\"node not restored in time\" action=\"use the configuration file\"",
             l->path);
    json_decref(l->properties);
    l->properties = NULL;
    end_hold(l);
    read_again(l);
}

static void live_hold(struct live_settings *l, const char *why)
{
    uint64_t hold_ms = l->o.hold_ms(l->o.context, l->now.s);

    /* A node that never had values has nothing to hold. */
    if (l->counts.held || json_object_size(l->properties) == 0)
        return;
    l->counts.held = true;
    l->held_ms = loop_now_ms(l->o.loop);
    log_warn(l->o.subject, "settings-held", "path=%s reason=\"%s\" for_ms=%llu", l->path, why,
             (unsigned long long)hold_ms);
    timer_start(l->o.loop, &l->hold, hold_ms);
    l->o.changed(l->o.context, false);
}

/* Text that is not valid JSON arrives as this single property. */
static bool is_raw(const json_t *properties)
{
    return json_object_size(properties) == 1 && json_object_get(properties, "string_value") != NULL;
}

void live_settings_node(struct live_settings *l, const struct tree_view *node)
{
    bool recreated =
        l->counts.held || l->counts.remembered || (l->birth != 0 && node->birth != l->birth);
    const char *why = NULL;

    l->received = true;
    l->counts.remembered = false;
    free(l->problem);
    l->problem = xstrdup(node->problem);
    if (!node->exists)
        why = "node does not exist";
    else if (!node->parses || is_raw(node->properties))
        why = node->problem != NULL ? node->problem : "not a JSON object";
    else if (recreated && json_object_size(node->properties) == 0)
        why = "node exists, without properties"; /* created by a registration below it */
    if (why != NULL) {
        live_hold(l, why);
        return;
    }
    if (l->counts.held) {
        log_info(l->o.subject, "settings-restored", "path=%s", l->path);
        end_hold(l);
    }
    l->birth = node->birth;
    if (l->properties != NULL && json_equal(l->properties, node->properties))
        return;
    json_decref(l->properties);
    l->properties = json_deep_copy(node->properties);
    read_again(l);
}

void live_settings_restore(struct live_settings *l, const json_t *properties, uint64_t age_s)
{
    if (l->received || l->properties != NULL || is_raw(properties))
        return;
    l->properties = json_deep_copy(properties);
    l->counts.remembered = true;
    l->restored_age_s = age_s;
    l->restored_ms = loop_now_ms(l->o.loop);
    log_info(l->o.subject, "settings-from-snapshot", "path=%s age_s=%llu", l->path,
             (unsigned long long)age_s);
    read_again(l);
}

void live_settings_set_yaml(struct live_settings *l, const void *yaml,
                            const enum setting_origin *origins)
{
    for (size_t i = 0; i < l->nrows; ++i) {
        if (l->o.frozen == NULL || !l->o.frozen(l->rows[i]))
            values_take(l, i, yaml, origins[i], &l->yaml);
    }
    read_again(l);
}

/* ---- status ---- */

static double seconds_since(const struct live_settings *l, uint64_t then_ms)
{
    return (double)(loop_now_ms(l->o.loop) - then_ms) / 1000;
}

void live_settings_describe(const struct live_settings *l, struct json_writer *w)
{
    struct text value = {0};

    json_open_object(w, "settings");
    for (size_t i = 0; i < l->nrows; ++i) {
        const struct setting_row *row = l->rows[i];

        if (row->type == SETTING_NODE)
            continue;
        text_clear(&value);
        settings_print(row, l->now.s, &value);
        json_open_object(w, row->name);
        json_put_text(w, "value", text_slice(&value));
        json_put_text(w, "origin", slice_of(setting_origin_text(l->now.origins[i])));
        if (l->rejections[i].why != NULL)
            json_put_text(w, "rejected", slice_of(l->rejections[i].why));
        json_close_object(w);
    }
    json_close_object(w);
    text_fini(&value);
    json_open_array(w, "rejected");
    for (size_t i = 0; i < l->nrows; ++i) {
        const struct rejected_value *r = &l->rejections[i];

        if (r->why == NULL)
            continue;
        json_open_object(w, NULL);
        json_put_text(w, "path", slice_of(l->path));
        json_put_text(w, "name", slice_of(l->rows[i]->name));
        json_put_text(w, "value", slice_of(r->value));
        json_put_text(w, "why", slice_of(r->why));
        json_close_object(w);
    }
    json_close_array(w);
    if (l->problem != NULL)
        json_put_text(w, "problem", slice_of(l->problem));
    else
        json_put_null(w, "problem");
    json_put_bool(w, "held", l->counts.held);
    json_put_real(w, "held_s", l->counts.held ? seconds_since(l, l->held_ms) : 0);
    json_put_bool(w, "remembered", l->counts.remembered);
    if (l->counts.remembered)
        json_put_real(w, "remembered_age_s",
                      (double)l->restored_age_s + seconds_since(l, l->restored_ms));
}

/* ---- the watch ---- */

void live_settings_recall(struct live_settings *l)
{
    const json_t *old = snapshot_part(l->snapshot, l->part);

    if (old != NULL)
        live_settings_restore(l, old, snapshot_age_s(l->snapshot));
}

static void on_node(void *context, const struct tree_view *node)
{
    struct live_settings *l = context;
    bool good = node->exists && node->parses;

    timer_stop(&l->wait);
    /* The tree was wiped in the meantime: values from a previous run are held like those of this
     * one. */
    if (!l->received && (!good || json_object_size(node->properties) == 0))
        live_settings_recall(l);
    live_settings_node(l, node);
    if (good && !l->counts.held)
        snapshot_store(l->snapshot, l->part, node->properties);
}

static void on_wait_over(struct timer *t)
{
    live_settings_recall(container_of(t, struct live_settings, wait));
}

void live_settings_follow(struct live_settings *l, struct tree *t, struct snapshot *snapshot,
                          const char *part, uint64_t wait_ms)
{
    l->tree = t;
    l->snapshot = snapshot;
    l->part = xstrdup(part);
    timer_start(l->o.loop, &l->wait, wait_ms);
    l->watch = tree_watch(t, l->path, on_node, l);
}

void live_settings_unfollow(struct live_settings *l)
{
    timer_stop(&l->wait);
    tree_unwatch(l->watch);
    l->watch = NULL;
    l->tree = NULL;
    free(l->part);
    l->part = NULL;
}

/* ---- life ---- */

struct live_settings *live_settings_create(const struct live_settings_options *o)
{
    struct live_settings *l = xcalloc(1, sizeof(*l));

    l->o = *o;
    l->path = xstrdup(o->path);
    for (size_t t = 0; t < o->ntables; ++t)
        l->nrows += o->tables[t]->n;
    const struct setting_row **row = l->rows = xcalloc(l->nrows, sizeof(*l->rows));
    for (size_t t = 0; t < o->ntables; ++t) {
        for (size_t i = 0; i < o->tables[t]->n; ++i)
            *row++ = &o->tables[t]->rows[i];
    }
    values_init(l, &l->yaml);
    values_init(l, &l->now);
    values_take_all(l, o->yaml, o->origins, &l->yaml);
    values_take_all(l, o->yaml, o->origins, &l->now);
    /* The caller's are only borrowed for this call. */
    l->o.yaml = NULL;
    l->o.origins = NULL;
    l->o.path = NULL;
    l->rejections = xcalloc(l->nrows, sizeof(*l->rejections));
    l->warned = json_object();
    timer_init(&l->hold, on_hold_over);
    timer_init(&l->wait, on_wait_over);
    return l;
}

void live_settings_destroy(struct live_settings *l)
{
    if (l == NULL)
        return;
    live_settings_unfollow(l);
    timer_stop(&l->hold);
    for (size_t i = 0; i < l->nrows; ++i) {
        free(l->rejections[i].value);
        free(l->rejections[i].why);
    }
    free(l->rejections);
    values_fini(l, &l->yaml);
    values_fini(l, &l->now);
    json_decref(l->properties);
    json_decref(l->warned);
    free(l->problem);
    free(l->path);
    free(l->rows);
    free(l);
}

const void *live_settings_now(const struct live_settings *l)
{
    return l->now.s;
}

static size_t index_of(const struct live_settings *l, const struct setting_row *row)
{
    size_t i = 0;

    while (i < l->nrows && l->rows[i] != row)
        ++i;
    ASSERT(i < l->nrows);
    return i;
}

enum setting_origin live_settings_origin(const struct live_settings *l,
                                         const struct setting_row *row)
{
    return l->now.origins[index_of(l, row)];
}

const char *live_settings_rejection(const struct live_settings *l, const struct setting_row *row)
{
    return l->rejections[index_of(l, row)].why;
}

void live_settings_counts(const struct live_settings *l, struct live_settings_counts *out)
{
    *out = l->counts;
}
