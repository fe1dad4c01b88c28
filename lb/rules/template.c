/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/rules/template.h"

#include <stdlib.h>

#include "common/base/text.h"

/* Borrowed for one call. */
struct parse {
    const struct template_kind *kind;
    struct slice text;
    size_t at;
    struct template *out;
};

static char peek(const struct parse *p, size_t ahead)
{
    return p->text.len - p->at > ahead ? p->text.p[p->at + ahead] : '\0';
}

static void add_part(struct parse *p, enum template_part_kind kind, struct slice text)
{
    p->out->parts[p->out->n++] =
        (struct template_part){.kind = kind, .text = xslicedup(text), .len = text.len};
}

/* At "{". */
static const char *take_value(struct parse *p)
{
    struct slice rest = {p->text.p + p->at + 1, p->text.len - p->at - 1};
    size_t n = slice_find(rest, '}');
    struct slice name = {rest.p, n};

    if (n == SIZE_MAX)
        return "{ without }; write {{ for a brace";
    bool is_class = slice_is(name, "class");
    if (!is_class && !classify_is_variable(name)) {
        ++p->at;
        return p->kind->bad_name;
    }
    add_part(p, is_class ? TEMPLATE_CLASS : TEMPLATE_VARIABLE, name);
    p->at += n + 2;
    return NULL;
}

/* Up to a value, or the end; braces in it are single. */
static const char *take_text(struct parse *p, struct text *out)
{
    while (p->at < p->text.len) {
        char c = peek(p, 0);
        bool brace = c == '{' || c == '}';

        if (brace && peek(p, 1) != c)
            return c == '{' ? NULL : "} without {; write }} for a brace";
        if (c < p->kind->first || c > '~')
            return p->kind->bad_byte;
        text_add_char(out, c);
        p->at += brace ? 2 : 1;
    }
    return NULL;
}

static const char *take_part(struct parse *p)
{
    struct text text = {0};

    if (p->out->n == TEMPLATE_PARTS_MAX)
        return "more than 16 texts and {VARIABLE}s";
    if (peek(p, 0) == '{' && peek(p, 1) != '{')
        return take_value(p);
    const char *why = take_text(p, &text);
    if (why == NULL)
        add_part(p, TEMPLATE_TEXT, text_slice(&text));
    text_fini(&text);
    return why;
}

const char *template_parse(const struct template_kind *k, struct slice text, struct template *out,
                           size_t *at)
{
    struct parse p = {.kind = k, .text = text, .out = out};
    const char *why = NULL;

    out->n = 0;
    out->parts = xcalloc(TEMPLATE_PARTS_MAX, sizeof(*out->parts));
    if (text.len > k->bytes_max) {
        p.at = k->bytes_max;
        why = k->too_long;
    }
    while (why == NULL && p.at < text.len)
        why = take_part(&p);
    *at = p.at;
    return why;
}

void template_fini(struct template *t)
{
    for (size_t i = 0; i < t->n; ++i)
        free(t->parts[i].text);
    free(t->parts);
}
