/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers of the admin address that are expensive to make, retained for a moment for the next
 * request: so that the pages of a large pool take no more than a tenth of the control loop, however
 * many clients request them. What is cheap is made for each request. Owned by lb/program; control
 * thread.
 */
#ifndef RLB_LB_STATUS_SHARED_ANSWERS_H
#define RLB_LB_STATUS_SHARED_ANSWERS_H

#include "common/base/text.h"

enum {
    SHARED_ANSWER_FROM_US = 2000,      /* of CPU: one that took less is not kept */
    SHARED_ANSWER_TIMES = 10,          /* it is kept for so many times what it took */
    SHARED_ANSWER_MAX_US = 500 * 1000, /* but no longer than this */
};

/* One of each is kept. */
enum shared_page {
    SHARED_STATUS,
    SHARED_RESUMES,
    SHARED_METRICS,
    SHARED_OPEN_METRICS,
    SHARED_PAGES
};

struct shared_answers;

struct shared_answers *shared_answers_create(void);
/* NULL is fine. */
void shared_answers_destroy(struct shared_answers *s);
/* Appends the answer that is kept. False: there is none, or it is too old. */
bool shared_answers_take(const struct shared_answers *s, enum shared_page page, uint64_t now_us,
                         struct text *out);
/* ANSWER was made at NOW_US, with COST_US of CPU: keeps a copy where that is worth it. */
void shared_answers_keep(struct shared_answers *s, enum shared_page page, uint64_t now_us,
                         uint64_t cost_us, struct slice answer);
/* Drops all stored answers, so that the client that has just changed something sees the change. */
void shared_answers_forget(struct shared_answers *s);

#endif
