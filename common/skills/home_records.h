/* SPDX-License-Identifier: Apache-2.0
 *
 * What a worker records of the classes that have their home there; several load balancers share
 * these records (routing/homes/homes.h). A load balancer reports with a request when it has made
 * the worker a home of the request's class. The worker records since when it is a home, when the
 * class was last used, how the home came about and how much work it does for the class, and reports
 * this to all load balancers. Pure computation; owned by its creator; lives as long as the worker
 * and its cache; one thread at a time.
 */
#pragma once

#include "common/base/base.h"
#include "common/base/err.h"
#include "common/base/limits.h"
#include "common/base/text.h"
#include "common/skills/classes.h"

#include <jansson.h>

enum home_kind {
    HOME_USED,      /* nothing was reported, so it was a home before */
    HOME_NEW,       /* the first home of a class */
    HOME_REPLICATE, /* a further home */
    HOME_REASSIGN,  /* the home moved here from another worker */
    HOME_KINDS
};

/* Time constant of the decay of work: about this many requests of the worker, but no less time, in
 * which all that is published is received. A class with several homes loses a home that was not
 * used for half of that. */
#define HOME_TAU_REQUESTS 1000.0
#define HOME_TAU_US 20e6
/* GAP_US: mean interval between requests of the worker. */
static inline double home_tau_us(double gap_us)
{
    double tau_us = HOME_TAU_REQUESTS * gap_us;

    return tau_us > HOME_TAU_US ? tau_us : HOME_TAU_US;
}
/* GAP_US after a request at NOW_US; the last one was at LAST_US, or never (0). */
static inline double home_gap_us(double gap_us, uint64_t last_us, uint64_t now_us)
{
    double us = last_us != 0 && now_us > last_us ? (double)(int64_t)(now_us - last_us) : 0;

    /* A pause is not the pace of requests. */
    return gap_us + 0.02 * ((us < HOME_TAU_US ? us : HOME_TAU_US) - gap_us);
}

/* Record of one class. Owned by the records; others may read it until they change. */
struct home_record {
    struct class_entry base;
    struct list node; /* sorted by CHANGE */
    uint64_t change;  /* number of its last change */
    enum home_kind kind;
    char *from;        /* HOME_REASSIGN: the previous worker; else NULL */
    uint64_t since_us; /* when it became a home, or was used again after a pause */
    uint64_t used_us;  /* time of its last use */
    double work_us;    /* decayed work at WORK_AT_US */
    uint64_t work_at_us;
};

struct home_records;

/* Returns the recent work of R, a record of H, in units of one worker's full time. */
double home_record_rate(const struct home_records *h, const struct home_record *r, uint64_t now_us);

/* Private, but for the checks of tests. */
struct home_records {
    double gap_us;          /* mean interval between requests, or 0 */
    uint64_t used_us;       /* time of the last one */
    struct classes classes; /* of struct home_record */
    struct list changed;    /* the longest unchanged first */
    uint64_t changes;
    uint64_t decided; /* the last change that was a decision */
};

/* MAX_CLASSES must be at least 1 (common/skills/classes.h). */
struct home_records *home_records_create(size_t max_classes);
void home_records_destroy(struct home_records *h);
/* Records a request of CLS. FROM is the previous worker of a HOME_REASSIGN; it is copied. Cost:
 * O(1). */
void home_records_use(struct home_records *h, struct slice cls, enum home_kind kind,
                      struct slice from, uint64_t now_us);
/* Records that a request of CLS was served in SERVICE_US. Ignored for classes without a record.
 * Cost: O(1). */
void home_records_served(struct home_records *h, struct slice cls, uint64_t service_us,
                         uint64_t now_us);
/*
 * Return the record with the oldest change after CURSOR (0: of all), and the record after R; NULL
 * if there is none. The cursor of a reader is the change of the last record that it has read.
 */
