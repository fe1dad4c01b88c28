/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelbctl tree set, get. A change is applied to what was read, and written only if the node
 * still has that version; otherwise it is read again. So simultaneous changes of different
 * properties are all kept.
 */
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/json.h"
#include "common/base/literal.h"
#include "ctl/tree/tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- what is to change ---- */

struct change {
    char *key;
    json_t *value; /* NULL: it is removed */
};

struct changes {
    struct change items[2 * TREE_CHANGES_MAX];
    size_t n;
};

static void changes_destroy(struct changes *all)
{
    for (size_t i = 0; i < all->n; ++i) {
        free(all->items[i].key);
        json_decref(all->items[i].value);
    }
    free(all);
}

/* Where "=>", "->" or "=" begins in S, whichever is first; SIZE_MAX. */
static size_t find_operator(struct slice s)
{
    for (size_t i = 0; i < s.len; ++i) {
        if (s.p[i] == '=' || (s.p[i] == '-' && i + 1 < s.len && s.p[i + 1] == '>'))
            return i;
    }
    return SIZE_MAX;
}

/* Whether the text format can express NAME OP REST, so that exports are complete. */
static bool can_be_said(struct slice name, const char *op, struct slice rest)
{
    enum tree_text_kind kind = strcmp(op, "=") == 0    ? TREE_TEXT_PROPERTY
                               : strcmp(op, "->") == 0 ? TREE_TEXT_LINK
                                                       : TREE_TEXT_PROPERTY_LINK;
    struct text line = {0};

    text_add(&line, name);
    text_addf(&line, " %s ", op);
    text_add(&line, rest);
    bool can = tree_text_reads_as(text_slice(&line), kind, name, rest);
    text_fini(&line);
    return can;
}

/* JSON if it parses, otherwise the text itself; NULL: it is not UTF-8. */
static json_t *parse_value(struct slice s)
{
    json_t *v = NULL;

    if (json_parse(s, NODE_BYTES_MAX, &v, NULL) == ERR_OK)
        return v;
    return literal_is_text(s) ? json_stringn(s.p, s.len) : NULL;
}

static bool parse_change(const char *word, struct change *out, struct diag *d)
{
    struct slice s = slice_of(word);
    size_t at = find_operator(s);
    bool link = at != SIZE_MAX && at + 1 < s.len && s.p[at + 1] == '>';
    struct slice name = at != SIZE_MAX ? slice_trim((struct slice){s.p, at}) : SLICE_NULL;
    size_t behind = at + (link ? 2 : 1);

    if (at == SIZE_MAX) {
        diag_add(d, NULL, 0, 0, "'%s': want NAME=VALUE, 'NAME->PATH' or 'NAME=>PATH PROPERTY'",
                 word);
        return false;
    }
    struct slice rest = {s.p + behind, s.len - behind};
    /* "a = b" means "a=b". */
    if (link || name.len != at)
        rest = slice_trim(rest);
    const char *op = link ? (s.p[at] == '-' ? "->" : "=>") : "=";
    if (!can_be_said(name, op, link ? rest : SLICE_LIT("0"))) {
        diag_add(d, NULL, 0, 0, "'%s': not a name (or target) that the text format can represent",
                 word);
        return false;
    }
    out->value = link ? json_stringn(rest.p, rest.len) : parse_value(rest);
    if (out->value == NULL) {
        diag_add(d, NULL, 0, 0, "'%.*s': its value is not UTF-8 text", SLICE_FMT(name));
        return false;
    }
    out->key = xasprintf("%.*s%s%s", SLICE_FMT(name), link ? " " : "", link ? op : "");
    return true;
}

/* NULL: one of them is invalid, which is in the diag. */
static struct changes *parse_changes(struct tree_command *c)
{
    struct changes *all = xcalloc(1, sizeof(*all));

