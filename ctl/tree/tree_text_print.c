/* SPDX-License-Identifier: Apache-2.0
 *
 * A tree as text. Whether a line says what it is meant to say is found out by reading it back: the
 * patterns overlap, and names come from anybody.
 */
#include "ctl/tree/tree_text.h"

#include <stdlib.h>

#include "common/base/literal.h"

struct printer {
    struct text *out;
    struct diag *left_out; /* NULL: for people */
    size_t nleft_out;
    struct text path; /* of the node being printed */
    struct text line; /* scratch */
};

static void add_indent(struct printer *p, size_t depth)
{
    for (size_t i = 0; i < depth; ++i)
        text_add(p->out, SLICE_LIT("  "));
}

static void add_line(struct printer *p, size_t depth)
{
    add_indent(p, depth);
    text_add(p->out, text_slice(&p->line));
    text_add_char(p->out, '\n');
}

static void leave_out(struct printer *p, size_t depth, const char *what, const char *name)
{
    struct text where = {0};

    text_add_escaped(&where, text_slice(&p->path));
    if (name != NULL) {
        text_add(&where, SLICE_LIT(", "));
        text_add_escaped(&where, slice_of(name));
    }
    ++p->nleft_out;
    if (p->left_out->errors < TREE_TEXT_PROBLEMS_MAX)
        diag_add(p->left_out, NULL, 0, 0, "%s: this format cannot say it: %s", text_cstr(&where),
                 what);
    add_indent(p, depth);
    text_addf(p->out, "# left out: %s: %s\n", text_cstr(&where), what);
    text_fini(&where);
}

/* Whether the scratch line reads back as KIND NAME REST. */
static bool reads_back(struct printer *p, enum tree_text_kind kind, struct slice name,
                       struct slice rest)
{
    struct tree_text_item item;
    struct slice line = text_slice(&p->line);
    size_t at = 0;

    return line.len != 0 && slice_eq(slice_trim(line), line) && line.p[0] != '#' &&
           line.len <= TREE_TEXT_LINE_MAX && tree_text_item(line, &item, &at) == NULL &&
           item.kind == kind && slice_eq(item.name, name) && slice_eq(item.rest, rest);
}

/* A link's key without its arrow; false: it is none of that kind. */
static bool is_link(const char *key, const char *arrow, struct slice *name)
{
    struct slice k = slice_of(key);

    if (!slice_ends(k, slice_of(arrow)))
        return false;
    *name = (struct slice){k.p, k.len - strlen(arrow)};
    return true;
}

static struct slice string_of(const json_t *v)
{
    return (struct slice){json_string_value(v), json_string_length(v)};
}

/*
 * The scratch line if it FITS. Else KEY is odd: it is left out, or for people quoted, with OP and
 * V.
 */
static void finish_line(struct printer *p, size_t depth, bool fits, const char *key, const char *op,
                        const json_t *v)
{
    if (!fits && p->left_out != NULL) {
        leave_out(p, depth, "a property or link with an odd name or target", key);
        return;
    }
    if (!fits) {
        text_clear(&p->line);
        literal_print_string(slice_of(key), &p->line);
        text_add(&p->line, slice_of(op));
        literal_print(v, &p->line);
    }
    add_line(p, depth);
}

static void print_link(struct printer *p, size_t depth, const char *key, const json_t *v,
                       enum tree_text_kind kind)
{
    struct slice name = SLICE_NULL;
    struct slice target = json_is_string(v) ? string_of(v) : SLICE_NULL;

    is_link(key, kind == TREE_TEXT_LINK ? " ->" : " =>", &name);
    text_clear(&p->line);
    text_addf(&p->line, "%s ", key);
    text_add(&p->line, target);
    finish_line(p, depth, target.len != 0 && reads_back(p, kind, name, target), key, " ", v);
}

