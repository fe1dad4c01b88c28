/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands make of what they read: plain computation but for ctl_detach(), so that tests
 * need no server. The caller owns everything; one thread.
 */
#pragma once

#include "common/base/map.h"
#include "common/base/text.h"
#include "common/config/config.h"
#include "common/wire/trace_line.h"
#include "ctl/cli/ctl.h"

/* Requests the agent to detach process ID permanently. Appends the agent's response to O's out. */
enum err ctl_detach(struct ctl_options *o, const char *id) must_check;
/*
 * Sends CONTENT (JSON) to the admin address that O names, and appends its response to O's output:
 * by the format DONE, or as JSON. Problems are added to O's diag.
 */
enum err ctl_act(struct ctl_options *o, const char *method, const char *path, struct slice content,
                 const char *done) must_check;

/* ---- pages as text ---- */

/*
 * Members that are missing or of another type are shown as "-"; unknown ones are ignored.
 * Errors: ERR_SYNTAX (not what /status.json, /resumes.json give), ERR_NOT_FOUND (no such
 * application).
 */
enum err ctl_status_text(const json_t *page, const struct ctl_options *o,
                         struct text *out) must_check;
enum err ctl_resumes_text(const json_t *page, const struct ctl_options *o,
                          struct text *out) must_check;
enum err ctl_limits_text(const json_t *page, const struct ctl_options *o,
                         struct text *out) must_check;
/*
 * For `report`, from a configuration, /settings.json (or an agent's /status.json), /events and
 * /status.json. Values are *** unless their setting's row shows that they cannot be secret.
 * ctl_report_status removes from PAGE what may be. Errors: ERR_SYNTAX.
 */
void ctl_report_configuration(const struct config *c, struct text *out);
void ctl_report_settings(const json_t *page, struct text *out);
void ctl_report_events(const json_t *page, struct text *out);
enum err ctl_report_status(json_t *page, const struct ctl_options *o, struct text *out) must_check;
/* Of /explain. Errors: ERR_SYNTAX. */
enum err ctl_explain_text(const json_t *page, const struct ctl_options *o,
                          struct text *out) must_check;

/* ---- check: thresholds, and the values of a pool in a page ---- */

/* As monitoring plugins exit. */
enum check_state { CHECK_OK, CHECK_WARNING, CHECK_CRITICAL, CHECK_UNKNOWN };

/* Alerts outside of low..high, or, turned, within; both bounds belong to the range. */
struct check_range {
    bool set, turned;
    double low, high; /* -HUGE_VAL, HUGE_VAL: without end */
};
/* The meaning of a bare number N. */
enum check_bare {
    CHECK_BARE_HIGH, /* alert at N and above, as rlb-nagios does */
    CHECK_BARE_LOW,  /* alert at N and below */
};
/*
 * "N", or a range as the monitoring plugins' guidelines have it: "10:", "~:10", "10:20", "@10:20";
 * ":10" is "0:10".
 */
bool check_range_parse(const char *text, enum check_bare bare, struct check_range *out) must_check;
bool check_range_alerts(const struct check_range *r, double v);
/* As performance data has it; nothing when there is none. */
void check_range_print(const struct check_range *r, struct text *out);

enum check_metric { CHECK_WORKERS, CHECK_MEAN_BACKLOG, CHECK_MAX_BACKLOG, CHECK_MAX_AGE };
enum { CHECK_METRICS = CHECK_MAX_AGE + 1 };

struct check_thresholds {
    struct check_range warn[CHECK_METRICS];
    struct check_range error[CHECK_METRICS];
    bool metrics; /* print performance data */
};

/*
 * The state of one pool with these values; its text is appended to OUT, its performance data to
 * METRICS with PREFIX before each label (NULL: none).
 */
enum check_state check_pool(const struct check_thresholds *t, const double facts[CHECK_METRICS],
                            const char *prefix, struct text *out, struct text *metrics);

/*
 * All of a page, or the application that O names, as the line that a monitor reads, without its
 * end. Not our page, or no such application: CHECK_UNKNOWN, with the reason in OUT.
 */
