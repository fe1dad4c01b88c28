/* SPDX-License-Identifier: Apache-2.0
 *
 * A rate that is taken has an interval and a count within their bounds, and lets its first request
 * pass but not more than its burst of them at once.
 */
#include "common/counters/rate.h"

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rate r = {.burst = 2};
    uint64_t count = 0;

    if (rate_parse((struct slice){(const char *)data, size}, &count, &r.interval_ns) != ERR_OK) {
        ASSERT(count == 0);
        ASSERT(r.interval_ns == 0);
        return 0;
    }
    ASSERT(count >= 1);
    ASSERT(count <= 1000000);
    ASSERT(r.interval_ns >= 1);
    struct lru *t = lru_create(1);
    ASSERT(rate_take(t, 1, 0, &r) == 0);
    ASSERT(rate_take(t, 1, 0, &r) == 0);
    ASSERT(rate_take(t, 1, 0, &r) == r.interval_ns);
    lru_destroy(t);
    return 0;
}
