/* SPDX-License-Identifier: Apache-2.0
 *
 *   full_ns   when the key's bucket will be full; if in the past, it is full
 *   level     = burst * interval - (full_ns - now), in nanoseconds' worth of tokens
 *   allowed   if level >= interval, that is full_ns - now <= (burst - 1) * interval
 */
#include "common/counters/rate.h"

#include "common/base/text.h"

enum { COUNT_MAX = 1000000 };

enum err rate_parse(struct slice text, uint64_t *count, uint64_t *interval_ns)
{
    static const struct {
        const char *unit;
        uint64_t ns;
    } units[] = {{"s", 1000000000ULL},
                 {"m", 60ULL * 1000000000},
                 {"h", 3600ULL * 1000000000},
                 {"d", 24ULL * 3600 * 1000000000}};
    struct slice unit = text;
    struct slice number = slice_cut(&unit, '/');
    uint64_t n = 0;

    for (size_t i = 0; i < ARRAY_LEN(units); ++i) {
        if (!slice_is(unit, units[i].unit))
            continue;
        if (!parse_u64(number, UINT64_MAX, &n))
            return ERR_SYNTAX;
        if (n == 0 || n > COUNT_MAX)
            return ERR_RANGE;
        *count = n;
        *interval_ns = units[i].ns / n;
        return ERR_OK;
    }
    return ERR_SYNTAX;
}

uint64_t rate_take(struct lru *t, uint64_t key, uint64_t now_ns, const struct rate *r)
{
    uint64_t spare_ns = (r->burst - 1) * r->interval_ns;

    ASSERT(r->interval_ns >= 1);
    ASSERT(r->burst >= 1);
    ASSERT(r->interval_ns <= RATE_FILL_MAX_NS / r->burst);
    (void)lru_use(t, key);
    uint64_t *full_ns = lru_value(t);
    uint64_t debt_ns = *full_ns > now_ns ? *full_ns - now_ns : 0;
    /* The debt may be from another rate: limit it to that of an empty bucket of R. */
    if (debt_ns > spare_ns + r->interval_ns)
        debt_ns = spare_ns + r->interval_ns;
    if (debt_ns > spare_ns)
        return debt_ns - spare_ns;
    *full_ns = now_ns + debt_ns + r->interval_ns;
    return 0;
}
