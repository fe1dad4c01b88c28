/* SPDX-License-Identifier: Apache-2.0
 *
 * Kinds pool, single_version, classless: a pool, its workers by name, the requests in flight of
 * each.
 */
#include <math.h>
#include <stdlib.h>

#include "common/base/map.h"
#include "common/base/text.h"
#include "routing/pool.h"
#include "tests/replay/replay.h"
#include "tests/support/pool_check.h"

/* Nothing is ever dropped for want of room. */
static const size_t CLASSES_UNBOUNDED = SIZE_MAX / 4;

struct handed {
    struct list node;
    struct pool_pick pick;
};

struct hand {
    struct map_node in_flights;
    struct worker *worker;
    struct list handed; /* oldest first */
    bool removed;
};

struct driven_pool {
    struct subject base;
    struct pool *pool;
    struct pool_settings settings;
    struct map hands; /* by name */
};

static struct driven_pool *pool_of(struct subject *s)
{
    return container_of(s, struct driven_pool, base);
}

static bool is_classless(const struct driven_pool *d)
{
    return d->settings.policy == POOL_POLICY_CLASSLESS;
}

/* JSON may be NULL. What it does not name reverts to its default. */
static bool read_settings(const json_t *json, struct pool_settings *out, const char **why)
{
    return member_number(json, "variance", 1.0, &out->variance, why) &&
           member_count(json, "backlog_history", 9, 1, &out->backlog_history, why) &&
           member_number(json, "unskilled_score", 1.0, &out->unskilled_score, why);
}

static struct subject *create(const struct kind *k, const json_t *header, const char **why)
{
    struct pool_settings settings = {
        .policy = k == &kind_classless ? POOL_POLICY_CLASSLESS : POOL_POLICY_RESUME,
        .single_version =
            k == &kind_single_version || json_is_true(json_object_get(header, "single_version")),
        .max_classes = CLASSES_UNBOUNDED,
        /* The original had no reports: without any, the switch must change nothing. */
        .backlog_shared = json_is_true(json_object_get(header, "backlog_shared")),
        .backlog_max_age_ms = 2000,
    };

    if (!read_settings(json_object_get(header, "settings"), &settings, why))
        return NULL;
    struct driven_pool *d = xcalloc(1, sizeof(*d));
    d->base.kind = k;
    d->settings = settings;
    d->pool = pool_create(&settings, "");
    return &d->base;
}

static void put_oldest(struct driven_pool *d, struct hand *h)
{
    struct handed *oldest = list_entry(list_pop_front(&h->handed), struct handed, node);

    pool_put(d->pool, &oldest->pick, NULL, NULL);
    free(oldest);
}

static void destroy(struct subject *s)
{
    struct driven_pool *d = pool_of(s);

    map_for_each_safe (struct hand, h, &d->hands, in_flights) {
        while (!list_empty(&h->handed))
            put_oldest(d, h);
        pool_remove(d->pool, h->worker, NULL);
        map_remove(&d->hands, &h->in_flights);
        worker_unref(h->worker);
        free(h);
    }
    pool_destroy(d->pool);
    free(d);
}

static struct hand *find_hand(const struct driven_pool *d, const char *name)
{
    return map_entry(map_find(&d->hands, name, strlen(name)), struct hand, in_flights);
}

static struct hand *add_hand(struct driven_pool *d, const char *name)
{
    struct hand *h = xcalloc(1, sizeof(*h));
    struct worker_options options = {.name = slice_of(name), .concurrency = 1};

    h->worker = worker_create(&options);
    list_init(&h->handed);
    const char *key = worker_name(h->worker);
    map_add(&d->hands, &h->in_flights, key, strlen(key));
    return h;
}

/* ---- responses ---- */

static json_t *mean_of_pool(const struct pool_view *v)
{
    if (v->settings.policy != POOL_POLICY_CLASSLESS)
        return json_real(v->mean_backlog);
    return v->nactive != 0 ? count_to_json(v->backlog / v->nactive) : json_null();
}

static json_t *version_or_null(const struct pool_view *v)
{
    return v->active_version != NULL ? json_string(v->active_version) : json_null();
}

/* The numbers after a get or put of H. They leave out a worker that is gone for good. */
static void add_numbers(const struct driven_pool *d, const struct hand *h, json_t *response)
{
    const char *name = worker_name(h->worker);
    struct pool_view v;

    pool_view(d->pool, false, &v);
    json_object_set_new(response, "pool_backlog", count_to_json(v.backlog));
    json_object_set_new(response, "pool_mean_backlog", mean_of_pool(&v));
    for (size_t i = 0; i < v.n + v.ndetached; ++i) {
        const struct worker_view *w = &v.workers[i];

        if (w->worker != h->worker)
            continue;
        json_object_set_new(response, "backlog",
                            json_pack("{s:o}", name, count_to_json(w->backlog)));
        if (!is_classless(d))
            json_object_set_new(response, "mean_backlog",
                                json_pack("{s:f}", name, w->mean_backlog));
    }
    pool_view_fini(&v);
}

