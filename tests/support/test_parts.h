/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of one test program, from the table that CMake writes of them (rlb_test_programs).
 * Included before each source of the program.
 */
#pragma once

#define TEST_PART(noun) int noun##_test_part(void);
#include "test_parts.def"
#undef TEST_PART
