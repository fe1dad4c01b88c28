/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelbctl tree import, diff: a text is applied to the tree, as zc.zk does it. The properties of
 * a node are replaced by those of the text; nodes that the text does not have are reported, deleted
 * or ignored, but those beside the text's topmost nodes are never touched. Providers belong to
 * their processes and are not changed.
 */
#include "ctl/tree/tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/literal.h"
#include "ctl/cli/ctl.h"

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
    return slice_ends(slice_of(key), SLICE_LIT(" ->")) ||
           slice_ends(slice_of(key), SLICE_LIT(" =>"));
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

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* What changes or is removed, by name, then what is added. */
static void say_changes(struct import *x, const char *path, json_t *was, json_t *is)
{
    for (int coming = 0; coming < 2; ++coming) {
        json_t *from = coming ? is : was;
        const char **keys = xmalloc((json_object_size(from) + 1) * sizeof(char *));
        const char *key;
        json_t *v;
        size_t n = 0;

        json_object_foreach(from, key, v)
        {
            json_t *other = json_object_get(coming ? was : is, key);

            if (coming ? other == NULL : !json_equal(v, other))
                keys[n++] = key;
        }
        if (n != 0)
            qsort(keys, n, sizeof(char *), by_text);
        for (size_t i = 0; i < n; ++i)
            say_change(x, path, keys[i], json_object_get(was, keys[i]),
                       json_object_get(is, keys[i]));
        free(keys);
    }
}

/* ---- nodes that the text does not have ---- */

static enum err delete_below(struct import *x, const char *path, size_t depth, bool *kept);

static enum err delete_children(struct import *x, const char *path, const struct tree_record *r,
                                size_t depth, bool *kept)
{
    enum err e = ERR_OK;

    for (size_t i = 0; e == ERR_OK && i < r->nchildren; ++i) {
        char *below = xasprintf("%s/%s", path, r->children[i]);

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
 * Errors: ERR_NOT_FOUND, ERR_BUSY (something came below it meanwhile).
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
    struct tree_text_item item;
    struct text line = {0};
    size_t at = 0;

    text_addf(&line, "/%s", name);
    struct slice s = text_slice(&line);
    bool can = slice_eq(slice_trim(s), s) && tree_text_item(s, &item, &at) == NULL &&
               item.kind == TREE_TEXT_NODE && slice_is(item.name, name);
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
            say(x, "not deleted: ", path, ": something came below it meanwhile");
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

    for (size_t i = 0; e == ERR_OK && i < there->nchildren; ++i) {
        if (tree_text_find(n, there->children[i]) != NULL)
            continue;
        char *below = xasprintf("%s/%s", path, there->children[i]);
        e = extra_node(x, below, there->children[i]);
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
            diag_add(&x->command->diag, NULL, 0, 0, "%s: went away meanwhile: import again", below);
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
