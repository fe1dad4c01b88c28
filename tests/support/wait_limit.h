/* SPDX-License-Identifier: Apache-2.0
 *
 * The one limit of any wait for a condition in the tests of units: 60 s times RLB_PATIENCE, which
 * says how much slower instrumented programs are. CTest's own limits lie above it.
 */
#pragma once

#include <stdint.h>
#include <stdlib.h>

static inline uint64_t wait_limit_ms(void)
{
    const char *patience = getenv("RLB_PATIENCE");
    double times = patience != NULL ? strtod(patience, NULL) : 1;

    return (uint64_t)(60000 * (times >= 1 ? times : 1));
}

#define WAIT_LIMIT_MS wait_limit_ms()
