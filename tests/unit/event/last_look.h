/* SPDX-License-Identifier: Apache-2.0
 *
 * Work before a loop's wait, counted, beside work deferred in the turn before.
 */
#ifndef RLB_TESTS_LAST_LOOK_H
#define RLB_TESTS_LAST_LOOK_H

#include "common/event/loop.h"

struct last_look {
    struct loop_deferred look, deferred;
    unsigned looks, looks_when_deferred;
};

static inline void on_last_look(struct loop_deferred *d)
{
    ++container_of(d, struct last_look, look)->looks;
}

static inline void on_last_deferred(struct loop_deferred *d)
{
    struct last_look *s = container_of(d, struct last_look, deferred);

    s->looks_when_deferred = s->looks;
}

#endif
