/* SPDX-License-Identifier: Apache-2.0
 *
 * Every piece of the text before is found by its hash; a run continues for as long as the following
 * pieces are the same. Of equal pieces the hash finds the first one; where pieces have only been
 * replaced, the one at the same place is tried before that.
 */
#include "common/program/line_delta.h"

#include <stdlib.h>

#include "common/base/map.h"

enum { ALIGNED_MIN = 8 /* pieces in a run that determine the position in the previous text */ };

struct index {
    struct slice *pieces;
    size_t n;
    uint32_t *places; /* number of a piece, plus 1; open addressing */
    size_t mask;
};

static size_t count_pieces(struct slice s, char end)
{
    size_t n = 0;

    for (; s.len != 0; ++n)
        slice_cut(&s, end);
    return n;
}

static bool same(struct slice a, struct slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.p, b.p, a.len) == 0);
}

/* The place of PIECE: that of an equal one, or an empty one. */
static uint32_t *place_of(const struct index *x, struct slice piece)
{
    size_t at = (size_t)map_hash(piece.p != NULL ? piece.p : "", piece.len) & x->mask;

    while (x->places[at] != 0 && !same(x->pieces[x->places[at] - 1], piece))
        at = (at + 1) & x->mask;
    return &x->places[at];
}

static void index_pieces(struct slice s, char end, struct index *x)
{
    size_t room = 16;

    x->n = count_pieces(s, end);
    ASSERT(x->n < UINT32_MAX);
    while (room < 2 * x->n)
        room *= 2;
    x->mask = room - 1;
    x->pieces = xcalloc(x->n + 1, sizeof(x->pieces[0]));
    x->places = xcalloc(room, sizeof(x->places[0]));
    for (size_t i = 0; i < x->n; ++i) {
        x->pieces[i] = slice_cut(&s, end);
        uint32_t *place = place_of(x, x->pieces[i]);
        if (*place == 0)
            *place = (uint32_t)i + 1;
    }
}

static void add_run(size_t from, size_t n, struct text *out)
{
    if (n == 0)
        return;
    text_add_char(out, '=');
    text_add_u64(out, from);
    text_add_char(out, ',');
    text_add_u64(out, n);
    text_add_char(out, '\n');
}

void line_delta(struct slice before, struct slice now, char end, struct text *out)
{
    struct index x;
    size_t from = 0; /* of the run */
    size_t n = 0;
    size_t aligned = 0; /* the place in BEFORE, if pieces have only been replaced */

    index_pieces(before, end, &x);
    while (now.len != 0) {
        struct slice piece = slice_cut(&now, end);

        if (n != 0 && from + n < x.n && same(x.pieces[from + n], piece)) {
            ++n;
            aligned = n >= ALIGNED_MIN ? from + n : aligned + 1;
            continue;
        }
        add_run(from, n, out);
        n = 1;
        uint32_t place = *place_of(&x, piece);
        if (aligned < x.n && same(x.pieces[aligned], piece)) {
            from = aligned;
        } else if (place != 0) {
            from = place - 1;
        } else {
            n = 0;
            text_add_char(out, '+');
            text_add(out, piece);
            text_add_char(out, '\n');
        }
        ++aligned;
    }
    add_run(from, n, out);
    free(x.pieces);
    free(x.places);
}
