/* SPDX-License-Identifier: Apache-2.0
 *
 * A histogram of times with bounded error: sixteen buckets to each doubling, so that a quantile is
 * right within 1/16 of itself, from 1 us to above an hour, in 2 KiB. Plain computation; belongs to
 * whoever embeds it; one thread at a time. Zeroed, it is empty.
 */
#ifndef RLB_STATS_HISTOGRAM_H
#define RLB_STATS_HISTOGRAM_H

#include "common/base/base.h"

enum {
    HISTOGRAM_STEPS = 16, /* to each doubling */
    /* The first 16 are 0..15 us, one each; then 28 doublings, up to 2^32 us. */
    HISTOGRAM_BUCKETS = HISTOGRAM_STEPS * 29,
};

struct histogram {
    float n[HISTOGRAM_BUCKETS];
};

/* Count a time of US microseconds (above 2^32 - 1: as that), WEIGHT times. One addition. */
void histogram_add(struct histogram *h, uint64_t us, double weight);
/* As if each had been counted FACTOR times: 0..1, for a window that forgets. */
void histogram_scale(struct histogram *h, double factor);
double histogram_count(const struct histogram *h);
/* The time in microseconds that a share Q (0..1) is not above, within 1/16; 0 when empty. */
double histogram_quantile(const struct histogram *h, double q);

#endif
