/* SPDX-License-Identifier: Apache-2.0
 *
 * Pieces of the previous text are found by their hash; a run continues as long as the following
 * pieces are equal. Of equal pieces the hash finds the first one; the piece at the same place is
 * tried before that, as it is the right one if pieces have only been replaced.
 */
#include "common/program/line_delta.h"

#include <stdlib.h>

#include "common/base/map.h"

enum { ALIGNED_MIN = 8 /* pieces in a run that determine the position in the previous text */ };

struct piece {
    struct map_node node; /* in the index, unless an equal piece is before it */
    struct slice text;
};

struct pieces {
    struct piece *items;
    size_t n;
    struct map index;
};

static bool is_at(const struct pieces *x, size_t i, struct slice text)
{
    return i < x->n && slice_eq(x->items[i].text, text);
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
    struct pieces x = {0};
    size_t room = 1;
    size_t from = 0; /* of the run */
    size_t n = 0;
    size_t aligned = 0; /* the place in BEFORE, if pieces have only been replaced */

    for (struct slice rest = before; rest.len != 0; ++room)
        slice_cut(&rest, end);
    x.items = xcalloc(room, sizeof(struct piece));
    while (before.len != 0) {
        struct piece *p = &x.items[x.n++];

        p->text = slice_cut(&before, end);
        if (map_find(&x.index, p->text.p, p->text.len) == NULL)
            map_add(&x.index, &p->node, p->text.p, p->text.len);
    }
    while (now.len != 0) {
        struct slice piece = slice_cut(&now, end);

        if (n != 0 && is_at(&x, from + n, piece)) {
            ++n;
            aligned = n >= ALIGNED_MIN ? from + n : aligned + 1;
            continue;
        }
        add_run(from, n, out);
        n = 1;
        const struct piece *found =
            map_entry(map_find(&x.index, piece.p, piece.len), struct piece, node);
        if (is_at(&x, aligned, piece)) {
            from = aligned;
        } else if (found != NULL) {
            from = (size_t)(found - x.items);
        } else {
            n = 0;
            text_add_char(out, '+');
            text_add(out, piece);
            text_add_char(out, '\n');
        }
        ++aligned;
    }
    add_run(from, n, out);
    map_clear(&x.index);
    free(x.items);
}
