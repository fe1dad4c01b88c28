/* SPDX-License-Identifier: Apache-2.0
 *
 * The difference of two texts, piece by piece, for a reader that has the first one and needs the
 * second: of the lines of a text, or the members of a JSON document. Any thread; stateless.
 */
#pragma once

#include "common/base/text.h"

/*
 * Appends the steps that convert BEFORE to NOW, one per line. The pieces of both texts end in END.
 *   =FROM,COUNT   COUNT pieces of BEFORE, from piece FROM on; the first piece is 0
 *   +TEXT         the piece TEXT, which must not contain a line break
 * Not always the shortest; where little is the same it may be longer than NOW. Cost: O(bytes). A
 * last piece without an end is taken to have one.
 */
void line_delta(struct slice before, struct slice now, char end, struct text *out);