static void print_property(struct printer *p, size_t depth, const char *key, const json_t *v)
{
    text_clear(&p->line);
    text_addf(&p->line, "%s = ", key);
    size_t value = p->line.len;
    literal_print(v, &p->line);
    struct slice rest = {p->line.p + value, p->line.len - value};
    finish_line(p, depth, reads_back(p, TREE_TEXT_PROPERTY, slice_of(key), rest), key, " = ", v);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* All but the type where the node's own line says it; then, behind them, the node links. */
static void print_properties(struct printer *p, size_t depth, json_t *properties, bool typed)
{
    const char **keys = xmalloc((json_object_size(properties) + 1) * sizeof(char *));
    struct slice unused;
    const char *key;
    json_t *v;
    size_t n = 0;

    json_object_foreach(properties, key, v)
    {
        if (!typed || strcmp(key, "type") != 0)
            keys[n++] = key;
    }
    qsort(keys, n, sizeof(char *), by_text);
    for (size_t i = 0; i < n; ++i) {
        v = json_object_get(properties, keys[i]);
        if (is_link(keys[i], " =>", &unused))
            print_link(p, depth, keys[i], v, TREE_TEXT_PROPERTY_LINK);
        else if (!is_link(keys[i], " ->", &unused))
            print_property(p, depth, keys[i], v);
    }
    for (size_t i = 0; i < n; ++i) {
        if (is_link(keys[i], " ->", &unused))
            print_link(p, depth, keys[i], json_object_get(properties, keys[i]), TREE_TEXT_LINK);
    }
    free(keys);
}

/* "/name : type", or "/name" where the type cannot be said so. False: neither. */
static bool make_node_line(struct printer *p, const struct tree_text_node *n, bool *typed)
{
    const json_t *type = json_object_get(n->properties, "type");

    *typed = false;
    if (json_is_string(type) && json_string_length(type) != 0) {
        text_clear(&p->line);
        text_addf(&p->line, "/%s : ", n->name);
        text_add(&p->line, string_of(type));
        *typed = reads_back(p, TREE_TEXT_NODE, slice_of(n->name), string_of(type));
        if (*typed)
            return true;
    }
    text_clear(&p->line);
    text_addf(&p->line, "/%s", n->name);
    return reads_back(p, TREE_TEXT_NODE, slice_of(n->name), SLICE_NULL);
}

static void print_node(struct printer *p, const struct tree_text_node *n, size_t depth)
{
    bool typed = false;
    bool fits = make_node_line(p, n, &typed);

    if (!fits && p->left_out != NULL) {
        leave_out(p, depth, "a node with an odd name", NULL);
        return;
    }
    if (!fits) {
        text_clear(&p->line);
        text_add_char(&p->line, '/');
        literal_print_string(slice_of(n->name), &p->line);
    }
    add_line(p, depth);
    if (n->remark != NULL) {
        add_indent(p, depth + 1);
        text_add(p->out, SLICE_LIT("# "));
        text_add_escaped(p->out, slice_of(n->remark));
        text_add_char(p->out, '\n');
    }
    print_properties(p, depth + 1, n->properties, typed);
    for (size_t i = 0; i < n->nchildren; ++i) {
        size_t above = p->path.len;

        text_addf(&p->path, "/%s", n->children[i]->name);
        print_node(p, n->children[i], depth + 1);
        p->path.len = above;
    }
}

size_t tree_text_print(const struct tree_text_node *top, struct text *out, struct diag *left_out)
{
    struct printer p = {.out = out, .left_out = left_out};

    if (json_object_size(top->properties) != 0 && left_out != NULL) {
        text_add_char(&p.path, '/');
        leave_out(&p, 0, "properties of the top: take the node above it as the tree", NULL);
    } else {
        print_properties(&p, 0, top->properties, false);
    }
    for (size_t i = 0; i < top->nchildren; ++i) {
        text_clear(&p.path);
        text_addf(&p.path, "/%s", top->children[i]->name);
        print_node(&p, top->children[i], 0);
    }
    text_fini(&p.path);
    text_fini(&p.line);
    return p.nleft_out;
}
