/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/skills/resume.h"

/* Returns the score of CLS, or NULL. Not inline, or the compiler would warn of NULL in each test
 * that dereferences it. */
static noinline_ __attribute__((unused)) const double *resume_find(const struct resume *r,
                                                                   struct slice cls)
{
    for (size_t i = 0; i < r->n; ++i) {
        if (slice_eq(r->rows[i].cls, cls))
            return &r->rows[i].score;
    }
    return NULL;
}
