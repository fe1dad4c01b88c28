/* SPDX-License-Identifier: Apache-2.0
 *
 * The last known state of some nodes, in one file, for a start while the tree cannot be reached.
 * Owned by whoever watches the nodes (one application of a program); on the tree's loop. What comes
 * out of it is as hostile as what the tree says: it takes the same way through the same checks.
 *
 *   {"v":1,"place":"zookeeper://...","saved":1700000000,"parts":{"settings":{...},"providers":{...}}}
 */
#ifndef RLB_TREE_TREE_MEMORY_H
#define RLB_TREE_TREE_MEMORY_H

#include "common/tree/tree.h"

enum {
    /* The file: a thousand providers are 200 KB. */
    TREE_MEMORY_BYTES_MAX = 4 * 1024 * 1024,
    /* From the first change to the write, which takes the others of a burst along. */
    TREE_MEMORY_DELAY_MS = 100,
    /* Between two writes, each with an fsync. */
    TREE_MEMORY_PAUSE_MS = 5000,
};

struct tree_memory;

/*
 * PATH: the file, or NULL: nothing is remembered or kept. PLACE: where the nodes are, in words; a
 * file about another place is not used. A file that cannot be read, is torn or corrupt is told of
 * in the log, and set aside.
 */
struct tree_memory *tree_memory_open(struct loop *l, const char *path, const char *place);
/* Writes what is not written yet. NULL is fine. */
void tree_memory_close(struct tree_memory *m);
/* What was kept as PART in another life, an object, or NULL. Borrowed until tree_memory_keep(PART).
 */
json_t *tree_memory_part(const struct tree_memory *m, const char *part);
/* Seconds since that was written. */
uint64_t tree_memory_age_s(const struct tree_memory *m);
/* PART is CONTENT (an object, a reference of its own is taken) now: written soon. */
void tree_memory_keep(struct tree_memory *m, const char *part, json_t *content);
/* There is no PART any more. */
void tree_memory_forget(struct tree_memory *m, const char *part);

#endif
