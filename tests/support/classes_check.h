/* SPDX-License-Identifier: Apache-2.0
 *
 * The invariants of a table of classes.
 */
#pragma once

#include "common/skills/classes.h"

static inline void classes_check(const struct classes *t)
{
    /* A tenth of the room is for classes on probation. */
    size_t probation_room = t->max / 10 != 0 ? t->max / 10 : 1;
    const struct class_entry *e;

    list_for_each_entry (e, &t->known, node)
        ASSERT(e->known);
    list_for_each_entry (e, &t->probation, node)
        ASSERT(!e->known);
    ASSERT(list_length(&t->known) == t->nknown);
    ASSERT(list_length(&t->known) + list_length(&t->probation) == t->n);
    ASSERT(map_count(&t->by_name) == t->n);
    ASSERT(t->n <= t->max);
    ASSERT(t->nknown <= t->max - probation_room);
    ASSERT(t->sweep_left >= 1);
    ASSERT(t->sweep_left <= probation_room);
}
