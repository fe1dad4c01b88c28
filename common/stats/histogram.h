/* SPDX-License-Identifier: Apache-2.0
 *
 * A histogram of times with bounded error: sixteen buckets per power of two, so that the relative
 * error of a quantile is at most 1/16, from 1 us to more than an hour, in 2 KiB. Plain computation;
 * one thread at a time. Embedded in its owner; all zero is empty.
 */
#pragma once

#include "common/base/base.h"

enum {
    HISTOGRAM_STEPS = 16, /* per power of two */
    /* 16 buckets for 0..15 us, one each, then 28 powers of two, up to 2^32 us. */
    HISTOGRAM_BUCKETS = HISTOGRAM_STEPS * 29,
};

struct histogram {
    float n[HISTOGRAM_BUCKETS];
};

/* Counts a time of US microseconds (larger times count as 2^32 - 1) with WEIGHT. Costs one
 * addition. */
void histogram_add(struct histogram *h, uint64_t us, double weight);
/* Multiplies all weights by FACTOR (0..1), for a window with exponential decay. */
void histogram_scale(struct histogram *h, double factor);
double histogram_count(const struct histogram *h);
/* Returns the quantile Q (0..1) in microseconds, with a relative error of at most 1/16; 0 when
 * empty. */
double histogram_quantile(const struct histogram *h, double q);
