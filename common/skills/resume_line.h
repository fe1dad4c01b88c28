/* SPDX-License-Identifier: Apache-2.0
 *
 * A resume as one JSON line, as on a resume stream and in resume files
 * (docs/reference/protocols.md). Pure; any thread.
 */
#ifndef RLB_SKILLS_RESUME_LINE_H
#define RLB_SKILLS_RESUME_LINE_H

#include "common/base/err.h"
#include "common/base/limits.h"
#include "common/base/text.h"
#include "common/skills/resume.h"

enum resume_state { RESUME_STARTING, RESUME_READY, RESUME_COLD, RESUME_DRAINING };
enum resume_end { RESUME_END_NONE, RESUME_END_DRAIN, RESUME_END_UPGRADE, RESUME_END_STOP };

struct resume_line {
    enum resume_end end; /* not NONE: the last line of an orderly end; nothing else is set */
    char incarnation[INCARNATION_MAX + 1];
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
 * is fine. Scores: finite, >= 0. Errors: ERR_SYNTAX, ERR_RANGE, ERR_TOO_LARGE; WHY says.
 */
enum err resume_line_parse(struct slice line, size_t max_skills, struct resume_line *out,
                           char why[160]) must_check;
/* With its line end, appended. Rows that would make it longer than RESUME_LINE_MAX are left out;
 * returns how many. */
size_t resume_line_print(const struct resume_line *l, struct text *out);
const char *resume_state_text(enum resume_state s);

#endif
