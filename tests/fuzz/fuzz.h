/* SPDX-License-Identifier: Apache-2.0
 *
 * A fuzz target: one function over bytes, which asserts what must hold whatever they are. Built
 * with libFuzzer under RLB_FUZZ, and always with replay.c, which runs it over kept inputs.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
