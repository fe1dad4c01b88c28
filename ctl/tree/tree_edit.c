/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelbctl tree set, get. A change is applied to what was read, and written only if the node
 * still has that version; otherwise it is read again. So simultaneous changes of different
 * properties are all applied.
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

/* Whether the text format can express it, so that exports are complete. */
static bool can_express(enum tree_text_kind kind, struct slice name, struct slice rest)
{
    struct text line = {0};
    bool can = tree_text_make_line(kind, name, rest, &line);

    text_fini(&line);
    return can;
}

/* Adds the change WORD to SET. Returns false if it is invalid, which is in D. */
static bool parse_change(const char *word, json_t *set, struct diag *d)
{
    const char *op = word;

    while (*op != '\0' && *op != '=' && (op[0] != '-' || op[1] != '>'))
        ++op;
    if (*op == '\0') {
        diag_add(d, NULL, 0, 0, "'%s': want NAME=VALUE, 'NAME->PATH' or 'NAME=>PATH PROPERTY'",
                 word);
        return false;
    }
    size_t len = (size_t)(op - word);
    struct slice name = slice_trim((struct slice){word, len});
    enum tree_text_kind kind = op[1] != '>' ? TREE_TEXT_PROPERTY
                               : *op == '-' ? TREE_TEXT_LINK
                                            : TREE_TEXT_PROPERTY_LINK;
    bool link = kind != TREE_TEXT_PROPERTY;
    struct slice rest = slice_of(op + 1 + link);
    /* "a = b" means "a=b". */
    if (link || name.len != len)
        rest = slice_trim(rest);
    if (!can_express(kind, name, link ? rest : SLICE_LIT("0"))) {
        diag_add(d, NULL, 0, 0, "'%s': not a name (or target) that the text format can represent",
                 word);
        return false;
    }
    /* JSON if it parses, otherwise the text itself. */
    json_t *v = NULL;
    if (link || (json_parse(rest, NODE_BYTES_MAX, &v, NULL) != ERR_OK && literal_is_text(rest)))
        v = json_stringn(rest.p, rest.len);
    if (v == NULL) {
        diag_add(d, NULL, 0, 0, "'%.*s': its value is not UTF-8 text", SLICE_FMT(name));
        return false;
    }
    char *key = xasprintf("%.*s%s%.*s", SLICE_FMT(name), link ? " " : "", link ? 2 : 0, op);
    json_object_set_new(set, key, v);
    free(key);
    return true;
}

/* ---- set ---- */

/* One try. ERR_BUSY: the node was changed meanwhile. */
static enum err change_once(struct tree_command *c, const char *path, json_t *set)
{
    struct tree_record r;
    enum err e = tree_command_read(c, path, &r);
    bool create = e == ERR_NOT_FOUND && c->create;

    if (e == ERR_OK && r.problem != NULL) {
        diag_add(&c->o.diag, NULL, 0, 0,
                 "%s: its data is not JSON (%s): an import replaces it whole",
                 tree_path_shown(path), r.problem);
        e = ERR_UNSUPPORTED;
    }
    json_t *v = create ? json_object() : json_copy(r.properties);
    json_object_update(v, set);
    for (size_t i = 0; i < c->nunset; ++i)
        json_object_del(v, c->unset[i]);
    if (create)
        e = tree_command_change(c, TREE_CREATE, path, v, NULL);
    else if (e == ERR_OK && !json_equal(v, r.properties))
        e = tree_command_change(c, TREE_WRITE, path, v, &r.version);
    json_decref(v);
    tree_record_fini(&r);
    return e == ERR_EXISTS ? ERR_BUSY : e;
}

