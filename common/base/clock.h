/* SPDX-License-Identifier: Apache-2.0
 *
 * The monotonic clock. Loops read it once a turn and pass the result on; plain computation never
 * calls this. Any thread.
 */
#ifndef RLB_BASE_CLOCK_H
#define RLB_BASE_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC in microseconds. */
uint64_t clock_mono_us(void);

#endif