const struct home_record *home_records_after(const struct home_records *h, uint64_t cursor);
const struct home_record *home_records_next(const struct home_records *h,
                                            const struct home_record *r);
/* Returns true if a decision is among the changes after CURSOR; it should be published soon.
 * Cost: O(1). */
bool home_records_decided(const struct home_records *h, uint64_t cursor);

/* ---- lines ---- */

/*
 * The homes that a worker publishes, as one JSON line of its resume stream; and the header field in
 * which a load balancer sends it a decision (docs/reference/protocols.md). Pure; any thread.
 */

enum {
    HOME_LINE_ROWS_MAX = 1000,
    /* Length of the name of a worker, which is its address. */
    HOME_FROM_MAX = 255,
    /* Maximum age that is published; older records are published with it. */
    HOME_AGE_MAX_MS = 7 * 24 * 3600 * 1000,
    /* Delay before changes are published; decisions have the shorter one. */
    HOME_LINES_MS = 1000,
    HOME_LINES_DECIDED_MS = 100,
};

struct home_row {
    struct slice cls;
    enum home_kind kind;
    struct slice from;                  /* HOME_REASSIGN: the previous worker; else empty */
    uint64_t since_age_ms, used_age_ms; /* since >= used */
    double rate;                        /* finite, >= 0 */
};

struct home_line {
    struct home_row *rows;
    size_t n;
    json_t *object; /* owns the texts of the rows */
};
void home_line_fini(struct home_line *l);

/* Returns true if LINE has homes, not a resume: it begins like those of home_line_print(). */
bool home_line_is(struct slice line);
/*
 * Parses a line without its end, of at most RESUME_LINE_MAX bytes and HOME_LINE_ROWS_MAX rows.
 * Unknown members are ignored. Errors: ERR_SYNTAX, ERR_RANGE, ERR_TOO_LARGE, with the reason in
 * WHY.
 */
enum err home_line_parse(struct slice line, struct home_line *out, char why[160]) must_check;
/* Appends a line with its end. N must be at most HOME_LINE_ROWS_MAX, with which a line is below
 * its limit. */
void home_line_print(const struct home_row *rows, size_t n, struct text *out);

/* ---- publishing ---- */

/* Returns the record of CLS, or NULL. */
const struct home_record *home_records_find(const struct home_records *h, struct slice cls);
/* The record of a class is what another program has published as ROW, at NOW_US here. */
void home_records_set(struct home_records *h, const struct home_row *row, uint64_t now_us);
/*
 * What one worker would have recorded of CLS if it had received the requests of all N programs that
 * have the records OF: OUT, with texts of OF. The latest decision that is in use counts; the work
 * is added up. Returns false if none has a record.
 */
bool home_records_merge(const struct home_records *const of[], size_t n, struct slice cls,
                        uint64_t now_us, struct home_row *out);
/*
 * Appends all changes after *CURSOR (0: all records), in as many lines as it takes, and advances
 * *CURSOR to the last of them. Returns the number of lines. There are at most MAX_CLASSES records.
 */
size_t home_lines_print(const struct home_records *h, uint64_t *cursor, uint64_t now_us,
                        struct text *out);
/* Delay until the changes after CURSOR are to be published [ms]. Cost: O(1). */
uint64_t home_lines_delay_ms(const struct home_records *h, uint64_t cursor);

/* ---- with a request ---- */

struct home_report {
    bool passing; /* the worker is not a home of the class; only this request is sent to it */
    enum home_kind kind;
    struct slice from; /* HOME_REASSIGN: the previous worker */
};
/* Appends the value of Resumelb-Home: "new", "replicate", "reassign; from=NAME" or "passing". */
void home_report_print(const struct home_report *t, struct text *out);
/* Parses the value of Resumelb-Home. OUT->from is borrowed from VALUE. Errors: ERR_SYNTAX. */
enum err home_report_parse(struct slice value, struct home_report *out) must_check;
