/* SPDX-License-Identifier: Apache-2.0
 *
 * Watches and registrations on any back end of the tree. A watch reads its node (follows its links,
 * refreshing what was touched), compares it with its last report, and reports a difference. Touches
 * only start its timer: the first one at once, further ones so that reads are TREE_PAUSE_MS apart;
 * a burst of thousands costs one read per pause.
 *
 *   touch ──► timer ──► look: PATH ──► node ──► properties, property links
 *                             PATH/providers ──► node ──► providers        ──► compare ──►
 * changed()
 */
#include "common/tree/tree.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/tree/tree_follow.h"

#include <stdio.h>
#include <stdlib.h>

/* Broken links of one application in its status. */
enum { BROKEN_SHOWN_MAX = 100 };

static const struct tree_backend *const backends[] = {&tree_directory, &tree_zookeeper};

struct tree_watch {
    struct follower follower;
    struct timer look;
    uint64_t looked_ms;
    char *path; /* as the caller has it */
    char *full; /* from the root of the tree */
    tree_changed_fn changed;
    void *context;
    bool reporting; /* inside changed(): an unwatch must leave the struct until it returns */
    bool ended;
    bool reported; /* at least once; what follows is the last report */
    bool exists;
    uint64_t birth;
    bool parses;
    bool providers_known;
    char *problem;
    json_t *properties;
    struct provider_set *providers;
    struct name_set *children;
};

struct tree_registration {
    struct follower follower;
    struct timer look;
    uint64_t looked_ms;
    char *path; /* from the root of the tree, with "/providers" */
    char *name;
    json_t *properties;
    char *real_path; /* where the entry is */
    struct tree_entry *entry;
};

/* ---- sets ---- */

struct provider_set *provider_set_create(size_t n)
{
    struct provider_set *set = xcalloc(1, sizeof(*set) + n * sizeof(set->items[0]));

    set->refs = 1;
    set->n = n;
    return set;
}

static int compare_providers(const void *a, const void *b)
{
    const struct tree_provider *x = a;
    const struct tree_provider *y = b;

    return strcmp(x->name, y->name);
}

void provider_set_sort(struct provider_set *set)
{
    qsort(set->items, set->n, sizeof(set->items[0]), compare_providers);
}

static struct provider_set *provider_set_ref(struct provider_set *set)
{
    if (set != NULL)
        ++set->refs;
    return set;
}

void provider_set_drop(struct provider_set *set)
{
    if (set == NULL || --set->refs != 0)
        return;
    for (size_t i = 0; i < set->n; ++i) {
        free(set->items[i].name);
        json_decref(set->items[i].properties);
    }
    free(set);
}

static bool provider_set_equal(const struct provider_set *a, const struct provider_set *b)
{
    if (a == b)
        return true;
    if (a == NULL || b == NULL || a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; ++i) {
        if (strcmp(a->items[i].name, b->items[i].name) != 0 ||
            !json_equal(a->items[i].properties, b->items[i].properties))
            return false;
    }
    return true;
}

struct name_set *name_set_create(size_t n)
{
    struct name_set *set = xcalloc(1, sizeof(*set) + n * sizeof(set->names[0]));

    set->refs = 1;
    set->n = n;
    return set;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void name_set_sort(struct name_set *set)
{
    qsort(set->names, set->n, sizeof(set->names[0]), compare_names);
}

static struct name_set *name_set_ref(struct name_set *set)
{
    if (set != NULL)
        ++set->refs;
    return set;
}

void name_set_drop(struct name_set *set)
{
    if (set == NULL || --set->refs != 0)
        return;
    for (size_t i = 0; i < set->n; ++i)
        free(set->names[i]);
    free(set);
}

static bool name_set_equal(const struct name_set *a, const struct name_set *b)
{
    if (a == b)
        return true;
    if (a == NULL || b == NULL || a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; ++i) {
        if (strcmp(a->names[i], b->names[i]) != 0)
            return false;
    }
    return true;
}

/* ---- the tree ---- */

static enum err find_backend(struct slice url, const struct tree_backend **out, struct slice *place,
                             struct diag *d)
{
    *place = url;
    struct slice scheme = slice_cut(place, ':');

