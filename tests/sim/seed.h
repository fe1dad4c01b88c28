/* SPDX-License-Identifier: Apache-2.0
 *
 * The seed of a simulation: RLB_SEED in the environment, else a fixed one. Tests print it.
 */
#pragma once

#include <stdlib.h>

#include "common/base/text.h"

static inline uint64_t simulation_seed(void)
{
    enum { USUAL = 20 };
    uint64_t seed;

    return parse_u64(slice_of(getenv("RLB_SEED")), UINT64_MAX, &seed) ? seed : USUAL;
}
