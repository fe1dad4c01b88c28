/* SPDX-License-Identifier: Apache-2.0
 *
 * A resume: what a worker is good at, class -> score, score = requests per second of service time.
 * A plain value that owns its class names; the holder frees it with resume_fini. Any thread, one at
 * a time.
 */
#ifndef RLB_SKILLS_RESUME_H
#define RLB_SKILLS_RESUME_H

#include "common/base/base.h"

struct resume_row {
    struct slice cls; /* encoded, at most CLASS_BYTES_MAX bytes; owned by the resume */
    double score;     /* finite */
};

struct resume {
    struct resume_row *rows; /* in the order they were added, each class once */
    size_t n;
    size_t room;
};

/* Whether S may be a class as it is sent and kept: percent-encoded, at most CLASS_BYTES_MAX. */
bool resume_is_class(struct slice s);
/* Whether S is the fingerprint of a classifier. */
bool resume_is_fingerprint(struct slice s);

/* All zero is an empty resume. */
void resume_fini(struct resume *r);
/* Append a row. The caller has checked that the class is not there yet nor too long, and the score.
 */
void resume_push(struct resume *r, struct slice cls, double score);
/* Copies a resume to TO, which must be zeroed or valid; its previous rows are dropped. */
void resume_copy(struct resume *to, const struct resume *from);
/* Drop the row of CLS, or all of them (NULL). Returns how many went. */
size_t resume_forget(struct resume *r, const struct slice *cls);
/* The score of CLS, or NULL. Linear: for tests and status pages. */
const double *resume_find(const struct resume *r, struct slice cls);

#endif
