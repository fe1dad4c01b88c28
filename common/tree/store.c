/* SPDX-License-Identifier: Apache-2.0
 *
 * What is the same wherever a tree lives: making parents, deleting from below, following links. The
 * rules of links are those of tree_follow.c, asked for one node at a time.
 */
#include "common/tree/store.h"

#include <stdlib.h>

#include "common/tree/store_kind.h"
#include "common/tree/tree_follow.h"
#include "common/wire/node_data.h"

static const struct store_kind *const kinds[] = {&store_directory, &store_zookeeper};

enum err store_open(struct slice url, const struct store_options *o, struct store **out,
                    struct diag *d)
{
    struct store_options options = *o;
    struct slice place = url;
    struct slice scheme = slice_cut(&place, ':');

    if (options.timeout_ms == 0)
        options.timeout_ms = STORE_TIMEOUT_MS;
    for (size_t i = 0; i < ARRAY_LEN(kinds); ++i) {
        if (place.len != 0 && slice_is(scheme, kinds[i]->scheme))
            return kinds[i]->open(place, &options, out, d);
    }
    diag_add(d, NULL, 0, 0, "tree '%.*s': want directory:/PATH or zookeeper://HOST:PORT/PATH",
             SLICE_FMT(url));
    return ERR_SYNTAX;
}

void store_close(struct store *s)
{
    if (s != NULL)
        s->kind->close(s);
}

const char *store_top(const struct store *s)
{
    return s->top;
}

/* ---- nodes ---- */

void store_node_fini(struct store_node *n)
{
    for (size_t i = 0; i < n->nchildren; ++i)
        free(n->children[i]);
    free(n->children);
    free(n->problem);
    json_decref(n->properties);
    *n = (struct store_node){0};
}

