/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of the configuration, and the host names and services in it: each name is a source
 * (source.c), and the answers of the DNS are its readings.
 *
 * A failed answer is not a reading. An empty one is, so that its workers are held, counted and
 * shown like those of any source that reports nothing more.
 */
#include <stdlib.h>

#include "common/base/log.h"
#include "lb/backends/membership_internal.h"

/* ---- a name ---- */

static uint64_t next_pause_ms(struct host_name *h, const struct resolve_answer *a)
{
    const struct app_settings *s = &h->app->settings->s;
    uint64_t ms = h->pause_ms;

    if (a->problem == NULL) {
        h->pause_ms = 0;
        ms = (uint64_t)a->ttl_s * 1000;
    } else {
        h->pause_ms = ms != 0 ? 2 * ms : s->resolve_min_interval_ms;
        ms = h->pause_ms;
    }
    ms = ms < s->resolve_interval_ms ? ms : s->resolve_interval_ms;
    if (a->problem != NULL)
        h->pause_ms = ms;
    return ms > s->resolve_min_interval_ms ? ms : s->resolve_min_interval_ms;
}

static void on_resolved(struct resolve_request *r, const struct resolve_answer *a)
{
    struct host_name *h = container_of(r, struct host_name, request);
    const char *app = h->app->name;

    h->answered = true;
    timer_start(h->app->lb->control, &h->again, next_pause_ms(h, a));
    if (a->problem != NULL && h->problem == NULL)
        log_warn(NULL, "worker-not-resolved", "application=%s worker=%s reason=\"%s\"", app,
                 h->text, a->problem);
    if (a->truncated && !h->truncated)
        log_warn(NULL, "worker-addresses-truncated", "application=%s worker=%s limit=%d", app,
                 h->text, RESOLVED_ADDRS_MAX);
    h->problem = a->problem;
    h->failures += a->problem != NULL;
    if (a->problem == NULL || a->empty) {
        h->truncated = a->truncated;
        h->ttl_s = a->problem == NULL ? a->ttl_s : 0;
        h->naddrs = a->n;
        h->answered_ms = loop_now_ms(h->app->lb->control);
    }
    h->answer(h->context, a);
}

static void resolve_host(struct timer *again)
{
    struct host_name *h = container_of(again, struct host_name, again);

    timer_stop(again);
    resolver_cancel(&h->request);
    resolver_query(h->app->lb->resolver, &h->request);
}

void host_name_start(struct host_name *h, struct application *a, const char *text,
                     void (*answer)(void *context, const struct resolve_answer *a), void *context)
{
    h->app = a;
    h->text = xstrdup(text);
    h->answer = answer;
    h->context = context;
    h->request.name = h->text;
    h->request.done = on_resolved;
    timer_init(&h->again, resolve_host);
    resolve_host(&h->again);
}

void host_name_stop(struct host_name *h)
{
    resolver_cancel(&h->request);
    timer_stop(&h->again);
    free(h->text);
}

/* ---- the list of the configuration ---- */

struct listed_name {
    struct source source;
    struct host_name host;
    json_t *found; /* the last reading, counted; or NULL */
    bool first;    /* only one address is used */
    bool restored; /* what a previous run had is known, too */
    struct timer wait;
};

/* ---- the previous run ---- */

static void store_missing(json_t *stored, const struct list *missing, const struct source *s)
{
    const struct backend *b;

    list_for_each_entry (b, missing, missing) {
        if (b->lost_by == s)
            json_object_set_new(stored, b->name,
                                json_pack("{s:s, s:i, s:i}", "host", b->host, "priority",
                                          (int)b->priority, "share", b->share));
    }
}

static void store_name(struct listed_name *n)
{
    struct membership *ms = n->source.membership;
    json_t *stored = n->found != NULL ? json_copy(n->found) : json_object();

    /* Workers that are held here must not be removed there. */
    store_missing(stored, &n->source.vanished, &n->source);
    store_missing(stored, &ms->held.list, &n->source);
    snapshot_store(ms->names, n->host.text, stored);
    json_decref(stored);
}

void listed_workers_store(struct membership *ms)
{
    for (size_t i = 0; i < ms->listed.n; ++i) {
        if (ms->listed.names[i] != NULL)
            store_name(ms->listed.names[i]);
    }
}

