/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts lines into a tree and back. A stack has an entry for each open level of indentation: the
 * node to which its items belong, and the last node among them, to which a deeper level belongs. An
 * invalid value or name is reported and skipped; if the structure is invalid, reading ends.
 */
#include "ctl/tree/tree_text.h"
#include "common/base/json.h"
#include "common/base/literal.h"
#include "common/tree/node_data.h"

#include <stdlib.h>

/* ---- one line ---- */

/*
 * What a line is. zc.zk tries four patterns in order ("=>", "=", "->", "/"), each with a name that
 * is as long as it can be: so "a=>b" is a property link, "/x = 1" a property, "/1.2.3.4:80" a node
 * without a type. This is the same here, except for names that contain a quote: these lack a blank
 * before the operator.
 *
 *   name  operator  rest            the name ends with the first word, or at an operator within it
 *   W-----          R-------
 */

/* Borrowed from the line. */
struct tree_item {
    enum tree_text_kind kind;
    struct slice name; /* a node's without its '/' */
    struct slice rest; /* its type (may be empty), value, target */
};

/* A line, and what each pattern needs of it. */
struct tree_line {
    struct slice s;
    size_t word;  /* bytes of its first word */
    size_t after; /* where the second begins; the end if there is none */
    size_t words; /* from there on, counted up to 4: more than any rest may have */
};

static const char *const operators[] = {
    [TREE_TEXT_PROPERTY] = " =", [TREE_TEXT_LINK] = " ->", [TREE_TEXT_PROPERTY_LINK] = " =>"};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static size_t skip_word(struct slice s, size_t at)
{
    while (at < s.len && !is_blank(s.p[at]))
        ++at;
    return at;
}

static size_t skip_blanks(struct slice s, size_t at)
{
    while (at < s.len && is_blank(s.p[at]))
        ++at;
    return at;
}

static bool operator_at(const struct tree_line *l, size_t at, struct slice op)
{
    return at <= l->s.len && slice_starts((struct slice){l->s.p + at, l->s.len - at}, op);
}

/*
 * NAME OP REST, the longest name for which there is a rest of at most MAX words. The words behind
 * the first one are counted once: a line of operators costs no more than another.
 */
static bool match_item(const struct tree_line *l, struct slice op, size_t max,
                       struct tree_item *out)
{
    for (size_t end = l->word; end != 0; --end) {
        /* Behind the first word, OP begins the second. */
        bool apart = end == l->word;
        size_t behind = (apart ? l->after : end) + op.len;

        if (!operator_at(l, behind - op.len, op) || (!apart && behind > l->word))
            continue;
        size_t rest = skip_blanks(l->s, behind);
        /* The word of OP may be OP alone, or more than that. */
        bool glued = behind < l->s.len && !is_blank(l->s.p[behind]);

        if (rest < l->s.len && (max == SIZE_MAX || l->words - apart + glued <= max)) {
            out->name = (struct slice){l->s.p, end};
            out->rest = (struct slice){l->s.p + rest, l->s.len - rest};
            return true;
        }
    }
    return false;
}

/* Returns NULL, or what is wrong with ITEM of TEXT, with the position in *AT. */
static const char *check_item(const struct tree_item *item, struct slice text, size_t *at)
{
    struct slice n = item->name;
    struct slice rest = item->rest;

    if (n.len > TREE_TEXT_NAME_MAX)
        return "name too long";
    if (!literal_is_visible(n))
        return "an invisible character in a name";
    if (item->kind == TREE_TEXT_NODE) {
        if (slice_find(n, '/') != SIZE_MAX)
            return "a '/' in a node's name: nodes below it have lines of their own";
        if (slice_is(n, ".") || slice_is(n, ".."))
            return "'.' and '..' are not valid names";
    } else if (slice_find(n, '\'') != SIZE_MAX || slice_find(n, '"') != SIZE_MAX) {
        return "a quote in a name: put blanks around the operator";
    }
    /* Whether "=>" would make it a link depends on the value's blanks. */
    if (item->kind == TREE_TEXT_PROPERTY)
        return memmem(n.p, n.len, "=>", 2) != NULL ? "'=>' in a property's name" : NULL;
    *at = (size_t)(rest.p - text.p);
    /* A tab may be in a type, and between a link's path and property. */
    while (rest.len != 0) {
        if (!literal_is_visible(slice_cut(&rest, '\t')))
            return item->kind == TREE_TEXT_NODE ? "an invisible character in a type"
                                                : "an invisible character in a link";
    }
    return NULL;
}