    for (size_t i = 1; i < c->nwords; ++i) {
        if (!parse_change(c->words[i], &all->items[all->n], &c->diag)) {
            changes_destroy(all);
            return NULL;
        }
        ++all->n;
    }
    for (size_t i = 0; i < c->nunset; ++i)
        all->items[all->n++] = (struct change){xstrdup(c->unset[i]), NULL};
    if (all->n != 0 || c->create || c->reset_acl)
        return all;
    diag_add(&c->diag, NULL, 0, 0, "nothing to set: expected NAME=VALUE or --unset NAME");
    changes_destroy(all);
    return NULL;
}

/* A copy of PROPERTIES (NULL: none) with the changes made. */
static json_t *apply(const struct changes *all, json_t *properties)
{
    json_t *v = properties != NULL ? json_copy(properties) : json_object();

    for (size_t i = 0; i < all->n; ++i) {
        if (all->items[i].value != NULL)
            json_object_set(v, all->items[i].key, all->items[i].value);
        else
            json_object_del(v, all->items[i].key);
    }
    return v;
}

/* ---- set ---- */

/* One try. ERR_BUSY: the node was changed meanwhile. */
static enum err change_once(struct tree_command *c, const char *path, const struct changes *all)
{
    struct tree_record r;
    json_t *v = NULL;
    enum err e = tree_command_read(c, path, &r);

    if (e == ERR_NOT_FOUND && c->create) {
        v = apply(all, NULL);
        e = tree_command_change(c, TREE_CREATE, path, v, NULL);
        json_decref(v);
        return e == ERR_EXISTS ? ERR_BUSY : e;
    }
    if (e == ERR_OK && r.problem != NULL) {
        diag_add(&c->diag, NULL, 0, 0, "%s: its data is not JSON (%s): an import replaces it whole",
                 tree_path_shown(path), r.problem);
        e = ERR_UNSUPPORTED;
    }
    if (e == ERR_OK) {
        v = apply(all, r.properties);
        if (!json_equal(v, r.properties))
            e = tree_command_change(c, TREE_WRITE, path, v, &r.version);
    }
    json_decref(v);
    tree_record_fini(&r);
    return e;
}

int tree_set(struct tree_command *c)
{
    char path[TREE_PATH_MAX + 1];
    struct changes *all = parse_changes(c);

    if (all == NULL)
        return CTL_USAGE;
    uint64_t deadline_us = clock_mono_us() + (uint64_t)c->o.timeout_ms * 1000;
    enum err e = tree_command_path(c, c->words[0], path);
    if (e == ERR_OK || (e == ERR_NOT_FOUND && c->create)) {
        do
            e = change_once(c, path, all);
        while (e == ERR_BUSY && clock_mono_us() < deadline_us);
        if (e == ERR_BUSY)
            diag_add(&c->diag, NULL, 0, 0, "%s: changed by others too often", c->words[0]);
    }
    if (e == ERR_NOT_FOUND)
        diag_add(&c->diag, NULL, 0, 0, "%s: no such node in %s (--create creates it)", c->words[0],
                 c->url);
    if (e == ERR_OK && c->reset_acl)
        e = tree_command_change(c, TREE_RESET_ACL, path, NULL, NULL);
    changes_destroy(all);
    return e == ERR_OK ? CTL_OK : CTL_FAILED;
}

/* ---- get ---- */

/* "NAME =>" of PROPERTIES, when it is a string. */
static struct slice link_of(const json_t *properties, struct slice name)
{
    char *key = xasprintf("%.*s =>", SLICE_FMT(name));
    const char *target = json_string_value(json_object_get(properties, key));

    free(key);
    return slice_trim(slice_of(target));
}

/* Follows a property link: AT becomes the node that LINK of its names, NAME the property there. */
static enum err hop(struct tree_command *c, struct slice link, char at[TREE_PATH_MAX + 1],
                    struct text *name)
{
    char target[TREE_PATH_MAX + 1];
    struct slice path = slice_cut(&link, ' ');
    enum err e = tree_path_join(at, path, target);

