/* SPDX-License-Identifier: Apache-2.0
 *
 * What has changed between two texts, line by line, for who has the one and wants the other. Any
 * thread; stateless.
 */
#ifndef RLB_BASE_LINE_DELTA_H
#define RLB_BASE_LINE_DELTA_H

#include "common/base/text.h"

/*
 * Appends what makes NOW of BEFORE, a line for each step:
 *   =FROM,COUNT   COUNT lines of BEFORE, from line FROM on; the first line is 0
 *   +TEXT         the line TEXT
 * Not always the shortest; where little is the same it may be longer than NOW. Cost: O(bytes). A
 * last line without an end is taken to have one.
 */
void line_delta(struct slice before, struct slice now, struct text *out);

#endif
