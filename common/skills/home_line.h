/* SPDX-License-Identifier: Apache-2.0
 *
 * What a worker publishes of the classes that live there, as one JSON line of its resume stream;
 * and what a load balancer tells it with a request (docs/reference/protocols.md). Pure; any thread.
 */
#ifndef RLB_SKILLS_HOME_LINE_H
#define RLB_SKILLS_HOME_LINE_H

#include <jansson.h>

#include "common/base/err.h"
#include "common/base/limits.h"
#include "common/base/text.h"
#include "common/skills/home_records.h"

enum {
    HOME_LINE_ROWS_MAX = 1000,
    /* The name of a worker: its address. */
    HOME_FROM_MAX = 255,
    /* A record that is older says so and no more. */
    HOME_AGE_MAX_MS = 7 * 24 * 3600 * 1000,
};

struct home_row {
    struct slice cls;
    enum home_kind kind;
    struct slice from;                  /* of a MOVE; else empty */
    uint64_t since_age_ms, used_age_ms; /* since >= used */
    double rate;                        /* finite, >= 0 */
};

struct home_line {
    struct home_row *rows;
    size_t n;
    json_t *object; /* what the rows' texts are in */
};
void home_line_fini(struct home_line *l);

/* Whether LINE is one of these, rather than a resume: it begins as home_line_print begins. */
bool home_line_is(struct slice line);
/*
 * Parse one line without its end: at most RESUME_LINE_MAX bytes and HOME_LINE_ROWS_MAX rows.
 * Members that are not known are ignored. Errors: ERR_SYNTAX, ERR_RANGE, ERR_TOO_LARGE; WHY says.
 */
enum err home_line_parse(struct slice line, struct home_line *out, char why[160]) must_check;
/* With its line end, appended. N <= HOME_LINE_ROWS_MAX; a line of so many always fits. */
void home_line_print(const struct home_row *rows, size_t n, struct text *out);

/* ---- with a request ---- */

struct home_told {
    bool passing; /* no home of the class: the request only passes by */
    enum home_kind kind;
    struct slice from; /* of a MOVE */
};
/* The value of Resumelb-Home: "new", "copy", "move; from=NAME", "passing". */
void home_told_print(const struct home_told *t, struct text *out);
/* Errors: ERR_SYNTAX. FROM is borrowed from VALUE. */
enum err home_told_parse(struct slice value, struct home_told *out) must_check;

#endif