int tree_set(struct tree_command *c)
{
    char path[TREE_PATH_MAX + 1];
    json_t *set = json_object();
    bool valid = true;

    for (size_t i = 1; valid && i < c->nwords; ++i)
        valid = parse_change(c->words[i], set, &c->o.diag);
    if (valid && c->nwords < 2 && c->nunset == 0 && !c->create && !c->reset_acl) {
        diag_add(&c->o.diag, NULL, 0, 0, "nothing to set: expected NAME=VALUE or --unset NAME");
        valid = false;
    }
    if (!valid) {
        json_decref(set);
        return CTL_USAGE;
    }
    uint64_t deadline_us = clock_mono_us() + (uint64_t)c->o.timeout_ms * 1000;
    enum err e = tree_command_path(c, c->words[0], false, path);
    if (e == ERR_OK || (e == ERR_NOT_FOUND && c->create)) {
        do
            e = change_once(c, path, set);
        while (e == ERR_BUSY && clock_mono_us() < deadline_us);
        if (e == ERR_BUSY)
            diag_add(&c->o.diag, NULL, 0, 0, "%s: changed by others too often", c->words[0]);
    }
    if (e == ERR_NOT_FOUND)
        diag_add(&c->o.diag, NULL, 0, 0, "%s: no such node in %s (--create creates it)",
                 c->words[0], c->url);
    if (e == ERR_OK && c->reset_acl)
        e = tree_command_change(c, TREE_RESET_ACL, path, NULL, NULL);
    json_decref(set);
    return e == ERR_OK ? CTL_OK : CTL_FAILED;
}

/* ---- get ---- */

/* Follows LINK, a property link of node AT: sets AT to the node, and NAME to the property there. */
static enum err follow_link(struct tree_command *c, struct slice link, char at[TREE_PATH_MAX + 1],
                            struct text *name)
{
    char target[TREE_PATH_MAX + 1];
    struct slice path = slice_cut(&link, ' ');
    enum err e = tree_path_join(at, path, target);

