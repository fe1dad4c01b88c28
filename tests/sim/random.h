/* SPDX-License-Identifier: Apache-2.0
 *
 * Randomness that a seed repeats. The seed is RLB_SEED in the environment, else a fixed one; tests
 * print it. Embedded; one thread.
 */
#ifndef RLB_TESTS_SIM_RANDOM_H
#define RLB_TESTS_SIM_RANDOM_H

#include <stdint.h>

struct random {
    uint64_t state;
};

uint64_t random_seed(void);
struct random random_of(uint64_t seed);
/* 0 .. n-1; N >= 1. */
uint32_t random_below(struct random *r, uint32_t n);
/* In [0, 1). */
double random_unit(struct random *r);

#endif
