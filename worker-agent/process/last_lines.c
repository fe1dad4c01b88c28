/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/process/last_lines.h"

#include <stdlib.h>

static struct last_line *line_at(struct last_lines *l, size_t i)
{
    return &l->ring[(l->first + i) % LAST_LINES_MAX];
}

void last_lines_add(struct last_lines *l, struct slice line)
{
    struct last_line *to;

    if (l->n == LAST_LINES_MAX) {
        free(l->ring[l->first].bytes);
        l->first = (l->first + 1) % LAST_LINES_MAX;
        --l->n;
    }
    to = line_at(l, l->n++);
    to->cut = line.len > LAST_LINE_BYTES_MAX;
    to->len = to->cut ? LAST_LINE_BYTES_MAX : line.len;
    to->bytes = xmalloc(to->len + 1);
    memcpy(to->bytes, line.len != 0 ? line.p : "", to->len);
}

void last_lines_cut(struct last_lines *l)
{
    if (l->n > 0)
        line_at(l, l->n - 1)->cut = true;
}

const struct last_line *last_lines_at(const struct last_lines *l, size_t i)
{
    ASSERT(i < l->n);
    return &l->ring[(l->first + i) % LAST_LINES_MAX];
}

void last_lines_show(const struct last_lines *l, size_t i, struct text *out)
{
    const struct last_line *line = last_lines_at(l, i);

    text_add_visible(out, (struct slice){line->bytes, line->len});
    if (line->cut)
        text_add(out, SLICE_LIT(" ..."));
}

void last_lines_copy(struct last_lines *to, const struct last_lines *from)
{
    ASSERT(to->n == 0);
    for (size_t i = 0; i < from->n; ++i) {
        const struct last_line *line = last_lines_at(from, i);

        last_lines_add(to, (struct slice){line->bytes, line->len});
        if (line->cut)
            last_lines_cut(to);
    }
}

void last_lines_fini(struct last_lines *l)
{
    for (size_t i = 0; i < l->n; ++i)
        free(line_at(l, i)->bytes);
    *l = (struct last_lines){0};
}