static const char *explain_mismatch(const struct tree_line *l, size_t *at)
{
    *at = l->after;
    if (operator_at(l, l->after, SLICE_LIT("->")) || operator_at(l, l->after, SLICE_LIT("=>")))
        return "expected the target of a link: '-> PATH', '=> PATH [PROPERTY]'";
    if (operator_at(l, l->after, SLICE_LIT("=")))
        return "expected a value after '='";
    if (l->s.p[0] == '/')
        return "expected '/NAME' or '/NAME : TYPE'";
    return "expected '/NODE', 'NAME = VALUE', 'NAME -> PATH' or 'NAME => PATH [PROPERTY]'";
}

/*
 * Parses a line that is not empty, does not begin or end with a space, and is not a comment.
 * Returns NULL on success; else the problem, with its position in *AT.
 */
static const char *parse_item(struct slice text, struct tree_item *out, size_t *at)
{
    struct tree_line l = {.s = text, .word = skip_word(text, 0)};

    l.after = skip_blanks(text, l.word);
    for (size_t next = l.after; next < text.len && l.words < 4; ++l.words)
        next = skip_blanks(text, skip_word(text, next));
    *at = 0;
    if (match_item(&l, SLICE_LIT("=>"), 2, out)) {
        out->kind = TREE_TEXT_PROPERTY_LINK;
    } else if (match_item(&l, SLICE_LIT("="), SIZE_MAX, out)) {
        out->kind = TREE_TEXT_PROPERTY;
        /* No value begins with it: a link was intended. */
        if (out->rest.p[0] == '>')
            return explain_mismatch(&l, at);
    } else if (match_item(&l, SLICE_LIT("->"), 1, out)) {
        out->kind = TREE_TEXT_LINK;
    } else if (text.p[0] == '/' && l.word >= 2 && l.after == text.len) {
        out->kind = TREE_TEXT_NODE;
        out->name = (struct slice){text.p + 1, l.word - 1};
        out->rest = (struct slice){text.p + text.len, 0};
    } else if (text.p[0] == '/' && l.word >= 2 && match_item(&l, SLICE_LIT(":"), SIZE_MAX, out) &&
               out->name.len >= 2) {
        out->kind = TREE_TEXT_NODE;
        out->name = (struct slice){out->name.p + 1, out->name.len - 1};
    } else {
        return explain_mismatch(&l, at);
    }
    return check_item(out, text, at);
}

bool tree_text_make_line(enum tree_text_kind kind, struct slice name, struct slice rest,
                         struct text *line)
{
    struct tree_item item;
    size_t at = 0;

    text_clear(line);
    text_add(line, kind == TREE_TEXT_NODE ? SLICE_LIT("/") : SLICE_LIT(""));
    text_add(line, name);
    if (kind != TREE_TEXT_NODE || rest.len != 0)
        text_addf(line, "%s ", kind == TREE_TEXT_NODE ? " :" : operators[kind]);
    text_add(line, rest);
    struct slice s = text_slice(line);
    return slice_eq(slice_trim(s), s) && s.p[0] != '#' && s.len <= TREE_TEXT_LINE_MAX &&
           parse_item(s, &item, &at) == NULL && item.kind == kind && slice_eq(item.name, name) &&
           slice_eq(item.rest, rest);
}

