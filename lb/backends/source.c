/* SPDX-License-Identifier: Apache-2.0
 *
 * What holds for every source: which of its providers are rejected, that a worker with several of
 * them is one worker, and what happens to workers that a source has no longer.
 *
 * Each reading is compared with the one before, so that only those providers cost anything that
 * have changed, even among a thousand. A provider with an address as its name, in any spelling,
 * registers the backend there: two such providers are one backend.
 */
#include <stdlib.h>

#include "common/base/log.h"
#include "common/net/addr.h"
#include "lb/backends/membership_internal.h"
#include "lb/rules/provider_limits.h"

enum {
    /* Rejected providers that the status page shows. */
    REJECTED_SHOWN_MAX = 100,
    /* Host names among providers: each is resolved at intervals, one after the other. */
    HOST_NAMES_MAX = 1000,
    /* What ends within this time ended at once: a lost session removes its nodes in steps. */
    VANISH_WINDOW_MS = 500,
    /* How often held workers are checked. */
    HELD_CHECK_MS = 1000,
};

/*
 * ---- backends that a source had, and has no longer ----
 *
 *   vanished -- 500 ms --> more than discovery_max_drop of all? -- no --> known by an open stream
 *                            | yes                                        only
 *                          held --> registered again; or refuted: its stream has an end line, its
 *                                   address refuses; or no sign of life for providers_hold; or an
 *                                   operator confirms the removal; or its name has most again
 */

void membership_find_again(struct backend *b)
{
    struct source *s = b->lost_by;

    list_remove(&b->missing);
    /* All are back: the next worker that vanishes starts a new window. */
    if (b->vanished && list_empty(&s->vanished))
        timer_stop(&s->window);
    b->vanished = b->held = false;
    b->lost_by = NULL;
}

/* B's last registration has ended, which S had. */
static void membership_miss(struct backend *b, struct source *s)
{
    struct application *a = b->app;

    log_info_folded(NULL, "registration-ended", "application=%s worker=%s", a->name, b->name);
    b->vanished = true;
    b->lost_by = s;
    b->failures_before = backend_failures(b);
    list_push_back(&s->vanished, &b->missing);
    if (timer_running(&s->window))
        return;
    s->window_base = s->before;
    timer_start(a->lb->control, &s->window, VANISH_WINDOW_MS);
}

/* Decides whether the vanished workers are held. */
static void on_window_over(struct timer *t)
{
    struct source *s = container_of(t, struct source, window);
    struct membership *ms = s->membership;
    struct held_workers *h = &ms->held;
    struct loop *control = ms->app->lb->control;
    struct backend *b;
    size_t n = list_length(&s->vanished);
    bool all = (double)n > ms->app->settings->s.discovery_max_drop * (double)s->window_base;
    if (all) {
        s->held_base = s->window_base;
        log_warn(
            NULL, "registrations-held",
            "application=%s count=%zu total=%zu reason=\"more than discovery_max_drop ended at "
            "once\" action=\"keep them until their removal is confirmed\" hint=\"if they were "
            "removed on purpose, run: " CONFIRM_REMOVAL "\"",
            ms->app->name, n, s->window_base, ms->app->name);
    }
    while ((b = list_pop_entry(&s->vanished, struct backend, missing)) != NULL) {
        b->vanished = false;
        if (all) {
            b->held = true;
            b->sign_ms = loop_now_ms(control);
            list_push_back(&h->list, &b->missing);
            if (!timer_running(&h->check))
                timer_start(control, &h->check, HELD_CHECK_MS);
        } else {
            b->lost_by = NULL;
        }
        membership_touch(b);
    }
    membership_update(ms);
}

static void give_up(struct backend *b, const char *why)
{
    log_info_folded(NULL, "registration-dropped", "application=%s worker=%s reason=\"%s\"",
                    b->app->name, b->name, why);
    membership_find_again(b);
    membership_touch(b);
}

