/* SPDX-License-Identifier: Apache-2.0 */
#include "common/event/log_writer.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "common/event/line_writer.h"

struct log_writer {
    struct log_sink sink;
    struct line_writer *lines;
};

static bool log_writer_add(struct log_sink *sink, struct slice line)
{
    struct log_writer *w = container_of(sink, struct log_writer, sink);
    struct text *records = line_writer_begin(w->lines, 0);

    if (records == NULL)
        return false;
    text_add(records, line);
    line_writer_end(w->lines, 0);
    return true;
}

static void print_line(unused_ void *context, struct slice *records, struct text *lines)
{
    text_add(lines, slice_cut(records, '\n'));
    text_add_char(lines, '\n');
}

static void count_lost(unused_ void *context, uint64_t n)
{
    log_count_dropped(n);
}

void log_writer_start(void)
{
    struct log_writer *w = xcalloc(1, sizeof(*w));
    /* Lines are written at once: the last ones before a crash are the most important ones. */
    const struct line_writer_options o = {.output = log_output(),
                                          .nbuffers = 1,
                                          .print = print_line,
                                          .lost = count_lost,
                                          .context = w};

    w->sink.add = log_writer_add;
    enum err err = line_writer_create(&o, &w->lines);
    ASSERT(err == ERR_OK);
    struct log_sink *before = log_divert(&w->sink);
    ASSERT(before == NULL);
}

void log_writer_stop(void)
{
    struct log_sink *sink = log_divert(NULL);

    if (sink == NULL)
        return;
    struct log_writer *w = container_of(sink, struct log_writer, sink);
    if (line_writer_destroy(w->lines))
        free(w);
}
