/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules are those of zc.zk: a real child hides a link of its name; links work in the middle of
 * a path; a relative link starts at the node that has it; an own property hides a property link.
 * Links come from outside, so every walk is bounded (TREE_STEPS_MAX) and a path met twice ends it.
 */
#include "common/tree/tree_backend.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"

/* One follower's interest in one node; in a list of each. */
struct use {
    struct list in_follower;
    struct list in_node;
    struct tree_node *node;
    struct follower *follower;
    unsigned parts;
    unsigned evaluation; /* of the follower: the last one that needed the node */
};

/* Where links have led so far. */
struct trail {
    size_t n;
    char paths[TREE_TRAIL_MAX][TREE_PATH_MAX + 1];
};

struct hop {
    const struct tree_node *node;
    struct slice name;
};

/* ---- nodes ---- */

void tree_node_touch(struct tree_node *s, unsigned parts)
{
    struct use *u;

    s->touched = true;
    list_for_each_entry (u, &s->uses, in_node) {
        struct follower *f = u->follower;
        uint64_t since = loop_now_ms(f->tree->loop) - f->evaluated_ms;

        if ((u->parts & parts) != 0 && !timer_running(&f->evaluate))
            timer_start(f->tree->loop, &f->evaluate, since < f->pause_ms ? f->pause_ms - since : 0);
    }
}

void tree_node_set(struct tree_node *s, json_t *properties, const char *problem)
{
    s->known = true;
    s->parses = properties != NULL;
    s->exists = properties != NULL || problem != NULL;
    free(s->problem);
    s->problem = xstrdup(problem);
    if (properties != NULL) {
        json_decref(s->properties);
        s->properties = properties;
    }
    if (!s->exists) {
        tree_set_replace(&s->providers, NULL);
        tree_set_replace(&s->children, NULL);
    }
}

/* ---- followers ---- */

void follower_init(struct follower *f, struct tree *t, const char *path, unsigned pause_ms,
                   void (*evaluate)(struct timer *timer))
{
    *f = (struct follower){.tree = t, .path = path, .pause_ms = pause_ms};
    timer_init(&f->evaluate, evaluate);
    timer_start(t->loop, &f->evaluate, 0);
    list_init(&f->in_broken);
    list_init(&f->uses);
}

void follower_begin(struct follower *f)
{
    f->evaluated_ms = loop_now_ms(f->tree->loop);
    ++f->evaluation;
    f->steps = 0;
    text_clear(&f->problem);
}

void follower_end(struct follower *f)
{
    struct use *u;

    list_for_each_entry_safe (u, &f->uses, in_follower) {
        struct tree_node *n = u->node;

        if (u->evaluation == f->evaluation)
            continue;
        list_remove(&u->in_follower);
        list_remove(&u->in_node);
        free(u);
        if (!list_empty(&n->uses))
            continue;
        n->tree->backend->forget(n);
        map_remove(&n->tree->nodes, &n->in_tree);
        json_decref(n->properties);
        json_decref(n->providers);
        json_decref(n->children);
        free(n->problem);
        free(n);
    }
}

void follower_fini(struct follower *f)
{
    timer_stop(&f->evaluate);
    follower_begin(f);
    follower_end(f);
    text_fini(&f->problem);
    list_remove(&f->in_broken);
    free(f->broken);
}

static bool is_broken(const struct tree *t, const char *problem)
{
    const struct follower *f;

    list_for_each_entry (f, &t->broken, in_broken) {
        if (strcmp(f->broken, problem) == 0)
            return true;
    }
    return false;
}

void follower_report(struct follower *f)
{
    const char *now = f->problem.len != 0 ? text_cstr(&f->problem) : NULL;
    char *before = f->broken;

    if (before == NULL ? now == NULL : now != NULL && strcmp(now, before) == 0)
        return;
    list_remove(&f->in_broken);
    f->broken = xstrdup(now);
    if (now != NULL) {
        if (!is_broken(f->tree, now))
            log_warn(NULL, "tree-link-broken",
                     "path=%s reason=\"%s\" action=\"keep the last known state\"",
                     tree_path_shown(f->path), now);
        list_push_back(&f->tree->broken, &f->in_broken);
    } else if (!is_broken(f->tree, before)) {
        log_info(NULL, "tree-links-resolved", "path=%s", tree_path_shown(f->path));
    }
    free(before);
}

/* Stores the first problem of an evaluation, fit for a log line: names in it come from outside. */
printf_like(2, 3) static void problem_add(struct follower *f, const char *fmt, ...)
{
    char line[TREE_PATH_MAX * 3];
    va_list args;

    if (f->problem.len != 0)
        return;
    va_start(args, fmt);
    vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    text_add_escaped(&f->problem, slice_of(line));
}

/* *OUT is the node PATH, up to date, which exists as long as a follower uses it; this evaluation
 * depends on its PARTS from now on. FOUND_BAD: too many steps. */
