/* SPDX-License-Identifier: Apache-2.0
 *
 * The access log: one line per exchange (access_line.h).
 * Made and destroyed by the control thread (lb.c); outlives the data loops. Each loop copies what a
 * line into a buffer of its own; a line_writer makes lines of it, on its thread.
 */
#ifndef RLB_LB_ACCESS_ACCESS_LOG_H
#define RLB_LB_ACCESS_ACCESS_LOG_H

#include "common/base/err.h"
#include "lb/access/access_line.h"

struct access_log;

struct access_options {
    enum access_format format;
    uint64_t fields;  /* bits of enum access_field */
    double sample;    /* the part of the lines that is written; 0..1 */
    bool keep_errors; /* ... but of errors each one */
};

/*
 * Opens FILE for appending ("-": standard output) and starts the writer thread. Returns ERR_SYSTEM
 * and sets errno if FILE cannot be opened, or if it is a FIFO without a reader.
 */
enum err access_log_create(const char *file, const struct access_options *o, unsigned nloops,
                           struct access_log **out) must_check;
/* Any thread: later lines are as O specifies. */
void access_log_set(struct access_log *log, const struct access_options *o);
/* Any thread. Writes buffered lines to the old file, then reopens the file by its name. */
void access_log_reopen(struct access_log *log);

/* Whether the next line of loop LOOP_INDEX is one of the sample; to be asked once for each, on its
 * thread. */
bool access_log_wants(struct access_log *log, unsigned loop_index, bool error);
/*
 * Where data loop LOOP_INDEX puts the record of its next line (access_line.h), on its thread:
 * nothing else until access_log_end. NULL: the writer cannot keep up, and the line is dropped;
 * nothing is to be ended then.
 */
struct text *access_log_begin(struct access_log *log, unsigned loop_index);
void access_log_end(struct access_log *log, unsigned loop_index);
/* The same for a line that is an entry already. */
void access_log_add(struct access_log *log, unsigned loop_index, const struct access_entry *e);

struct access_counts {
    uint64_t written;  /* lines given to the file */
    uint64_t dropped;  /* the writer could not keep up, or could not write */
    uint64_t left_out; /* by `sample` */
};
/* Any thread. */
void access_log_count(const struct access_log *log, struct access_counts *out);
/* Writes the remaining lines, unless the file does not accept them. LOG may be NULL. */
void access_log_destroy(struct access_log *log);

#endif