enum tree_text_kind tree_text_kind_of(const char *key, struct slice *name)
{
    *name = slice_of(key);
    for (int kind = TREE_TEXT_LINK; kind <= TREE_TEXT_PROPERTY_LINK; ++kind) {
        if (slice_ends(*name, slice_of(operators[kind]))) {
            name->len -= strlen(operators[kind]);
            return (enum tree_text_kind)kind;
        }
    }
    return TREE_TEXT_PROPERTY;
}

/* ---- trees ---- */

json_t *tree_text_member(json_t *n, const char *name)
{
    json_t *member = json_object_get(n, name);

    if (member == NULL) {
        member = json_object();
        json_object_set_new(n, name, member);
    }
    return member;
}

json_t *tree_text_add(json_t *above, struct slice name)
{
    json_t *n = json_object();

    json_object_setn_new_nocheck(tree_text_member(above, "nodes"), name.p, name.len, n);
    return n;
}

/* ---- reading ---- */

struct level {
    size_t indent;
    json_t *parent;
    json_t *last;   /* the last node of this level; NULL */
    size_t entries; /* values that PARENT may still get */
    bool bytes;     /* PARENT has bytes that are no text, and so nothing else */
};

struct tree_reader {
    const char *file;
    struct diag *diag;
    enum err result; /* of the first problem */
    size_t line;
    struct level levels[TREE_TEXT_DEPTH_MAX + 1];
    size_t nlevels;
    bool after_property; /* the last item was one */
    size_t nodes;
};

static void text_complain(struct tree_reader *r, enum err e, size_t column, const char *why)
{
    if (r->result == ERR_OK)
        r->result = e;
    if (r->diag->errors < TREE_TEXT_PROBLEMS_MAX)
        diag_add(r->diag, r->file, r->line, column, "%s", why);
}

/* Makes the level with INDENT the top one. Returns false if it fits none (reported). */
static bool enter_level(struct tree_reader *r, size_t indent)
{
    struct level *top = &r->levels[r->nlevels - 1];

    /* The first item of the text, which is at the margin. */
    if (r->nodes == 0)
        top->indent = indent;
    if (indent > top->indent && r->after_property) {
        text_complain(r, ERR_SYNTAX, indent + 1,
                      "indented deeper than a property, which cannot have nodes below it");
        return false;
    }
    if (indent > top->indent && r->nlevels == ARRAY_LEN(r->levels)) {
        text_complain(r, ERR_TOO_LARGE, indent + 1, "nodes nested too deep");
        return false;
    }
    if (indent > top->indent)
        r->levels[r->nlevels++] =
            (struct level){.indent = indent, .parent = top->last, .entries = JSON_ENTRIES_MAX};
    while (r->nlevels > 1 && indent < r->levels[r->nlevels - 1].indent)
        --r->nlevels;
    if (indent == r->levels[r->nlevels - 1].indent)
        return true;
    text_complain(r, ERR_SYNTAX, indent + 1, "indented unlike any node above");
    return false;
}

/* Adds a property or link to the node of L; REST_COLUMN: of its value or target. */
static void add_item(struct tree_reader *r, struct level *l, const struct tree_item *item,
                     size_t column, size_t rest_column)
{
    json_t *properties = tree_text_member(l->parent, "properties");
    struct literal_problem p = {0};
    struct text key = {0};
    json_t *v = NULL;
    enum err e = ERR_OK;

    text_add(&key, item->name);
    if (item->kind == TREE_TEXT_PROPERTY) {
        e = literal_parse(item->rest, &l->entries, &v, &p);
    } else {
        text_add(&key, slice_of(operators[item->kind]));
        v = json_stringn(item->rest.p, item->rest.len);
    }
    bool text = !json_is_string(v) || literal_is_text(json_slice(v));
    if (e != ERR_OK) {
        text_complain(r, e, rest_column + p.at, p.why);
    } else if (json_object_getn(properties, key.p, key.len) != NULL) {
        text_complain(r, ERR_SYNTAX, column, "duplicate property");
    } else if (l->bytes || (!text && (json_object_size(properties) != 0 ||
                                      !slice_is(text_slice(&key), NODE_STRING_VALUE)))) {
        text_complain(r, ERR_SYNTAX, column,
                      "bytes that are not text can only be string_value, the node's only property");
    } else {
        json_object_setn(properties, key.p, key.len, v);
        l->bytes = !text;
    }
    json_decref(v);
    text_fini(&key);
}

