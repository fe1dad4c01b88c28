/* SPDX-License-Identifier: Apache-2.0
 *
 * A cell is one block of slots per writer, starting and ending at a cache line, so that writers
 * never share one. A counter or gauge is one slot; a histogram is its buckets and the sum. A slot
 * has a single writer, so adding is a relaxed load and store, not a locked instruction; readers may
 * see one figure of an instant and another of the next, which is what figures are like anyway.
 *
 *   struct stats --> first slot of each row
 *        |
 *        cells: [ cell 0: slots ... | cell 1: slots ... | ... ]
 */
#include "common/base/stats.h"

#include <inttypes.h>
#include <stdlib.h>

enum { HISTOGRAM_SLOTS = STATS_BUCKETS + 1 };

static const uint64_t bucket_us[STATS_BUCKETS - 1] = {
    100,    250,    500,     1000,    2500,    5000,     10000,    25000,    50000,    100000,
    250000, 500000, 1000000, 2500000, 5000000, 10000000, 25000000, 50000000, 100000000};

/* Where to begin to look, by how many bits a time has: the first bound that such a time may be
 * within. */
static const uint8_t bucket_from[65] = {
    [0 ... 7] = 0, [8] = 1,   [9] = 2,   [10] = 3,        [11] = 4,  [12] = 4,
    [13] = 5,      [14] = 6,  [15] = 7,  [16] = 8,        [17] = 9,  [18] = 10,
    [19] = 11,     [20] = 12, [21] = 13, [22] = 13,       [23] = 14, [24] = 15,
    [25] = 16,     [26] = 17, [27] = 18, [28 ... 64] = 19};

struct stats {
    const struct stats_table *table;
    uint32_t *first; /* of cells */
    size_t ncells;
    size_t cell_bytes;
    char *cells;
};

static size_t slots_of(enum stat_kind kind)
{
    return kind == STAT_HISTOGRAM ? HISTOGRAM_SLOTS : 1;
}

struct stats *stats_create(const struct stats_table *t, size_t ncells)
{
    struct stats *s = xcalloc(1, sizeof(*s));
    size_t slots = 0;

    ASSERT(ncells != 0);
    ASSERT(bucket_us[0] == STATS_FIRST_BOUND_US);
    *s = (struct stats){.table = t, .ncells = ncells};
    s->first = xcalloc(t->n + 1, sizeof(*s->first));
    for (size_t i = 0; i < t->n; ++i) {
        bool in_buckets = t->rows[i].kind == STAT_HISTOGRAM;

        s->first[i] = (uint32_t)slots | (in_buckets ? STATS_IN_BUCKETS : 0);
        slots += slots_of(t->rows[i].kind);
    }
    size_t bytes = sizeof(struct stats_cell) + slots * sizeof(_Atomic int64_t);
    s->cell_bytes = (bytes + CACHE_LINE_BYTES - 1) / CACHE_LINE_BYTES * CACHE_LINE_BYTES;
    s->cells = xcalloc_lines(ncells, s->cell_bytes);
    for (size_t i = 0; i < ncells; ++i) {
        struct stats_cell *c = stats_cell(s, i);

        c->stats = s;
        c->first = s->first;
        c->nrows = t->n;
    }
    return s;
}

void stats_destroy(struct stats *s)
{
    if (s == NULL)
        return;
    free(s->cells);
    free(s->first);
    free(s);
}

struct stats_cell *stats_cell(struct stats *s, size_t i)
{
    ASSERT(i < s->ncells);
    return (struct stats_cell *)(void *)(s->cells + i * s->cell_bytes);
}

static const struct stats_cell *cell_const(const struct stats *s, size_t i)
{
    return (const struct stats_cell *)(const void *)(s->cells + i * s->cell_bytes);
}

/* ---- writing ---- */

static enum stat_kind kind_of(const struct stats *s, size_t row)
{
    ASSERT(row < s->table->n);
    return s->table->rows[row].kind;
}

size_t stats_bucket_(uint64_t us)
{
    size_t i = bucket_from[us != 0 ? 64 - __builtin_clzll(us) : 0];

    while (i < ARRAY_LEN(bucket_us) && us > bucket_us[i])
        ++i;
    return i;
}

/* ---- reading ---- */

static int64_t slot_sum(const struct stats *s, size_t slot)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < s->ncells; ++i)
        sum += (uint64_t)atomic_load_explicit(&cell_const(s, i)->slots[slot], memory_order_relaxed);
    return (int64_t)sum;
}

int64_t stats_sum(const struct stats *s, size_t row)
{
    struct stat_histogram h;

    if (kind_of(s, row) != STAT_HISTOGRAM)
        return slot_sum(s, s->first[row]);
    stats_histogram(s, row, &h);
    return (int64_t)h.count;
}

void stats_histogram(const struct stats *s, size_t row, struct stat_histogram *out)
{
    ASSERT(kind_of(s, row) == STAT_HISTOGRAM);
    *out = (struct stat_histogram){0};
    size_t first = s->first[row] & ~STATS_IN_BUCKETS;
    for (size_t i = 0; i < STATS_BUCKETS; ++i) {
        out->buckets[i] = (uint64_t)slot_sum(s, first + i);
        /* Counted from the buckets, so that the last cumulative one is always the count. */
        out->count += out->buckets[i];
    }
    out->sum_us = (uint64_t)slot_sum(s, first + STATS_BUCKETS);
}

