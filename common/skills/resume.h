/* SPDX-License-Identifier: Apache-2.0
 *
 * A resume: the skills of a worker, class -> score, score = requests per second of service time.
 * A plain value that owns its class names; the holder frees it with resume_fini. Any thread, one at
 * a time.
 */
#pragma once

#include "common/base/base.h"
#include "common/base/err.h"
#include "common/base/limits.h"
#include "common/base/text.h"

struct resume_row {
    struct slice cls; /* encoded, at most CLASS_BYTES_MAX bytes; owned by the resume */
    double score;     /* finite */
};

struct resume {
    struct resume_row *rows; /* in the order they were added, each class once */
    size_t n;
    size_t room;
};

/* Returns true if S is a valid class as sent and stored: percent-encoded, at most
 * CLASS_BYTES_MAX bytes. */
bool resume_is_class(struct slice s);
/* Returns true if S is a valid fingerprint of a classifier. */
bool resume_is_fingerprint(struct slice s);

/* Frees the rows. An all-zero resume is empty. */
void resume_fini(struct resume *r);
/* Appends a row. The class must be new and of valid length, and the score finite. */
void resume_push(struct resume *r, struct slice cls, double score);
/* Copies a resume to TO, which must be zeroed or valid; its previous rows are dropped. */
void resume_copy(struct resume *to, const struct resume *from);
/* Removes the row of CLS, or all rows if it is NULL. Returns the number of removed rows. */
size_t resume_forget(struct resume *r, const struct slice *cls);

/* ---- lines ---- */

/*
 * A resume as one JSON line, as on a resume stream and in resume files
 * (docs/reference/protocols.md). Pure; any thread.
 */

enum resume_state { RESUME_STARTING, RESUME_READY, RESUME_DORMANT, RESUME_DRAINING };
enum resume_end { RESUME_END_NONE, RESUME_END_DRAIN, RESUME_END_UPGRADE, RESUME_END_STOP };

struct resume_line {
    enum resume_end
        end; /* other than NONE: the last line before an orderly end; no other member is set */
    char instance[INSTANCE_MAX + 1];
    char application[VERSION_MAX + 1];
    char version[VERSION_MAX + 1];
    char fingerprint[FINGERPRINT_LEN + 1]; /* "" if no request has reported one yet */
    enum resume_state state;
    uint64_t generation;
    unsigned concurrency; /* member "concurrency", >= 1, default 1 */
    struct resume skills; /* owned */
};
void resume_line_fini(struct resume_line *l);

/*
 * Parse one line (without its line end). At most RESUME_LINE_MAX bytes and MAX_SKILLS skills
 * (further ones are an error). Unknown members are ignored. An empty line is a keep-alive:
 * ERR_NOT_FOUND. Class names must be encoded (0x21-0x7E, at most CLASS_BYTES_MAX); the empty class
 * is fine. Scores: finite, >= 0. Errors: ERR_SYNTAX, ERR_RANGE, ERR_TOO_LARGE; the reason is in
 * WHY.
 */
enum err resume_line_parse(struct slice line, size_t max_skills, struct resume_line *out,
                           char why[160]) must_check;
/* Appends the line with its end. Rows that would exceed RESUME_LINE_MAX are omitted. Returns
 * their number. */
size_t resume_line_print(const struct resume_line *l, struct text *out);
const char *resume_state_text(enum resume_state s);