void store_node_add_child(struct store_node *n, const char *name)
{
    /* Room in powers of two. */
    if ((n->nchildren & (n->nchildren - 1)) == 0)
        n->children =
            xrealloc(n->children, (n->nchildren == 0 ? 1 : n->nchildren * 2) * sizeof(char *));
    n->children[n->nchildren++] = xstrdup(name);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void store_node_sort(struct store_node *n)
{
    if (n->nchildren != 0)
        qsort(n->children, n->nchildren, sizeof(char *), by_text);
}

enum err store_encode(const char *path, const json_t *properties, size_t max_bytes,
                      struct text *out, struct diag *d)
{
    enum err e = node_data_encode(properties, max_bytes, out);

    if (e == ERR_TOO_LARGE)
        diag_add(d, NULL, 0, 0, "%s: over %zu bytes, or nested too deep, or too many values",
                 store_shown(path), max_bytes);
    else if (e != ERR_OK)
        diag_add(d, NULL, 0, 0,
                 "%s: bytes that are no text can only be string_value, and the only property",
                 store_shown(path));
    return e;
}

/* A node of somebody else's may be deeper than any path of ours. */
static enum err check_path(const char *path, struct diag *d)
{
    if (strlen(path) <= TREE_PATH_MAX)
        return ERR_OK;
    diag_add(d, NULL, 0, 0, "%.60s...: path longer than %d bytes", path, TREE_PATH_MAX);
    return ERR_TOO_LARGE;
}

enum err store_read(struct store *s, const char *path, struct store_node *out, struct diag *d)
{
    enum err e = check_path(path, d);

    *out = (struct store_node){0};
    if (e == ERR_OK)
        e = s->kind->read(s, path, out, d);
    if (e != ERR_OK)
        store_node_fini(out);
    return e;
}

enum err store_write(struct store *s, const char *path, const json_t *properties,
                     const uint64_t *version, struct diag *d)
{
    enum err e = check_path(path, d);

    return e == ERR_OK ? s->kind->write(s, path, properties, version, d) : e;
}

enum err store_reset_acl(struct store *s, const char *path, struct diag *d)
{
    return s->kind->reset_acl(s, path, d);
}

/* Make every node above PATH that is missing. */
static enum err create_above(struct store *s, const char *path, struct diag *d)
{
    json_t *none = json_object();
    enum err e = s->kind->create(s, "", none, d);

    if (e == ERR_EXISTS)
        e = ERR_OK;
    for (const char *end = path; e == ERR_OK && (end = strchr(end + 1, '/')) != NULL;) {
        char *above = xslicedup((struct slice){path, (size_t)(end - path)});

        e = s->kind->create(s, above, none, d);
        if (e == ERR_EXISTS)
            e = ERR_OK;
        free(above);
    }
    json_decref(none);
    return e;
}

enum err store_create(struct store *s, const char *path, const json_t *properties, struct diag *d)
{
    enum err e = check_path(path, d);

    if (e == ERR_OK)
        e = s->kind->create(s, path, properties, d);
    if (e != ERR_NOT_FOUND)
        return e;
    e = create_above(s, path, d);
    return e == ERR_OK ? s->kind->create(s, path, properties, d) : e;
}

/* ---- deleting ---- */

struct deletion {
    struct store *store;
    bool dry;
    store_fate_fn told;
    void *context;
    struct diag *diag;
};

static enum err delete_below(struct deletion *x, const char *path, size_t depth, bool *kept);

static enum err delete_children(struct deletion *x, const char *path, const struct store_node *n,
                                size_t depth, bool *kept)
{
    enum err e = ERR_OK;

    for (size_t i = 0; e == ERR_OK && i < n->nchildren; ++i) {
        char *below = xasprintf("%s/%s", path, n->children[i]);

        e = delete_below(x, below, depth + 1, kept);
        /* Gone by itself. */
        if (e == ERR_NOT_FOUND)
            e = ERR_OK;
        free(below);
    }
    return e;
}

/* *KEPT becomes true when PATH stays. */
static enum err delete_below(struct deletion *x, const char *path, size_t depth, bool *kept)
{
    struct store_node n;
    bool holds = false;
    enum err e = store_read(x->store, path, &n, x->diag);

    if (e != ERR_OK)
        return e;
    if (depth == STORE_DEPTH_MAX) {
        diag_add(x->diag, NULL, 0, 0, "%s: nested deeper than %d", path, STORE_DEPTH_MAX);
        e = ERR_TOO_LARGE;
        goto out;
    }
    if (!n.provider)
        e = delete_children(x, path, &n, depth, &holds);
    if (e == ERR_OK && !x->dry && !n.provider && !holds)
        e = x->store->kind->remove(x->store, path, x->diag);
    if (e != ERR_OK)
        goto out;
    *kept = *kept || n.provider || holds;
    x->told(x->context, path,
            n.provider ? STORE_IS_PROVIDER
            : holds    ? STORE_HOLDS_PROVIDER
                       : STORE_DELETED);
out:
    store_node_fini(&n);
    return e;
}

enum err store_delete(struct store *s, const char *path, bool dry, store_fate_fn told,
                      void *context, struct diag *d)
{
    struct deletion x = {s, dry, told, context, d};
    bool kept = false;

    ASSERT(path[0] != '\0');
    return delete_below(&x, path, 0, &kept);
}

/* ---- links ---- */

/* Where links have led so far. */
struct trail {
    struct store *store;
    struct diag *diag;
    unsigned steps; /* nodes read */
    size_t n;
    char paths[TREE_TRAIL_MAX][TREE_PATH_MAX + 1];
};

static enum err join(struct trail *t, const char *base, struct slice path,
                     char out[TREE_PATH_MAX + 1])
{
    enum err e = tree_path_join(base, path, out);

    if (e != ERR_OK)
        diag_add(t->diag, NULL, 0, 0, "%s: link to %.*s: %s", store_shown(base), SLICE_FMT(path),
                 e == ERR_RANGE ? "leaves the tree" : "path too long");
    return e;
}

static enum err trail_add(struct trail *t, const char *path)
{
    for (size_t i = 0; i < t->n; ++i) {
        if (strcmp(t->paths[i], path) == 0) {
            diag_add(t->diag, NULL, 0, 0, "%s: link loop: comes back to %s",
                     store_shown(t->paths[0]), store_shown(path));
            return ERR_RANGE;
        }
    }
    if (t->n == TREE_TRAIL_MAX) {
        diag_add(t->diag, NULL, 0, 0, "%s: more than %d links in a row", store_shown(t->paths[0]),
                 TREE_TRAIL_MAX);
        return ERR_RANGE;
    }
    memcpy(t->paths[t->n++], path, strlen(path) + 1);
    return ERR_OK;
}

/* A read that counts. */
static enum err look(struct trail *t, const char *path, struct store_node *out)
{
    if (++t->steps > TREE_STEPS_MAX) {
        diag_add(t->diag, NULL, 0, 0, "%s: more than %d steps of links", store_shown(t->paths[0]),
                 TREE_STEPS_MAX);
        return ERR_RANGE;
    }
    return store_read(t->store, path, out, t->diag);
}

/* "NAME ARROW" of PROPERTIES when it is a string. */
static struct slice link_of(const json_t *properties, struct slice name, const char *arrow)
{
    struct text key = {0};

    text_add(&key, name);
    text_add(&key, slice_of(arrow));
    struct slice target =
        slice_trim(slice_of(json_string_value(json_object_get(properties, text_cstr(&key)))));
    text_fini(&key);
    return target;
}

static enum err resolve(struct trail *t, char path[TREE_PATH_MAX + 1]);

/* PATH is no node as it stands: resolve what is above, then try its last name there. */
static enum err resolve_from_base(struct trail *t, char path[TREE_PATH_MAX + 1])
{
    char base[TREE_PATH_MAX + 1];
    char real[TREE_PATH_MAX + 1];
    char target[TREE_PATH_MAX + 1];
    struct store_node n = {0};
    const char *last = strrchr(path, '/') + 1;
    size_t above = (size_t)(last - 1 - path);

    memcpy(base, path, above);
    base[above] = '\0';
    enum err found = resolve(t, base);
    if (found != ERR_OK && found != ERR_NOT_FOUND)
        return found;
    enum err e = join(t, base, slice_of(last), real);
    if (e != ERR_OK)
        return e;
    e = strcmp(real, path) != 0 ? look(t, real, &n) : ERR_NOT_FOUND;
    store_node_fini(&n);
    if (e == ERR_NOT_FOUND && found == ERR_OK) {
        e = look(t, base, &n);
        struct slice link = e == ERR_OK ? link_of(n.properties, slice_of(last), " ->") : SLICE_NULL;
        if (link.p != NULL) {
            e = join(t, base, link, target);
            store_node_fini(&n);
            if (e == ERR_OK)
                e = trail_add(t, target);
            if (e != ERR_OK)
                return e;
            memcpy(path, target, sizeof(target));
            return resolve(t, path);
        }
        store_node_fini(&n);
        e = e == ERR_OK ? ERR_NOT_FOUND : e;
    }
    memcpy(path, real, sizeof(real));
    return e;
}

/* From PATH to the node that is meant by it. The depth is bounded by look(). */
static enum err resolve(struct trail *t, char path[TREE_PATH_MAX + 1])
{
    struct store_node n;
    enum err e = look(t, path, &n);

    if (e == ERR_OK)
        store_node_fini(&n);
    if (e != ERR_NOT_FOUND || path[0] == '\0')
        return e;
    return resolve_from_base(t, path);
}

enum err store_resolve(struct store *s, const char *path, char out[TREE_PATH_MAX + 1],
                       struct diag *d)
{
    struct trail *t = xcalloc(1, sizeof(*t));

    t->store = s;
    t->diag = d;
    enum err e = join(t, "", slice_of(path), out);
    if (e == ERR_OK)
        e = trail_add(t, out);
    if (e == ERR_OK)
        e = resolve(t, out);
    free(t);
    return e;
}

/* One link on: AT becomes the node that LINK of its names, NAME what to look for there. */
static enum err hop(struct store *s, struct slice link, char at[TREE_PATH_MAX + 1],
                    struct text *name, struct diag *d)
{
    char target[TREE_PATH_MAX + 1];
    struct slice path = slice_cut(&link, ' ');
    enum err e = tree_path_join(at, path, target);

    if (e != ERR_OK) {
        diag_add(d, NULL, 0, 0, "%s: link to %.*s: %s", store_shown(at), SLICE_FMT(path),
                 e == ERR_RANGE ? "leaves the tree" : "path too long");
        return ERR_RANGE;
    }
    e = store_resolve(s, target, at, d);
    if (e == ERR_NOT_FOUND)
        diag_add(d, NULL, 0, 0, "%s: linked to for property %s, but does not exist",
                 store_shown(target), text_cstr(name));
    link = slice_trim(link);
    if (link.len != 0) {
        text_clear(name);
        text_add(name, link);
    }
    return e;
}

enum err store_property(struct store *s, const char *path, const char *name, json_t **out,
                        struct diag *d)
{
    char at[TREE_PATH_MAX + 1];
    struct text wanted = {0};
    enum err e = ERR_OK;

    snprintf(at, sizeof(at), "%s", path);
    text_add(&wanted, slice_of(name));
    /* A loop is as long as any other way. */
    for (size_t hops = 0; e == ERR_OK; ++hops) {
        struct store_node n;

        if (hops == TREE_TRAIL_MAX) {
            diag_add(d, NULL, 0, 0, "%s: property %s: more than %d links in a row",
                     store_shown(path), name, TREE_TRAIL_MAX);
            e = ERR_RANGE;
            break;
        }
        e = store_read(s, at, &n, d);
        if (e != ERR_OK)
            break;
        *out = json_incref(json_object_get(n.properties, text_cstr(&wanted)));
        struct slice link = link_of(n.properties, text_slice(&wanted), " =>");
        if (*out == NULL && link.p == NULL) {
            e = ERR_NOT_FOUND;
            if (hops != 0)
                diag_add(d, NULL, 0, 0, "%s: has no property %s to link to", store_shown(at),
                         text_cstr(&wanted));
        }
        if (*out == NULL && e == ERR_OK)
            e = hop(s, link, at, &wanted, d);
        store_node_fini(&n);
        if (*out != NULL)
            break;
    }
    text_fini(&wanted);
    return e;
}
