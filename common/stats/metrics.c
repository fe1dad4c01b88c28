/* SPDX-License-Identifier: Apache-2.0
 *
 * Both formats have the same samples: ours have no time stamps, numbers are decimal, and "+Inf" is
 * spelled alike. The lines that begin with '#' differ: OpenMetrics names families of counters
 * without "_total", puts TYPE first, escapes quotes in HELP, and has a last line.
 */
#include "common/stats/metrics.h"

#include <inttypes.h>
#include <math.h>

#include "common/base/file.h"
#include "common/base/log.h"

/* ---- values ---- */

static double metrics_relaxed(const void *at)
{
    return (double)atomic_load_explicit((const _Atomic uint64_t *)at, memory_order_relaxed);
}

double metrics_log_dropped(unused_ const void *object)
{
    return (double)log_dropped();
}

double metrics_state_unsaved(unused_ const void *object)
{
    return (double)state_files_unsaved();
}

double metric_value(const struct metric *row, const void *object)
{
    const void *at = (const char *)object + row->offset;

    switch (row->type) {
    case METRIC_GET:
        return row->get(object);
    case METRIC_COUNT:
        if (row->size == sizeof(bool))
            return *(const bool *)at;
        if (row->size == sizeof(uint32_t))
            return *(const uint32_t *)at;
        ASSERT(row->size == sizeof(uint64_t));
        return (double)*(const uint64_t *)at;
    case METRIC_REAL:
        return *(const double *)at;
    case METRIC_WHOLE:
        return trunc(*(const double *)at);
    case METRIC_MICROS:
        return trunc(*(const double *)at * 1e6) / 1e6;
    case METRIC_TIME:
        return (double)*(const uint64_t *)at / 1e6;
    case METRIC_ATOMIC:
        return metrics_relaxed(at);
    case METRIC_ATOMIC_TIME:
        return metrics_relaxed(at) / 1e6;
    }
    UNREACHABLE();
}

/* ---- heads ---- */

static const char *const kind_texts[] = {
    [STAT_COUNTER] = "counter", [STAT_GAUGE] = "gauge", [STAT_HISTOGRAM] = "histogram"};

static void metrics_add_escaped(struct text *out, struct slice s, bool quotes)
{
    for (size_t i = 0; i < s.len; ++i) {
        if (s.p[i] == '\n') {
            text_add(out, SLICE_LIT("\\n"));
            continue;
        }
        if (s.p[i] == '\\' || (quotes && s.p[i] == '"'))
            text_add_char(out, '\\');
        text_add_char(out, s.p[i]);
    }
}

void metrics_begin(struct metrics *m, const struct metric *row)
{
    struct slice family = slice_of(row->name);

    m->row = row;
    if (m->open && row->kind == STAT_COUNTER) {
        ASSERT(slice_ends(family, SLICE_LIT("_total")));
        family.len -= sizeof("_total") - 1;
    }
    for (int help = m->open ? 0 : 1, i = 0; i < 2; ++i, help = !help) {
        text_addf(m->out, "# %s %s_%.*s ", help ? "HELP" : "TYPE", m->prefix, (int)family.len,
                  family.p);
        if (help)
            metrics_add_escaped(m->out, slice_of(row->doc), m->open);
        else
            text_add(m->out, slice_of(kind_texts[row->kind]));
        text_add_char(m->out, '\n');
    }
}

/* ---- series ---- */

void metrics_add_label(struct text *out, const char *name, struct slice value)
{
    if (out->len != 0 && out->p[out->len - 1] == '"')
        text_add_char(out, ',');
    text_add(out, slice_of(name));
    text_add(out, SLICE_LIT("=\""));
    metrics_add_escaped(out, value, true);
    text_add_char(out, '"');
}

/* Appends the name, with suffix END, and the labels of a series. */
static void add_series(struct metrics *m, const char *end, struct slice labels, const char *label,
                       struct slice value)
{
    struct text *out = m->out;

    text_add(out, slice_of(m->prefix));
    text_add_char(out, '_');
    text_add(out, slice_of(m->row->name));
    text_add(out, slice_of(end));
    if (labels.len != 0 || label != NULL) {
        text_add_char(out, '{');
        text_add(out, labels);
        if (label != NULL)
            metrics_add_label(out, label, value);
        text_add_char(out, '}');
    }
    text_add_char(out, ' ');
}

void metrics_put(struct metrics *m, const void *object, struct slice labels, struct slice value)
{
    double v = metric_value(m->row, object);

    if (isnan(v))
        return;
    add_series(m, "", labels, m->row->label, value);
    text_add_real(m->out, v);
    text_add_char(m->out, '\n');
}

void metrics_put_number(struct metrics *m, uint64_t n, struct slice labels, struct slice value)
{
    add_series(m, "", labels, m->row->label, value);
    text_add_u64(m->out, n);
    text_add_char(m->out, '\n');
}

void metrics_put_all(struct metrics *m, const struct metric *rows, size_t n, const void *context)
{
    for (size_t i = 0; i < n; ++i) {
        metrics_begin(m, &rows[i]);
        rows[i].each(m, context);
    }
}

void metrics_end(struct metrics *m)
{
    if (m->open)
        text_add(m->out, SLICE_LIT("# EOF\n"));
}

/* ---- stats.def ---- */

/* Returns ROW as a metric, and stores its name in NAME: counters end in _total; a histogram
 * NAME_us is shown in seconds. */
static struct metric metric_of_stat(const struct stat_row *row, struct text *name)
{
    struct slice s = slice_of(row->name);
    bool in_us = row->kind == STAT_HISTOGRAM && slice_ends(s, SLICE_LIT("_us"));

