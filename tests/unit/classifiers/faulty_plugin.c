/* SPDX-License-Identifier: Apache-2.0
 *
 * Plugins that each break the contract in one way: built once per fault, with FAULT_... defined.
 */
#include "classifiers/classifier.h"

#include <stdio.h>

static __attribute__((unused)) void *faulty_create(const char *options, char *why, size_t why_room)
{
    (void)options;
#ifdef FAULT_rude
    snprintf(why, why_room, "\033[31mno\n");
    return NULL;
#else
    static int instance;

    (void)why;
    (void)why_room;
    return &instance;
#endif
}

static void faulty_destroy(void *self)
{
    (void)self;
}

/* Claims more than it was given room for. */
static size_t faulty_classify(void *self, const struct rlb_environment *env, char *out, size_t room)
{
    (void)self;
    (void)env;
    (void)out;
    return room + 1;
}

static const struct rlb_classifier faulty = {
#ifdef FAULT_wrong_version
    .api = 99,
#else
    .api = RLB_CLASSIFIER_API,
#endif
    .name = "faulty",
    .version = "1",
#ifndef FAULT_no_create
    .create = faulty_create,
#endif
    .destroy = faulty_destroy,
    .classify = faulty_classify,
};

#ifdef FAULT_no_symbol
RLB_CLASSIFIER_EXPORT const struct rlb_classifier *rlb_classifier_of_old(void);
const struct rlb_classifier *rlb_classifier_of_old(void)
#else
const struct rlb_classifier *rlb_classifier(void)
#endif
{
#ifdef FAULT_no_contract
    return sizeof(faulty) == 0 ? &faulty : NULL;
#else
    return &faulty;
#endif
}