    if (e != ERR_OK) {
        diag_add(&c->diag, NULL, 0, 0, "%s: link to %.*s: %s", tree_path_shown(at), SLICE_FMT(path),
                 e == ERR_RANGE ? "leaves the tree" : "path too long");
        return ERR_RANGE;
    }
    e = tree_command_resolve(c, target, at);
    if (e == ERR_NOT_FOUND)
        diag_add(&c->diag, NULL, 0, 0, "%s: linked to for property %s, but does not exist",
                 tree_path_shown(target), text_cstr(name));
    link = slice_trim(link);
    if (link.len != 0) {
        text_clear(name);
        text_add(name, link);
    }
    return e;
}

/*
 * Property NAME of the node at PATH, through property links: a new reference.
 * Errors: ERR_NOT_FOUND (no such property, or a link that does not resolve, which is in the diag),
 * ERR_RANGE (links that loop or leave the tree).
 */
static enum err follow_property(struct tree_command *c, const char *path, const char *name,
                                json_t **out)
{
    char at[TREE_PATH_MAX + 1];
    struct text wanted = {0};
    enum err e = ERR_OK;

    snprintf(at, sizeof(at), "%s", path);
    text_add(&wanted, slice_of(name));
    *out = NULL;
    for (size_t hops = 0; e == ERR_OK && *out == NULL; ++hops) {
        struct tree_record r = {0};

        if (hops == TREE_TRAIL_MAX) {
            diag_add(&c->diag, NULL, 0, 0, "%s: property %s: more than %d links in a row",
                     tree_path_shown(path), name, TREE_TRAIL_MAX);
            e = ERR_RANGE;
            break;
        }
        e = tree_command_read(c, at, &r);
        *out = json_incref(json_object_get(r.properties, text_cstr(&wanted)));
        struct slice link = link_of(r.properties, text_slice(&wanted));
        if (e == ERR_OK && *out == NULL && link.p != NULL) {
            e = hop(c, link, at, &wanted);
        } else if (e == ERR_OK && *out == NULL) {
            e = ERR_NOT_FOUND;
            if (hops != 0)
                diag_add(&c->diag, NULL, 0, 0, "%s: has no property %s to link to",
                         tree_path_shown(at), text_cstr(&wanted));
        }
        tree_record_fini(&r);
    }
    text_fini(&wanted);
    return e;
}

/* All properties of the node, links followed: an object. Links that do not resolve are errors. */
static enum err get_all(struct tree_command *c, const char *path, json_t **out)
{
    struct tree_record r;
    const char *key;
    json_t *v;
    enum err result = tree_command_read(c, path, &r);

    if (result != ERR_OK)
        return result;
    *out = json_object();
    json_object_foreach(r.properties, key, v)
    {
        struct slice name;
        json_t *linked = NULL;

        if (tree_text_is_link(key, " ->", &name))
            continue;
        if (!tree_text_is_link(key, " =>", &name)) {
            json_object_set(*out, key, v);
            continue;
        }
        if (json_object_getn(r.properties, name.p, name.len) != NULL)
            continue;
        char *own = xslicedup(name);
        enum err e = follow_property(c, path, own, &linked);
        if (e == ERR_OK)
            json_object_set_new(*out, own, linked);
        else
            result = e;
        free(own);
    }
    tree_record_fini(&r);
    return result;
}

int tree_get(struct tree_command *c)
{
    char path[TREE_PATH_MAX + 1];
    const char *name = c->nwords > 1 ? c->words[1] : NULL;
    json_t *v = NULL;
    enum err e = tree_command_node(c, c->words[0], path);

    if (e != ERR_OK)
        return CTL_FAILED;
    e = name != NULL ? follow_property(c, path, name, &v) : get_all(c, path, &v);
    if (e == ERR_NOT_FOUND && c->diag.errors == 0)
        diag_add(&c->diag, NULL, 0, 0, "%s: has no property %s", c->words[0],
                 name != NULL ? name : "");
    if (v != NULL) {
        json_print(v, &c->out);
        text_add_char(&c->out, '\n');
    }
    json_decref(v);
    return e == ERR_OK ? CTL_OK : CTL_FAILED;
}

