/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/core/step.h"

#define TO(step) (1u << STEP_##step)
const uint16_t step_successors[] = {
#define STEP(step, to, doc) to,
#include "lb/core/step.def"
};
#undef TO

static const struct {
    const char *text;
    int status;
} outcome_rows[] = {
#define OUTCOME(name, text, status, retry, doc) {text, status},
#include "lb/core/outcome.def"
};

const char *outcome_text(enum outcome o)
{
    return outcome_rows[o].text;
}

int outcome_status(enum outcome o)
{
    return outcome_rows[o].status;
}
