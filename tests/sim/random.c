/* SPDX-License-Identifier: Apache-2.0
 *
 * splitmix64: a counter and a mixing function, good enough for loads of work.
 */
#include "tests/sim/random.h"

#include <stdlib.h>

#include "common/base/text.h"

static const uint64_t SEED_DEFAULT = 20;

uint64_t random_seed(void)
{
    uint64_t seed;

    return parse_u64(slice_of(getenv("RLB_SEED")), UINT64_MAX, &seed) ? seed : SEED_DEFAULT;
}

struct random random_of(uint64_t seed)
{
    return (struct random){seed};
}

static uint64_t next(struct random *r)
{
    uint64_t z = r->state += 0x9E3779B97F4A7C15ULL;

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
}

uint32_t random_below(struct random *r, uint32_t n)
{
    return (uint32_t)((next(r) >> 32) * n >> 32);
}

double random_unit(struct random *r)
{
    return (double)(next(r) >> 11) * 0x1p-53;
}