    for (size_t i = 0; i < ARRAY_LEN(backends); ++i) {
        if (!slice_is(scheme, backends[i]->scheme) || place->len == 0)
            continue;
        *out = backends[i];
        return ERR_OK;
    }
    diag_add(d, NULL, 0, 0,
             "tree '%.*s': expected directory:/path or zookeeper://HOST:PORT,HOST:PORT/path",
             SLICE_FMT(url));
    return place->len == 0 ? ERR_SYNTAX : ERR_UNSUPPORTED;
}

enum err tree_check_url(struct slice url, struct diag *d)
{
    const struct tree_backend *backend = NULL;
    struct slice place;
    enum err e = find_backend(url, &backend, &place, d);

    return e != ERR_OK ? e : backend->check(place, d);
}

/* WHAT's first line at its place in the configuration. */
static void complain_at(const struct config *c, const struct config_node *at, const char *what,
                        const struct diag *why, struct diag *d)
{
    struct slice rest = slice_of(why->text);
    struct slice line = slice_cut(&rest, '\n');

    config_complain(c, at, d, "%s%.*s", what, SLICE_FMT(line));
}

void tree_check_config(const struct config *c, const struct config_node *at, const char *url,
                       const struct config_node *auth_at, const char *auth, struct diag *d)
{
    const struct tree_backend *backend = NULL;
    struct slice place;
    struct diag why = {0};

    if (url == NULL)
        return;
    if (tree_check_url(slice_of(url), &why) != ERR_OK)
        complain_at(c, at, "", &why, d);
    else if (auth != NULL && find_backend(slice_of(url), &backend, &place, &why) == ERR_OK &&
             backend->check_auth != NULL && backend->check_auth(auth, &why) != ERR_OK)
        complain_at(c, auth_at, "zookeeper_auth: ", &why, d);
    diag_fini(&why);
}

enum err tree_open(struct loop *l, struct slice url, const struct tree_options *o,
                   struct tree **out, struct diag *d)
{
    static const struct tree_options none = {0};
    const struct tree_backend *backend = NULL;
    struct slice place;
    enum err e = find_backend(url, &backend, &place, d);

