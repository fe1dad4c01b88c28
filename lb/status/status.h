/* SPDX-License-Identifier: Apache-2.0
 *
 * What an operator sees: the pages of the admin address. Control thread.
 */
#pragma once

#include <stdio.h>

#include "common/program/admin.h"
#include "common/stats/metrics.h"
#include "lb/core/lb.h"

/* Adds all pages to A. LB must outlive A. */
void status_add(struct lb *lb, struct admin *a);

/* ---- pages, appended to OUT ---- */
/* Selects what is shown of lists that may be long. */
struct status_choice {
    struct slice q; /* of the classes shown by name, those that contain this (empty: all) */
    /* 0: all workers. Otherwise at most this many, the busiest of those with Q in their name, state
     * or version; their numbers ("workers_known" etc.) are written. */
    size_t workers_max;
};
void status_json(struct lb *lb, const struct status_choice *choice, struct text *out);
void status_resumes(struct lb *lb, struct text *out);
/* status_explain.c: which worker a request would be routed to, and why. LB: a struct lb. Returns
 * the HTTP status: 200; or 400 or 404 with {"error"}. */
int status_explain(void *lb, struct slice query, struct text *body);
/*
 * The query of /explain: class=CLASS or url=URL, and application=NAME. The class is written as in
 * the access log and on the status page; all are percent-encoded as in any query ('+' is itself).
 * Bounded and strict: unknown or duplicate parameters are rejected. Plain computation; any thread.
 */
enum {
    EXPLAIN_QUERY_MAX = 2048,
    EXPLAIN_APPLICATION_MAX = 255,
};

struct explain_query {
    /* In TEXT; p == NULL: not given. URL is in the form of common/wire/url_line.h. */
    struct slice application, cls, url;
    char text[EXPLAIN_QUERY_MAX];
    size_t used; /* bytes of TEXT */
};

/* Parses QUERY. Returns NULL, with either a class or a URL in OUT; or the problem. */
const char *explain_query_parse(struct slice query, struct explain_query *out);

/* status_metrics.c */
void status_metrics(struct lb *lb, struct metrics *m);
/* Writes the manual as Markdown (docs/reference/stats.md). */
void status_metrics_describe(FILE *out);

/* actions.c: adds the operator's actions to A. LB must outlive A. */
void actions_add(struct lb *lb, struct admin *a);

/*
 * ---- status_page.c: shared responses ----
 *
 * Responses of the admin address that are expensive to make, retained for a moment for the next
 * request: so that the pages of a large pool take no more than a tenth of the control loop, however
 * many clients request them. What is cheap is made for each request. Owned by lb/program.
 */

enum {
    SHARED_RESPONSE_FROM_US = 2000, /* CPU time; cheaper responses are not stored */
    SHARED_RESPONSE_TIMES = 10,     /* a response is stored for this multiple of its CPU time */
    SHARED_RESPONSE_MAX_US = 500 * 1000, /* maximum time for which it is stored */
};

/* One response of each is stored. */
enum shared_page {
    SHARED_STATUS,
    SHARED_RESUMES,
    SHARED_METRICS,
    SHARED_OPEN_METRICS,
    SHARED_PAGES
};

struct shared_responses;

struct shared_responses *shared_responses_create(void);
/* NULL is allowed. */
void shared_responses_destroy(struct shared_responses *s);
/* Appends the stored response. Returns false if there is none, or if it is too old. */
bool shared_responses_take(const struct shared_responses *s, enum shared_page page, uint64_t now_us,
                           struct text *out);
/* Stores a copy of RESPONSE, made at NOW_US with COST_US of CPU time, if that is worthwhile. */
void shared_responses_store(struct shared_responses *s, enum shared_page page, uint64_t now_us,
                            uint64_t cost_us, struct slice response);
/* Drops all stored responses, so that the client that has just changed something sees the change.
 */
void shared_responses_clear(struct shared_responses *s);