/* ---- import and diff ---- */

/*
 * resumelbctl tree import, diff: a text is applied to the tree, as zc.zk does it. The properties of
 * a node are replaced by those of the text; nodes that the text does not have are reported, deleted
 * or ignored, but those beside the text's topmost nodes are never touched. Providers belong to
 * their processes and are not changed.
 */

struct import {
    struct tree_command *command;
    bool dry;
};

/* ---- lines ---- */

static void add_path(struct import *x, const char *path)
{
    text_add_escaped(&x->command->out, slice_of(path));
}

static void say(struct import *x, const char *before, const char *path, const char *after)
{
    text_add(&x->command->out, slice_of(before));
    add_path(x, path);
    text_add(&x->command->out, slice_of(after));
    text_add_char(&x->command->out, '\n');
}

static bool is_link(const char *key)
{
    struct slice name;

    return tree_text_is_link(key, " ->", &name) || tree_text_is_link(key, " =>", &name);
}

/* "b = 1", or "b -> /c" of a link. */
static void add_property(struct text *out, const char *key, const json_t *v)
{
    text_add_escaped(out, slice_of(key));
    text_add(out, is_link(key) ? SLICE_LIT(" ") : SLICE_LIT(" = "));
    if (is_link(key) && json_is_string(v))
        text_add_escaped(out, slice_of(json_string_value(v)));
    else
        literal_print(v, out);
}

static void say_change(struct import *x, const char *path, const char *key, const json_t *was,
                       const json_t *is)
{
    struct text *out = &x->command->out;
    bool link = is_link(key);

    add_path(x, path);
    if (was == NULL || is == NULL) {
        text_addf(out, " %s %s ", was == NULL ? "add" : "remove", link ? "link" : "property");
        add_property(out, key, was == NULL ? is : was);
    } else {
        text_add_char(out, ' ');
        text_add_escaped(out, (struct slice){key, strlen(key) - (link ? strlen(" ->") : 0)});
        text_add(out, link ? SLICE_LIT(" link change from ") : SLICE_LIT(" change from "));
        literal_print(was, out);
        text_add(out, SLICE_LIT(" to "));
        literal_print(is, out);
    }
    text_add_char(out, '\n');
}

/* Lists changed and removed properties by name, then added ones. */
static void say_changes(struct import *x, const char *path, json_t *was, json_t *is)
{
    for (int coming = 0; coming < 2; ++coming) {
        json_t *from = coming ? is : was;
        const char **keys = json_sorted_names(from);

        for (size_t i = 0; i < json_object_size(from); ++i) {
            const json_t *before = json_object_get(was, keys[i]);
            const json_t *after = json_object_get(is, keys[i]);

            if (coming ? before == NULL : !json_equal(before, after))
                say_change(x, path, keys[i], before, after);
        }
        free(keys);
    }
}

/* ---- nodes that the text does not have ---- */

static enum err delete_below(struct import *x, const char *path, size_t depth, bool *kept);

static enum err delete_children(struct import *x, const char *path, const struct tree_record *r,
                                size_t depth, bool *kept)
{
    enum err e = ERR_OK;

    for (size_t i = 0; e == ERR_OK && i < tree_set_count(r->children); ++i) {
        char *below = xasprintf("%s/%s", path, r->children->items[i].name);

        e = delete_below(x, below, depth + 1, kept);
        /* Deleted by others. */
        if (e == ERR_NOT_FOUND)
            e = ERR_OK;
        free(below);
    }
    return e;
}

