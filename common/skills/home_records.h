/* SPDX-License-Identifier: Apache-2.0
 *
 * What a worker records of the classes that have their home there; several load balancers share
 * these records (routing/homes/homes.h). A load balancer reports with a request when it has made
 * the worker a home of the request's class. The worker records since when it is a home, when the
 * class was last used, how the home came about and how much work it does for the class, and reports
 * this to all load balancers. Pure computation; owned by its creator; lives as long as the worker
 * and its cache; one thread at a time.
 */
#ifndef RLB_SKILLS_HOME_RECORDS_H
#define RLB_SKILLS_HOME_RECORDS_H

#include "common/base/base.h"
#include "common/base/err.h"
#include "common/base/limits.h"
#include "common/base/text.h"
#include "common/skills/classes.h"

#include <jansson.h>

enum home_kind {
    HOME_USED, /* nothing was reported: it was a home before */
    HOME_NEW,  /* the first home of a class */
    HOME_COPY, /* one more */
    HOME_MOVE, /* instead of another worker */
    HOME_KINDS
};
/* "used", "new", "copy", "move". */
const char *home_kind_text(enum home_kind k);
/* HOME_KINDS when it is none of them. */
enum home_kind home_kind_find(struct slice text);

/* A home that has not been used for so long is none any more, where there are others. */
#define HOME_AGE_US 10e6
/* Work fades with this. */
#define HOME_TAU_US 20e6

/* One class's; owned by the records, read by others until they change. */
struct home_record {
    struct class_entry base;
    struct list node; /* in the order of changes */
    uint64_t change;  /* number of the last one */
    enum home_kind kind;
    char *from;        /* MOVE: the worker it was at before; else NULL */
    uint64_t since_us; /* time of that record, or of its first use after HOME_AGE_US */
    uint64_t used_us;  /* last */
    double work_us;    /* decayed, as of WORK_AT_US */
    uint64_t work_at_us;
};

/* Recent work, in workers' worth. */
double home_record_rate(const struct home_record *r, uint64_t now_us);

struct home_records;

/* MAX_CLASSES >= 1, as in common/skills/classes.h. */
struct home_records *home_records_create(size_t max_classes);
void home_records_destroy(struct home_records *h);
/* A request of CLS has arrived. FROM: of a MOVE; is copied. Cost: O(1). */
void home_records_use(struct home_records *h, struct slice cls, enum home_kind kind,
                      struct slice from, uint64_t now_us);
/* A request of CLS was served in SERVICE_US; ignored for classes without a record. Cost: O(1). */
void home_records_served(struct home_records *h, struct slice cls, uint64_t service_us,
                         uint64_t now_us);
/*
 * The record with the oldest change after CURSOR (0: of all), and the next one; NULL: no more. The
 * cursor of a reader is the change of the last record that it has read.
 */
const struct home_record *home_records_after(const struct home_records *h, uint64_t cursor);
const struct home_record *home_records_next(const struct home_records *h,
                                            const struct home_record *r);
/* Whether a decision is among the changes after CURSOR, which should be published soon. Cost: O(1).
 */
bool home_records_decided(const struct home_records *h, uint64_t cursor);
size_t home_records_count(const struct home_records *h);
/* Asserts every invariant; for tests. */
void home_records_check(const struct home_records *h);

/* ---- lines ---- */

/*
 * The homes that a worker publishes, as one JSON line of its resume stream; and the header field in
 * which a load balancer sends it a decision (docs/reference/protocols.md). Pure; any thread.
 */

enum {
    HOME_LINE_ROWS_MAX = 1000,
    /* The name of a worker: its address. */
    HOME_FROM_MAX = 255,
    /* A record that is older has only its age. */
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
 * Members that are not known are ignored. Errors: ERR_SYNTAX, ERR_RANGE, ERR_TOO_LARGE; the reason
 * is in WHY.
 */
enum err home_line_parse(struct slice line, struct home_line *out, char why[160]) must_check;
/* With its line end, appended. N <= HOME_LINE_ROWS_MAX; a line of so many always fits. */
void home_line_print(const struct home_row *rows, size_t n, struct text *out);

/* ---- with a request ---- */

struct home_report {
    bool passing; /* no home of the class: the request only passes by */
    enum home_kind kind;
    struct slice from; /* of a MOVE */
};
/* The value of Resumelb-Home: "new", "copy", "move; from=NAME", "passing". */
void home_report_print(const struct home_report *t, struct text *out);
/* Errors: ERR_SYNTAX. FROM is borrowed from VALUE. */
enum err home_report_parse(struct slice value, struct home_report *out) must_check;

#endif
