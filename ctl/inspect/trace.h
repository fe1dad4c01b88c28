/* SPDX-License-Identifier: Apache-2.0
 *
 * The summary of a trace log: times and ends by URL, requests in progress over time, and unfinished
 * ones. Plain computation except for printing; embedded, zeroed, trace_report_fini. One thread.
 * Source: zc.zservertracelog's tracereport, for what is counted.
 */
#ifndef RLB_CTL_INSPECT_TRACE_H
#define RLB_CTL_INSPECT_TRACE_H

#include "common/base/map.h"
#include "common/base/text.h"
#include "common/wire/trace_line.h"

enum {
    /* Beyond these, all others are one. */
    TRACE_URLS_MAX = 100000,
    /* Beyond these, requests are left out. */
    TRACE_ACTIVE_MAX = 100000,
    /* Maximum number of stored times, over all URLs; later ones count only in mean and extremes. */
    TRACE_TIMES_MAX = 50000000,
    /* Maximum number listed individually; all are counted. */
    TRACE_UNFINISHED_MAX = 1000,
    /* Ten days; of a longer log only the first ten. */
    TRACE_MINUTES_MAX = 14400,
};

enum trace_state { TRACE_INPUT, TRACE_WAIT, TRACE_APP, TRACE_OUTPUT, TRACE_STATES };

struct trace_url {
    struct map_node node;
    char *path;
    uint64_t *times; /* in the application, microseconds */
    size_t ntimes, room;
    uint64_t timed, sum_us, min_us, max_us, median_us; /* median: trace_report_end */
    double impact;                                     /* seconds; likewise */
    uint64_t finished;
    uint64_t unfinished;  /* the application had it, or might have */
    uint64_t refused;     /* no process was given it */
    uint64_t statuses[6]; /* by hundreds; 0: odd ones */
};

struct trace_minute {
    uint64_t at_us;
    size_t states[TRACE_STATES]; /* at its end */
    size_t most;                 /* in progress at once */
    uint64_t finished, timed, total_us, app_us;
};

struct trace_unfinished {
    char id[TRACE_LINE_ID_MAX + 1];
    const struct trace_url *url;
    char *method, *why;
    enum trace_state state;
    uint64_t begun_us, age_us;
};

struct trace_report {
    struct map urls, active;
    struct trace_url **by_impact; /* trace_report_end: the largest first */
    size_t nurls, nactive, states[TRACE_STATES];
    struct trace_minute *minutes;
    size_t nminutes;
    struct trace_unfinished *unfinished; /* the first ones */
    size_t nunfinished;
    uint64_t records, requests, finished, unfinished_all, refused, again, times;
    uint64_t starts, ends, upgrades, restarts; /* restarts: starts but for a first record */
    uint64_t left_out;                         /* requests beyond TRACE_ACTIVE_MAX */
    bool minutes_cut;
    uint64_t first_us, last_us;
    size_t busiest; /* most requests in progress at once */
    uint64_t busiest_us;
};

void trace_report_add(struct trace_report *r, const struct trace_line *l);
/* After the last record: requests in progress have no end; computes medians and the order. */
void trace_report_end(struct trace_report *r);
void trace_report_fini(struct trace_report *r);

struct trace_print {
    uint64_t top; /* URLs and unfinished requests; 0: all */
    bool minutes;
    uint64_t bad_lines, first_bad;
    const char *bad_why;
};
void trace_report_print(const struct trace_report *r, const struct trace_print *p,
                        struct text *out);
void trace_report_json(const struct trace_report *r, const struct trace_print *p, struct text *out);

#endif