/* Reports what a previous run had, so that the first answer is compared with it. */
static void restore_name(struct listed_name *n)
{
    json_t *part = snapshot_part(n->source.membership->names, n->host.text);
    json_t *found = json_object();
    const char *name;
    json_t *properties;

    timer_stop(&n->wait);
    if (n->restored) {
        json_decref(found);
        return;
    }
    n->restored = true;
    json_object_foreach (part, name, properties) {
        if (json_is_object(properties))
            json_object_set(found, name, properties);
    }
    found = tree_set_sorted(found);
    if (json_object_size(found) > 0) {
        log_info(NULL, "worker-addresses-restored", "application=%s worker=%s count=%zu",
                 n->host.app->name, n->host.text, json_object_size(found));
        source_report(&n->source, found);
        membership_update(n->source.membership);
    }
    json_decref(found);
}

static void restore_late(struct timer *wait)
{
    restore_name(container_of(wait, struct listed_name, wait));
}

/* ---- answers ---- */

/* The address that is used already, else the first one, IPv4 before IPv6. */
static size_t first_of(const struct listed_name *n, const struct resolve_answer *a)
{
    for (size_t i = 0; i < a->n; ++i) {
        if (json_object_get(n->found, addr_text(&a->items[i].addr)) != NULL)
            return i;
    }
    return 0;
}

/* The part of its limits that a worker of weight W gets if W_MAX is the largest. */
static int share_of(unsigned w, unsigned w_max)
{
    if (w_max == 0)
        return MEMBER_SHARE_ALL;
    if (w == 0)
        return 1;
    return (int)((w * (uint64_t)MEMBER_SHARE_ALL + w_max - 1) / w_max);
}

static json_t *properties_of(const struct resolved *r, const struct resolve_answer *a)
{
    unsigned w_max = 0;

    for (size_t i = 0; i < a->n; ++i) {
        if (a->items[i].priority == r->priority && a->items[i].weight > w_max)
            w_max = a->items[i].weight;
    }
    return json_pack("{s:s, s:i, s:i}", "host", r->host, "priority", (int)r->priority, "share",
                     share_of(r->weight, w_max));
}

static void on_answer(void *context, const struct resolve_answer *a)
{
    struct listed_name *n = context;
    json_t *found = json_object();
    json_t *properties = NULL;
    const struct resolved *last = NULL;
    size_t from = n->first ? first_of(n, a) : 0;
    size_t end = n->first && a->n > 0 ? from + 1 : a->n;

    restore_name(n);
    if (a->problem != NULL && !a->empty) {
        json_decref(found);
        return;
    }
    for (size_t i = from; i < end; ++i) {
        const struct resolved *r = &a->items[i];
        struct addr plain = addr_plain(&r->addr);

        if (last == NULL || last->host != r->host) {
            json_decref(properties);
            properties = properties_of(r, a);
        }
        last = r;
        json_object_set(found, addr_text(&plain), properties);
    }
    json_decref(properties);
    if (n->found != NULL && json_equal(n->found, found)) {
        json_decref(found);
        return;
    }
    found = tree_set_sorted(found);
    json_decref(n->found);
    n->found = found;
    log_info_folded(NULL, "worker-resolved", "application=%s worker=%s count=%zu",
                    n->host.app->name, n->host.text, a->n);
    source_report(&n->source, found);
    source_end_hold(&n->source);
    membership_update(n->source.membership);
    store_name(n);
}

static void end_listed_name(struct listed_name *n)
{
    if (n == NULL)
        return;
    if (!n->source.membership->stopping)
        snapshot_delete(n->source.membership->names, n->host.text);
    timer_stop(&n->wait);
    host_name_stop(&n->host);
    source_fini(&n->source);
    json_decref(n->found);
    free(n);
}

