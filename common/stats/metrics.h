/* SPDX-License-Identifier: Apache-2.0
 *
 * Metrics: a table of rows, from which the manual and a page in Prometheus' text format 0.0.4 or in
 * OpenMetrics 1.0.0 are generated. A row declares where its value is in an object: a snapshot, or a
 * part of the program. The row's function `each` enumerates the objects and their labels. Rows are
 * constant; a page is used by one thread.
 */
#pragma once

#include "common/stats/stats.h"

#include <stdio.h>

#define METRICS_TEXT_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define METRICS_OPEN_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

struct metric;

/* A page of metrics that is being written. */
struct metrics {
    struct text *out;
    const char *prefix; /* prefix of the program; names are PREFIX_NAME */
    bool open;          /* true: OpenMetrics; false: Prometheus text */
    const struct metric *row;
};

enum metric_type {
    METRIC_GET,         /* computed by a function */
    METRIC_COUNT,       /* bool, or an integer that is not negative */
    METRIC_REAL,        /* double */
    METRIC_WHOLE,       /* double, shown without its fraction */
    METRIC_MICROS,      /* double, shown to the millionth */
    METRIC_TIME,        /* uint64_t, microseconds; shown in seconds */
    METRIC_ATOMIC,      /* _Atomic uint64_t */
    METRIC_ATOMIC_TIME, /* the same, microseconds */
};

struct metric {
    const char *name; /* counters end in _total */
    enum stat_kind kind;
    const char *unit;
    const char *label; /* name of the label besides the application, or NULL */
    const char *doc;
    /* Calls metrics_put() for each object of the row; CONTEXT is the program's snapshot. */
    void (*each)(struct metrics *m, const void *context);
    enum metric_type type;
    size_t offset, size;               /* of the value in an object, bytes */
    double (*get)(const void *object); /* METRIC_GET; NAN: the object has no value now */
};

/* Location of a row's value: MEMBER of STRUCT_, of one of the types above (COUNT, TIME, ...). */
#define METRIC_MEMBER(type_, struct_, member)                                                      \
    .type = METRIC_##type_, .offset = offsetof(struct_, member),                                   \
    .size = sizeof(((struct_ *)0)->member)

/* The row of the program's own log, which all servers have. EACH_ visits any one object. */
#define METRIC_LOG_DROPPED(each_)                                                                  \
    {                                                                                              \
        "log_lines_dropped_total", STAT_COUNTER, "lines", NULL,                                    \
            "Lines of the program's log that were dropped: standard error was not read, or "       \
            "failed.",                                                                             \
            each_, METRIC_GET, 0, 0, metrics_log_dropped                                           \
    }
double metrics_log_dropped(const void *object);
/* The row of a program with a state_dir. */
#define METRIC_STATE_UNSAVED(each_)                                                                \
    {                                                                                              \
        "state_files_unsaved", STAT_GAUGE, "files", NULL,                                          \
            "Files in state_dir that could not be written so far; a restart would lose their "     \
            "contents.",                                                                           \
            each_, METRIC_GET, 0, 0, metrics_state_unsaved                                         \
    }
double metrics_state_unsaved(const void *object);

/* Appends all rows with their objects. */
void metrics_put_all(struct metrics *m, const struct metric *rows, size_t n, const void *context);
/* The steps of metrics_put_all(), for rows without `each`: appends the head of ROW; its objects
 * follow. */
void metrics_begin(struct metrics *m, const struct metric *row);
/*
 * Appends the series of OBJECT with LABELS, which must be escaped: 'application="shop"', or empty.
 * VALUE is the value of the row's own label, if it has one; it is escaped here.
 */
void metrics_put(struct metrics *m, const void *object, struct slice labels, struct slice value);
/* The same for a row without objects; the value of the series is N. */
void metrics_put_number(struct metrics *m, uint64_t n, struct slice labels, struct slice value);
/* Appends NAME="VALUE" to the labels OUT; VALUE is escaped. */
void metrics_add_label(struct text *out, const char *name, struct slice value);
/* Returns the value of ROW for OBJECT, or NAN if it has no value now. */
double metric_value(const struct metric *row, const void *object);

/* Appends the rows of a stats.def. All SETS must have the same table; LABELS are as above.
 * Histograms are shown in seconds. */
struct stats_set {
    const struct stats *stats;
    struct slice labels;
};
void metrics_put_stats(struct metrics *m, const struct stats_set *sets, size_t nsets);

/* Completes the page. */
void metrics_end(struct metrics *m);

/* Writes the table of the manual (docs/reference/stats.md): its head, then rows | metric | kind
 * | unit | label | meaning |. */
void metrics_describe_head(FILE *out);
void metrics_describe(const char *prefix, const struct metric *rows, size_t n, FILE *out);
/* Writes the rows of the manual for a stats.def. */
void metrics_describe_stats(const char *prefix, const struct stats_table *t, FILE *out);

/* Returns true if ACCEPT, the value of the Accept field (may be empty), prefers OpenMetrics 1.0
 * to plain text. */
bool metrics_wants_open(struct slice accept);
