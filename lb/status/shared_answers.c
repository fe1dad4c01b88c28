/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/status/shared_answers.h"

#include <stdlib.h>

struct kept {
    struct text answer;
    uint64_t until_us; /* 0: nothing is kept */
};

struct shared_answers {
    struct kept pages[SHARED_PAGES];
};

struct shared_answers *shared_answers_create(void)
{
    return xcalloc(1, sizeof(struct shared_answers));
}

static void forget(struct kept *k)
{
    text_fini(&k->answer);
    k->until_us = 0;
}

void shared_answers_forget(struct shared_answers *s)
{
    for (size_t i = 0; i < SHARED_PAGES; ++i)
        forget(&s->pages[i]);
}

void shared_answers_destroy(struct shared_answers *s)
{
    if (s == NULL)
        return;
    shared_answers_forget(s);
    free(s);
}

bool shared_answers_take(const struct shared_answers *s, enum shared_page page, uint64_t now_us,
                         struct text *out)
{
    const struct kept *k = &s->pages[page];

    if (now_us >= k->until_us)
        return false;
    text_add(out, text_slice(&k->answer));
    return true;
}

void shared_answers_keep(struct shared_answers *s, enum shared_page page, uint64_t now_us,
                         uint64_t cost_us, struct slice answer)
{
    struct kept *k = &s->pages[page];
    uint64_t age = cost_us < SHARED_ANSWER_MAX_US / SHARED_ANSWER_TIMES
                       ? cost_us * SHARED_ANSWER_TIMES
                       : SHARED_ANSWER_MAX_US;

    if (cost_us < SHARED_ANSWER_FROM_US) {
        if (now_us >= k->until_us)
            forget(k);
        return;
    }
    text_clear(&k->answer);
    text_add(&k->answer, answer);
    k->until_us = now_us + age;
}