    return e != ERR_OK ? e : backend->open(l, place, o != NULL ? o : &none, out, d);
}

void tree_close(struct tree *t)
{
    if (t == NULL)
        return;
    ASSERT(t->watches == 0);
    ASSERT(t->spots.first == NULL);
    t->backend->close(t);
}

void tree_status(const struct tree *t, struct tree_status *out)
{
    *out = (struct tree_status){0};
    t->backend->status(t, out);
}

const char *tree_top(const struct tree *t)
{
    return t->top;
}

bool tree_is_remote(const struct tree *t)
{
    return t->backend->remote;
}

/* Reads at once after a quiet time, else TREE_PAUSE_MS after the last read. */
static void look_soon(struct loop *l, struct timer *look, uint64_t looked_ms)
{
    uint64_t since = loop_now_ms(l) - looked_ms;

    if (!timer_running(look))
        timer_start(l, look, since < TREE_PAUSE_MS ? TREE_PAUSE_MS - since : 0);
}

/* PATH, which begins at the top of T, from the root. */
static char *from_root(const struct tree *t, const char *path)
{
    return xasprintf("%s%s%s", t->top, path[0] == '\0' || path[0] == '/' ? "" : "/", path);
}

/* ---- watches ---- */

/* The result of one scan, compared with the last report. Each member is a reference of its own. */
struct view {
    bool pending;
    bool exists;
    uint64_t birth;
    bool parses;
    bool providers_known;
    bool link_broken; /* PROBLEM is about a link, which is logged elsewhere */
    const char *problem;
    json_t *properties;
    struct provider_set *providers;
    struct name_set *children;
};

static void see_node(struct tree_watch *w, struct view *v)
{
    struct place at;
    enum found found = follow_path(&w->follower, w->full, PART_NODE | PART_CHILDREN, &at);

    v->properties = json_incref(w->properties);
    v->pending = found == FOUND_PENDING;
    if (found == FOUND_MISSING)
        v->problem = "no such node";
    if (found != FOUND_NODE)
        return;
    v->exists = true;
    v->birth = at.spot->birth;
    v->parses = at.spot->parses;
    v->problem = at.spot->problem;
    v->children = name_set_ref(at.spot->children);
    if (v->parses) {
        json_decref(v->properties);
        v->properties = follow_properties(&w->follower, &at, w->properties, &v->pending);
    }
}

static void see_providers(struct tree_watch *w, struct view *v)
{
    char path[TREE_PATH_MAX + 1];
    struct place at = {.spot = NULL};
    enum found found = FOUND_BAD;

    if (tree_path_join("", slice_of(w->full), path) == ERR_OK &&
        tree_path_join(path, SLICE_LIT("providers"), path) == ERR_OK)
        found = follow_path(&w->follower, path, PART_NODE | PART_PROVIDERS, &at);
    if (found == FOUND_PENDING)
        v->pending = true;
    if (found == FOUND_NODE && at.spot->providers != NULL) {
        v->providers_known = true;
        v->providers = provider_set_ref(at.spot->providers);
        return;
    }
    /* A service without any registration so far has no providers. If its node has vanished, the
     * tree may have been wiped. */
    v->providers = provider_set_ref(w->providers);
    v->providers_known = found == FOUND_MISSING && (v->providers == NULL || v->providers->n == 0);
}

static bool same_problem(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool view_is_news(const struct tree_watch *w, const struct view *v)
{
    return !w->reported || v->exists != w->exists || v->birth != w->birth ||
           v->parses != w->parses || v->providers_known != w->providers_known ||
           !same_problem(v->problem, w->problem) || !json_equal(v->properties, w->properties) ||
           !provider_set_equal(v->providers, w->providers) ||
           !name_set_equal(v->children, w->children);
}

/* Take over what V refers to as the last report. */
static void keep_view(struct tree_watch *w, struct view *v)
{
    bool tell = !same_problem(v->problem, w->problem);

    free(w->problem);
    w->problem = xstrdup(v->problem);
    json_decref(w->properties);
    w->properties = v->properties;
    provider_set_drop(w->providers);
    w->providers = v->providers;
    name_set_drop(w->children);
    w->children = v->children;
    w->exists = v->exists;
    w->birth = v->birth;
    w->parses = v->parses;
    w->providers_known = v->providers_known;
    w->reported = true;
    if (v->link_broken || !tell || w->problem == NULL)
        return;
    if (w->exists)
        log_warn(NULL, "tree-node-invalid", "path=%s reason=\"%s\"", tree_path_shown(w->path),
                 w->problem);
    else
        log_info(NULL, "tree-node-missing", "path=%s reason=\"%s\"", tree_path_shown(w->path),
                 w->problem);
}

static void watch_destroy(struct tree_watch *w)
{
    free(w->problem);
    json_decref(w->properties);
    provider_set_drop(w->providers);
    name_set_drop(w->children);
    free(w->path);
    free(w->full);
    free(w);
}

static void report(struct tree_watch *w)
{
    struct tree_node node = {
        .exists = w->exists,
        .birth = w->birth,
        .parses = w->parses,
        .problem = w->problem,
        .properties = w->properties,
        .providers = w->providers != NULL ? w->providers->items : NULL,
        .nproviders = w->providers != NULL ? w->providers->n : 0,
        .providers_known = w->providers_known,
        .children = w->children != NULL ? (const char *const *)w->children->names : NULL,
        .nchildren = w->children != NULL ? w->children->n : 0,
    };

    w->reporting = true;
    w->changed(w->context, &node);
    w->reporting = false;
    if (w->ended)
        watch_destroy(w);
}

static void watch_look(struct timer *timer)
{
    struct tree_watch *w = container_of(timer, struct tree_watch, look);
    struct view v = {0};

    w->looked_ms = loop_now_ms(w->follower.tree->loop);
    follower_begin(&w->follower);
    see_node(w, &v);
    see_providers(w, &v);
    /* A node that cannot be read is the more important problem. */
    v.link_broken = w->follower.problem.len != 0 && (v.problem == NULL || !v.exists);
    if (v.link_broken)
        v.problem = text_cstr(&w->follower.problem);
    if (!v.pending)
        follower_report(&w->follower);
    bool news = !v.pending && view_is_news(w, &v);
    if (news) {
        keep_view(w, &v);
    } else {
        json_decref(v.properties);
        provider_set_drop(v.providers);
        name_set_drop(v.children);
    }
    follower_end(&w->follower);
    if (news)
        report(w);
}

static void watch_touched(struct follower *f)
{
    struct tree_watch *w = container_of(f, struct tree_watch, follower);

    look_soon(f->tree->loop, &w->look, w->looked_ms);
}

struct tree_watch *tree_watch(struct tree *t, const char *path, tree_changed_fn changed,
                              void *context)
{
    struct tree_watch *w = xcalloc(1, sizeof(*w));

    w->path = xstrdup(path);
    w->full = from_root(t, path);
    follower_init(&w->follower, t, w->full, watch_touched);
    w->changed = changed;
    w->context = context;
    w->properties = json_object();
    timer_init(&w->look, watch_look);
    timer_start(t->loop, &w->look, 0);
    ++t->watches;
    return w;
}

void tree_unwatch(struct tree_watch *w)
{
    if (w == NULL)
        return;
    --w->follower.tree->watches;
    timer_stop(&w->look);
    follower_fini(&w->follower);
    w->ended = true;
    if (!w->reporting)
        watch_destroy(w);
}

/* ---- registrations ---- */

/* Links may lead elsewhere than before: the entry follows them. */
static void move_entry(struct tree_registration *r, const char *path)
{
    const struct tree_backend *backend = r->follower.tree->backend;

    if (r->entry != NULL && strcmp(r->real_path, path) == 0)
        return;
    if (r->entry != NULL)
        backend->leave(r->entry);
    free(r->real_path);
    r->real_path = xstrdup(path);
    r->entry = backend->enter(r->follower.tree, path, r->name, r->properties);
}

static void registration_look(struct timer *timer)
{
    struct tree_registration *r = container_of(timer, struct tree_registration, look);
    struct follower *f = &r->follower;
    struct place at;

    r->looked_ms = loop_now_ms(f->tree->loop);
    follower_begin(f);
    enum found found = follow_path(f, r->path, PART_NODE, &at);
    /* A link to a missing node is not a problem here: registering creates the node. */
    if (found == FOUND_MISSING)
        text_clear(&f->problem);
    if (found != FOUND_PENDING)
        follower_report(f);
    /* While links are broken or unknown, the entry stays at its place. */
    if (found == FOUND_NODE || found == FOUND_MISSING)
        move_entry(r, at.path);
    follower_end(f);
}

static void registration_touched(struct follower *f)
{
    struct tree_registration *r = container_of(f, struct tree_registration, follower);

    look_soon(f->tree->loop, &r->look, r->looked_ms);
}

struct tree_registration *tree_register(struct tree *t, const char *path, const char *name,
                                        const json_t *properties)
{
    struct tree_registration *r = xcalloc(1, sizeof(*r));
    char *full = from_root(t, path);

    r->path = xasprintf("%s/providers", full);
    follower_init(&r->follower, t, r->path, registration_touched);
    free(full);
    r->name = xstrdup(name);
    r->properties = json_deep_copy(properties);
    timer_init(&r->look, registration_look);
    timer_start(t->loop, &r->look, 0);
    ++t->watches;
    return r;
}

void tree_registration_set(struct tree_registration *r, const json_t *properties)
{
    if (json_equal(r->properties, properties))
        return;
    json_decref(r->properties);
    r->properties = json_deep_copy(properties);
    if (r->entry != NULL)
        r->follower.tree->backend->entry_set(r->entry, r->properties);
}

bool tree_registered(const struct tree_registration *r)
{
    return r->entry != NULL && r->follower.tree->backend->entry_held(r->entry);
}

void tree_unregister(struct tree_registration *r)
{
    if (r == NULL)
        return;
    struct tree *t = r->follower.tree;
    --t->watches;
    timer_stop(&r->look);
    if (r->entry != NULL)
        t->backend->leave(r->entry);
    follower_fini(&r->follower);
    json_decref(r->properties);
    free(r->real_path);
    free(r->name);
    free(r->path);
    free(r);
}

/* ---- status ---- */

/* Whether F follows the node at the path TOP, or one below it. */
static bool is_below(const struct follower *f, const char *top)
{
    size_t len = strlen(top);

    while (len != 0 && top[len - 1] == '/')
        --len;
    return strncmp(f->path, top, len) == 0 && (f->path[len] == '\0' || f->path[len] == '/');
}

/* Whether a follower before F in the list, below TOP as well, has met the same link. */
static bool is_shown(const struct follower *f, const char *top)
{
    const struct list *head = &f->tree->broken;

    for (struct list *it = f->in_broken.prev; it != head; it = it->prev) {
        const struct follower *other = list_entry(it, struct follower, in_broken);

        if (strcmp(other->broken, f->broken) == 0 && is_below(other, top))
            return true;
    }
    return false;
}

void tree_describe_broken_links(const struct tree *t, const char *path, struct json_writer *w)
{
    char *full = t != NULL ? from_root(t, path) : NULL;
    size_t shown = 0;
    struct list *it;

    json_open_array(w, "broken_links");
    for (it = full != NULL ? t->broken.next : NULL; it != NULL && it != &t->broken; it = it->next) {
        const struct follower *f = list_entry(it, struct follower, in_broken);

        if (!is_below(f, full) || is_shown(f, full))
            continue;
        if (++shown > BROKEN_SHOWN_MAX)
            break;
        json_put_text(w, NULL, slice_of(f->broken));
    }
    json_close_array(w);
    free(full);
}

/* clang-format off */
#define TREE(name, kind, unit, member, doc) {name, STAT_##kind, unit, NULL, doc, NULL, METRIC_MEMBER(COUNT, struct tree_status, member)}

const struct metric tree_metrics[TREE_METRICS] = {
    TREE("tree_connected", GAUGE, "yes or no", connected, "1: the tree can be reached."),
    TREE("tree_sessions_total", COUNTER, "sessions", sessions, "Sessions with ZooKeeper that were opened."),
    TREE("tree_connections_total", COUNTER, "connections", connections, "Connections to ZooKeeper that were opened."),
    TREE("tree_expired_total", COUNTER, "sessions", expired, "Sessions that ZooKeeper ended; what was registered in them was registered again."),
    TREE("tree_reads_total", COUNTER, "reads", reads, "Nodes, child lists and registrations read."),
    TREE("tree_quarantined", GAUGE, "nodes", quarantined, "Nodes not read at present, because reading them broke the connection."),
};
/* clang-format on */

void tree_status_describe(const struct tree_status *s, struct json_writer *w)
{
    json_put_bool(w, "connected", s->connected);
    json_put_int(w, "sessions", (int64_t)s->sessions);
    json_put_int(w, "connections", (int64_t)s->connections);
    json_put_int(w, "expired", (int64_t)s->expired);
    json_put_int(w, "reads", (int64_t)s->reads);
    json_put_int(w, "quarantined", (int64_t)s->quarantined);
}