/* Returns false if reading cannot continue. */
static bool read_line(struct tree_reader *r, struct slice line)
{
    struct tree_item item;
    size_t problem_at = 0;

    if (slice_ends(line, SLICE_LIT("\r")))
        --line.len;
    if (line.len > TREE_TEXT_LINE_MAX) {
        text_complain(r, ERR_TOO_LARGE, TREE_TEXT_LINE_MAX, "line too long");
        return false;
    }
    for (size_t at = 0, len = 0; at < line.len; at += len) {
        unsigned char c = (unsigned char)line.p[at];

        len = utf8_length((struct slice){line.p + at, line.len - at});
        if (len == 0 || (c < 0x20 && c != '\t') || c == 0x7f) {
            text_complain(r, ERR_SYNTAX, at + 1, len == 0 ? "not UTF-8" : "a control byte");
            return false;
        }
    }
    struct slice text = slice_trim(line);
    if (text.len == 0 || text.p[0] == '#')
        return true;
    size_t indent = (size_t)(text.p - line.p);
    size_t column = indent + 1;
    const char *why = parse_item(text, &item, &problem_at);
    if (why != NULL) {
        text_complain(r, ERR_SYNTAX, column + problem_at, why);
        return false;
    }
    if (!enter_level(r, indent))
        return false;
    struct level *l = &r->levels[r->nlevels - 1];
    r->after_property = item.kind != TREE_TEXT_NODE;
    if (r->after_property) {
        if (r->nlevels == 1) {
            text_complain(r, ERR_SYNTAX, column, "a property above the first node");
            return false;
        }
        add_item(r, l, &item, column, column + (size_t)(item.rest.p - text.p));
        return true;
    }
    if (r->nodes++ == TREE_TEXT_NODES_MAX) {
        text_complain(r, ERR_TOO_LARGE, column, "too many nodes");
        return false;
    }
    if (json_object_getn(json_object_get(l->parent, "nodes"), item.name.p, item.name.len) != NULL)
        text_complain(r, ERR_SYNTAX, column, "duplicate node");
    l->last = tree_text_add(l->parent, item.name);
    if (item.rest.len != 0)
        json_object_set_new(tree_text_member(l->last, "properties"), "type",
                            json_stringn(item.rest.p, item.rest.len));
    return true;
}

enum err tree_text_parse(struct slice bytes, const char *file, json_t **top, struct diag *d)
{
    json_t *read = json_object();
    struct tree_reader r = {
        .file = file, .diag = d, .line = 1, .levels = {{.parent = read}}, .nlevels = 1};
    bool valid = bytes.len <= TREE_TEXT_BYTES_MAX;

    if (!valid)
        text_complain(&r, ERR_TOO_LARGE, 1, "file too long");
    bytes = utf8_skip_mark(bytes);
    for (; valid && bytes.len != 0; ++r.line)
        valid = read_line(&r, slice_cut(&bytes, '\n'));
    if (r.result == ERR_OK)
        *top = read;
    else
        json_decref(read);
    return r.result;
}

/* ---- printing ---- */

/*
 * A tree as text. Each line is checked by parsing it again: the patterns overlap, and names are not
 * trusted.
 */

struct printer {
    struct text *out;
    struct diag *left_out; /* NULL: for display */
    size_t nleft_out;
    struct text path;       /* of the node being printed */
    struct text line, rest; /* scratch */
};

