/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts lines into a tree and back. A stack has an entry for each open level of indentation: the
 * node to which its items belong, and the last node among them, to which a deeper level belongs. An
 * invalid value or name is reported and skipped; if the structure is invalid, reading ends.
 */
#include "ctl/tree/tree_text.h"

#include <stdlib.h>

#include "common/base/json.h"
#include "common/base/literal.h"
#include "common/tree/node_data.h"

/* ---- trees ---- */

struct tree_text_node *tree_text_create(struct slice name)
{
    struct tree_text_node *n = xcalloc(1, sizeof(*n));

    n->name = xslicedup(name);
    n->properties = json_object();
    return n;
}

void tree_text_destroy(struct tree_text_node *n)
{
    if (n == NULL)
        return;
    for (size_t i = 0; i < n->nchildren; ++i)
        tree_text_destroy(n->children[i]);
    free(n->children);
    free(n->name);
    free(n->remark);
    json_decref(n->properties);
    free(n);
}

void tree_text_append(struct tree_text_node *n, struct tree_text_node *child)
{
    /* Room in powers of two. */
    if ((n->nchildren & (n->nchildren - 1)) == 0)
        n->children =
            xrealloc(n->children, (n->nchildren == 0 ? 1 : n->nchildren * 2) * sizeof(void *));
    n->children[n->nchildren++] = child;
}

static int by_name(const void *a, const void *b)
{
    const struct tree_text_node *x = *(struct tree_text_node *const *)a;
    const struct tree_text_node *y = *(struct tree_text_node *const *)b;
    int order = strcmp(x->name, y->name);

    return order != 0 ? order : (x->line > y->line) - (x->line < y->line);
}

void tree_text_sort(struct tree_text_node *n)
{
    if (n->nchildren != 0)
        qsort(n->children, n->nchildren, sizeof(void *), by_name);
}

struct tree_text_node *tree_text_find(const struct tree_text_node *n, const char *name)
{
    size_t low = 0;

    for (size_t high = n->nchildren; low < high;) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(n->children[middle]->name, name);

