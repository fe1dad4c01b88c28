/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/clock.h"

#include <time.h>

static uint64_t read_us(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

uint64_t clock_mono_us(void)
{
    return read_us(CLOCK_MONOTONIC);
}

uint64_t clock_wall_us(void)
{
    return read_us(CLOCK_REALTIME);
}