static void text_add_line(struct printer *p, size_t depth)
{
    text_addf(p->out, "%*s", 2 * (int)depth, "");
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
        diag_add(p->left_out, NULL, 0, 0, "%s: not representable in this format: %s",
                 text_cstr(&where), what);
    text_clear(&p->line);
    text_addf(&p->line, "# omitted: %s: %s", text_cstr(&where), what);
    text_add_line(p, depth);
    text_fini(&where);
}

/* If the format cannot express it, it is left out, or for display shown with KEY in quotes. */
static void print_property(struct printer *p, size_t depth, const char *key, const json_t *v)
{
    struct slice name;
    enum tree_text_kind kind = tree_text_kind_of(key, &name);

    text_clear(&p->rest);
    if (kind == TREE_TEXT_PROPERTY)
        literal_print(v, &p->rest);
    else
        text_add(&p->rest, json_slice(v));
    bool fits = p->rest.len != 0 && tree_text_make_line(kind, name, text_slice(&p->rest), &p->line);
    if (!fits && p->left_out != NULL) {
        leave_out(p, depth, "a property or link with an odd name or target", key);
        return;
    }
    if (!fits) {
        text_clear(&p->line);
        literal_print_string(slice_of(key), &p->line);
        text_add(&p->line, kind == TREE_TEXT_PROPERTY ? SLICE_LIT(" = ") : SLICE_LIT(" "));
        literal_print(v, &p->line);
    }
    text_add_line(p, depth);
}

/* NAME NULL: the top, which has no line. */
static void print_node(struct printer *p, const char *name, const json_t *n, size_t depth)
{
    json_t *properties = json_object_get(n, "properties");
    const json_t *remark = json_object_get(n, "remark");
    const json_t *nodes = json_object_get(n, "nodes");
    struct slice type = json_text(properties, "type"), unused;
    /* A type that the format cannot express is printed as a property. */
    bool typed = name != NULL && type.len != 0 &&
                 tree_text_make_line(TREE_TEXT_NODE, slice_of(name), type, &p->line);
    bool fits = typed || name == NULL ||
                tree_text_make_line(TREE_TEXT_NODE, slice_of(name), SLICE_NULL, &p->line);

    if (!fits && p->left_out != NULL) {
        leave_out(p, depth, "a node with an odd name", NULL);
        return;
    }
    if (!fits) {
        text_clear(&p->line);
        text_add_char(&p->line, '/');
        literal_print_string(slice_of(name), &p->line);
    }
    if (name != NULL)
        text_add_line(p, depth++);
    if (remark != NULL) {
        text_clear(&p->line);
        text_add(&p->line, SLICE_LIT("# "));
        text_add_escaped(&p->line, json_slice(remark));
        text_add_line(p, depth);
    }
    if (name == NULL && p->left_out != NULL && json_object_size(properties) != 0) {
        text_add_char(&p->path, '/');
        leave_out(p, 0, "properties of the top: take the node above it as the tree", NULL);
        text_clear(&p->path);
    } else {
        const char **keys = json_sorted_names(properties);

        /* All but the type if the node's own line has it; the node links after the others. */
        for (int links = 0; links < 2; ++links) {
            for (size_t i = 0; i < json_object_size(properties); ++i) {
                if (links == (tree_text_kind_of(keys[i], &unused) == TREE_TEXT_LINK) &&
                    !(typed && strcmp(keys[i], "type") == 0))
                    print_property(p, depth, keys[i], json_object_get(properties, keys[i]));
            }
        }
        free(keys);
    }
    const char **names = json_sorted_names(nodes);
    for (size_t i = 0; i < json_object_size(nodes); ++i) {
        size_t above = p->path.len;

        text_addf(&p->path, "/%s", names[i]);
        print_node(p, names[i], json_object_get(nodes, names[i]), depth);
        p->path.len = above;
    }
    free(names);
}

size_t tree_text_print(const json_t *top, struct text *out, struct diag *left_out)
{
    struct printer p = {.out = out, .left_out = left_out};

    print_node(&p, NULL, top, 0);
    text_fini(&p.path);
    text_fini(&p.line);
    text_fini(&p.rest);
    return p.nleft_out;
}
