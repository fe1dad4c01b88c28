/* SPDX-License-Identifier: Apache-2.0
 *
 * A line of an access log: combined or common log format, with or without the virtual host first,
 * whatever follows; or one of our own in JSON. Pure functions; slices point into the line or into
 * the room that the caller gives.
 */
#pragma once

#include "common/base/base.h"
#include "common/base/err.h"
#include "common/base/text.h"

#include <stdio.h>

enum {
    /* A line; larger than any request target that is served. */
    ACCESS_LINE_MAX = 64 * 1024,
    ACCESS_HOST_MAX = 255,
};

/* What is wrong with a line. */
enum access_fault {
    ACCESS_FAULT_NONE,
    ACCESS_FAULT_TOO_LONG,
    ACCESS_FAULT_FIELDS,
    ACCESS_FAULT_TIME,
    ACCESS_FAULT_REQUEST,
    ACCESS_FAULT_HOST,
    ACCESS_FAULT_STATUS,
    ACCESS_FAULT_QUOTES,
    ACCESS_FAULT_JSON,
    ACCESS_FAULT_URL, /* of a list of URLs */
    ACCESS_FAULTS
};
extern const char *const access_fault_texts[ACCESS_FAULTS];

struct access_line {
    uint64_t time_ms;            /* since 1970 */
    struct slice method;         /* a token */
    struct slice path;           /* of the target, as it was sent; begins with '/', or is "*" */
    struct slice query;          /* behind the '?', or empty */
    struct slice host;           /* lower case, without port; empty: not in the line */
    struct slice client;         /* not parsed */
    struct slice referer, agent; /* empty: none */
    uint64_t service_us;         /* only in resumelb's own lines; 0: unknown */
    unsigned status;
};

/*
 * Reads LINE, without its end. Escapes are resolved.
 *   room  as many bytes as the line has and ACCESS_HOST_MAX more, where slices of OUT may point to
 * Returns ACCESS_FAULT_NONE, or the error; OUT is then undefined.
 */
enum access_fault access_line_parse(struct slice line, char *room,
                                    struct access_line *out) must_check;

/* ---- files ---- */

/*
 * Requests as lines of a file: an access log, or a list of URLs, also mixed, with empty lines and
 * comments; or, LOGS_ONLY, of an access log. Read one by one; invalid lines are counted. Embedded.
 * Main thread.
 */

struct requests {
    FILE *in;
    const char *file;
    char line[ACCESS_LINE_MAX + 1];
    char room[ACCESS_LINE_MAX + 1 + ACCESS_HOST_MAX];
    bool logs_only;
    size_t lines;                 /* read */
    size_t faults[ACCESS_FAULTS]; /* lines that were left out */
    size_t first_bad;             /* line number; 0: none */
    const char *bad_why;          /* what is wrong with it */
    uint64_t last_ms;             /* time of the latest request */
    bool is_fine;                 /* times have milliseconds */
};

/* FILE, "-": standard input. Problems to D. Close OUT->in by ctl_close(). */
enum err requests_open(const char *file, struct requests *out, struct diag *d) must_check;
/*
 * The next one; false: there are no more. Its slices are good until the next call. Of a URL the
 * method is GET, the host is without port and the rest unknown. A log's times do not decrease: an
 * earlier time, of a request that was logged late, is set to that of the line before.
 */
bool requests_next(struct requests *r, struct access_line *out) must_check;
/*
 * Spreads due times that are equal over a second, or over a millisecond if R has those: *FIRST_NS
 * and N - 1 further ones, each STRIDE bytes behind the one before. They do not decrease.
 */
void requests_spread(const struct requests *r, uint64_t *first_ns, size_t stride, size_t n);
/* Lines that were left out, and why; nothing when there were none. */
void requests_print_bad(const struct requests *r, struct text *out);
size_t requests_bad(const struct requests *r);
