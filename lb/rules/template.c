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

static char peek_at(const struct parse *p, size_t ahead)
{
    return p->text.len - p->at > ahead ? p->text.p[p->at + ahead] : '\0';
}

static void add_part(struct parse *p, enum template_part_kind kind, struct slice text)
{
    p->out->parts[p->out->n++] =
        (struct template_part){.kind = kind, .text = xslicedup(text), .len = text.len};
}

/* A value, or a text up to the next one or the end, in which braces are single. */
static const char *take_part(struct parse *p)
{
    struct text text = {0};
    const char *why = NULL;

    if (p->out->n == TEMPLATE_PARTS_MAX)
        return "more than 16 texts and {VARIABLE}s";
    if (peek_at(p, 0) == '{' && peek_at(p, 1) != '{') {
        struct slice name = {p->text.p + p->at + 1, p->text.len - p->at - 1};
        size_t n = slice_find(name, '}');

        if (n == SIZE_MAX)
            return "{ without }; write {{ for a brace";
        name.len = n;
        bool is_class = slice_is(name, "class");
        if (!is_class && !classify_is_variable(name)) {
            ++p->at;
            return p->kind->bad_name;
        }
        add_part(p, is_class ? TEMPLATE_CLASS : TEMPLATE_VARIABLE, name);
        p->at += n + 2;
        return NULL;
    }
    while (p->at < p->text.len && why == NULL) {
        char c = peek_at(p, 0);
        bool brace = c == '{' || c == '}';

        if (c == '{' && peek_at(p, 1) != c)
            break;
        if (brace && peek_at(p, 1) != c) {
            why = "} without {; write }} for a brace";
        } else if (c < p->kind->first || c > '~') {
            why = p->kind->bad_byte;
        } else {
            text_add_char(&text, c);
            p->at += brace ? 2 : 1;
        }
    }
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
