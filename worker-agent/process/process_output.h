/* SPDX-License-Identifier: Apache-2.0
 *
 * What a process writes to its standard output and error: passed to our log line by line, bounded
 * in length and number, and the last lines kept, for the day it dies. Embedded in the process.
 * Control loop only.
 */
#ifndef RLB_AGENT_PROCESS_PROCESS_OUTPUT_H
#define RLB_AGENT_PROCESS_PROCESS_OUTPUT_H

#include "common/base/text.h"
#include "common/event/loop.h"
#include "common/stats/stats.h"

/* ---- the last lines: plain computation; a zeroed struct is empty ---- */

enum {
    /* A traceback of a deep framework, or what a server says of its configuration. */
    LAST_LINES_MAX = 40,
    /* Bytes kept of a line; with all of them 20 KB per process, at the worst. */
    LAST_LINE_BYTES_MAX = 500,
};

struct last_line {
    char *bytes;
    size_t len;
    bool cut; /* there was more of it */
};

struct last_lines {
    struct last_line ring[LAST_LINES_MAX];
    size_t first, n;
};

/* LINE, without its end, is the newest; the oldest gives way. Copied. */
void last_lines_add(struct last_lines *l, struct slice line);
/* There was more of the newest one than add was given. Harmless when there is none. */
void last_lines_cut(struct last_lines *l);
/* I < L->n; 0 is the oldest. Borrowed until L changes. */
const struct last_line *last_lines_at(const struct last_lines *l, size_t i);
/* Line I made safe for a terminal, a log and a page (text_add_visible), with " ..." when cut. */
void last_lines_show(const struct last_lines *l, size_t i, struct text *out);
/* TO, which is empty, gets a copy of FROM. */
void last_lines_copy(struct last_lines *to, const struct last_lines *from);
/* Empty again. */
void last_lines_fini(struct last_lines *l);

/* ---- the output of one process ---- */

enum {
    /* Bytes of a line; a longer one is cut into several. */
    OUTPUT_LINE_MAX = 2000,
    /* Lines per second and process; beyond it they are counted only. */
    OUTPUT_LINES_PER_S = 500,
};

struct process_output {
    struct loop *loop;
    struct stats_cell *stats; /* the application's, or NULL */
    const void *subject;      /* for log lines */
    struct watch *watch;
    int fd; /* -1: none */
    char line[OUTPUT_LINE_MAX];
    size_t len;
    uint64_t second;
    unsigned lines; /* in this second */
    unsigned dropped;
    bool muted;
    bool within; /* within a line, of which the beginning was already passed on */
    struct last_lines last;
};

/* Starts reading FD. Ownership of FD passes to O. */
void process_output_start(struct process_output *o, struct loop *l, int fd, const void *subject,
                          struct stats_cell *stats);
/* MUTED true: stops reading and leaves the output to another reader of the same pipe. False: reads
 * again. */
void process_output_mute(struct process_output *o, bool muted);
/* Reads and passes on the remaining output, and closes the descriptor. No effect if O is not
 * started (zeroed or stopped). */
void process_output_stop(struct process_output *o);
/*
 * Returns the last lines, including unread output and lines dropped from the log. Also valid after
 * stop. Borrowed until the next use of O.
 */
const struct last_lines *process_output_last(struct process_output *o);
/* Releases the last lines. Call after stop. */
void process_output_forget(struct process_output *o);

#endif