void source_end_hold(struct source *s)
{
    struct membership *ms = s->membership;
    double max = ms->app->settings->s.discovery_max_drop * (double)s->held_base;
    size_t n = 0;
    struct backend *b;

    list_for_each_entry (b, &ms->held.list, missing)
        n += b->lost_by == s;
    if ((double)n > max || s->nregistered + n < s->held_base)
        return;
    list_for_each_entry_safe (b, &ms->held.list, missing) {
        if (b->lost_by == s)
            give_up(b, "most of the others are back");
    }
}

size_t membership_confirm_removal(struct membership *ms, struct slice worker)
{
    struct backend *b;
    size_t n = 0;

    list_for_each_entry_safe (b, &ms->held.list, missing) {
        if (worker.len != 0 && !slice_is(worker, b->name))
            continue;
        give_up(b, "removal confirmed");
        ++n;
    }
    /* Otherwise a restart would restore them. */
    if (n > 0) {
        providers_store(ms);
        listed_workers_store(ms);
        call_source_store(ms->calls);
    }
    membership_update(ms);
    return n;
}

void held_check(struct timer *t)
{
    struct membership *ms = container_of(t, struct membership, held.check);
    uint64_t now_ms = loop_now_ms(ms->app->lb->control);
    struct backend *b;

    list_for_each_entry_safe (b, &ms->held.list, missing) {
        if (backend_alive(b)) {
            b->sign_ms = now_ms;
            continue;
        }
        bool refuses =
            !b->streams && (backend_failures(b) > b->failures_before || backend_unreachable(b));
        b->refuted = b->refuted || refuses;
        if (refuses || now_ms - b->sign_ms >= ms->app->settings->s.providers_hold_ms)
            give_up(b, b->refuted ? "refuses connections"
                                  : "no successful connection for providers_hold");
    }
    if (!list_empty(&ms->held.list))
        timer_start(ms->app->lb->control, t, HELD_CHECK_MS);
    membership_update(ms);
}

/* ---- one provider ---- */

static void copy_property(const json_t *properties, const char *name, char *out, size_t room)
{
    struct text value = {0};

    if (!json_scalar_text(json_object_get(properties, name), &value))
        text_clear(&value);
    snprintf(out, room, "%s", text_cstr(&value));
    text_fini(&value);
}

/* Whether S counts B with one more, or one fewer, provider. */
static bool counts_provider(const struct source *s, const struct backend *b)
{
    return s->kind == SOURCE_NAME || b->providers[s->kind] == 0;
}

/* P registers its backend no longer. EXPECTED: it may return, and is missing until then. */
static void detach_provider(struct provider *p, bool expected)
{
    struct source *s = p->source;
    struct backend *b = p->worker;

    if (b == NULL)
        return;
    p->worker = NULL;
    --b->providers[s->kind];
    s->nregistered -= counts_provider(s, b);
    if (expected && !backend_registered(b) && !s->membership->stopping)
        membership_miss(b, s);
    membership_touch(b);
}

static void set_rejected(struct provider *p, const char *why)
{
    if (why != NULL && p->why != why)
        log_warn(NULL, "registration-rejected", "application=%s provider=%s reason=\"%s\"",
                 p->source->membership->app->name, log_shown(slice_of(p->name)), why);
    p->source->nrejected += (why != NULL) - (p->why != NULL);
    p->why = why;
}

/* Why S may not register a worker at A; NULL: it may. */
static const char *rejection_of(const struct source *s, const struct addr *a)
{
    const struct membership *ms = s->membership;
    const struct app_snapshot *now = ms->app->settings;
    const struct provider_limits limits = {
        .networks = now->s.provider_networks.n != 0 ? &now->providers : NULL,
        .remote = s->kind == SOURCE_TREE   ? tree_is_remote(ms->app->tree)
                  : s->kind == SOURCE_CALL ? ms->app->lb->admin_remote
                                           : false,
        .own = ms->app->lb->own,
        .nown = ms->app->lb->nown};

    return provider_limits_rejection(&limits, a);
}

