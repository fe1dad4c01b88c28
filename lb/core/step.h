/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of a request's life, and which may follow which: step.def has them. And how it ends:
 * outcome.def. Any thread.
 */
#pragma once

#include <stdint.h>

enum step {
#define STEP(name, to, doc) STEP_##name,
#include "lb/core/step.def"
    STEPS
};
/* For each step, a bit of each that may follow it. */
extern const uint16_t step_successors[];

enum outcome {
#define OUTCOME(name, text, status, retry, doc) OUTCOME_##name,
#include "lb/core/outcome.def"
    OUTCOMES
};
const char *outcome_text(enum outcome o);
int outcome_status(enum outcome o);