/*
 * Delete PATH and all below, but no provider and nothing above one: *KEPT becomes true then.
 * Errors: ERR_NOT_FOUND, ERR_BUSY (a node was created below it meanwhile).
 */
static enum err delete_below(struct import *x, const char *path, size_t depth, bool *kept)
{
    struct tree_command *c = x->command;
    struct tree_record r;
    bool holds = false;
    enum err e = tree_command_read(c, path, &r);

    if (e == ERR_OK && depth == TREE_DEPTH_MAX) {
        diag_add(&c->diag, NULL, 0, 0, "%s: nested deeper than %d", path, TREE_DEPTH_MAX);
        e = ERR_TOO_LARGE;
    }
    if (e == ERR_OK && !r.provider)
        e = delete_children(x, path, &r, depth, &holds);
    bool keeps = r.provider || holds;
    if (e == ERR_OK && !x->dry && !keeps)
        e = tree_command_change(c, TREE_REMOVE, path, NULL, NULL);
    if (e == ERR_OK && keeps) {
        *kept = true;
        say(x, x->dry ? "would not delete " : "not deleted: ", path,
            r.provider ? ": a provider" : ": holds providers");
    } else if (e == ERR_OK && x->dry) {
        say(x, "would delete ", path, ".");
    }
    tree_record_fini(&r);
    return e;
}

/* Whether the format can express the name. A node that it cannot name is never deleted. */
static bool can_be_named(const char *name)
{
    struct text line = {0};

    text_addf(&line, "/%s", name);
    bool can = tree_text_reads_as(text_slice(&line), TREE_TEXT_NODE, slice_of(name), SLICE_NULL);
    text_fini(&line);
    return can;
}

static enum err extra_node(struct import *x, const char *path, const char *name)
{
    struct tree_command *c = x->command;
    struct tree_record r;
    enum err e = tree_command_read(c, path, &r);
    bool is_provider = r.provider;

    tree_record_fini(&r);
    if (e == ERR_NOT_FOUND || is_provider)
        return ERR_OK;
    if (c->trim == TREE_TRIM_DELETE && can_be_named(name)) {
        bool kept = false;

        if (e == ERR_OK)
            e = delete_below(x, path, 0, &kept);
        if (e == ERR_BUSY) {
            say(x, "not deleted: ", path, ": a node was created below it meanwhile");
            e = ERR_OK;
        }
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    }
    say(x, "extra path not trimmed: ", path, "");
    return e == ERR_UNSUPPORTED || e == ERR_TOO_LARGE ? ERR_OK : e;
}

static enum err extra_nodes(struct import *x, const char *path, const struct tree_text_node *n,
                            const struct tree_record *there)
{
    enum err e = ERR_OK;

    for (size_t i = 0; e == ERR_OK && i < tree_set_count(there->children); ++i) {
        const char *name = there->children->items[i].name;

        if (tree_text_find(n, name) != NULL)
            continue;
        char *below = xasprintf("%s/%s", path, name);
        e = extra_node(x, below, name);
        free(below);
    }
    return e;
}

/* ---- nodes of the text ---- */

/* PATH exists: it gets the properties of N. */
static enum err change_node(struct import *x, const char *path, const struct tree_text_node *n,
                            const struct tree_record *there)
{
    struct tree_command *c = x->command;
    bool same = json_equal(there->properties, n->properties);
    enum err e = ERR_OK;

    if (there->provider) {
        if (!same)
            say(x, "not changed: ", path, ": a provider");
        return ERR_OK;
    }
    if (x->dry)
        say_changes(x, path, there->properties, n->properties);
    else if (!same)
        e = tree_command_change(c, TREE_WRITE, path, n->properties, NULL);
    if (e == ERR_OK && c->reset_acl && !x->dry)
        e = tree_command_change(c, TREE_RESET_ACL, path, NULL, NULL);
    return e;
}

static enum err import_children(struct import *x, const char *path, const struct tree_text_node *n);

