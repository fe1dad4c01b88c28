/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a file of lines on a worker thread. Callers append records to a buffer; the writer takes
 * the records, formats them as lines and writes these. A slow disk and the formatting therefore do
 * not delay callers. The buffers are bounded; records that exceed the bound are dropped and
 * counted. A line writer is created and destroyed by one thread. Locks: one per buffer, held to
 * append or to swap; threads that share a buffer wait for one another only that long.
 */
#pragma once

#include "common/base/err.h"
#include "common/base/output.h"
#include "common/base/text.h"

struct line_writer;

enum {
    /* Of a file with many lines, so that busy threads pay one wake-up for many of them. */
    LINE_WRITER_BATCH_MS = 50,
};

struct line_writer_options {
    const char *file; /* appended to; "-" is standard output; NULL: OUTPUT, which is not closed */
    struct output output;
    unsigned nbuffers;
    /*
     * Formats the first record of RECORDS, which starts at a record boundary: removes it and
     * appends its line, including the line end, to LINES. Called on the writer's thread.
     */
    void (*print)(void *context, struct slice *records, struct text *lines);
    void *context;
    /* Called with the number of lines that could not be written, on the writer's thread; or NULL.
     */
    void (*lost)(void *context, uint64_t n);
    /* Log events for failures to reopen FILE and to write it. Not used if FILE is NULL. */
    const char *open_event, *write_event;
    unsigned batch_ms; /* a line is written at most this long after it was appended */
};

/* Starts the writer. Errors: ERR_SYSTEM with errno set if FILE cannot be opened, or is a FIFO
 * without a reader. */
enum err line_writer_create(const struct line_writer_options *o,
                            struct line_writer **out) must_check;
/*
 * Returns the text to which one record of buffer I is appended. The buffer's lock is held until
 * line_writer_end(), which must follow soon. Returns NULL if the buffer is full; the record is then
 * counted as dropped.
 */
struct text *line_writer_begin(struct line_writer *w, unsigned i) must_check;
void line_writer_end(struct line_writer *w, unsigned i);
/* Any thread. Writes the buffered records to the old file, then reopens the file by its name. */
void line_writer_reopen(struct line_writer *w);
/*
 * Any thread.
 *   written  lines written to the file
 *   dropped  records lost because the writer was too slow or failed to write
 */
void line_writer_count(const struct line_writer *w, uint64_t *written, uint64_t *dropped);
/* Writes the remaining records, for a second at most. Returns false if the thread was abandoned in
 * a write; it may still use the context then, at the end of the program. NULL is allowed. */
bool line_writer_destroy(struct line_writer *w) must_check;
