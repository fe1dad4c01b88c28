/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests as lines of a file: an access log, or a list of URLs, also mixed. Read one by one; what
 * is none is counted. Embedded; requests_open, requests_close. Main thread.
 */
#ifndef RLB_CTL_SIMULATE_REQUESTS_H
#define RLB_CTL_SIMULATE_REQUESTS_H

#include <stdio.h>

#include "common/base/err.h"
#include "common/base/text.h"
#include "ctl/simulate/access_line.h"

struct requests {
    FILE *in;
    const char *file;
    char *line, *room;
    size_t lines;                 /* read */
    size_t faults[ACCESS_FAULTS]; /* lines that are not valid log lines */
    size_t bad_urls;
    size_t first_bad;    /* line number; 0: none */
    const char *bad_why; /* that */
};

/* FILE, "-": standard input. Problems to D. */
enum err requests_open(const char *file, struct requests *out, struct diag *d) must_check;
/*
 * The next one; false: there are no more. Its slices are good until the next call. Of a URL the
 * method is GET, the host is without port and the rest unknown.
 */
bool requests_next(struct requests *r, struct access_line *out) must_check;
/* ERR_SYSTEM: it could not be read to its end; why to D. */
enum err requests_close(struct requests *r, struct diag *d);
/* Lines that were left out, and why; nothing when there were none. */
void requests_print_bad(const struct requests *r, struct text *out);
size_t requests_bad(const struct requests *r);

#endif
