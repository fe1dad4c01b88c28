/* SPDX-License-Identifier: Apache-2.0
 *
 * What a process writes to its standard output and error: passed to our log line by line, bounded
 * in length and number, and the last lines kept, for the day it dies. Embedded in the process.
 * Control loop only.
 */
#ifndef RLB_AGENT_PROCESS_PROCESS_OUTPUT_H
#define RLB_AGENT_PROCESS_PROCESS_OUTPUT_H

#include "common/event/loop.h"
#include "common/stats/stats.h"
#include "worker-agent/process/last_lines.h"

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
    bool within; /* a line whose beginning was passed on already */
    struct last_lines last;
};

/* Takes FD. */
void process_output_start(struct process_output *o, struct loop *l, int fd, const void *subject,
                          struct stats_cell *stats);
/* Leave what comes to somebody else who reads it as well, or read it again. */
void process_output_mute(struct process_output *o, bool muted);
/* Reads what is left, passes it on, and closes. Harmless when never started (zeroed, or stopped).
 */
void process_output_stop(struct process_output *o);
/*
 * The last lines, those that are still to be read included, even such as were too many for the log;
 * also after stop. Borrowed until O is used again.
 */
const struct last_lines *process_output_last(struct process_output *o);
/* After stop: nothing is kept any more. */
void process_output_forget(struct process_output *o);

#endif
