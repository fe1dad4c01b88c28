/* SPDX-License-Identifier: Apache-2.0
 *
 * What a line is. zc.zk tries four patterns in order ("=>", "=", "->", "/"), each with a name that
 * is as long as it can be: so "a=>b" is a property link, "/x = 1" a property, "/1.2.3.4:80" a node
 * without a type. That is kept, but for names that hold a quote: there a blank was forgotten
 * before the operator.
 *
 *   name  operator  rest            the name ends with the first word, or at an operator within it
 *   W-----          R-------
 */
#include "common/base/literal.h"
#include "ctl/tree/tree_text.h"

/* A line, and what is asked of it again and again. */
struct line {
    struct slice s;
    size_t word;  /* bytes of its first word */
    size_t after; /* where the second begins; the end if there is none */
    size_t words; /* from there on, counted up to 4: more than any rest may have */
};

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

static struct line look_at(struct slice s)
{
    struct line l = {.s = s, .word = skip_word(s, 0)};

    l.after = skip_blanks(s, l.word);
    for (size_t at = l.after; at < s.len && l.words < 4; ++l.words)
        at = skip_blanks(s, skip_word(s, at));
    return l;
}

static bool operator_at(const struct line *l, size_t at, struct slice op)
{
    return at <= l->s.len && slice_starts((struct slice){l->s.p + at, l->s.len - at}, op);
}

/*
 * NAME OP REST, the longest name for which there is a rest of at most MAX words. The words behind
 * the first one are counted once: a line of operators costs no more than another.
 */
static bool match(const struct line *l, struct slice op, size_t max, struct tree_text_item *out)
{
    /* Behind the first word: then OP begins the second. */
    if (operator_at(l, l->after, op)) {
        size_t rest = skip_blanks(l->s, l->after + op.len);
        /* The second word may be OP alone, or more than that. */
        size_t glued = l->after + op.len < l->s.len && !is_blank(l->s.p[l->after + op.len]);

        if (rest < l->s.len && (max == SIZE_MAX || l->words - 1 + glued <= max)) {
            out->name = (struct slice){l->s.p, l->word};
            out->rest = (struct slice){l->s.p + rest, l->s.len - rest};
            return true;
        }
    }
    for (size_t end = l->word; end-- > 1;) {
        if (!operator_at(l, end, op) || end + op.len > l->word)
            continue;
        size_t rest = skip_blanks(l->s, end + op.len);
        size_t words = l->words + (end + op.len < l->word);

        if (rest < l->s.len && (max == SIZE_MAX || words <= max)) {
            out->name = (struct slice){l->s.p, end};
            out->rest = (struct slice){l->s.p + rest, l->s.len - rest};
            return true;
        }
    }
    return false;
}

/* "/NAME" or "/NAME : TYPE". */
static bool match_node(const struct line *l, struct tree_text_item *out)
{
    if (l->s.p[0] != '/' || l->word < 2)
        return false;
    if (l->after == l->s.len) {
        out->name = (struct slice){l->s.p + 1, l->word - 1};
        out->rest = SLICE_NULL;
        return true;
    }
    if (!match(l, SLICE_LIT(":"), SIZE_MAX, out) || out->name.len < 2)
        return false;
    out->name = (struct slice){out->name.p + 1, out->name.len - 1};
    return true;
}

/* A property's name with "=>" in it: whether that makes it a link depends on the value's blanks. */
static bool has_arrow(struct slice name)
{
    for (size_t i = 0; i + 1 < name.len; ++i) {
        if (name.p[i] == '=' && name.p[i + 1] == '>')
            return true;
    }
    return false;
}

static const char *check_name(const struct tree_text_item *item)
{
    struct slice n = item->name;

    if (n.len > TREE_TEXT_NAME_MAX)
        return "name too long";
    if (!literal_is_visible(n))
        return "an invisible character in a name";
    if (item->kind == TREE_TEXT_NODE) {
        if (slice_find(n, '/') != SIZE_MAX)
            return "a '/' in a node's name: nodes below it have lines of their own";
        if (slice_is(n, ".") || slice_is(n, ".."))
            return "'.' and '..' are no names";
    } else if (slice_find(n, '\'') != SIZE_MAX || slice_find(n, '"') != SIZE_MAX) {
        return "a quote in a name: put blanks around the operator";
    }
    if (item->kind == TREE_TEXT_PROPERTY && has_arrow(n))
        return "'=>' in a property's name";
    return NULL;
}

static const char *check_rest(const struct tree_text_item *item)
{
    struct slice rest = item->rest;

    if (item->kind == TREE_TEXT_PROPERTY)
        return NULL;
    /* A tab may be in a type, and between a link's path and property. */
    while (rest.len != 0) {
        if (!literal_is_visible(slice_cut(&rest, '\t')))
            return item->kind == TREE_TEXT_NODE ? "an invisible character in a type"
                                                : "an invisible character in a link";
    }
    return NULL;
}

static const char *complain(const struct line *l, size_t *at)
{
    *at = l->after < l->s.len ? l->after : l->s.len;
    if (operator_at(l, l->after, SLICE_LIT("->")) || operator_at(l, l->after, SLICE_LIT("=>")))
        return "want the target of a link behind it: '-> PATH', '=> PATH [PROPERTY]'";
    if (operator_at(l, l->after, SLICE_LIT("=")))
        return "want a value behind '='";
    if (l->s.p[0] == '/')
        return "want '/NAME' or '/NAME : TYPE'";
    return "want '/NODE', 'NAME = VALUE', 'NAME -> PATH' or 'NAME => PATH [PROPERTY]'";
}

const char *tree_text_item(struct slice text, struct tree_text_item *out, size_t *at)
{
    struct line l = look_at(text);

    *at = 0;
    if (match(&l, SLICE_LIT("=>"), 2, out)) {
        out->kind = TREE_TEXT_PROPERTY_LINK;
    } else if (match(&l, SLICE_LIT("="), SIZE_MAX, out)) {
        out->kind = TREE_TEXT_PROPERTY;
        /* No value begins so: it was to be a link. */
        if (out->rest.p[0] == '>')
            return complain(&l, at);
    } else if (match(&l, SLICE_LIT("->"), 1, out)) {
        out->kind = TREE_TEXT_LINK;
    } else if (match_node(&l, out)) {
        out->kind = TREE_TEXT_NODE;
    } else {
        return complain(&l, at);
    }
    const char *why = check_name(out);
    if (why == NULL) {
        why = check_rest(out);
        if (why != NULL)
            *at = (size_t)(out->rest.p - text.p);
    }
    return why;
}