uint64_t stats_quantile(const struct stat_histogram *h, double q)
{
    double wanted = (q < 0 ? 0 : q > 1 ? 1 : q) * (double)h->count;
    double below = 0;

    if (h->count == 0)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(bucket_us); ++i) {
        double here = (double)h->buckets[i];
        uint64_t lower = i != 0 ? bucket_us[i - 1] : 0;

        if (here > 0 && below + here >= wanted)
            return lower + (uint64_t)((double)(bucket_us[i] - lower) * (wanted - below) / here);
        below += here;
    }
    /* Beyond the last bound nothing is known but that. */
    return bucket_us[ARRAY_LEN(bucket_us) - 1];
}

/* ---- Prometheus' text format, version 0.0.4 ---- */

static const char *kind_text(enum stat_kind kind)
{
    switch (kind) {
    case STAT_COUNTER:
        return "counter";
    case STAT_GAUGE:
        return "gauge";
    case STAT_HISTOGRAM:
        return "histogram";
    }
    UNREACHABLE();
}

/* A row's name as a metric: counters end in _total; a histogram of NAME_us is in NAME_seconds. */
static const char *metric_name(const char *prefix, const struct stat_row *row, struct text *out)
{
    struct slice name = slice_of(row->name);

    ASSERT(name.p != NULL);
    text_clear(out);
    text_addf(out, "%s_", prefix);
    if (row->kind == STAT_HISTOGRAM && slice_ends(name, SLICE_LIT("_us"))) {
        text_add(out, (struct slice){name.p, name.len - 2});
        text_add(out, SLICE_LIT("seconds"));
    } else {
        text_add(out, name);
    }
    text_add(out, row->kind == STAT_COUNTER ? SLICE_LIT("_total") : SLICE_NULL);
    return text_cstr(out);
}

static void put_help(const char *doc, struct text *out)
{
    for (; *doc != '\0'; ++doc) {
        if (*doc == '\\')
            text_add(out, SLICE_LIT("\\\\"));
        else if (*doc == '\n')
            text_add(out, SLICE_LIT("\\n"));
        else
            text_add_char(out, *doc);
    }
    text_add_char(out, '\n');
}

static void put_single(const char *name, const char *labels, int64_t value, struct text *out)
{
    bool labelled = labels[0] != '\0';

    text_addf(out, "%s%s%s%s %" PRId64 "\n", name, labelled ? "{" : "", labels, labelled ? "}" : "",
              value);
}

static void put_histogram(const char *name, const char *labels, const struct stat_histogram *h,
                          struct text *out)
{
    bool labelled = labels[0] != '\0';
    const char *open = labelled ? "{" : "";
    const char *close = labelled ? "}" : "";
    uint64_t so_far = 0;

    for (size_t i = 0; i < STATS_BUCKETS; ++i) {
        char bound[32] = "+Inf";

        if (i < ARRAY_LEN(bucket_us))
            snprintf(bound, sizeof(bound), "%g", (double)bucket_us[i] / 1e6);
        so_far += h->buckets[i];
        text_addf(out, "%s_bucket{%s%sle=\"%s\"} %" PRIu64 "\n", name, labels, labelled ? "," : "",
                  bound, so_far);
    }
    text_addf(out, "%s_sum%s%s%s %" PRIu64 ".%06" PRIu64 "\n", name, open, labels, close,
              h->sum_us / 1000000, h->sum_us % 1000000);
    text_addf(out, "%s_count%s%s%s %" PRIu64 "\n", name, open, labels, close, so_far);
}

static void put_values(const char *name, const struct stats_set *set, size_t row, struct text *out)
{
    struct stat_histogram h;

    if (kind_of(set->stats, row) != STAT_HISTOGRAM) {
        put_single(name, set->labels, stats_sum(set->stats, row), out);
        return;
    }
    stats_histogram(set->stats, row, &h);
    put_histogram(name, set->labels, &h, out);
}

void stats_prometheus(const char *prefix, const struct stats_set *sets, size_t nsets,
                      struct text *out)
{
    const struct stats_table *t = nsets != 0 ? sets[0].stats->table : NULL;
    struct text name = {0};

    for (size_t i = 0; t != NULL && i < t->n; ++i) {
        const struct stat_row *row = &t->rows[i];

        metric_name(prefix, row, &name);
        text_addf(out, "# HELP %s ", name.p);
        put_help(row->doc, out);
        text_addf(out, "# TYPE %s %s\n", name.p, kind_text(row->kind));
        for (size_t k = 0; k < nsets; ++k) {
            ASSERT(sets[k].stats->table == t);
            put_values(name.p, &sets[k], i, out);
        }
    }
    text_fini(&name);
}

void stats_describe(const char *prefix, const struct stats_table *t, FILE *out)
{
    struct text name = {0};

    fputs("| metric | kind | unit | meaning |\n| --- | --- | --- | --- |\n", out);
    for (size_t i = 0; i < t->n; ++i) {
        const struct stat_row *row = &t->rows[i];

        fprintf(out, "| `%s` | %s | ", metric_name(prefix, row, &name), kind_text(row->kind));
        for (const char *p = row->kind == STAT_HISTOGRAM ? "SECONDS" : row->unit; *p != '\0'; ++p)
            fputc(*p == '_' ? ' ' : ascii_lower(*p), out);
        fputs(" | ", out);
        for (const char *p = row->doc; *p != '\0'; ++p)
            fprintf(out, "%s%c", *p == '|' ? "\\" : "", *p);
        fputs(" |\n", out);
    }
    text_fini(&name);
}
