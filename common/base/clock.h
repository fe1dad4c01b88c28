/* SPDX-License-Identifier: Apache-2.0
 *
 * The two clocks. Loops read them once a turn and pass the result on; plain computation never calls
 * this. Any thread.
 */
#ifndef RLB_BASE_CLOCK_H
#define RLB_BASE_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC in microseconds. */
uint64_t clock_mono_us(void);
/* CLOCK_REALTIME in milliseconds since the epoch. */
uint64_t clock_wall_ms(void);

#endif
