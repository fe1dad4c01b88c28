/* SPDX-License-Identifier: Apache-2.0
 *
 * Randomness that a seed repeats, on every machine. Embedded; one thread.
 */
#ifndef RLB_SIM_DRAW_H
#define RLB_SIM_DRAW_H

#include <stdint.h>

struct draw {
    uint64_t state;
};

/* Two seeds next to each other draw nothing alike. */
struct draw draw_of(uint64_t seed);
uint64_t draw_bits(struct draw *d);
/* 0 .. n-1; N >= 1. */
uint32_t draw_below(struct draw *d, uint32_t n);
/* In [0, 1). */
double draw_unit(struct draw *d);
/* Normal, mean 0, standard deviation 1. */
double draw_gauss(struct draw *d);
/* Exponential, mean 1. */
double draw_exponential(struct draw *d);
/* Mixes A and B: as good as drawn, and always the same. */
uint64_t draw_mix(uint64_t a, uint64_t b);

#endif
