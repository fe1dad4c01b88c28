/* SPDX-License-Identifier: Apache-2.0
 *
 * Watches and registrations on any back end of the tree. A watch reads its node (follows its links,
 * refreshing what was touched), compares it with its last report, and reports a difference. Touches
 * only start its timer: the first one at once, further ones so that reads are TREE_PAUSE_MS apart;
 * a burst of thousands costs one read per pause.
 *
 *   touch ──► timer ──► evaluate: PATH ──► node ──► properties, property links
 *                                 PATH/providers ──► node ──► providers
 *             ──► compare ──► changed()
 */
#include "common/tree/tree.h"
#include "common/base/log.h"
#include "common/tree/tree_backend.h"

#include <stdlib.h>

/* Broken links of one application in its status. */
enum { BROKEN_SHOWN_MAX = 100 };

static const struct tree_backend *const backends[] = {&tree_directory, &tree_zookeeper};

struct tree_watch {
    struct follower follower;
    char *path; /* as the caller has it */
    char *full; /* from the root of the tree */
    tree_changed_fn changed;
    void *context;
    bool reporting; /* inside changed(): an unwatch must leave the struct until it returns */
    bool ended;
    bool reported; /* LAST has been, at least once */
    struct tree_view last;
};

struct tree_registration {
    struct follower follower;
    char *path; /* from the root of the tree, with "/providers" */
    char *name;
    struct text bytes; /* of the properties */
    char *real_path;   /* where the entry is */
    struct tree_entry *entry;
};

/* ---- the tree ---- */

static enum err find_backend(struct slice url, const struct tree_backend **out,
                             struct slice *location, struct diag *d)
{
    *location = url;
    struct slice scheme = slice_cut(location, ':');

    for (size_t i = 0; i < ARRAY_LEN(backends); ++i) {
        if (!slice_is(scheme, backends[i]->scheme) || location->len == 0)
            continue;
        *out = backends[i];
        return ERR_OK;
    }
    diag_add(d, NULL, 0, 0,
             "tree '%.*s': expected directory:/path or zookeeper://HOST:PORT,HOST:PORT/path",
             SLICE_FMT(url));
    return location->len == 0 ? ERR_SYNTAX : ERR_UNSUPPORTED;
}

void tree_check_config(const struct config *c, const struct config_node *at, const char *url,
                       const struct config_node *auth_at, const char *auth, struct diag *d)
{
    const struct tree_backend *backend = NULL;
    struct slice location;
    struct diag why = {0};

    if (url == NULL)
        return;
    bool bad_url = find_backend(slice_of(url), &backend, &location, &why) != ERR_OK ||
                   backend->check(location, &why) != ERR_OK;
    bool bad_auth = !bad_url && auth != NULL && backend->read_auth != NULL &&
                    backend->read_auth(auth, NULL, &why) != ERR_OK;
    struct slice rest = slice_of(why.text);
    struct slice line = slice_cut(&rest, '\n');
    if (bad_url || bad_auth)
        config_complain(c, bad_url ? at : auth_at, d, "%s%.*s",
                        bad_url ? "" : "zookeeper_auth: ", SLICE_FMT(line));
    diag_fini(&why);
}

enum err tree_open(struct loop *l, struct slice url, const struct tree_options *o,
                   struct tree **out, struct diag *d)
{
    static const struct tree_options none = {0};
    const struct tree_backend *backend = NULL;
    struct slice location;
    enum err e = find_backend(url, &backend, &location, d);

    return e != ERR_OK ? e : backend->open(l, location, o != NULL ? o : &none, out, d);
}

