/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks for monitoring: thresholds, and the values of a pool in a page. Plain computation; the
 * caller owns everything.
 */
#ifndef RLB_CTL_INSPECT_CHECK_H
#define RLB_CTL_INSPECT_CHECK_H

#include "ctl/cli/ctl.h"

/* As monitoring plugins exit. */
enum check_state { CHECK_OK, CHECK_WARNING, CHECK_CRITICAL, CHECK_UNKNOWN };

/* ---- ranges ---- */

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

/* ---- a pool ---- */

enum check_metric { CHECK_WORKERS, CHECK_MEAN_BACKLOG, CHECK_MAX_BACKLOG, CHECK_MAX_AGE };
enum { CHECK_METRICS = CHECK_MAX_AGE + 1 };

struct check_thresholds {
    struct check_range warn[CHECK_METRICS];
    struct check_range error[CHECK_METRICS];
    bool metrics; /* print performance data */
};

struct check_facts {
    double of[CHECK_METRICS];
};

/*
 * The state of one pool; its text is appended to OUT, its performance data to METRICS with PREFIX
 * before each label (NULL: none).
 */
enum check_state check_pool(const struct check_thresholds *t, const struct check_facts *f,
                            const char *prefix, struct text *out, struct text *metrics);

/*
 * All of a page, or the application that O names, as the line that a monitor reads, without its
 * end. Not our page, or no such application: CHECK_UNKNOWN, with the reason in OUT.
 */
enum check_state check_page(const json_t *page, const struct ctl_options *o,
                            const struct check_thresholds *t, struct text *out);

#endif