    if (e != ERR_OK) {
        diag_add(&c->o.diag, NULL, 0, 0, "%s: link to %.*s: %s", tree_path_shown(at),
                 SLICE_FMT(path), e == ERR_RANGE ? "leaves the tree" : "path too long");
        return ERR_RANGE;
    }
    e = tree_command_resolve(c, target, at);
    if (e == ERR_NOT_FOUND)
        diag_add(&c->o.diag, NULL, 0, 0, "%s: linked to for property %s, but does not exist",
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
    struct text property = {0};
    enum err e = ERR_OK;

    snprintf(at, sizeof(at), "%s", path);
    text_add(&property, slice_of(name));
    *out = NULL;
    for (size_t hops = 0; e == ERR_OK && *out == NULL; ++hops) {
        struct tree_record r = {0};

        if (hops == TREE_TRAIL_MAX) {
            diag_add(&c->o.diag, NULL, 0, 0, "%s: property %s: more than %d links in a row",
                     tree_path_shown(path), name, TREE_TRAIL_MAX);
            e = ERR_RANGE;
            break;
        }
        e = tree_command_read(c, at, &r);
        *out = json_incref(json_object_get(r.properties, text_cstr(&property)));
        /* "NAME =>", when it is a string. */
        char *key = xasprintf("%s =>", text_cstr(&property));
        struct slice link = slice_trim(json_text(r.properties, key));
        free(key);
        if (e == ERR_OK && *out == NULL && link.p != NULL) {
            e = follow_link(c, link, at, &property);
        } else if (e == ERR_OK && *out == NULL) {
            e = ERR_NOT_FOUND;
            if (hops != 0)
                diag_add(&c->o.diag, NULL, 0, 0, "%s: has no property %s to link to",
                         tree_path_shown(at), text_cstr(&property));
        }
        tree_record_fini(&r);
    }
    text_fini(&property);
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
    json_object_foreach (r.properties, key, v) {
        struct slice name;
        json_t *linked = NULL;
        enum tree_text_kind kind = tree_text_kind_of(key, &name);

        if (kind == TREE_TEXT_PROPERTY)
            json_object_set(*out, key, v);
        if (kind != TREE_TEXT_PROPERTY_LINK ||
            json_object_getn(r.properties, name.p, name.len) != NULL)
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
    const char *name = c->words[1]; /* NULL: all */
    json_t *v = NULL;
    enum err e = tree_command_path(c, c->words[0], true, path);

    if (e != ERR_OK)
        return CTL_FAILED;
    e = name != NULL ? follow_property(c, path, name, &v) : get_all(c, path, &v);
    if (e == ERR_NOT_FOUND && c->o.diag.errors == 0)
        diag_add(&c->o.diag, NULL, 0, 0, "%s: has no property %s", c->words[0],
                 name != NULL ? name : "");
    if (v != NULL) {
        json_print(v, &c->o.out);
        text_add_char(&c->o.out, '\n');
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

static void print_line(struct tree_command *c, const char *before, const char *path,
                       const char *after)
{
    text_add(&c->o.out, slice_of(before));
    text_add_escaped(&c->o.out, slice_of(path));
    text_add(&c->o.out, slice_of(after));
    text_add_char(&c->o.out, '\n');
}

/*
 * Lists changed and removed properties by name, then added ones: "b change from 1 to 2", "remove
 * link b -> /c", "add property b = 1".
 */
static void print_changes(struct tree_command *c, const char *path, json_t *was, json_t *is)
{
    struct text *out = &c->o.out;
    struct slice name;

    for (int added = 0; added < 2; ++added) {
        json_t *from = added ? is : was;
        const char **keys = json_sorted_names(from);

        for (size_t i = 0; i < json_object_size(from); ++i) {
            const json_t *v = json_object_get(from, keys[i]);
            const json_t *other = json_object_get(added ? was : is, keys[i]);
            bool link = tree_text_kind_of(keys[i], &name) != TREE_TEXT_PROPERTY;

            if (added ? other != NULL : json_equal(v, other))
                continue;
            text_add_escaped(out, slice_of(path));
            text_add_char(out, ' ');
            if (other != NULL) {
                text_add_escaped(out, name);
                text_add(out, link ? SLICE_LIT(" link change from ") : SLICE_LIT(" change from "));
                literal_print(v, out);
                text_add(out, SLICE_LIT(" to "));
                literal_print(other, out);
            } else {
                text_addf(out, "%s %s ", added ? "add" : "remove", link ? "link" : "property");
                text_add_escaped(out, slice_of(keys[i]));
                text_add(out, link ? SLICE_LIT(" ") : SLICE_LIT(" = "));
                if (link && json_is_string(v))
                    text_add_escaped(out, slice_of(json_string_value(v)));
                else
                    literal_print(v, out);
            }
            text_add_char(out, '\n');
        }
        free(keys);
    }
}

/*
 * Deletes PATH and all below, except providers and their ancestors: these set *RETAINED.
 * Errors: ERR_NOT_FOUND, ERR_BUSY (a node was created below it meanwhile).
 */
static enum err delete_below(struct tree_command *c, const char *path, size_t depth, bool *retained)
{
    struct tree_record r;
    const char *name;
    json_t *unused;
    bool holds = false;
    enum err e = tree_command_read(c, path, &r);

    if (e == ERR_OK && depth == TREE_TEXT_DEPTH_MAX) {
        diag_add(&c->o.diag, NULL, 0, 0, "%s: nested deeper than %d", path, TREE_TEXT_DEPTH_MAX);
        e = ERR_TOO_LARGE;
    }
    json_object_foreach (r.children, name, unused) {
        if (e != ERR_OK)
            break;
        char *below = xasprintf("%s/%s", path, name);
        e = delete_below(c, below, depth + 1, &holds);
        /* Deleted by others. */
        if (e == ERR_NOT_FOUND)
            e = ERR_OK;
        free(below);
    }
    bool retain = r.provider || holds;
    if (e == ERR_OK && !c->dry_run && !retain)
        e = tree_command_change(c, TREE_REMOVE, path, NULL, NULL);
    if (e == ERR_OK && retain) {
        *retained = true;
        print_line(c, c->dry_run ? "would not delete " : "not deleted: ", path,
                   r.provider ? ": a provider" : ": holds providers");
    } else if (e == ERR_OK && c->dry_run) {
        print_line(c, "would delete ", path, ".");
    }
    tree_record_fini(&r);
    return e;
}

/* Deletes or reports PATH, NAME of the node above, which the text does not have. */
static enum err extra_node(struct tree_command *c, const char *path, const char *name)
{
    struct tree_record r;
    enum err e = tree_command_read(c, path, &r);
    bool is_provider = r.provider;

    tree_record_fini(&r);
    if (e == ERR_NOT_FOUND || is_provider)
        return ERR_OK;
    /* A node that the format cannot name is never deleted. */
    if (c->trim == TREE_TRIM_DELETE && can_express(TREE_TEXT_NODE, slice_of(name), SLICE_NULL)) {
        bool retained = false;

        if (e == ERR_OK)
            e = delete_below(c, path, 0, &retained);
        if (e == ERR_BUSY) {
            print_line(c, "not deleted: ", path, ": a node was created below it meanwhile");
            e = ERR_OK;
        }
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    }
    print_line(c, "extra path not trimmed: ", path, "");
    return e == ERR_UNSUPPORTED || e == ERR_TOO_LARGE ? ERR_OK : e;
}

static enum err import_children(struct tree_command *c, const char *path, json_t *n);

/* Applies N, with all below, to PATH. */
static enum err import_node(struct tree_command *c, const char *path, json_t *n)
{
    json_t *properties = tree_text_member(n, "properties");
    struct tree_record there;
    const char *name;
    json_t *unused;
    enum err e = tree_command_read(c, path, &there);

    if (e == ERR_NOT_FOUND && c->dry_run) {
        print_line(c, "add ", path, "");
        return ERR_OK;
    }
    if (e == ERR_NOT_FOUND) {
        e = tree_command_change(c, TREE_CREATE, path, properties, NULL);
        if (e == ERR_EXISTS)
            e = tree_command_change(c, TREE_WRITE, path, properties, NULL);
        return e == ERR_OK ? import_children(c, path, n) : e;
    }
    if (e != ERR_OK)
        return e;
    bool same = json_equal(there.properties, properties);
    if (there.provider && !same)
        print_line(c, "not changed: ", path, ": a provider");
    else if (c->dry_run)
        print_changes(c, path, there.properties, properties);
    else if (!same)
        e = tree_command_change(c, TREE_WRITE, path, properties, NULL);
    if (e == ERR_OK && c->reset_acl && !c->dry_run && !there.provider)
        e = tree_command_change(c, TREE_RESET_ACL, path, NULL, NULL);
    json_object_foreach (there.children, name, unused) {
        if (e != ERR_OK)
            break;
        if (c->trim == TREE_TRIM_IGNORE ||
            json_object_get(json_object_get(n, "nodes"), name) != NULL)
            continue;
        char *below = xasprintf("%s/%s", path, name);
        e = extra_node(c, below, name);
        free(below);
    }
    tree_record_fini(&there);
    return e == ERR_OK ? import_children(c, path, n) : e;
}

static enum err import_children(struct tree_command *c, const char *path, json_t *n)
{
    json_t *nodes = json_object_get(n, "nodes");
    const char **names = json_sorted_names(nodes);
    enum err e = ERR_OK;

    for (size_t i = 0; e == ERR_OK && i < json_object_size(nodes); ++i) {
        char *below = xasprintf("%s/%s", path, names[i]);

        e = import_node(c, below, json_object_get(nodes, names[i]));
        /* Deleted by others between two of our operations. */
        if (e == ERR_NOT_FOUND) {
            diag_add(&c->o.diag, NULL, 0, 0, "%s: removed meanwhile: import again", below);
            e = ERR_SYSTEM;
        }
        free(below);
    }
    free(names);
    return e;
}

static enum err import_text(struct tree_command *c)
{
    bool from_stdin = strcmp(c->words[0], "-") == 0;
    const char *file = from_stdin ? "stdin" : c->words[0];
    char path[TREE_PATH_MAX + 1];
    struct text bytes = {0};
    json_t *top = NULL;
    enum err e = from_stdin ? file_read_from(STDIN_FILENO, TREE_TEXT_BYTES_MAX, &bytes)
                            : file_read(file, TREE_TEXT_BYTES_MAX, &bytes);

    if (e == ERR_TOO_LARGE && from_stdin)
        diag_add(&c->o.diag, file, 0, 0, "more than %d bytes", TREE_TEXT_BYTES_MAX);
    else if (e != ERR_OK)
        diag_add(&c->o.diag, file, 0, 0, "%s", e == ERR_SYSTEM ? strerror(errno) : err_text(e));
    else
        e = tree_text_parse(text_slice(&bytes), file, &top, &c->o.diag);
    text_fini(&bytes);
    if (e != ERR_OK)
        return e;
    e = tree_command_path(c, c->words[1], false, path);
    if (e == ERR_OK || e == ERR_NOT_FOUND)
        e = import_children(c, path, top);
    json_decref(top);
    return e;
}

int tree_import(struct tree_command *c)
{
    return import_text(c) == ERR_OK ? CTL_OK : CTL_FAILED;
}

int tree_diff(struct tree_command *c)
{
    c->dry_run = true;
    if (import_text(c) != ERR_OK)
        return CTL_USAGE;
    return c->o.out.len == 0 ? CTL_OK : CTL_FAILED;
}