static enum tree_found use_node(struct follower *f, const char *path, unsigned parts,
                                const struct tree_node **out)
{
    struct tree *t = f->tree;
    size_t len = strlen(path);
    struct use *u = NULL;
    struct use *other;

    if (++f->steps > TREE_STEPS_MAX) {
        problem_add(f, "%s: more than %d steps of links; use fewer", path, TREE_STEPS_MAX);
        return FOUND_BAD;
    }
    struct tree_node *n = map_entry(map_find(&t->nodes, path, len), struct tree_node, in_tree);
    if (n == NULL) {
        n = xcalloc(1, sizeof(*n) + len + 1);
        memcpy(n->path, path, len + 1);
        n->tree = t;
        n->touched = true;
        n->properties = json_object();
        list_init(&n->uses);
        map_add(&t->nodes, &n->in_tree, n->path, len);
        t->backend->observe(n);
    }
    list_for_each_entry (other, &f->uses, in_follower) {
        if (other->node == n)
            u = other;
    }
    if (u == NULL) {
        u = xcalloc(1, sizeof(*u));
        u->node = n;
        u->follower = f;
        list_push_back(&n->uses, &u->in_node);
        list_push_back(&f->uses, &u->in_follower);
    }
    u->parts = u->evaluation == f->evaluation ? u->parts | parts : parts;
    u->evaluation = f->evaluation;
    if ((parts & ~n->parts) != 0) {
        n->parts |= parts;
        n->touched = true;
    }
    if (n->touched) {
        n->touched = false;
        t->backend->refresh(n);
    }
    *out = n;
    if (!n->known)
        return FOUND_PENDING;
    return n->exists ? FOUND_NODE : FOUND_MISSING;
}

/* ---- paths ---- */

enum err tree_path_join(const char *base, struct slice path, char out[TREE_PATH_MAX + 1])
{
    size_t len = 0;

    if (path.len == 0 || path.p[0] != '/') {
        len = strlen(base);
        memcpy(out, base, len);
    }
    while (path.len != 0) {
        struct slice name = slice_cut(&path, '/');

        if (name.len == 0 || slice_is(name, "."))
            continue;
        if (slice_is(name, "..")) {
            if (len == 0)
                return ERR_RANGE;
            while (out[--len] != '/')
                ;
            continue;
        }
        if (len + 1 + name.len > TREE_PATH_MAX)
            return ERR_TOO_LARGE;
        out[len++] = '/';
        memcpy(out + len, name.p, name.len);
        len += name.len;
    }
    out[len] = '\0';
    return ERR_OK;
}

static bool follow_join(struct follower *f, const char *base, struct slice path,
                        char out[TREE_PATH_MAX + 1])
{
    enum err e = tree_path_join(base, path, out);

    if (e != ERR_OK)
        problem_add(f, "%s: link to %.*s: %s; correct the link", tree_path_shown(base),
                    SLICE_FMT(path), e == ERR_RANGE ? "leaves the tree" : "path too long");
    return e == ERR_OK;
}

/* Property "NAME ARROW" of S when it is a string. */
static struct slice link_of(const struct tree_node *s, struct slice name, const char *arrow)
{
    char key[TREE_PATH_MAX + 8];
    int len = snprintf(key, sizeof(key), "%.*s%s", SLICE_FMT(name), arrow);

    if (len < 0 || (size_t)len >= sizeof(key))
        return SLICE_NULL;
    return slice_trim(slice_of(json_string_value(json_object_get(s->properties, key))));
}

static bool trail_add(struct follower *f, struct trail *trail, const char *path)
{
    for (size_t i = 0; i < trail->n; ++i) {
        if (strcmp(trail->paths[i], path) == 0) {
            problem_add(f, "%s: link loop: returns to %s; correct one of the links",
                        trail->paths[0], path);
            return false;
        }
    }
    if (trail->n == TREE_TRAIL_MAX) {
        problem_add(f, "%s: more than %d links in a row; use fewer", trail->paths[0],
                    TREE_TRAIL_MAX);
        return false;
    }
    memcpy(trail->paths[trail->n++], path, strlen(path) + 1);
    return true;
}

/* From PATH to the node that is meant by it. The depth is bounded by use_node(). */
static enum tree_found resolve_path(struct follower *f, struct trail *trail, const char *path,
                                    const struct tree_node **out)
{
    const struct tree_node *base;
    char real[TREE_PATH_MAX + 1];
    enum tree_found found = use_node(f, path, PART_NODE, out);

    if (found != FOUND_MISSING || path[0] == '\0')
        return found;
    /* It does not exist as it stands: resolve all but its last name, then try that there. */
    const char *name = strrchr(path, '/') + 1;
    snprintf(real, sizeof(real), "%.*s", (int)(name - 1 - path), path);
    found = resolve_path(f, trail, real, &base);
    if (found != FOUND_NODE && found != FOUND_MISSING)
        return found;
    if (!follow_join(f, base->path, slice_of(name), real))
        return FOUND_BAD;
    enum tree_found there = FOUND_MISSING;
    if (strcmp(real, path) != 0)
        there = use_node(f, real, PART_NODE, out);
    else if ((*out)->exists)
        there = FOUND_NODE;
    if (there != FOUND_MISSING)
        return there;
    struct slice target = found == FOUND_NODE ? link_of(base, slice_of(name), " ->") : SLICE_NULL;
    if (target.p == NULL)
        return FOUND_MISSING;
    /* Copied: BASE may be refreshed while the target is followed. */
    char link[TREE_PATH_MAX * 2];
    snprintf(link, sizeof(link), "%s -> %.*s", name, SLICE_FMT(target));
    if (!follow_join(f, base->path, target, real) || !trail_add(f, trail, real))
        return FOUND_BAD;
    found = resolve_path(f, trail, real, out);
    if (found == FOUND_MISSING)
        problem_add(f, "%s: link %s: node %s does not exist; create it or correct the link",
                    tree_path_shown(base->path), link, tree_path_shown((*out)->path));
    return found;
}