void tree_close(struct tree *t)
{
    if (t == NULL)
        return;
    ASSERT(t->watches == 0);
    ASSERT(t->nodes.first == NULL);
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

/* PATH, which begins at the top of T, from the root. */
static char *from_root(const struct tree *t, const char *path)
{
    return xasprintf("%s%s%s", t->top, path[0] == '\0' || path[0] == '/' ? "" : "/", path);
}

/* ---- watches ---- */

static void view_fini(struct tree_view *v)
{
    free(v->problem);
    json_decref(v->properties);
    json_decref(v->providers);
    json_decref(v->children);
}

/* Returns false if not all has been read yet. */
static bool see_node(struct tree_watch *w, struct tree_view *v)
{
    const struct tree_node *n;
    enum tree_found found = follow_path(&w->follower, w->full, PART_NODE | PART_CHILDREN, &n);
    bool pending = found == FOUND_PENDING;

    if (found == FOUND_MISSING)
        v->problem = xstrdup("no such node");
    if (found == FOUND_NODE) {
        v->exists = true;
        v->birth = n->birth;
        v->parses = n->parses;
        v->problem = xstrdup(n->problem);
        v->children = json_incref(n->children);
    }
    v->properties = v->parses ? follow_properties(&w->follower, n, w->last.properties, &pending)
                              : json_incref(w->last.properties);
    return !pending;
}

/* The same. */
static bool see_providers(struct tree_watch *w, struct tree_view *v)
{
    char path[TREE_PATH_MAX + 1];
    const struct tree_node *n;
    enum tree_found found = FOUND_BAD;

    if (tree_path_join("", slice_of(w->full), path) == ERR_OK &&
        tree_path_join(path, SLICE_LIT("providers"), path) == ERR_OK)
        found = follow_path(&w->follower, path, PART_NODE | PART_PROVIDERS, &n);
    if (found == FOUND_NODE && n->providers != NULL) {
        v->providers_known = true;
        v->providers = json_incref(n->providers);
        return true;
    }
    /* A service without any registration so far has no providers. If its node has vanished, the
     * tree may have been wiped. */
    v->providers = json_incref(w->last.providers);
    v->providers_known = found == FOUND_MISSING && json_object_size(v->providers) == 0;
    return found != FOUND_PENDING;
}

static bool same_problem(const struct tree_view *a, const struct tree_view *b)
{
    return slice_eq(slice_of(a->problem), slice_of(b->problem));
}

static bool same_view(const struct tree_view *a, const struct tree_view *b)
{
    return a->exists == b->exists && a->birth == b->birth && a->parses == b->parses &&
           a->providers_known == b->providers_known && same_problem(a, b) &&
           json_equal(a->properties, b->properties) &&
           /* Sets may be NULL. */
           (a->providers == b->providers || json_equal(a->providers, b->providers)) &&
           (a->children == b->children || json_equal(a->children, b->children));
}

static void watch_destroy(struct tree_watch *w)
{
    view_fini(&w->last);
    free(w->path);
    free(w->full);
    free(w);
}

static void watch_evaluate(struct timer *timer)
{
    struct tree_watch *w = container_of(timer, struct tree_watch, follower.evaluate);
    struct follower *f = &w->follower;
    struct tree_view v = {0};

    follower_begin(f);
    bool known = see_node(w, &v);
    known = see_providers(w, &v) && known;
    /* A node that cannot be read is the more important problem. */
    bool link_broken = f->problem.len != 0 && (v.problem == NULL || !v.exists);
    if (link_broken) {
        free(v.problem);
        v.problem = xstrdup(text_cstr(&f->problem));
    }
    if (known)
        follower_report(f);
    follower_end(f);
    if (!known || (w->reported && same_view(&v, &w->last))) {
        view_fini(&v);
        return;
    }
    /* A problem of a link has been logged. */
    bool is_new = !link_broken && v.problem != NULL && !same_problem(&v, &w->last);
    if (is_new && v.exists)
        log_warn(NULL, "tree-node-invalid", "path=%s reason=\"%s\"", tree_path_shown(w->path),
                 v.problem);
    else if (is_new)
        log_info(NULL, "tree-node-missing", "path=%s reason=\"%s\"", tree_path_shown(w->path),
                 v.problem);
    view_fini(&w->last);
    w->last = v;
    w->reported = w->reporting = true;
    w->changed(w->context, &w->last);
    w->reporting = false;
    if (w->ended)
        watch_destroy(w);
}

struct tree_watch *tree_watch(struct tree *t, const char *path, tree_changed_fn changed,
                              void *context)
{
    struct tree_watch *w = xcalloc(1, sizeof(*w));

    w->path = xstrdup(path);
    w->full = from_root(t, path);
    follower_init(&w->follower, t, w->full, TREE_PAUSE_MS, watch_evaluate);
    w->changed = changed;
    w->context = context;
    w->last.properties = json_object();
    ++t->watches;
    return w;
}

void tree_unwatch(struct tree_watch *w)
{
    if (w == NULL)
        return;
    --w->follower.tree->watches;
    follower_fini(&w->follower);
    w->ended = true;
    if (!w->reporting)
        watch_destroy(w);
}

/* ---- registrations ---- */

static void registration_evaluate(struct timer *timer)
{
    struct tree_registration *r = container_of(timer, struct tree_registration, follower.evaluate);
    struct follower *f = &r->follower;
    const struct tree_node *at;

    follower_begin(f);
    enum tree_found found = follow_path(f, r->path, PART_NODE, &at);
    /* A link to a missing node is not a problem here: registering creates the node. */
    if (found == FOUND_MISSING)
        text_clear(&f->problem);
    if (found != FOUND_PENDING)
        follower_report(f);
    /* Links may lead elsewhere than before: the entry follows them. While links are broken or
     * unknown, it stays at its location. */
    if ((found == FOUND_NODE || found == FOUND_MISSING) &&
        (r->real_path == NULL || strcmp(r->real_path, at->path) != 0)) {
        if (r->entry != NULL)
            f->tree->backend->leave(r->entry);
        free(r->real_path);
        r->real_path = xstrdup(at->path);
        r->entry = f->tree->backend->enter(f->tree, at->path, r->name, &r->bytes);
    }
    follower_end(f);
}

/* Returns whether R's bytes have changed. */
static bool set_bytes(struct tree_registration *r, const json_t *properties)
{
    struct text bytes = {0};

    json_print(properties, &bytes);
    bool is_new = !slice_eq(text_slice(&bytes), text_slice(&r->bytes));
    if (is_new && bytes.len > PROVIDER_BYTES_MAX) {
        log_error(NULL, "registration-too-large", "path=%s/%s bytes=%zu limit=%d", r->path, r->name,
                  bytes.len, PROVIDER_BYTES_MAX);
        is_new = false;
    }
    if (is_new) {
        text_clear(&r->bytes);
        text_add(&r->bytes, text_slice(&bytes));
    }
    text_fini(&bytes);
    return is_new;
}

struct tree_registration *tree_register(struct tree *t, const char *path, const char *name,
                                        const json_t *properties)
{
    struct tree_registration *r = xcalloc(1, sizeof(*r));
    char *full = from_root(t, path);

    r->path = xasprintf("%s/providers", full);
    follower_init(&r->follower, t, r->path, TREE_PAUSE_MS, registration_evaluate);
    free(full);
    r->name = xstrdup(name);
    if (!set_bytes(r, properties))
        text_add(&r->bytes, SLICE_LIT("{}"));
    ++t->watches;
    return r;
}

void tree_registration_set(struct tree_registration *r, const json_t *properties)
{
    if (set_bytes(r, properties) && r->entry != NULL)
        r->follower.tree->backend->entry_changed(r->entry);
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
    if (r->entry != NULL)
        t->backend->leave(r->entry);
    follower_fini(&r->follower);
    text_fini(&r->bytes);
    free(r->real_path);
    free(r->name);
    free(r->path);
    free(r);
}

/* ---- status ---- */

void tree_describe_broken_links(const struct tree *t, const char *path, struct json_writer *w)
{
    char *full = t != NULL ? from_root(t, path) : NULL;
    json_t *shown = json_object(); /* a set: several followers may have met one link */
    size_t len = full != NULL ? strlen(full) : 0;
    const struct follower *f;

    while (len != 0 && full[len - 1] == '/')
        --len;
    json_open_array(w, "broken_links");
    if (t != NULL) {
        list_for_each_entry (f, &t->broken, in_broken) {
            bool below =
                strncmp(f->path, full, len) == 0 && (f->path[len] == '\0' || f->path[len] == '/');

            if (!below || json_object_get(shown, f->broken) != NULL ||
                json_object_size(shown) == BROKEN_SHOWN_MAX)
                continue;
            json_object_set_new_nocheck(shown, f->broken, json_true());
            json_put_text(w, NULL, slice_of(f->broken));
        }
    }
    json_close_array(w);
    json_decref(shown);
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
