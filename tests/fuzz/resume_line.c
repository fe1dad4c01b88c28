/* SPDX-License-Identifier: Apache-2.0
 *
 * What is taken is within bounds, and printed so that it is taken again, as the same resume.
 */
#include "common/skills/resume.h"

#include <math.h>

#include "tests/fuzz/fuzz.h"

enum { SKILLS_MAX = 1000 };

static void check_row(const struct resume_row *row)
{
    ASSERT(row->cls.len <= CLASS_BYTES_MAX);
    ASSERT(isfinite(row->score));
    ASSERT(row->score >= 0);
    for (size_t i = 0; i < row->cls.len; ++i) {
        ASSERT(row->cls.p[i] >= 0x21);
        ASSERT(row->cls.p[i] <= 0x7e);
    }
}

static void check_same(const struct resume_line *a, const struct resume_line *b)
{
    ASSERT(a->end == b->end);
    ASSERT(strcmp(a->instance, b->instance) == 0);
    ASSERT(strcmp(a->application, b->application) == 0);
    ASSERT(strcmp(a->version, b->version) == 0);
    ASSERT(strcmp(a->fingerprint, b->fingerprint) == 0);
    ASSERT(a->state == b->state);
    ASSERT(a->generation == b->generation);
    ASSERT(a->concurrency == b->concurrency);
    ASSERT(a->skills.n == b->skills.n);
    for (size_t i = 0; i < a->skills.n; ++i) {
        ASSERT(slice_eq(a->skills.rows[i].cls, b->skills.rows[i].cls));
        ASSERT(a->skills.rows[i].score >= b->skills.rows[i].score);
        ASSERT(a->skills.rows[i].score <= b->skills.rows[i].score);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct resume_line l;
    struct resume_line again;
    struct text printed = {0};
    char why[160] = "";
    enum err e = resume_line_parse((struct slice){(const char *)data, size}, SKILLS_MAX, &l, why);

    if (e != ERR_OK) {
        ASSERT(why[0] != '\0');
        return 0;
    }
    ASSERT(l.skills.n <= SKILLS_MAX);
    for (size_t i = 0; i < l.skills.n; ++i)
        check_row(&l.skills.rows[i]);
    /* A thousand rows of the longest names always fit. */
    ASSERT(resume_line_print(&l, &printed) == 0);
    struct slice line = {printed.p, printed.len - 1};
    ASSERT(printed.p[line.len] == '\n');
    ASSERT(slice_find(line, '\n') == SIZE_MAX);
    ASSERT(resume_line_parse(line, SKILLS_MAX, &again, why) == ERR_OK);
    check_same(&l, &again);
    resume_line_fini(&again);
    resume_line_fini(&l);
    text_fini(&printed);
    return 0;
}