enum check_state check_page(const json_t *page, const struct ctl_options *o,
                            const struct check_thresholds *t, struct text *out);

/* ---- top: a screen, of two pages and a view ---- */

enum top_key {
    TOP_NAME,
    TOP_STATE, /* only shown */
    TOP_BACKLOG,
    TOP_MEAN,
    TOP_OLDEST,
    TOP_REQUESTS, /* a second */
    TOP_FAILURES, /* a second */
    TOP_SERVICE,
    TOP_SKILLS,
    TOP_KEYS
};

struct top_view {
    enum top_key key;
    bool reverse; /* the other way round */
    bool paused, help, quit;
    size_t application; /* which is shown, counted from 0 */
    size_t first;       /* worker of the first line */
    size_t shift;       /* columns after the worker's name that are scrolled out of view */
    uint64_t interval_s;
    unsigned rows, columns;
    bool colours;
};

/* Handles a key; UP, DOWN, LEFT and RIGHT are the codes of arrows. Returns false if it has no
 * effect. */
enum { TOP_UP = 0x100, TOP_DOWN, TOP_LEFT, TOP_RIGHT, TOP_PAGE_UP, TOP_PAGE_DOWN };
bool top_press(struct top_view *v, int key);

/*
 * The whole screen to OUT: as many lines as there are rows, none longer than the columns, with
 * "\r\n" between. Columns that do not fit are left out, the least important first; a line names
 * them and the workers that are out of view. A line that is cut ends with "...".
 *   before   the page of SPAN_S seconds ago, for rates; NULL: there is none
 *   problem  why NOW is old, or empty
 */
void top_draw(const struct top_view *v, const json_t *before, const json_t *now, double span_s,
              struct slice problem, struct text *out);

/* ---- trace: the summary of a trace log ---- */

/*
 * Times and ends by URL, requests in progress over time, and those that never ended. Embedded,
 * zeroed, trace_report_fini. Source: zc.zservertracelog's tracereport, for what is counted.
 */

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
    uint64_t rejected;    /* no process was given it */
    uint64_t statuses[6]; /* by hundreds; 0: odd ones */
};

struct trace_minute {
    uint64_t at_us;
    size_t states[TRACE_STATES]; /* at its end */
    size_t most;                 /* in progress at once */
    uint64_t finished, timed, total_us, app_us;
};

struct traced_request {
    struct map_node node; /* while it is in progress */
    char id[TRACE_LINE_ID_MAX + 1];
    struct trace_url *url;
    char *method;
    char *why; /* the reason why it is unfinished, or NULL */
    enum trace_state state;
    bool called, responded;
    unsigned status;
    uint64_t begun_us, called_us, responded_us, age_us;
};

struct trace_report {
    struct map urls, active;
    struct trace_url **by_impact; /* trace_report_end: the largest first */
    size_t states[TRACE_STATES];
    struct trace_minute *minutes; /* beyond TRACE_MINUTES_MAX one more for the rest, not shown */
    size_t nminutes;
    struct traced_request **unfinished; /* the first ones */
    size_t nunfinished;
    uint64_t records, requests, finished, unfinished_all, rejected, again, times;
    uint64_t upgrades, restarts; /* restarts: starts after the first record */
    uint64_t left_out;           /* requests beyond TRACE_ACTIVE_MAX */
    uint64_t bad_lines, first_bad;
    const char *bad_why;
    uint64_t first_us, last_us;
    size_t busiest; /* most requests in progress at once */
    uint64_t busiest_us;
};

void trace_report_add(struct trace_report *r, const struct trace_line *l);
/* Call after the last record. Counts open requests as unfinished; sorts, computes medians. */
void trace_report_end(struct trace_report *r);
void trace_report_fini(struct trace_report *r);

/* TOP: URLs and unfinished requests; 0: all. */
void trace_report_print(const struct trace_report *r, uint64_t top, bool minutes, struct text *out);
void trace_report_json(const struct trace_report *r, uint64_t top, struct text *out);