static json_t *names_of(const struct worker_view *workers, size_t n, bool reversed)
{
    json_t *names = json_array();

    for (size_t i = 0; i < n; ++i)
        json_array_append_new(names, json_string(workers[reversed ? n - 1 - i : i].name));
    return names;
}

static const struct worker_view *find_member(const struct pool_view *v, const struct worker *w)
{
    for (size_t i = 0; i < v->n; ++i) {
        if (v->workers[i].worker == w)
            return &v->workers[i];
    }
    return NULL;
}

/* The names of workers that were eligible before, and are still members but no longer eligible. */
static json_t *stood_aside(const struct pool_view *before, const struct pool_view *after)
{
    json_t *names = json_array();

    for (size_t i = 0; i < before->nactive; ++i) {
        const struct worker_view *w = find_member(after, before->workers[i].worker);

        if (w != NULL && !w->active)
            json_array_append_new(names, json_string(w->name));
    }
    return names;
}

static json_t *response_membership(const struct driven_pool *d, const struct pool_view *before)
{
    struct pool_view after;

    pool_view(d->pool, false, &after);
    json_t *response = json_pack("{s:o}", "nworkers", count_to_json(after.nactive));
    if (d->settings.single_version) {
        json_object_set_new(response, "active_version", version_or_null(&after));
        if (before->active_version != NULL && after.active_version != NULL &&
            strcmp(before->active_version, after.active_version) != 0) {
            /* Each went to the front, so the line has them last to first. */
            json_object_set_new(response, "activated",
                                names_of(after.workers, after.nactive, true));
            json_object_set_new(response, "deactivated", stood_aside(before, &after));
        }
    }
    pool_view_fini(&after);
    return response;
}

/* ---- operations ---- */

static json_t *step_resume(struct driven_pool *d, const json_t *line, const char **why)
{
    const char *name = member_string(line, "worker", why);
    const char *version = json_string_value(json_object_get(line, "version"));
    struct resume r = {0};
    struct pool_view before;

    if (name == NULL || !resume_from_json(json_object_get(line, "resume"), &r, why))
        return NULL;
    struct hand *h = find_hand(d, name);
    if (h != NULL && h->removed) {
        *why = "the worker has left for good";
        resume_fini(&r);
        return NULL;
    }
    if (h == NULL)
        h = add_hand(d, name);
    pool_view(d->pool, false, &before);
    pool_new_resume(d->pool, h->worker, &r, version, "", NULL);
    json_t *response = response_membership(d, &before);
    pool_view_fini(&before);
    resume_fini(&r);
    return response;
}

static struct hand *present_hand(const struct driven_pool *d, const json_t *line, const char **why)
{
    const char *name = member_string(line, "worker", why);
    struct hand *h = name != NULL ? find_hand(d, name) : NULL;

    if (name != NULL && h == NULL)
        *why = "no such worker";
    return h;
}

static json_t *step_remove(struct driven_pool *d, const json_t *line, const char **why)
{
    struct hand *h = present_hand(d, line, why);
    struct pool_view before;

    if (h == NULL)
        return NULL;
    if (h->removed) {
        *why = "the worker has left already";
        return NULL;
    }
    pool_view(d->pool, false, &before);
    pool_remove(d->pool, h->worker, NULL);
    h->removed = true;
    json_t *response = response_membership(d, &before);
    pool_view_fini(&before);
    return response;
}

static const char *via(const struct driven_pool *d, const struct pool_pick *pick)
{
    if (is_classless(d))
        return "line";
    return pick->reason == PICK_SKILLED ? "skilled" : "lru";
}

static json_t *step_get(struct driven_pool *d, const json_t *line, const char **why)
{
    const char *cls = member_string(line, "class", why);

    if (cls == NULL)
        return NULL;
    struct handed *handed = xcalloc(1, sizeof(*handed));
    struct pool_request request = {.cls = slice_of(cls)};
    if (pool_get(d->pool, &request, 0, &handed->pick) != ERR_OK) {
        free(handed);
        return json_pack("{s:n,s:s}", "pick", "via", "empty");
    }
    const struct pool_pick *pick = &handed->pick;
    struct hand *h = find_hand(d, worker_name(pick->worker));
    ASSERT(h != NULL);
    list_push_back(&h->handed, &handed->node);
    json_t *response =
        json_pack("{s:s,s:s}", "pick", worker_name(pick->worker), "via", via(d, pick));
    if (!is_classless(d)) {
        json_object_set_new(response, "max_backlog", json_real(pick->max_backlog));
        json_object_set_new(response, "min_backlog", json_real(pick->min_backlog));
        json_object_set_new(response, "skipped", count_to_json(pick->skipped));
    }
    add_numbers(d, h, response);
    return response;
}

static json_t *step_put(struct driven_pool *d, const json_t *line, const char **why)
{
    struct hand *h = present_hand(d, line, why);

    if (h == NULL)
        return NULL;
    if (list_empty(&h->handed)) {
        *why = "the worker has no request in flight";
        return NULL;
    }
    put_oldest(d, h);
    json_t *response = json_pack("{s:b}", "detached", h->removed);
    add_numbers(d, h, response);
    return response;
}

