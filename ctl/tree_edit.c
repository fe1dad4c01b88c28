/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelbctl tree set, get. A change is made to what was read, and written only if that is still
 * there; else it is read anew: two who change different properties at once both get their way.
 */
#include "ctl/tree.h"

#include <stdlib.h>

#include "common/base/clock.h"
#include "common/wire/json.h"
#include "common/wire/literal.h"
#include "ctl/ctl.h"

/* ---- what is to change ---- */

struct change {
    char *key;
    json_t *value; /* NULL: it goes */
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

/* Whether a text can say NAME OP REST, so that exports stay whole. */
static bool can_be_said(struct slice name, const char *op, struct slice rest)
{
    struct tree_text_item item;
    struct text line = {0};
    size_t at = 0;

    text_add(&line, name);
    text_addf(&line, " %s ", op);
    text_add(&line, rest);
    struct slice s = text_slice(&line);
    bool can = name.len != 0 && name.p[0] != '#' && slice_eq(slice_trim(s), s) &&
               tree_text_item(s, &item, &at) == NULL && slice_eq(item.name, name) &&
               slice_eq(item.rest, rest) &&
               (item.kind == TREE_TEXT_PROPERTY) == (strcmp(op, "=") == 0);
    text_fini(&line);
    return can;
}

/* JSON where it parses, else the text itself; NULL: it is no text. */
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
    /* "a = b" is as good as "a=b". */
    if (link || name.len != at)
        rest = slice_trim(rest);
    const char *op = link ? (s.p[at] == '-' ? "->" : "=>") : "=";
    if (!can_be_said(name, op, link ? rest : SLICE_LIT("0"))) {
        diag_add(d, NULL, 0, 0, "'%s': no name (or target) that a tree's text can say", word);
        return false;
    }
    out->value = link ? json_stringn(rest.p, rest.len) : parse_value(rest);
    if (out->value == NULL) {
        diag_add(d, NULL, 0, 0, "'%.*s': its value is no text (UTF-8)", SLICE_FMT(name));
        return false;
    }
    out->key = xasprintf("%.*s%s%s", SLICE_FMT(name), link ? " " : "", link ? op : "");
    return true;
}

/* NULL: one of them is none, which is told. */
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
    diag_add(&c->diag, NULL, 0, 0, "nothing to set: want NAME=VALUE or --unset NAME");
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

/* One try. ERR_BUSY: somebody else was faster. */
static enum err change_once(struct tree_command *c, const char *path, const struct changes *all)
{
    struct store_node n;
    json_t *v = NULL;
    enum err e = store_read(c->store, path, &n, &c->diag);

    if (e == ERR_NOT_FOUND && c->create) {
        v = apply(all, NULL);
        e = store_create(c->store, path, v, &c->diag);
        json_decref(v);
        return e == ERR_EXISTS ? ERR_BUSY : e;
    }
    if (e == ERR_OK && n.problem != NULL) {
        diag_add(&c->diag, NULL, 0, 0, "%s: its data is not JSON (%s): an import replaces it whole",
                 path[0] != '\0' ? path : "/", n.problem);
        e = ERR_UNSUPPORTED;
    }
    if (e == ERR_OK) {
        v = apply(all, n.properties);
        if (!json_equal(v, n.properties))
            e = store_write(c->store, path, v, &n.version, &c->diag);
    }
    json_decref(v);
    store_node_fini(&n);
    return e;
}

int tree_set(struct tree_command *c)
{
    char path[TREE_PATH_MAX + 1];
    struct changes *all = parse_changes(c);

    if (all == NULL)
        return CTL_USAGE;
    unsigned timeout_ms =
        c->store_options.timeout_ms != 0 ? c->store_options.timeout_ms : STORE_TIMEOUT_MS;
    uint64_t deadline_us = clock_mono_us() + (uint64_t)timeout_ms * 1000;
    enum err e = tree_command_path(c, c->words[0], path);
    if (e == ERR_OK || (e == ERR_NOT_FOUND && c->create)) {
        do
            e = change_once(c, path, all);
        while (e == ERR_BUSY && clock_mono_us() < deadline_us);
        if (e == ERR_BUSY)
            diag_add(&c->diag, NULL, 0, 0, "%s: others change it all the time", c->words[0]);
    }
    if (e == ERR_NOT_FOUND)
        diag_add(&c->diag, NULL, 0, 0, "%s: no such node in %s (--create makes it)", c->words[0],
                 c->url);
    if (e == ERR_OK && c->reset_acl)
        e = store_reset_acl(c->store, path, &c->diag);
    changes_destroy(all);
    return e == ERR_OK ? CTL_OK : CTL_FAILED;
}

/* ---- get ---- */

/* "NAME =>" becomes NAME. */
static bool linked_name(const char *key, struct slice *name)
{
    *name = slice_of(key);
    if (!slice_ends(*name, SLICE_LIT(" =>")))
        return false;
    name->len -= strlen(" =>");
    return true;
}

/* All properties of the node, links followed: an object. Links that lead nowhere are told. */
static enum err get_all(struct tree_command *c, const char *path, json_t **out)
{
    struct store_node n;
    const char *key;
    json_t *v;
    enum err result = store_read(c->store, path, &n, &c->diag);

    if (result != ERR_OK)
        return result;
    *out = json_object();
    json_object_foreach(n.properties, key, v)
    {
        struct slice name;
        json_t *linked = NULL;

        if (slice_ends(slice_of(key), SLICE_LIT(" ->")))
            continue;
        if (!linked_name(key, &name)) {
            json_object_set(*out, key, v);
            continue;
        }
        if (json_object_getn(n.properties, name.p, name.len) != NULL)
            continue;
        char *own = xslicedup(name);
        enum err e = store_property(c->store, path, own, &linked, &c->diag);
        if (e == ERR_OK)
            json_object_set_new(*out, own, linked);
        else
            result = e;
        free(own);
    }
    store_node_fini(&n);
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
    e = name != NULL ? store_property(c->store, path, name, &v, &c->diag) : get_all(c, path, &v);
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