/* Registers the worker of P at A, unless that is rejected. */
static void set_address(struct provider *p, const struct addr *a)
{
    struct source *s = p->source;
    const char *why = rejection_of(s, a);
    struct addr plain = addr_plain(a);

    set_rejected(p, why);
    if (why != NULL) {
        detach_provider(p, false);
        return;
    }
    if (p->worker == NULL || !addr_equal(&p->worker->addr, &plain)) {
        detach_provider(p, true);
        p->worker = membership_at(s->membership, a);
        if (p->host != NULL)
            backend_set_host(p->worker, p->name);
        if (s->kind == SOURCE_NAME && p->worker->named_by == NULL)
            p->worker->named_by = s;
        s->nregistered += counts_provider(s, p->worker);
        if (!backend_registered(p->worker)) {
            p->worker->refuted = false;
            membership_find_again(p->worker);
        }
        ++p->worker->providers[s->kind];
    }
    struct backend *b = p->worker;
    membership_touch(b);
    if (s->kind == SOURCE_NAME)
        return;
    copy_property(p->properties, "version", b->version, sizeof(b->version));
    copy_property(p->properties, "instance", b->instance, sizeof(b->instance));
    if (b->instance[0] == '\0')
        copy_property(p->properties, "pid", b->instance, sizeof(b->instance));
}

/*
 * A registration is of one process, and a name may have several addresses (such as one of each
 * family). The first permitted one is used, IPv4 before IPv6, so that the process is one worker.
 */
static const struct addr *choose_addr(const struct provider *p)
{
    const struct addr *best = NULL;

    for (size_t i = 0; i < p->naddrs; ++i) {
        const struct addr *a = &p->addrs[i];

        if (rejection_of(p->source, a) != NULL)
            continue;
        if (a->sa.sa_family == AF_INET)
            return a;
        if (best == NULL)
            best = a;
    }
    return best != NULL || p->naddrs == 0 ? best : &p->addrs[0];
}

static void on_host_answer(void *context, const struct resolve_answer *a)
{
    struct provider *p = context;

    /* The last addresses are retained: a failing name server does not remove workers. */
    if (a->n == 0)
        return;
    p->naddrs = a->n;
    p->addrs = xrealloc(p->addrs, a->n * sizeof(*p->addrs));
    for (size_t i = 0; i < a->n; ++i)
        p->addrs[i] = a->items[i].addr;
    p->source->before = p->source->nregistered;
    set_address(p, choose_addr(p));
    membership_update(p->source->membership);
}

static void drop_host(struct provider *p)
{
    if (p->host == NULL)
        return;
    host_name_stop(p->host);
    free(p->host);
    p->host = NULL;
    free(p->addrs);
    p->addrs = NULL;
    p->naddrs = 0;
    --p->source->nhosts;
}

/* Why a provider NAME is rejected wherever it is; NULL: it is not. Then it is at ADDR, or *NAMED.
 */
static const char *name_rejection(const struct source *s, const char *name,
                                  const json_t *properties, struct addr *addr, bool *named)
{
    struct slice application = json_text(properties, "application");
    enum err e = addr_parse(slice_of(name), addr);

    *named = e == ERR_UNSUPPORTED;
    if (e != ERR_OK && !*named)
        return "name is not an address";
    if (!*named && addr->sa.sa_family != AF_UNIX && addr_port(addr) == 0)
        return "its name has no port";
    if (application.p != NULL && !slice_is(application, s->membership->app->name))
        return "it is registered for another application";
    return NULL;
}

const char *source_rejection(const struct source *s, const char *name, const json_t *properties)
{
    struct addr addr;
    bool named;
    const char *why = name_rejection(s, name, properties, &addr, &named);

    return why != NULL || named ? why : rejection_of(s, &addr);
}

