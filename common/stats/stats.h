/* SPDX-License-Identifier: Apache-2.0
 *
 * Statistics as declared in a program's stats.def, where every metric is one row:
 *   STAT(requests, COUNTER, REQUESTS, "Requests with a response.")
 * Cells are per thread and cache-line aligned. Each is written by its thread with relaxed atomics
 * and summed by readers, without locks. A struct stats belongs to its creator and must outlive its
 * writers. Reading: any thread.
 */
#pragma once

#include "common/base/json.h"

enum stat_kind { STAT_COUNTER, STAT_GAUGE, STAT_HISTOGRAM };

struct stat_row {
    const char *name; /* exported as PREFIX_NAME; a counter as PREFIX_NAME_total, a histogram
                         NAME_us as PREFIX_NAME_seconds */
    enum stat_kind kind;
    const char *unit; /* REQUESTS, BYTES, US (histograms; shown in seconds), ... */
    const char *doc;
};
#define STATS_ROW(name, kind, unit, doc) {#name, STAT_##kind, #unit, doc},

struct stats_table {
    const struct stat_row *rows;
    size_t n;
};

struct stats;

/* The metrics of one writer. The fields are private to stats.c and stat_add(). */
struct stats_cell {
    /* Read-only, on a cache line of its own. */
    _Alignas(CACHE_LINE_BYTES) const uint32_t *first; /* slot of each row; a histogram's with
                                                         STATS_IN_BUCKETS */
    size_t nrows;
    _Alignas(CACHE_LINE_BYTES) _Atomic int64_t slots[];
};
#define STATS_IN_BUCKETS 0x80000000u

/* Upper bounds of histogram buckets in microseconds: 1-2.5-5 steps from 100 us to 100 s, then +Inf.
 */
#define STATS_BUCKETS 20
#define STATS_FIRST_BOUND_US 100

struct stats *stats_create(const struct stats_table *t, size_t ncells);
void stats_destroy(struct stats *s);
struct stats_cell *stats_cell(struct stats *s, size_t i);

/* The owning thread only. */
/* A slot has a single writer, so an atomic read-modify-write is not needed. */
static inline void stats_slot_add(_Atomic int64_t *slot, int64_t n)
{
    int64_t v = atomic_load_explicit(slot, memory_order_relaxed);

    /* On overflow the value wraps; signed overflow would be undefined. */
    v = (int64_t)((uint64_t)v + (uint64_t)n);
    atomic_store_explicit(slot, v, memory_order_relaxed);
}
/* Adds N to a counter, or to a gauge (N may be negative). */
static inline void stat_add(struct stats_cell *c, size_t row, int64_t n)
{
    ASSERT(row < c->nrows);
    uint32_t slot = c->first[row];
    ASSERT((slot & STATS_IN_BUCKETS) == 0);
    stats_slot_add(&c->slots[slot], n);
}
/* Adds an observation to a histogram. */
size_t stats_bucket_(uint64_t us);
static inline void stat_observe(struct stats_cell *c, size_t row, uint64_t us)
{
    ASSERT(row < c->nrows);
    uint32_t first = c->first[row];
    ASSERT((first & STATS_IN_BUCKETS) != 0);
    _Atomic int64_t *slots = &c->slots[first & ~STATS_IN_BUCKETS];
    /* Most waiting times are zero. */
    stats_slot_add(&slots[us <= STATS_FIRST_BOUND_US ? 0 : stats_bucket_(us)], 1);
    stats_slot_add(&slots[STATS_BUCKETS], (int64_t)us);
}

/* Any thread. */
/* Returns the sum over all cells; for a histogram, the number of observations. */
int64_t stats_sum(const struct stats *s, size_t row);
struct stat_histogram {
    uint64_t count, sum_us, buckets[STATS_BUCKETS]; /* not cumulative */
};
void stats_histogram(const struct stats *s, size_t row, struct stat_histogram *out);
/* Estimated quantile in microseconds (linear within a bucket); 0 when empty. */
uint64_t stats_quantile(const struct stat_histogram *h, double q);

/* The upper bound of a bucket in seconds; INFINITY for the last. */
double stats_bound_s(size_t bucket);
const struct stats_table *stats_table(const struct stats *s);
/* Writes each row as a member of the object NAME; a histogram with its number of observations, and
 * the sum, mean and quantiles in microseconds. */
void stats_describe(const struct stats *s, const char *name, struct json_writer *w);