    ASSERT(s.p != NULL);
    text_clear(name);
    text_add(name, (struct slice){s.p, s.len - (in_us ? 2 : 0)});
    text_add(name, in_us ? SLICE_LIT("seconds") : SLICE_NULL);
    text_add(name, row->kind == STAT_COUNTER ? SLICE_LIT("_total") : SLICE_NULL);
    return (struct metric){.name = text_cstr(name), .kind = row->kind, .doc = row->doc};
}

static void put_histogram(struct metrics *m, const struct stat_histogram *h, struct slice labels)
{
    uint64_t so_far = 0;

    for (size_t i = 0; i < STATS_BUCKETS; ++i) {
        char bound[32] = "+Inf";
        double seconds = stats_bound_s(i);

        if (isfinite(seconds))
            snprintf(bound, sizeof(bound), "%g", seconds);
        so_far += h->buckets[i];
        add_series(m, "_bucket", labels, "le", slice_of(bound));
        text_addf(m->out, "%" PRIu64 "\n", so_far);
    }
    add_series(m, "_sum", labels, NULL, SLICE_NULL);
    text_addf(m->out, "%" PRIu64 ".%06" PRIu64 "\n", h->sum_us / 1000000, h->sum_us % 1000000);
    add_series(m, "_count", labels, NULL, SLICE_NULL);
    text_addf(m->out, "%" PRIu64 "\n", so_far);
}

void metrics_put_stats(struct metrics *m, const struct stats_set *sets, size_t nsets)
{
    struct stat_histogram h;
    struct text name = {0};

    if (nsets == 0)
        return;
    const struct stats_table *t = stats_table(sets[0].stats);
    for (size_t i = 0; i < t->n; ++i) {
        struct metric row = metric_of_stat(&t->rows[i], &name);

        metrics_begin(m, &row);
        for (size_t k = 0; k < nsets; ++k) {
            ASSERT(stats_table(sets[k].stats) == t);
            if (row.kind == STAT_HISTOGRAM) {
                stats_histogram(sets[k].stats, i, &h);
                put_histogram(m, &h, sets[k].labels);
                continue;
            }
            add_series(m, "", sets[k].labels, NULL, SLICE_NULL);
            text_addf(m->out, "%" PRId64 "\n", stats_sum(sets[k].stats, i));
        }
    }
    m->row = NULL;
    text_fini(&name);
}

/* ---- the manual ---- */

void metrics_describe_head(FILE *out)
{
    fputs("| metric | kind | unit | label | meaning |\n| --- | --- | --- | --- | --- |\n", out);
}

void metrics_describe(const char *prefix, const struct metric *rows, size_t n, FILE *out)
{
    for (size_t i = 0; i < n; ++i)
        fprintf(out, "| `%s_%s` | %s | %s | %s | %s |\n", prefix, rows[i].name,
                kind_texts[rows[i].kind], rows[i].unit, rows[i].label != NULL ? rows[i].label : "",
                rows[i].doc);
}

void metrics_describe_stats(const char *prefix, const struct stats_table *t, FILE *out)
{
    struct text name = {0};

    fputs("| metric | kind | unit | meaning |\n| --- | --- | --- | --- |\n", out);
    for (size_t i = 0; i < t->n; ++i) {
        const struct stat_row *row = &t->rows[i];

        fprintf(out, "| `%s_%s` | %s | ", prefix, metric_of_stat(row, &name).name,
                kind_texts[row->kind]);
        for (const char *p = row->kind == STAT_HISTOGRAM ? "SECONDS" : row->unit; *p != '\0'; ++p)
            fputc(*p == '_' ? ' ' : ascii_lower(*p), out);
        fputs(" | ", out);
        for (const char *p = row->doc; *p != '\0'; ++p)
            fprintf(out, "%s%c", *p == '|' ? "\\" : "", *p);
        fputs(" |\n", out);
    }
    text_fini(&name);
}

/* ---- which format ---- */

enum {
    /* Maximum number of media ranges of an Accept field that are evaluated. */
    RANGES_MAX = 32,
};

/*
 * Returns the weight in the PARAMETERS of a media range (RFC 9110 12.4.2), in thousandths; 1000 if
 * there is none. Sets *FITS to whether they accept version 1.0.0.
 */
static unsigned read_parameters(struct slice parameters, bool *fits)
{
    double q = 1;

    *fits = true;
    while (parameters.len != 0) {
        struct slice p = slice_trim(slice_cut(&parameters, ';'));
        struct slice name = slice_trim(slice_cut(&p, '='));

        if (slice_eq_nocase(name, SLICE_LIT("version")))
            *fits = slice_is(p, "1.0.0") || slice_is(p, "\"1.0.0\"");
        else if (slice_eq_nocase(name, SLICE_LIT("q")) &&
                 (!parse_double(slice_trim(p), &q) || q < 0 || q > 1))
            return 0;
    }
    return (unsigned)(q * 1000);
}

bool metrics_wants_open(struct slice accept)
{
    unsigned open = 0;
    unsigned plain = 0;

    for (int i = 0; accept.len != 0 && i < RANGES_MAX; ++i) {
        struct slice parameters = slice_cut(&accept, ',');
        struct slice type = slice_trim(slice_cut(&parameters, ';'));
        bool fits;
        unsigned weight = read_parameters(parameters, &fits);

        /* A wildcard does not select OpenMetrics: such clients get the plain text format, which
         * all can parse. */
        if (fits && slice_eq_nocase(type, SLICE_LIT("application/openmetrics-text")))
            open = weight > open ? weight : open;
        else if (slice_eq_nocase(type, SLICE_LIT("text/plain")))
            plain = weight > plain ? weight : plain;
    }
    return open != 0 && open >= plain;
}