/* Its properties are new (or it is). */
static void take_provider(struct provider *p)
{
    struct source *s = p->source;
    struct addr addr;
    bool named;
    const char *why = name_rejection(s, p->name, p->properties, &addr, &named);

    if (why == NULL && named && p->host == NULL && s->nhosts == HOST_NAMES_MAX)
        why = "too many host names";
    if (why != NULL) {
        set_rejected(p, why);
        drop_host(p);
        detach_provider(p, true);
    } else if (!named) {
        set_address(p, &addr);
    } else if (p->host == NULL) {
        set_rejected(p, NULL);
        ++s->nhosts;
        p->host = xcalloc(1, sizeof(*p->host));
        p->host->request.family = RESOLVE_BOTH;
        host_name_start(p->host, s->membership->app, p->name, on_host_answer, p);
    } else if (p->naddrs != 0) {
        set_address(p, choose_addr(p));
    }
}

static void drop_provider(struct provider *p, bool expected)
{
    set_rejected(p, NULL);
    drop_host(p);
    detach_provider(p, expected);
    json_decref(p->properties);
    free(p->name);
    free(p);
}

/* ---- a reading ---- */

/* EXPECTED: providers that are missing may return. */
static void read_providers(struct source *s, json_t *found, bool expected)
{
    struct provider **items = xcalloc(json_object_size(found) + 1, sizeof(*items));
    size_t n = 0;
    size_t old = 0;
    const char *name;
    json_t *properties;

    s->before = s->nregistered;
    json_object_foreach (found, name, properties) {
        int order = -1;

        while (old < s->n && (order = strcmp(s->items[old]->name, name)) < 0)
            drop_provider(s->items[old++], expected);
        bool known = old < s->n && order == 0;
        struct provider *p = known ? s->items[old++] : xcalloc(1, sizeof(*p));
        items[n++] = p;
        if (!known) {
            p->source = s;
            p->name = xstrdup(name);
        } else if (p->properties == properties) {
            /* As most are: a tree reports unchanged properties as the same object. */
            continue;
        }
        bool same = json_equal(p->properties, properties);
        json_decref(p->properties);
        p->properties = json_incref(properties);
        if (!same)
            take_provider(p);
    }
    while (old < s->n)
        drop_provider(s->items[old++], expected);
    free(s->items);
    s->items = items;
    s->n = n;
}

const struct provider *source_find(const struct source *s, const char *name)
{
    size_t from = 0;
    size_t end = s->n;

    while (from < end) {
        size_t at = from + (end - from) / 2;
        int order = strcmp(s->items[at]->name, name);

        if (order == 0)
            return s->items[at];
        if (order < 0)
            from = at + 1;
        else
            end = at;
    }
    return NULL;
}

void source_report(struct source *s, json_t *found)
{
    read_providers(s, found, true);
}

void source_replace(struct source *s, json_t *found)
{
    read_providers(s, found, false);
}

void source_recheck(struct source *s)
{
    s->before = s->nregistered;
    for (size_t i = 0; i < s->n; ++i)
        take_provider(s->items[i]);
}

bool source_settled(const struct source *s)
{
    for (size_t i = 0; i < s->n && s->nhosts > 0; ++i) {
        if (s->items[i]->host != NULL && !s->items[i]->host->answered)
            return false;
    }
    /* What is missing in the first reading has to be decided on. */
    return !timer_running(&s->window);
}

/* ---- the configuration of a backend ---- */

/* What S has of B, or NULL. The names of its providers are those of backends. */
static const struct provider *provider_of(const struct source *s, const struct backend *b)
{
    const struct provider *p = source_find(s, b->name);

    return p != NULL && p->worker == b ? p : NULL;
}

/* The first name in the list that has B. */
static const struct provider *first_name(struct backend *b)
{
    struct source *s;

    if (b->providers[SOURCE_NAME] == 0)
        return NULL;
    if (b->providers[SOURCE_NAME] == 1 && b->named_by != NULL) {
        const struct provider *p = provider_of(b->named_by, b);

        if (p != NULL)
            return p;
    }
    list_for_each_entry (s, &b->app->membership->sources, node) {
        const struct provider *p = s->kind == SOURCE_NAME ? provider_of(s, b) : NULL;

        if (p != NULL)
            return p;
    }
    return NULL;
}