/* Applies N, with all below, to PATH. */
static enum err import_node(struct import *x, const char *path, const struct tree_text_node *n)
{
    struct tree_command *c = x->command;
    struct tree_record there;
    enum err e = tree_command_read(c, path, &there);

    if (e == ERR_NOT_FOUND && x->dry) {
        say(x, "add ", path, "");
        return ERR_OK;
    }
    if (e == ERR_NOT_FOUND) {
        e = tree_command_change(c, TREE_CREATE, path, n->properties, NULL);
        if (e == ERR_EXISTS)
            e = tree_command_change(c, TREE_WRITE, path, n->properties, NULL);
        return e == ERR_OK ? import_children(x, path, n) : e;
    }
    if (e != ERR_OK)
        return e;
    e = change_node(x, path, n, &there);
    if (e == ERR_OK && c->trim != TREE_TRIM_IGNORE)
        e = extra_nodes(x, path, n, &there);
    tree_record_fini(&there);
    return e == ERR_OK ? import_children(x, path, n) : e;
}

static enum err import_children(struct import *x, const char *path, const struct tree_text_node *n)
{
    enum err e = ERR_OK;

    for (size_t i = 0; e == ERR_OK && i < n->nchildren; ++i) {
        char *below = xasprintf("%s/%s", path, n->children[i]->name);

        e = import_node(x, below, n->children[i]);
        /* Deleted by others between two of our operations. */
        if (e == ERR_NOT_FOUND) {
            diag_add(&x->command->diag, NULL, 0, 0, "%s: removed meanwhile: import again", below);
            e = ERR_SYSTEM;
        }
        free(below);
    }
    return e;
}

/* ---- the text ---- */

static enum err read_stdin(struct text *out, struct diag *d)
{
    enum { STEP = 65536 };

    for (;;) {
        ssize_t n = read(STDIN_FILENO, text_reserve(out, STEP), STEP);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            diag_add(d, "stdin", 0, 0, "%s", strerror(errno));
            return ERR_SYSTEM;
        }
        if (n == 0)
            return ERR_OK;
        out->len += (size_t)n;
        if (out->len > TREE_TEXT_BYTES_MAX) {
            diag_add(d, "stdin", 0, 0, "more than %d bytes", TREE_TEXT_BYTES_MAX);
            return ERR_TOO_LARGE;
        }
    }
}

static enum err read_tree(const char *file, struct tree_text_node **top, struct diag *d)
{
    bool from_stdin = strcmp(file, "-") == 0;
    struct text bytes = {0};
    enum err e = from_stdin ? read_stdin(&bytes, d) : file_read(file, TREE_TEXT_BYTES_MAX, &bytes);

    if (e != ERR_OK && !from_stdin)
        diag_add(d, file, 0, 0, "%s", e == ERR_SYSTEM ? strerror(errno) : err_text(e));
    if (e == ERR_OK)
        e = tree_text_parse(text_slice(&bytes), from_stdin ? "stdin" : file, top, d);
    text_fini(&bytes);
    return e;
}

static enum err import_text(struct tree_command *c, bool dry)
{
    char path[TREE_PATH_MAX + 1];
    struct import x = {c, dry};
    struct tree_text_node *top = NULL;
    enum err e = read_tree(c->words[0], &top, &c->diag);

    if (e != ERR_OK)
        return e;
    e = tree_command_path(c, c->nwords > 1 ? c->words[1] : NULL, path);
    if (e == ERR_OK || e == ERR_NOT_FOUND)
        e = import_children(&x, path, top);
    tree_text_destroy(top);
    return e;
}

int tree_import(struct tree_command *c)
{
    return import_text(c, c->dry_run) == ERR_OK ? CTL_OK : CTL_FAILED;
}

int tree_diff(struct tree_command *c)
{
    if (import_text(c, true) != ERR_OK)
        return CTL_USAGE;
    return c->out.len == 0 ? CTL_OK : CTL_FAILED;
}
