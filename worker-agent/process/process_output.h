/* SPDX-License-Identifier: Apache-2.0
 *
 * The standard output and error of a process: written to the agent's log line by line, bounded in
 * length and number. The last lines are stored, in case the process fails. Embedded in the
 * process. Control loop only.
 */
#pragma once

#include "common/base/json.h"
#include "common/base/limits.h"
#include "common/base/text.h"
#include "common/event/loop.h"
#include "common/stats/stats.h"

/* ---- the last lines: plain computation; a zeroed struct is empty ---- */

enum {
    /* Room for a traceback of a deep framework, or a server's report of its configuration. */
    LAST_LINES_MAX = 40,
    /* Bytes stored of a line: at most 20 KB per process. */
    LAST_LINE_BYTES_MAX = 500,
};

struct last_line {
    char *bytes;
    size_t len;
    bool cut; /* there was more of it */
};

struct last_lines {
    struct last_line at[LAST_LINES_MAX]; /* the oldest first */
    size_t n;
};

/* LINE, without its end, is the newest; the oldest is dropped. Copied. */
void last_lines_add(struct last_lines *l, struct slice line);
/* Line I made safe for a terminal, a log and a page (text_add_visible), with " ..." when cut. */
void last_lines_show(const struct last_lines *l, size_t i, struct text *out);
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
    struct watch *watch;      /* NULL: closed, or muted */
    int fd;                   /* -1: none */
    char line[OUTPUT_LINE_MAX];
    size_t len;
    uint64_t second;
    unsigned lines; /* in this second */
    unsigned dropped;
    bool within;            /* within a line, of which the beginning was already passed on */
    struct last_lines last; /* to be released after stop */
};

/* Starts reading FD. Ownership of FD passes to O. */
void process_output_start(struct process_output *o, struct loop *l, int fd, const void *subject,
                          struct stats_cell *stats);
/* MUTED: leaves the output to another reader of the same pipe, until called with false. */
void process_output_mute(struct process_output *o, bool muted);
/* Passes on the remaining output and closes the descriptor. No effect if O is not started. */
void process_output_stop(struct process_output *o);
/* The last lines, with unread and dropped output; also after stop. Borrowed until O's next use. */
const struct last_lines *process_output_last(struct process_output *o);

/* ---- failures ---- */

enum {
    /* Bytes of the supervisor's description of how a process ended. */
    FAILURE_HOW_MAX = 200,
    /* Bytes of the last lines in the log: one line of it has room for four times as many, which is
       what escaping may make of them. */
    FAILURE_LOG_BYTES_MAX = 700,
};

enum failure_kind {
    FAILURE_NOT_SPAWNED,   /* there never was a process */
    FAILURE_START_TIMEOUT, /* it was not ready in start_timeout */
    FAILURE_DIED_STARTING, /* it died before it was ready */
    FAILURE_PORT_TAKEN,    /* another process listens on the port that it was given */
    FAILURE_DIED,          /* it was ready once */
    FAILURE_STUCK,         /* it did not respond to a request in first_byte_timeout */
};

/* How a process failed, for operators, with what it wrote before. Owned by its slot. */
struct failure {
    enum failure_kind kind;
    unsigned slot;
    long pid; /* 0: there was none */
    char id[INSTANCE_MAX + 1];
    char how[FAILURE_HOW_MAX + 1];
    uint64_t at_ms; /* of the loop's clock */
    struct last_lines lines;
};

/*
 * Records WHAT has happened (its lines are not used) in *TO, a slot's last failure, which is
 * created (NULL) or overwritten. LINES: what the process wrote last, or NULL.
 */
void failure_record(struct failure **to, const struct failure *what,
                    const struct last_lines *lines);
/* NULL is fine. */
void failure_destroy(struct failure *f);

/* The members of a failure as an object NAME; null when F is NULL. */
void failure_describe(const struct failure *f, const char *name, uint64_t now_ms,
                      struct json_writer *w);
/* Describes the failure in one line: "slot 2, pid 7 (ID): died ...: exit status 1". No line end. */
void failure_add_summary(const struct failure *f, struct text *out);
/* Logs as many of its last lines as fit in one log line. SUBJECT: as in log_warn. */
void failure_log(const struct failure *f, const void *subject);
