/* SPDX-License-Identifier: Apache-2.0
 *
 * Rate limits by key: a token bucket for each key, stored as a single time (the generic cell rate
 * algorithm, ITU-T I.371, in its virtual scheduling form). A key that is not in the table has a
 * full bucket, so the least recently used entry can be evicted to make room. Pure computation;
 * owned by its creator, one thread at a time. Keys are 64 bits of a hash that cannot be predicted
 * from the outside (map_hash), so two keys rarely share a bucket.
 */
#pragma once

#include "common/base/err.h"
#include "common/base/lru.h"

enum {
    /* Keys of one table. */
    RATE_KEYS_MAX = 10000000,
};
/* Maximum of interval_ns * burst, the time in which an empty bucket fills. */
#define RATE_FILL_MAX_NS (30ULL * 24 * 3600 * 1000000000)

struct rate {
    uint64_t interval_ns; /* time in which one token is added; at least 1 */
    uint64_t burst;       /* number of tokens in a full bucket; at least 1 */
};

/*
 * "100/s", "5/m", "1000/h", "1/d": 1 to 1000000 in a second, minute, hour or day. *COUNT is that
 * number. Errors: ERR_SYNTAX, ERR_RANGE.
 */
enum err rate_parse(struct slice text, uint64_t *count, uint64_t *interval_ns) must_check;

/*
 * Takes one token of KEY at NOW_NS under R; T, of at most RATE_KEYS_MAX keys, is for this alone.
 * Returns 0 if it was taken; otherwise the time in nanoseconds from now until one is available, and
 * nothing has changed. Time may go back a little (loops have clocks of their own); fewer tokens are
 * then available. R may differ from the previous call's; the wait is then at most one interval
 * longer than with a bucket of R's. Cost: O(1).
 */
uint64_t rate_take(struct lru *t, uint64_t key, uint64_t now_ns, const struct rate *r);
