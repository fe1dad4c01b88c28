/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules are those of zc.zk: a real child hides a link of its name; links work in the middle of
 * a path; a relative link starts at the node that has it; an own property hides a property link.
 * Links come from outside, so every walk is bounded (TREE_STEPS_MAX) and a path met twice ends it.
 */
#include "common/tree/tree_follow.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"

/* One follower's interest in one spot; in a list of each. */
struct use {
    struct list in_follower;
    struct list in_spot;
    struct tree_spot *spot;
    struct follower *follower;
    unsigned parts;
};

/* Where links have led so far. */
struct trail {
    size_t n;
    char paths[TREE_TRAIL_MAX][TREE_PATH_MAX + 1];
};

struct hop {
    const struct tree_spot *spot;
    struct slice name;
};

/* ---- spots ---- */

static struct tree_spot *spot_create(struct tree *t, const char *path)
{
    size_t len = strlen(path);
    struct tree_spot *s = xcalloc(1, sizeof(*s) + len + 1);

    memcpy(s->path, path, len + 1);
    s->tree = t;
    s->touched = true;
    s->properties = json_object();
    list_init(&s->uses);
    map_add(&t->spots, &s->in_tree, s->path, len);
    t->backend->observe(s);
    return s;
}

static void spot_destroy(struct tree_spot *s)
{
    s->tree->backend->forget(s);
    map_remove(&s->tree->spots, &s->in_tree);
    json_decref(s->properties);
    tree_set_replace(&s->providers, NULL);
    tree_set_replace(&s->children, NULL);
    free(s->problem);
    free(s);
}

static void look_soon(struct follower *f)
{
    uint64_t since = loop_now_ms(f->tree->loop) - f->looked_ms;

    if (!timer_running(&f->look))
        timer_start(f->tree->loop, &f->look, since < f->pause_ms ? f->pause_ms - since : 0);
}

void tree_spot_touch(struct tree_spot *s, unsigned parts)
{
    struct list *it;

    s->touched = true;
    list_for_each (it, &s->uses) {
        struct use *u = list_entry(it, struct use, in_spot);

        if ((u->parts & parts) != 0)
            look_soon(u->follower);
    }
}

void tree_spot_set_properties(struct tree_spot *s, json_t *properties)
{
    json_decref(s->properties);
    s->properties = properties;
    s->known = s->exists = s->parses = true;
    free(s->problem);
    s->problem = NULL;
}

void tree_spot_set_problem(struct tree_spot *s, const char *problem)
{
    s->known = s->exists = true;
    s->parses = false;
    free(s->problem);
    s->problem = xstrdup(problem);
}

void tree_spot_set_missing(struct tree_spot *s)
{
    s->known = true;
    s->exists = s->parses = false;
    free(s->problem);
    s->problem = NULL;
    tree_set_replace(&s->providers, NULL);
    tree_set_replace(&s->children, NULL);
}

/* ---- followers ---- */

void follower_init(struct follower *f, struct tree *t, const char *path, unsigned pause_ms,
                   void (*look)(struct timer *timer))
{
    *f = (struct follower){.tree = t, .path = path, .pause_ms = pause_ms};
    timer_init(&f->look, look);
    timer_start(t->loop, &f->look, 0);
    list_init(&f->in_broken);
    list_init(&f->uses);
    list_init(&f->old);
}

static void use_destroy(struct use *u)
{
    struct tree_spot *s = u->spot;

    list_remove(&u->in_follower);
    list_remove(&u->in_spot);
    free(u);
    if (list_empty(&s->uses))
        spot_destroy(s);
}

void follower_begin(struct follower *f)
{
    f->looked_ms = loop_now_ms(f->tree->loop);
    list_splice_back(&f->old, &f->uses);
    f->steps = 0;
    text_clear(&f->problem);
}

void follower_end(struct follower *f)
{
    struct list *node;

    while ((node = list_pop_front(&f->old)) != NULL)
        use_destroy(list_entry(node, struct use, in_follower));
}

void follower_fini(struct follower *f)
{
    timer_stop(&f->look);
    follower_begin(f);
    follower_end(f);
    text_fini(&f->problem);
    list_remove(&f->in_broken);
    free(f->broken);
}

