/* SPDX-License-Identifier: Apache-2.0
 *
 * Figures by type of key, which is what stands before a key's first ':'. Bounded: the first MAX
 * types have an entry each, what comes later is counted together, as strangers name the types.
 * Owned by the server; an entry lives as long as the table. One thread.
 */
#ifndef RLB_POOLCOUNTER_TYPES_H
#define RLB_POOLCOUNTER_TYPES_H

#include "common/base/map.h"

struct type_figures {
    uint64_t acquired, done, full, timeouts, no_room;
    uint64_t waited_us; /* of waits that ended in LOCKED or DONE */
    uint64_t worked_us; /* of holders that have ended */
    size_t held, waiting;
};

struct type_entry {
    struct map_node node;
    struct slice name; /* its own bytes; empty: the others, counted together */
    struct type_figures figures;
};

struct types {
    struct map map;
    size_t max;
    struct type_entry others;
};

void types_init(struct types *t, size_t max);
void types_fini(struct types *t);
/* The entry of NAME, made when there is none and room; else that of the others. */
struct type_entry *types_get(struct types *t, struct slice name);

#endif
