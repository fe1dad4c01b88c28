/* SPDX-License-Identifier: Apache-2.0
 *
 * Every line of the text before is found by its hash; a run goes on for as long as the lines behind
 * are the same, which also tells lines apart that stand there more than once.
 */
#include "common/base/line_delta.h"

#include <stdlib.h>

#include "common/base/map.h"

struct index {
    struct slice *lines;
    size_t n;
    uint32_t *places; /* number of a line, plus 1; open addressing */
    size_t mask;
};

static size_t count_lines(struct slice s)
{
    size_t n = 0;

    for (; s.len != 0; ++n)
        slice_cut(&s, '\n');
    return n;
}

static bool same(struct slice a, struct slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.p, b.p, a.len) == 0);
}

/* The place of LINE: that of an equal one, or an empty one. */
static uint32_t *place_of(const struct index *x, struct slice line)
{
    size_t at = (size_t)map_hash(line.p != NULL ? line.p : "", line.len) & x->mask;

    while (x->places[at] != 0 && !same(x->lines[x->places[at] - 1], line))
        at = (at + 1) & x->mask;
    return &x->places[at];
}

static void index_lines(struct slice s, struct index *x)
{
    size_t room = 16;

    x->n = count_lines(s);
    ASSERT(x->n < UINT32_MAX);
    while (room < 2 * x->n)
        room *= 2;
    x->mask = room - 1;
    x->lines = xcalloc(x->n + 1, sizeof(x->lines[0]));
    x->places = xcalloc(room, sizeof(x->places[0]));
    for (size_t i = 0; i < x->n; ++i) {
        x->lines[i] = slice_cut(&s, '\n');
        uint32_t *place = place_of(x, x->lines[i]);
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

void line_delta(struct slice before, struct slice now, struct text *out)
{
    struct index x;
    size_t from = 0; /* of the run */
    size_t n = 0;

    index_lines(before, &x);
    while (now.len != 0) {
        struct slice line = slice_cut(&now, '\n');

        if (n != 0 && from + n < x.n && same(x.lines[from + n], line)) {
            ++n;
            continue;
        }
        add_run(from, n, out);
        n = 0;
        uint32_t place = *place_of(&x, line);
        if (place != 0) {
            from = place - 1;
            n = 1;
            continue;
        }
        text_add_char(out, '+');
        text_add(out, line);
        text_add_char(out, '\n');
    }
    add_run(from, n, out);
    free(x.lines);
    free(x.places);
}