/* The one of the item C, which OLD may have; it is resolved (again). */
static struct listed_name *take_name(struct membership *ms, struct listed_workers *old,
                                     const struct worker_config *c)
{
    bool service = c->s.srv != NULL;
    const char *text = service ? c->s.srv : c->s.address;
    struct listed_name *n = NULL;

    for (size_t i = 0; i < old->n && n == NULL; ++i) {
        struct listed_name *have = old->names[i];

        if (have == NULL || have->host.request.service != service ||
            strcmp(have->host.text, text) != 0)
            continue;
        n = have;
        old->names[i] = NULL;
        /* In the order of the list. */
        list_move_back(&ms->sources, &n->source.node);
    }
    bool made = n == NULL;
    if (made) {
        n = xcalloc(1, sizeof(*n));
        source_init(&n->source, ms, SOURCE_NAME);
    }
    n->source.config = c;
    n->first = c->s.addresses == WORKER_ADDRESSES_FIRST;
    n->host.request.service = service;
    /* Its choices are those of enum resolve_family, in the same order. */
    n->host.request.family = (enum resolve_family)c->s.family;
    if (made) {
        host_name_start(&n->host, ms->app, text, on_answer, n);
        timer_init(&n->wait, restore_late);
        timer_start(ms->app->lb->control, &n->wait, ms->app->lb->settings.tree_start_wait_ms);
    } else {
        resolve_host(&n->host.again);
    }
    return n;
}

void listed_workers_swap(struct membership *ms, struct worker_config **workers, size_t *n)
{
    struct listed_workers *l = &ms->listed;
    struct listed_workers old = *l;

    *l = (struct listed_workers){
        .items = *workers, .n = *n, .names = xcalloc(*n + 1, sizeof(struct listed_name *))};
    map_for_each (struct backend, b, &ms->known, in_known) {
        b->literal = NULL;
        membership_touch(b);
    }
    for (size_t i = 0; i < l->n; ++i) {
        const struct worker_config *c = &l->items[i];

        if (c->named) {
            l->names[i] = take_name(ms, &old, c);
            continue;
        }
        struct backend *b = membership_at(ms, &c->addr);
        b->literal = c;
        membership_touch(b);
    }
    for (size_t i = 0; i < old.n; ++i)
        end_listed_name(old.names[i]);
    free(old.names);
    membership_update(ms);
    *workers = old.items;
    *n = old.n;
}

bool listed_workers_settled(const struct membership *ms)
{
    const struct listed_workers *l = &ms->listed;

    for (size_t i = 0; i < l->n; ++i) {
        if (l->names[i] != NULL && !l->names[i]->host.answered && l->names[i]->source.n == 0)
            return false;
    }
    return true;
}

/* ---- status ---- */

size_t listed_workers_failing(const struct membership *ms)
{
    size_t n = 0;

    for (size_t i = 0; i < ms->listed.n; ++i)
        n += ms->listed.names[i] != NULL && ms->listed.names[i]->host.problem != NULL;
    return n;
}

const char *source_name(struct source *s)
{
    return container_of(s, struct listed_name, source)->host.text;
}

void listed_workers_describe(const struct membership *ms, struct json_writer *w)
{
    const struct listed_workers *l = &ms->listed;
    uint64_t now_ms = loop_now_ms(ms->app->lb->control);

    json_open_array(w, "names");
    for (size_t i = 0; i < l->n; ++i) {
        const struct listed_name *n = l->names[i];

        if (n == NULL)
            continue;
        const struct host_name *h = &n->host;
        json_open_object(w, NULL);
        json_put_text(w, "name", slice_of(h->text));
        json_put_int(w, "addresses", (int64_t)h->naddrs);
        json_put_int(w, "workers", (int64_t)n->source.nregistered);
        json_put_int(w, "rejected", (int64_t)n->source.nrejected);
        if (h->answered_ms != 0) {
            json_put_real(w, "age_s", (double)(now_ms - h->answered_ms) / 1000);
            json_put_int(w, "ttl_s", h->ttl_s);
        } else {
            json_put_null(w, "age_s");
            json_put_null(w, "ttl_s");
        }
        if (h->problem != NULL)
            json_put_text(w, "problem", slice_of(h->problem));
        else
            json_put_null(w, "problem");
        json_put_int(w, "failures", (int64_t)h->failures);
        json_put_bool(w, "truncated", h->truncated);
        source_describe_rejected(&n->source, w, "rejections", true);
        json_close_object(w);
    }
    json_close_array(w);
}