        if (order == 0)
            return n->children[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* ---- reading ---- */

struct level {
    size_t indent;
    struct tree_text_node *parent;
    struct tree_text_node *last; /* the last node of this level; NULL */
    size_t entries;              /* values that PARENT may still get */
    bool bytes;                  /* PARENT has bytes that are no text, and so nothing else */
};

struct reader {
    const char *file;
    struct diag *diag;
    enum err result; /* of the first problem */
    size_t line;
    struct level levels[TREE_TEXT_DEPTH_MAX + 1];
    size_t nlevels;
    bool after_property; /* the last item was one */
    size_t nodes;
    struct tree_text_node *top;
};

static void complain(struct reader *r, enum err e, size_t column, const char *why)
{
    if (r->result == ERR_OK)
        r->result = e;
    if (r->diag->errors < TREE_TEXT_PROBLEMS_MAX)
        diag_add(r->diag, r->file, r->line, column, "%s", why);
}

/* Make the level of an item that is INDENT in the top one. False: it fits nowhere. */
static bool enter_level(struct reader *r, size_t indent)
{
    struct level *top = r->nlevels != 0 ? &r->levels[r->nlevels - 1] : NULL;

    if (top == NULL || indent > top->indent) {
        if (r->after_property) {
            complain(r, ERR_SYNTAX, indent + 1,
                     "indented deeper than a property, which has nothing below it");
            return false;
        }
        if (r->nlevels == ARRAY_LEN(r->levels)) {
            complain(r, ERR_TOO_LARGE, indent + 1, "nodes nested too deep");
            return false;
        }
        r->levels[r->nlevels++] = (struct level){.indent = indent,
                                                 .parent = top != NULL ? top->last : r->top,
                                                 .entries = JSON_ENTRIES_MAX};
        return true;
    }
    while (r->nlevels > 1 && indent < r->levels[r->nlevels - 1].indent)
        --r->nlevels;
    if (indent == r->levels[r->nlevels - 1].indent)
        return true;
    complain(r, ERR_SYNTAX, indent + 1, "indented like none of the nodes above");
    return false;
}

/* Adds KEY = V to the parent node of level L; takes ownership of V. */
static void add_property(struct reader *r, struct level *l, struct slice key, json_t *v,
                         size_t column)
{
    json_t *properties = l->parent->properties;
    bool text = !json_is_string(v) ||
                literal_is_text((struct slice){json_string_value(v), json_string_length(v)});

    if (json_object_getn(properties, key.p, key.len) != NULL) {
        complain(r, ERR_SYNTAX, column, "a property that the node has already");
    } else if (l->bytes || (!text && (json_object_size(properties) != 0 ||
                                      !slice_is(key, NODE_STRING_VALUE)))) {
        complain(r, ERR_SYNTAX, column,
                 "bytes that are no text can only be string_value, and a node's only property");
    } else {
        json_object_setn_new(properties, key.p, key.len, v);
        l->bytes = !text;
        return;
    }
    json_decref(v);
}

static void add_link(struct reader *r, struct level *l, const struct tree_text_item *item,
                     const char *arrow, size_t column)
{
    struct text key = {0};

    text_add(&key, item->name);
    text_add(&key, slice_of(arrow));
    add_property(r, l, text_slice(&key), json_stringn(item->rest.p, item->rest.len), column);
    text_fini(&key);
}

static void add_value(struct reader *r, struct level *l, const struct tree_text_item *item,
                      size_t column, size_t value_column)
{
    struct literal_problem p = {0};
    json_t *v = NULL;
    enum err e = literal_parse(item->rest, &l->entries, &v, &p);

    if (e != ERR_OK)
        complain(r, e, value_column + p.at, p.why);
    else
        add_property(r, l, item->name, v, column);
}

static void add_node(struct reader *r, struct level *l, const struct tree_text_item *item,
                     size_t column)
{
    struct tree_text_node *n = tree_text_create(item->name);

    n->line = r->line;
    n->column = column;
    tree_text_append(l->parent, n);
    l->last = n;
    ++r->nodes;
    if (item->rest.len != 0)
        json_object_set_new(n->properties, "type", json_stringn(item->rest.p, item->rest.len));
}

/* One line that is neither empty nor a comment. False: reading cannot go on. */
static bool read_item(struct reader *r, struct slice line, size_t indent)
{
    struct tree_text_item item;
    size_t at = 0;
    const char *why = tree_text_item(line, &item, &at);

    if (why != NULL) {
        complain(r, ERR_SYNTAX, indent + at + 1, why);
        return false;
    }
    if (!enter_level(r, indent))
        return false;
    struct level *l = &r->levels[r->nlevels - 1];
    size_t column = indent + 1;
    r->after_property = item.kind != TREE_TEXT_NODE;
    if (r->after_property && l->parent == r->top) {
        complain(r, ERR_SYNTAX, column, "a property above the first node");
        return false;
    }
    if (item.kind == TREE_TEXT_NODE && r->nodes == TREE_TEXT_NODES_MAX) {
        complain(r, ERR_TOO_LARGE, column, "too many nodes");
        return false;
    }
    switch (item.kind) {
    case TREE_TEXT_NODE:
        add_node(r, l, &item, column);
        break;
    case TREE_TEXT_PROPERTY:
        add_value(r, l, &item, column, column + (size_t)(item.rest.p - line.p));
        break;
    case TREE_TEXT_LINK:
        add_link(r, l, &item, " ->", column);
        break;
    case TREE_TEXT_PROPERTY_LINK:
        add_link(r, l, &item, " =>", column);
        break;
    }
    return true;
}

/* Whether LINE holds what may stand in a line. */
static bool check_bytes(struct reader *r, struct slice line)
{
    struct slice rest = line;

    if (line.len > TREE_TEXT_LINE_MAX) {
        complain(r, ERR_TOO_LARGE, TREE_TEXT_LINE_MAX, "line too long");
        return false;
    }
    while (rest.len != 0) {
        size_t len = utf8_length(rest);
        unsigned char c = (unsigned char)rest.p[0];
        const char *why = len == 0 ? "not UTF-8" : NULL;

        if ((c < 0x20 && c != '\t') || c == 0x7f)
            why = "a control byte";
        if (why != NULL) {
            complain(r, ERR_SYNTAX, (size_t)(rest.p - line.p) + 1, why);
            return false;
        }
        rest = (struct slice){rest.p + len, rest.len - len};
    }
    return true;
}

static bool read_line(struct reader *r, struct slice line)
{
    size_t indent = 0;

    if (slice_ends(line, SLICE_LIT("\r")))
        --line.len;
    if (!check_bytes(r, line))
        return false;
    while (indent < line.len && (line.p[indent] == ' ' || line.p[indent] == '\t'))
        ++indent;
    line = slice_trim(line);
    if (line.len == 0 || line.p[0] == '#')
        return true;
    return read_item(r, line, indent);
}

/* Sort what was read, and tell of nodes that are there twice. */
static void finish(struct reader *r, struct tree_text_node *n)
{
    tree_text_sort(n);
    for (size_t i = 0; i < n->nchildren; ++i) {
        struct tree_text_node *child = n->children[i];

        if (i != 0 && strcmp(n->children[i - 1]->name, child->name) == 0) {
            r->line = child->line;
            complain(r, ERR_SYNTAX, child->column, "a node that is there already");
        }
        finish(r, child);
    }
}

enum err tree_text_parse(struct slice bytes, const char *file, struct tree_text_node **top,
                         struct diag *d)
{
    struct reader *r = xcalloc(1, sizeof(*r));
    bool go_on = true;

    r->file = file;
    r->diag = d;
    r->top = tree_text_create(SLICE_NULL);
    if (bytes.len > TREE_TEXT_BYTES_MAX) {
        r->line = 1;
        complain(r, ERR_TOO_LARGE, 1, "file too long");
        go_on = false;
    }
    while (go_on && bytes.len != 0) {
        ++r->line;
        go_on = read_line(r, slice_cut(&bytes, '\n'));
    }
    finish(r, r->top);
    enum err e = r->result;
    if (e == ERR_OK)
        *top = r->top;
    else
        tree_text_destroy(r->top);
    free(r);
    return e;
}