void source_configure(struct backend *b)
{
    const struct provider *p = first_name(b);

    if (p != NULL) {
        const char *host = json_string_value(json_object_get(p->properties, "host"));
        json_int_t priority = json_integer_value(json_object_get(p->properties, "priority"));
        json_int_t share = json_integer_value(json_object_get(p->properties, "share"));

        /* They may be those of a file. */
        b->named_by = p->source;
        backend_set_host(b, host != NULL ? host : "");
        b->priority = priority >= 0 && priority <= UINT16_MAX ? (unsigned)priority : 0;
        b->share = share > 0 && share <= MEMBER_SHARE_ALL ? (int)share : MEMBER_SHARE_ALL;
    } else if (b->lost_by == NULL || b->lost_by != b->named_by) {
        b->named_by = NULL;
        b->priority = 0;
        b->share = MEMBER_SHARE_ALL;
    }
    b->listed = b->literal;
    if (b->listed == NULL && b->named_by != NULL)
        b->listed = b->named_by->config;
}

/* ---- status ---- */

void source_describe_rejected(const struct source *s, struct json_writer *w, const char *name,
                              bool why)
{
    size_t shown = 0;

    json_open_array(w, name);
    for (size_t i = 0; i < s->n && shown < REJECTED_SHOWN_MAX; ++i) {
        const struct provider *p = s->items[i];

        if (p->why == NULL)
            continue;
        if (why)
            json_open_object(w, NULL);
        json_put_text(w, why ? "name" : NULL, slice_of(log_shown(slice_of(p->name))));
        if (why) {
            json_put_text(w, "why", slice_of(p->why));
            json_close_object(w);
        }
        ++shown;
    }
    json_close_array(w);
}

/* "list", "tree", "call", a name; with "held" if it is only held. */
void source_describe(const struct backend *b, struct json_writer *w)
{
    json_open_array(w, "sources");
    if (b->literal != NULL)
        json_put_text(w, NULL, SLICE_LIT("list"));
    if (b->named_by != NULL)
        json_put_text(w, NULL, slice_of(source_name(b->named_by)));
    if (b->providers[SOURCE_TREE] != 0)
        json_put_text(w, NULL, SLICE_LIT("tree"));
    if (b->providers[SOURCE_CALL] != 0)
        json_put_text(w, NULL, SLICE_LIT("call"));
    if (b->held)
        json_put_text(w, NULL, SLICE_LIT("held"));
    json_close_array(w);
    if (b->providers[SOURCE_CALL] != 0)
        call_source_describe_worker(b->app->membership->calls, b, w);
}

/* ---- life ---- */

/* S ends, and so do the backends that it had alone. */
static void forget_missing(struct source *s)
{
    struct list *const lists[] = {&s->vanished, &s->membership->held.list};
    struct backend *b;

    for (size_t i = 0; i < ARRAY_LEN(lists); ++i) {
        list_for_each_entry_safe (b, lists[i], missing) {
            if (b->lost_by != s)
                continue;
            membership_find_again(b);
            membership_touch(b);
        }
    }
    map_for_each (struct backend, known, &s->membership->known, in_known) {
        if (known->named_by == s)
            known->named_by = NULL;
    }
}

void source_init(struct source *s, struct membership *ms, enum source_kind kind)
{
    s->membership = ms;
    s->kind = kind;
    list_init(&s->vanished);
    timer_init(&s->window, on_window_over);
    list_push_back(&ms->sources, &s->node);
}

void source_fini(struct source *s)
{
    for (size_t i = 0; i < s->n; ++i)
        drop_provider(s->items[i], false);
    free(s->items);
    s->n = 0;
    forget_missing(s);
    list_remove(&s->node);
}
