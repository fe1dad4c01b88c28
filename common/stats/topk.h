/* SPDX-License-Identifier: Apache-2.0
 *
 * Which keys have the largest sums: a summary of bounded size. It is the "space saving" of
 * Metwally, Agrawal and El Abbadi, "Efficient computation of frequent and top-k elements in data
 * streams" (2005), with weights: when it is full, a new key replaces the one with the least sum,
 * and inherits that sum as its possible error. Therefore
 *
 *   - no sum is too small, and none is too large by more than its `over`;
 *   - `over` is at most the total, divided by the number of entries;
 *   - a key with a larger sum than that is in it.
 *
 * Plain computation; one thread at a time.
 */
#pragma once

#include "common/base/base.h"

enum { TOPK_ENTRIES = 64 /* sufficient for a status page */ };

struct topk;

struct topk_row {
    struct slice key; /* borrowed: valid until the next call that changes the summary */
    uint64_t sum;     /* upper bound; SUM - OVER is the lower bound */
    uint64_t over;
    uint64_t count; /* number of additions since the key was added; earlier ones are unknown */
};

/* ENTRIES must be at least 1. Keys are truncated to KEY_MAX bytes. */
struct topk *topk_create(size_t entries, size_t key_max);
/* TOP may be NULL. */
void topk_destroy(struct topk *top);

/*
 * Adds WEIGHT to the sum of KEY, of which at most KEY_MAX bytes are copied. Does nothing with a
 * weight of 0, or without memory for the copy. Cost: O(log entries).
 */
void topk_add(struct topk *top, struct slice key, uint64_t weight);
/* Halves all sums, so that old additions count less. Cost: O(entries). */
void topk_halve(struct topk *top);
/* Changes the number of entries; the keys with the largest sums are retained. After an increase,
 * the sums of keys that had been replaced may be too small. */
void topk_resize(struct topk *top, size_t entries);
/* Returns the sum of all sums. */
uint64_t topk_total(const struct topk *top);
/* Stores up to N rows by descending sum. Returns their number. Cost: O(entries log entries). */
size_t topk_read(const struct topk *top, struct topk_row *rows, size_t n);
