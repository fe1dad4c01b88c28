/* SPDX-License-Identifier: Apache-2.0
 *
 * Factors of the constants of policy adaptive, for bench/adaptive_ablation, from RLB_HOMES_FACTORS
 * in the environment: NAME=FACTOR,NAME=FACTOR. Constants without one have their usual values.
 */
#include <stdio.h>
#include <stdlib.h>

/* Generated. */
#include "routing/homes/homes_internal.h"

static const char *const names[] = {HOMES_FACTOR_NAMES};
double homes_factors[ARRAY_LEN(names)];

/* Before main(), which is that of resumelbctl. */
__attribute__((constructor)) static void read_factors(void)
{
    struct slice rest = slice_of(getenv("RLB_HOMES_FACTORS"));

    for (size_t i = 0; i < ARRAY_LEN(names); ++i)
        homes_factors[i] = 1;
    while (rest.len != 0) {
        struct slice value = slice_cut(&rest, ',');
        struct slice name = slice_cut(&value, '=');
        size_t i = 0;

        while (i < ARRAY_LEN(names) && !slice_is(name, names[i]))
            ++i;
        if (i == ARRAY_LEN(names) || !parse_double(value, &homes_factors[i])) {
            fprintf(stderr, "RLB_HOMES_FACTORS: no such constant, or not a number: %.*s\n",
                    SLICE_FMT(name));
            exit(2);
        }
    }
}