enum tree_found follow_path(struct follower *f, const char *path, unsigned parts,
                            const struct tree_node **out)
{
    struct trail *trail = xmalloc(sizeof(*trail));
    char real[TREE_PATH_MAX + 1];
    enum tree_found found = FOUND_BAD;

    trail->n = 0;
    if (follow_join(f, "", slice_of(path), real) && trail_add(f, trail, real))
        found = resolve_path(f, trail, real, out);
    /* Used again with PARTS, because only now the node that must have them is known. */
    if (found == FOUND_NODE)
        found = use_node(f, (*out)->path, parts, out);
    free(trail);
    return found;
}

/* ---- property links ---- */

/* Property NAME of N, through property links. *OUT is borrowed, set on FOUND_NODE. */
static enum tree_found follow_value(struct follower *f, const struct tree_node *n, const char *name,
                                    json_t **out)
{
    struct hop hops[TREE_TRAIL_MAX];
    struct hop next = {n, slice_of(name)};
    char from[TREE_PATH_MAX * 2 + 32]; /* the node and property that the links begin at */
    char target[TREE_PATH_MAX + 1];

    snprintf(from, sizeof(from), "%s: property link %s =>", tree_path_shown(n->path), name);
    for (size_t i = 0; i < TREE_TRAIL_MAX; ++i) {
        *out = json_object_getn(next.node->properties, next.name.p, next.name.len);
        if (*out != NULL)
            return FOUND_NODE;
        for (size_t k = 0; k < i; ++k) {
            if (hops[k].node != next.node || !slice_eq(hops[k].name, next.name))
                continue;
            problem_add(f, "%s: property link loop: returns to %.*s of %s; correct a link", from,
                        SLICE_FMT(next.name), tree_path_shown(next.node->path));
            return FOUND_BAD;
        }
        hops[i] = next;
        struct slice rest = link_of(next.node, next.name, " =>");
        if (rest.p == NULL) {
            problem_add(f, "%s: node %s has no property %.*s; set it or correct the link", from,
                        tree_path_shown(next.node->path), SLICE_FMT(next.name));
            return FOUND_BAD;
        }
        if (!follow_join(f, next.node->path, slice_cut(&rest, ' '), target))
            return FOUND_BAD;
        enum tree_found found = follow_path(f, target, PART_NODE, &next.node);
        if (found == FOUND_MISSING)
            problem_add(f, "%s: node %s does not exist; create it or correct the link", from,
                        tree_path_shown(target));
        if (found != FOUND_NODE)
            return found;
        rest = slice_trim(rest);
        if (rest.len != 0)
            next.name = rest;
    }
    problem_add(f, "%s: more than %d links in a row; use fewer", from, TREE_TRAIL_MAX);
    return FOUND_BAD;
}

/* Whether KEY is "NAME ARROW"; then NAME goes to NAME_OUT. */
static bool is_link(const char *key, const char *arrow, char name_out[TREE_PATH_MAX + 1])
{
    struct slice k = slice_of(key);
    struct slice a = slice_of(arrow);

    if (!slice_ends(k, a) || k.len - a.len > TREE_PATH_MAX)
        return false;
    memcpy(name_out, k.p, k.len - a.len);
    name_out[k.len - a.len] = '\0';
    return true;
}

json_t *follow_properties(struct follower *f, const struct tree_node *n, const json_t *last,
                          bool *pending)
{
    json_t *result = json_object();
    const char *key;
    json_t *value;

    /* Reading other nodes may refresh this one: iterate over its present properties. */
    json_t *own = json_incref(n->properties);
    json_object_foreach (own, key, value) {
        char name[TREE_PATH_MAX + 1];

        if (is_link(key, " ->", name))
            continue;
        if (!is_link(key, " =>", name)) {
            json_object_set(result, key, value);
            continue;
        }
        if (json_object_get(own, name) != NULL)
            continue;
        json_t *linked = NULL;
        enum tree_found found = follow_value(f, n, name, &linked);
        if (found == FOUND_PENDING)
            *pending = true;
        if (linked == NULL)
            linked = json_object_get(last, name);
        if (linked != NULL)
            json_object_set(result, name, linked);
    }
    json_decref(own);
    return result;
}
