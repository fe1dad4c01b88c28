/* SPDX-License-Identifier: Apache-2.0
 *
 * How often something may happen, by key: a token bucket each, kept as one time (the generic cell
 * rate algorithm, ITU-T I.371, in its virtual scheduling form). A key's bucket is full when the
 * table does not have it, so the one used least recently may go when room is wanted. Plain
 * computation; owned by whoever made it, one thread at a time. Keys are 64 bits of a hash that
 * nobody outside can foresee (map_hash): two that share a bucket are that rare.
 */
#ifndef RLB_LIMITER_RATE_H
#define RLB_LIMITER_RATE_H

#include "common/base/err.h"

enum {
    /* Keys of one table. */
    RATE_KEYS_MAX = 10000000,
};
/* interval_ns * burst: what a bucket may take to fill. */
#define RATE_FILL_MAX_NS (30ULL * 24 * 3600 * 1000000000)

struct rate {
    uint64_t interval_ns; /* from one to the next, when they come evenly; at least 1 */
    uint64_t burst;       /* so many may come at once; at least 1 */
};

/*
 * "100/s", "5/m", "1000/h", "1/d": 1 to 1000000 in a second, minute, hour or day. *COUNT is that
 * number. Errors: ERR_SYNTAX, ERR_RANGE.
 */
enum err rate_parse(struct slice text, uint64_t *count, uint64_t *interval_ns) must_check;

struct rate_table;
/* MAX_KEYS 1..RATE_KEYS_MAX; memory is taken as keys come. */
struct rate_table *rate_table_create(size_t max_keys);
/* NULL is fine. */
void rate_table_destroy(struct rate_table *t);
/*
 * One of KEY at NOW_NS, by R: 0 when it may, else for how many nanoseconds from now on it may not,
 * and nothing has changed. Time may go back a little (loops have clocks of their own): then fewer
 * may. R may be another one than the last time; nobody then waits for longer than one interval
 * above a bucket of R's. Cost: O(1).
 */
uint64_t rate_take(struct rate_table *t, uint64_t key, uint64_t now_ns, const struct rate *r);
size_t rate_table_keys(const struct rate_table *t);
/* Keys that went to make room. */
uint64_t rate_table_evicted(const struct rate_table *t);
/* Asserts what must hold of T; O(keys). */
void rate_table_check(const struct rate_table *t);

#endif
