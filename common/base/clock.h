/* SPDX-License-Identifier: Apache-2.0
 *
 * The clocks. Loops read the monotonic clock once a turn and pass the result on; plain computation
 * never calls these. Any thread.
 */
#pragma once

#include <stdint.h>

/* CLOCK_MONOTONIC in microseconds. */
uint64_t clock_mono_us(void);
/* CLOCK_REALTIME in microseconds since 1970. */
uint64_t clock_wall_us(void);
