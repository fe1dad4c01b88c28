/* SPDX-License-Identifier: Apache-2.0
 *
 * Which keys have cost the most waiting: a summary of bounded size, for status pages. It is the
 * "space-saving" of Metwally, Agrawal and El Abbadi (2005), with weights: when it is full, a new
 * key takes the place of the one with the least, and inherits its sum as what may be too much. So
 *
 *   - no sum is too small, and none is too large by more than its `over_us`;
 *   - `over_us` is at most the sum of all that was added, by the number of entries;
 *   - a key that has cost more than that is in it.
 *
 * Plain computation: belongs to whoever made it, one thread at a time.
 */
#ifndef RLB_CORE_COUNTER_TOP_H
#define RLB_CORE_COUNTER_TOP_H

#include "common/base/base.h"

enum { COUNTER_TOP_ENTRIES = 64 /* a good number of them, for a page */ };

struct counter_top;

struct counter_top_row {
    struct slice key;   /* borrowed: valid until the next call that changes the summary */
    uint64_t waited_us; /* at most this, and at least this less over_us */
    uint64_t over_us;
    uint64_t waits; /* that were added since it came in; those before are not known */
};

/* ENTRIES is at least 1. */
struct counter_top *counter_top_create(size_t entries);
void counter_top_destroy(struct counter_top *top);

/*
 * KEY has cost WAITED_US microseconds of waiting. Keeps a copy of at most COUNTER_NAME_MAX bytes
 * (counter.h): no table has longer keys. Without memory for that copy, nothing is added. Cost:
 * O(log entries).
 */
void counter_top_add(struct counter_top *top, struct slice key, uint64_t waited_us);
/* Forget all. */
void counter_top_clear(struct counter_top *top);
/* Of all that was added since it was made or cleared. */
uint64_t counter_top_total_us(const struct counter_top *top);
/* The first N or fewer, the most waited for first. Returns how many. Cost: O(entries log entries)
 */
size_t counter_top_read(const struct counter_top *top, struct counter_top_row *rows, size_t n);
/* Asserts every invariant; for tests. */
void counter_top_check(const struct counter_top *top);

#endif
