/* SPDX-License-Identifier: Apache-2.0
 *
 * splitmix64: a counter and a mixing function, good enough for loads of work.
 */
#include "sim/draw.h"

#include <math.h>

static const uint64_t STEP
= 0x9E3779B97F4A7C15ULL;

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
}

uint64_t draw_mix(uint64_t a, uint64_t b)
{
    return mix(mix(a + STEP) + b);
}

struct draw draw_of(uint64_t seed)
{
    return (struct draw)
    {
        mix(seed + STEP)
    };
}

uint64_t draw_bits(struct draw *d)
{
    d->state += STEP;
    return mix(d->state);
}

uint32_t draw_below(struct draw *d, uint32_t n)
{
    return (uint32_t)((draw_bits(d) >> 32) * n >> 32);
}

double draw_unit(struct draw *d)
{
    return (double)(draw_bits(d) >> 11) * 0x1p-53;
}

double draw_gauss(struct draw *d)
{
    /* Box and Muller; 1 - u is never 0. */
    double radius = sqrt(-2 * log(1 - draw_unit(d)));

    return radius * cos(2 * M_PI * draw_unit(d));
}

double draw_exponential(struct draw *d)
{
    return -log(1 - draw_unit(d));
}