static bool is_broken(const struct tree *t, const char *problem)
{
    struct list *it;

    list_for_each (it, &t->broken) {
        if (strcmp(list_entry(it, struct follower, in_broken)->broken, problem) == 0)
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

static void problem_add(struct follower *f, const char *fmt, ...) printf_like(2, 3);

/* Keep the first problem of a look, fit for a log line: names in it come from outside. */
static void problem_add(struct follower *f, const char *fmt, ...)
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

static struct use *find_use(const struct list *uses, const struct tree_spot *s)
{
    struct list *it;

    list_for_each (it, uses) {
        struct use *u = list_entry(it, struct use, in_follower);

        if (u->spot == s)
            return u;
    }
    return NULL;
}

static struct use *use_create(struct follower *f, struct tree_spot *s)
{
    struct use *u = xcalloc(1, sizeof(*u));

    u->spot = s;
    u->follower = f;
    list_push_back(&s->uses, &u->in_spot);
    return u;
}

/* The spot PATH, up to date, and from now on this look hangs on it. NULL: too many steps. */
static struct tree_spot *look_at(struct follower *f, const char *path, unsigned parts)
{
    struct tree_spot *s;
    struct use *u = NULL;

    if (++f->steps > TREE_STEPS_MAX) {
        problem_add(f, "%s: more than %d steps of links; use fewer", path, TREE_STEPS_MAX);
        return NULL;
    }
    s = map_entry(map_find(&f->tree->spots, path, strlen(path)), struct tree_spot, in_tree);
    if (s == NULL)
        s = spot_create(f->tree, path);
    else
        u = find_use(&f->uses, s);
    if (u == NULL) {
        u = find_use(&f->old, s);
        if (u == NULL)
            u = use_create(f, s);
        list_remove(&u->in_follower);
        list_push_back(&f->uses, &u->in_follower);
        u->parts = 0;
    }
    u->parts |= parts;
    if ((parts & ~s->parts) != 0) {
        s->parts |= parts;
        s->touched = true;
    }
    if (s->touched) {
        s->touched = false;
        f->tree->backend->refresh(s);
    }
    return s;
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

static bool join(struct follower *f, const char *base, struct slice path,
                 char out[TREE_PATH_MAX + 1])
{
    enum err e = tree_path_join(base, path, out);

    if (e != ERR_OK)
        problem_add(f, "%s: link to %.*s: %s; correct the link", tree_path_shown(base),
                    SLICE_FMT(path), e == ERR_RANGE ? "leaves the tree" : "path too long");
    return e == ERR_OK;
}

/* Property "NAME ARROW" of S when it is a string. */
static struct slice link_of(const struct tree_spot *s, struct slice name, const char *arrow)
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

static enum found resolve(struct follower *f, struct trail *trail, struct tree_place *at);

/* AT->path does not exist as it stands: resolve all but its last name, then try that there. */
static enum found resolve_from_base(struct follower *f, struct trail *trail, struct tree_place *at)
{
    struct tree_place base;
    char *last = strrchr(at->path, '/') + 1;
    size_t base_len = (size_t)(last - 1 - at->path);
    char real[TREE_PATH_MAX + 1];

    memcpy(base.path, at->path, base_len);
    base.path[base_len] = '\0';
    enum found found = resolve(f, trail, &base);
    if (found != FOUND_NODE && found != FOUND_MISSING)
        return found;
    if (!join(f, base.path, slice_of(last), real))
        return FOUND_BAD;
    if (strcmp(real, at->path) != 0) {
        at->spot = look_at(f, real, PART_NODE);
        if (at->spot == NULL)
            return FOUND_BAD;
        if (!at->spot->known)
            return FOUND_PENDING;
    }
    struct slice target = found == FOUND_NODE && !at->spot->exists
                              ? link_of(base.spot, slice_of(last), " ->")
                              : SLICE_NULL;
    if (target.p == NULL) {
        memcpy(at->path, real, sizeof(real));
        return at->spot->exists ? FOUND_NODE : FOUND_MISSING;
    }
    /* Copied: NAME is in AT->path, and the target may be refreshed while it is followed. */
    char link[TREE_PATH_MAX * 2];
    snprintf(link, sizeof(link), "%s -> %.*s", strrchr(real, '/') + 1, SLICE_FMT(target));
    if (!join(f, base.path, target, at->path) || !trail_add(f, trail, at->path))
        return FOUND_BAD;
    found = resolve(f, trail, at);
    if (found == FOUND_MISSING)
        problem_add(f, "%s: link %s: node %s does not exist; create it or correct the link",
                    tree_path_shown(base.path), link, tree_path_shown(at->path));
    return found;
}

/* From AT->path to the node that is meant by it. The depth is bounded by look_at(). */
static enum found resolve(struct follower *f, struct trail *trail, struct tree_place *at)
{
    at->spot = look_at(f, at->path, PART_NODE);
    if (at->spot == NULL)
        return FOUND_BAD;
    if (!at->spot->known)
        return FOUND_PENDING;
    if (at->spot->exists)
        return FOUND_NODE;
    if (at->path[0] == '\0')
        return FOUND_MISSING;
    return resolve_from_base(f, trail, at);
}

enum found follow_path(struct follower *f, const char *path, unsigned parts, struct tree_place *out)
{
    struct trail *trail = xmalloc(sizeof(*trail));
    enum found found = FOUND_BAD;

    trail->n = 0;
    if (!join(f, "", slice_of(path), out->path) || !trail_add(f, trail, out->path))
        goto out;
    found = resolve(f, trail, out);
    /* Read again for the parts: only now is the spot known that they are needed of. */
    if (found == FOUND_NODE && look_at(f, out->path, parts) == NULL)
        found = FOUND_BAD;
    else if (found == FOUND_NODE && !out->spot->known)
        found = FOUND_PENDING;
out:
    free(trail);
    return found;
}

/* ---- property links ---- */

static bool hopped(const struct hop *hops, size_t n, const struct hop *next)
{
    for (size_t i = 0; i < n; ++i) {
        if (hops[i].spot == next->spot && slice_eq(hops[i].name, next->name))
            return true;
    }
    return false;
}

/*
 * Take property link HOP at AT one node on: AT is there then, HOP->name what to look for. FROM: the
 * node and property that the links begin at.
 */
static enum found hop_on(struct follower *f, const char *from, struct hop *hop,
                         struct tree_place *at)
{
    struct slice rest = link_of(at->spot, hop->name, " =>");
    char target[TREE_PATH_MAX + 1];

    if (rest.p == NULL) {
        problem_add(f, "%s: node %s has no property %.*s; set it or correct the link", from,
                    tree_path_shown(at->path), SLICE_FMT(hop->name));
        return FOUND_BAD;
    }
    struct slice path = slice_cut(&rest, ' ');
    if (!join(f, at->path, path, target))
        return FOUND_BAD;
    enum found found = follow_path(f, target, PART_NODE, at);
    if (found == FOUND_MISSING)
        problem_add(f, "%s: node %s does not exist; create it or correct the link", from,
                    tree_path_shown(target));
    rest = slice_trim(rest);
    if (rest.len != 0)
        hop->name = rest;
    hop->spot = at->spot;
    return found;
}

/* Property NAME of the node at PLACE, through property links. *OUT is borrowed, set on FOUND_NODE.
 */
static enum found follow_value(struct follower *f, const struct tree_place *place, const char *name,
                               json_t **out)
{
    struct hop hops[TREE_TRAIL_MAX];
    struct tree_place at = *place;
    struct hop next = {place->spot, slice_of(name)};
    char from[TREE_PATH_MAX * 2 + 32];

    snprintf(from, sizeof(from), "%s: property link %s =>", tree_path_shown(place->path), name);
    for (size_t n = 0; n < TREE_TRAIL_MAX; ++n) {
        json_t *value = json_object_getn(at.spot->properties, next.name.p, next.name.len);
        if (value != NULL) {
            *out = value;
            return FOUND_NODE;
        }
        if (hopped(hops, n, &next)) {
            problem_add(f, "%s: property link loop: returns to %.*s of %s; correct a link", from,
                        SLICE_FMT(next.name), tree_path_shown(at.path));
            return FOUND_BAD;
        }
        hops[n] = next;
        enum found found = hop_on(f, from, &next, &at);
        if (found != FOUND_NODE)
            return found;
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

json_t *follow_properties(struct follower *f, const struct tree_place *place, const json_t *last,
                          bool *pending)
{
    json_t *result = json_object();
    const char *key;
    json_t *value;

    /* Reading other nodes may refresh this one: iterate over its present properties. */
    json_t *own = json_incref(place->spot->properties);
    json_object_foreach(own, key, value)
    {
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
        enum found found = follow_value(f, place, name, &linked);
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
