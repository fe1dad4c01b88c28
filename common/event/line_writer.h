/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of lines with a worker thread: whoever has something to say leaves a record in a
 * buffer; the writer takes it, has lines made of it and writes them. Neither a slow disk nor the
 * making of text costs the caller time. The buffers are bounded; records over the bound are dropped
 * and counted. Made and destroyed by one thread; buffers may be used by one thread each.
 * Locks: each buffer's, held to append or to swap.
 */
#ifndef RLB_EVENT_LINE_WRITER_H
#define RLB_EVENT_LINE_WRITER_H

#include "common/base/err.h"
#include "common/base/text.h"

struct line_writer;

struct line_writer_options {
    const char *file; /* appended to; "-" is standard output */
    unsigned nbuffers;
    /*
     * Take the first record off RECORDS, which begins at one, and append its line, with its end, to
     * LINES. On the writer's thread.
     */
    void (*print)(void *context, struct slice *records, struct text *lines);
    void *context;
    /* Events of our log: FILE could not be opened anew, or not written. */
    const char *open_event, *write_event;
};

/* Starts the writer. Errors: ERR_SYSTEM (errno says): FILE cannot be opened; a FIFO: nobody reads
 * it. */
enum err line_writer_create(const struct line_writer_options *o,
                            struct line_writer **out) must_check;
/* Where to append one record of buffer I: line_writer_end follows soon, the lock is held. NULL: it
 * is full, and the record is counted as dropped. */
struct text *line_writer_begin(struct line_writer *w, unsigned i) must_check;
void line_writer_end(struct line_writer *w, unsigned i);
/* Any thread: what is buffered goes to the old file, then the name is opened anew. */
void line_writer_reopen(struct line_writer *w);
/* Any thread.
 *   written  lines given to the file
 *   dropped  the writer could not keep up, or could not write */
void line_writer_count(const struct line_writer *w, uint64_t *written, uint64_t *dropped);
/* Writes what is left, unless nobody takes it. NULL is fine. */
void line_writer_destroy(struct line_writer *w);

#endif
