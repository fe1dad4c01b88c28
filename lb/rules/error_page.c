/* SPDX-License-Identifier: Apache-2.0
 *
 * RFC 9110 section 12.5.1: of the ranges in Accept the most specific one that matches a type states
 * its weight.
 */
#include "lb/rules/error_page.h"

#include <string.h>

enum { WEIGHT_MAX = 1000 };

void error_pages_fini(struct error_pages *p)
{
    for (size_t i = 0; i < p->n; ++i)
        text_fini(&p->items[i].text);
    p->n = 0;
}

const char *error_page_type(const char *path)
{
    static const struct {
        const char *suffix, *type;
    } types[] = {{".json", "application/json"},
                 {".txt", "text/plain; charset=utf-8"},
                 {".xml", "application/xml"}};

    for (size_t i = 0; path != NULL && i < ARRAY_LEN(types); ++i) {
        if (slice_ends(slice_of(path), slice_of(types[i].suffix)))
            return types[i].type;
    }
    return "text/html; charset=utf-8";
}

/* The weight that PARAMETERS of a range have, in thousandths. */
static unsigned weight_of(struct slice parameters)
{
    while (parameters.len != 0) {
        struct slice value = slice_trim(slice_cut(&parameters, ';'));
        struct slice name = slice_cut(&value, '=');
        unsigned weight = 0;

        if (!slice_eq_nocase(name, SLICE_LIT("q")))
            continue;
        if (value.len == 0 || value.p[0] != '0')
            return WEIGHT_MAX;
        for (size_t i = 2, unit = WEIGHT_MAX / 10; i < value.len && unit != 0; ++i, unit /= 10) {
            if (value.p[i] >= '0' && value.p[i] <= '9')
                weight += (unsigned)(value.p[i] - '0') * (unsigned)unit;
        }
        return weight;
    }
    return WEIGHT_MAX;
}

/* How specific RANGE is for the media type TYPE; 0: it does not match. */
static int range_specificity(struct slice range, struct slice type)
{
    struct slice rest = type;

    if (slice_eq_nocase(range, type))
        return 3;
    if (slice_is(range, "*/*"))
        return 1;
    size_t group = slice_cut(&rest, '/').len + 1;
    return range.len == group + 1 && range.p[group] == '*' &&
                   slice_eq_nocase((struct slice){range.p, group}, (struct slice){type.p, group})
               ? 2
               : 0;
}

static unsigned accepted_weight(const struct message_fields *fields, struct slice type)
{
    const struct message_field *f = NULL;
    unsigned weight = 0;
    int best = 0;

    while ((f = message_fields_find(fields, SLICE_LIT("accept"), f)) != NULL) {
        struct slice list = f->value;

        while (list.len != 0) {
            struct slice parameters = slice_cut(&list, ',');
            int found = range_specificity(slice_trim(slice_cut(&parameters, ';')), type);

            if (found > best) {
                best = found;
                weight = weight_of(parameters);
            }
        }
    }
    return weight;
}

size_t error_pages_choose(const struct error_pages *p, const struct message_fields *fields)
{
    unsigned most = 0;
    size_t chosen = 0;

    for (size_t i = 0; p->n > 1 && i < p->n; ++i) {
        struct slice type = slice_of(p->items[i].type);
        unsigned weight = accepted_weight(fields, slice_trim(slice_cut(&type, ';')));

        if (weight > most) {
            most = weight;
            chosen = i;
        }
    }
    return chosen;
}
