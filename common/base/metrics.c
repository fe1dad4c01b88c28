/* SPDX-License-Identifier: Apache-2.0
 *
 * OpenMetrics 1.0.0 (2020); Prometheus' exposition formats 0.0.4. Samples are the same in both:
 * ours have no time stamps, numbers are decimal, and "+Inf" is spelled alike. What differs are the
 * lines that begin with '#'.
 */
#include "common/base/metrics.h"

enum {
    /* Media ranges of one Accept that are looked at. */
    RANGES_MAX = 32,
};

/* The weight of a media range's parameters (RFC 9110 12.4.2), in thousandths; 1000 without one. */
static unsigned weight_of(struct slice parameters)
{
    double q = 1;

    while (parameters.len != 0) {
        struct slice p = slice_trim(slice_cut(&parameters, ';'));
        struct slice name = slice_cut(&p, '=');

        if (slice_eq_nocase(slice_trim(name), SLICE_LIT("q")) &&
            (!parse_double(slice_trim(p), &q) || q < 0 || q > 1))
            return 0;
    }
    return (unsigned)(q * 1000);
}

/* Whether PARAMETERS leave room for version 1.0.0. */
static bool version_fits(struct slice parameters)
{
    while (parameters.len != 0) {
        struct slice p = slice_trim(slice_cut(&parameters, ';'));
        struct slice name = slice_cut(&p, '=');

        if (slice_eq_nocase(slice_trim(name), SLICE_LIT("version")))
            return slice_is(p, "1.0.0") || slice_is(p, "\"1.0.0\"");
    }
    return true;
}

bool metrics_wants_open(struct slice accept)
{
    unsigned open = 0;
    unsigned plain = 0;

    for (int i = 0; accept.len != 0 && i < RANGES_MAX; ++i) {
        struct slice parameters = slice_cut(&accept, ',');
        struct slice type = slice_trim(slice_cut(&parameters, ';'));
        unsigned weight = weight_of(parameters);

        /* A wildcard is no wish for it: whoever knows nothing gets what everybody reads. */
        if (slice_eq_nocase(type, SLICE_LIT("application/openmetrics-text")) &&
            version_fits(parameters))
            open = weight > open ? weight : open;
        else if (slice_eq_nocase(type, SLICE_LIT("text/plain")))
            plain = weight > plain ? weight : plain;
    }
    return open != 0 && open >= plain;
}

/* A counter's family has the name of its samples without the end. */
static struct slice family_name(struct slice name, bool counter)
{
    if (counter && slice_ends(name, SLICE_LIT("_total")))
        name.len -= 6;
    return name;
}

static void put_help_text(struct slice doc, struct text *out)
{
    for (size_t i = 0; i < doc.len; ++i) {
        /* Plain text escapes backslashes and line ends, and these have come escaped. */
        if (doc.p[i] == '"')
            text_add_char(out, '\\');
        text_add_char(out, doc.p[i]);
    }
}

static const struct slice help_mark = {"# HELP ", 7};
static const struct slice type_mark = {"# TYPE ", 7};

static struct slice without(struct slice line, struct slice mark)
{
    return (struct slice){line.p + mark.len, line.len - mark.len};
}

static void put_family(struct slice help, struct slice type, struct text *out)
{
    struct slice kind = without(type, type_mark);
    struct slice name = slice_cut(&kind, ' ');
    bool counter = slice_is(kind, "counter");
    struct slice family = family_name(name, counter);

    text_add(out, type_mark);
    text_add(out, family);
    text_add_char(out, ' ');
    text_add(out, kind);
    text_add_char(out, '\n');
    if (help.len == 0)
        return;
    struct slice doc = without(help, help_mark);

    slice_cut(&doc, ' ');
    text_add(out, help_mark);
    text_add(out, family);
    text_add_char(out, ' ');
    put_help_text(doc, out);
    text_add_char(out, '\n');
}

void metrics_put_open(struct slice page, struct text *out)
{
    struct slice help = SLICE_NULL;

    while (page.len != 0) {
        struct slice line = slice_cut(&page, '\n');

        if (slice_starts(line, help_mark)) {
            help = line;
        } else if (slice_starts(line, type_mark)) {
            put_family(help, line, out);
            help = SLICE_NULL;
        } else if (line.len != 0) {
            text_add(out, line);
            text_add_char(out, '\n');
        }
    }
    text_add(out, SLICE_LIT("# EOF\n"));
}