static json_t *effective(const struct pool_settings *s)
{
    return json_pack("{s:f,s:o,s:f}", "variance", s->variance, "backlog_history",
                     count_to_json(s->backlog_history), "unskilled_score", s->unskilled_score);
}

static json_t *step_settings(struct driven_pool *d, const json_t *line, const char **why)
{
    struct pool_settings settings = d->settings;

    if (!read_settings(json_object_get(line, "settings"), &settings, why))
        return NULL;
    d->settings = settings;
    pool_set(d->pool, &settings);
    return json_pack("{s:o}", "effective", effective(&settings));
}

static json_t *worker_numbers(const struct driven_pool *d, const struct worker_view *w)
{
    if (is_classless(d))
        return json_pack("{s:o}", "backlog", count_to_json(w->backlog));
    return json_pack("{s:o,s:f,s:f,s:f}", "backlog", count_to_json(w->backlog), "mean_backlog",
                     w->mean_backlog, "weighted_sum", w->worker->mean.sum, "weight",
                     w->worker->mean.weight);
}

static json_t *group(const struct driven_pool *d, const struct worker_view *workers, size_t n)
{
    json_t *object = json_object();

    for (size_t i = 0; i < n; ++i)
        json_object_set_new(object, workers[i].name, worker_numbers(d, &workers[i]));
    return object;
}

static json_t *inactive(const struct driven_pool *d, const struct pool_view *v)
{
    json_t *versions = json_object();

    for (size_t i = v->nactive; i < v->n; ++i) {
        const struct worker_view *w = &v->workers[i];

        if (json_object_get(versions, w->version) == NULL)
            json_object_set_new(versions, w->version, json_object());
        json_object_set_new(json_object_get(versions, w->version), w->name, worker_numbers(d, w));
    }
    return versions;
}

static json_t *classes(const struct pool_view *v)
{
    json_t *object = json_object();

    for (size_t i = 0; i < v->nactive; ++i) {
        const struct resume *r = &v->workers[i].skills;

        for (size_t row = 0; row < r->n; ++row) {
            struct slice cls = r->rows[row].cls;

            if (json_object_getn(object, cls.p, cls.len) == NULL)
                set_named(object, cls, json_array());
            json_array_append_new(json_object_getn(object, cls.p, cls.len),
                                  json_pack("[s,f]", v->workers[i].name, r->rows[row].score));
        }
    }
    return object;
}

static void add_means(const struct pool *p, const struct pool_view *v, json_t *response)
{
    json_t *decay = p->decay != 0 ? json_real(p->decay) : json_null();

    json_object_set_new(response, "pool_weighted_sum", json_real(p->mean.sum));
    json_object_set_new(response, "pool_weight", json_real(p->mean.weight));
    json_object_set_new(response, "pool_decay", decay);
    json_object_set_new(response, "worker_decay", json_real(p->worker_decay));
    json_object_set_new(response, "effective", effective(&v->settings));
    json_object_set_new(response, "classes", classes(v));
}

static json_t *step_state(const struct driven_pool *d)
{
    struct pool_view v;

    pool_check(d->pool);
    pool_view(d->pool, !is_classless(d), &v);
    json_t *response =
        json_pack("{s:o,s:o,s:o,s:o,s:o,s:o}", "nworkers", count_to_json(v.nactive), "pool_backlog",
                  count_to_json(v.backlog), "pool_mean_backlog", mean_of_pool(&v), "line",
                  names_of(v.workers, v.nactive, false), "workers", group(d, v.workers, v.nactive),
                  "detached", group(d, v.workers + v.n, v.ndetached));
    if (!is_classless(d))
        add_means(d->pool, &v, response);
    if (d->settings.single_version) {
        json_object_set_new(response, "active_version", version_or_null(&v));
        json_object_set_new(response, "inactive", inactive(d, &v));
    }
    pool_view_fini(&v);
    return response;
}

static json_t *step(struct subject *s, const char *op, const json_t *line, const char **why)
{
    struct driven_pool *d = pool_of(s);

    if (strcmp(op, "get") == 0)
        return step_get(d, line, why);
    if (strcmp(op, "put") == 0)
        return step_put(d, line, why);
    if (strcmp(op, "resume") == 0)
        return step_resume(d, line, why);
    if (strcmp(op, "remove") == 0)
        return step_remove(d, line, why);
    if (strcmp(op, "settings") == 0)
        return step_settings(d, line, why);
    if (strcmp(op, "state") == 0)
        return step_state(d);
    *why = "no such operation";
    return NULL;
}

const struct kind kind_pool = {.name = "pool", .create = create, .destroy = destroy, .step = step};
const struct kind kind_single_version = {
    .name = "single_version", .create = create, .destroy = destroy, .step = step};
const struct kind kind_classless = {
    .name = "classless", .create = create, .destroy = destroy, .step = step};
