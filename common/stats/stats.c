/* SPDX-License-Identifier: Apache-2.0
 *
 * A cell is one block of slots per writer, starting and ending at a cache line, so that writers
 * never share one. A counter or gauge is one slot; a histogram is its buckets and the sum. A slot
 * has a single writer, so adding is a relaxed load and store, not a locked instruction; the values
 * that a reader sees of several slots may differ slightly in time.
 *
 *   struct stats --> first slot of each row
 *        |
 *        cells: [ cell 0: slots ... | cell 1: slots ... | ... ]
 */
#include "common/stats/stats.h"

#include <math.h>
#include <stdlib.h>

enum { HISTOGRAM_SLOTS = STATS_BUCKETS + 1 };

static const uint64_t bucket_us[STATS_BUCKETS - 1] = {
    100,    250,    500,     1000,    2500,    5000,     10000,    25000,    50000,    100000,
    250000, 500000, 1000000, 2500000, 5000000, 10000000, 25000000, 50000000, 100000000};

/* First bucket to compare, by the number of bits of a time: the first one that may contain such
 * a time. */
static const uint8_t bucket_from[65] = {
    [0 ... 7] = 0, [8] = 1,   [9] = 2,   [10] = 3,        [11] = 4,  [12] = 4,
    [13] = 5,      [14] = 6,  [15] = 7,  [16] = 8,        [17] = 9,  [18] = 10,
    [19] = 11,     [20] = 12, [21] = 13, [22] = 13,       [23] = 14, [24] = 15,
    [25] = 16,     [26] = 17, [27] = 18, [28 ... 64] = 19};

struct stats {
    const struct stats_table *table;
    uint32_t *first; /* shared by the cells, see there */
    size_t ncells;
    size_t cell_bytes;
    char *cells;
};

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
        slots += in_buckets ? HISTOGRAM_SLOTS : 1;
    }
    size_t bytes = sizeof(struct stats_cell) + slots * sizeof(_Atomic int64_t);
    s->cell_bytes = (bytes + CACHE_LINE_BYTES - 1) / CACHE_LINE_BYTES * CACHE_LINE_BYTES;
    s->cells = xcalloc_lines(ncells, s->cell_bytes);
    for (size_t i = 0; i < ncells; ++i) {
        struct stats_cell *c = stats_cell(s, i);

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

    for (size_t i = 0; i < s->ncells; ++i) {
        const struct stats_cell *c = (const void *)(s->cells + i * s->cell_bytes);

        sum += (uint64_t)atomic_load_explicit(&c->slots[slot], memory_order_relaxed);
    }
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
        /* Computed from the buckets, so that the last cumulative bucket always equals the count. */
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
    /* Times beyond the last bound are not distinguished. */
    return bucket_us[ARRAY_LEN(bucket_us) - 1];
}

double stats_bound_s(size_t bucket)
{
    return bucket < ARRAY_LEN(bucket_us) ? (double)bucket_us[bucket] / 1e6 : (double)INFINITY;
}

const struct stats_table *stats_table(const struct stats *s)
{
    return s->table;
}

void stats_describe(const struct stats *s, const char *name, struct json_writer *w)
{
    json_open_object(w, name);
    for (size_t i = 0; i < s->table->n; ++i) {
        const struct stat_row *row = &s->table->rows[i];
        struct stat_histogram h;

        if (row->kind != STAT_HISTOGRAM) {
            json_put_int(w, row->name, stats_sum(s, i));
            continue;
        }
        stats_histogram(s, i, &h);
        json_open_object(w, row->name);
        json_put_int(w, "count", (int64_t)h.count);
        json_put_int(w, "sum", (int64_t)h.sum_us);
        json_put_int(w, "mean", h.count != 0 ? (int64_t)(h.sum_us / h.count) : 0);
        json_put_int(w, "p50", (int64_t)stats_quantile(&h, 0.5));
        json_put_int(w, "p90", (int64_t)stats_quantile(&h, 0.9));
        json_put_int(w, "p99", (int64_t)stats_quantile(&h, 0.99));
        json_close_object(w);
    }
    json_close_object(w);
}
