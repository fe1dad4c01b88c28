/* SPDX-License-Identifier: Apache-2.0
 *
 * The last known state of some nodes, in one file, for a start while the tree cannot be reached.
 * Owned by whatever watches the nodes (one application of a program); on the tree's loop. Its
 * contents are not trusted more than those of the tree: they pass the same checks.
 *
 *   {"v":1,"tree":"zookeeper://...","saved":1700000000,"parts":{"settings":{...},"providers":{...}}}
 */
#pragma once

#include "common/tree/tree.h"

enum {
    /* The file: a thousand providers are 200 KB. */
    SNAPSHOT_BYTES_MAX = 4 * 1024 * 1024,
    /* From the first change of a burst to the write, which includes the later changes. */
    SNAPSHOT_DELAY_MS = 100,
    /* Between two writes, each with an fsync. */
    SNAPSHOT_PAUSE_MS = 5000,
};

struct snapshot;

/*
 * PATH: the file, or NULL: nothing is stored. PLACE: the nodes' tree and path, as text; a file
 * about another tree is not used. A file that cannot be read is logged; a corrupt one is also
 * renamed. PATH and PLACE are copied.
 */
struct snapshot *snapshot_open(struct loop *l, const char *path, const char *tree);
/* Writes what has not been written yet. NULL is allowed. */
void snapshot_close(struct snapshot *m);
/* Returns PART as it was last stored, an object, or NULL. Borrowed until stored or deleted. */
json_t *snapshot_part(const struct snapshot *m, const char *part);
/* Returns the age of the file as it was read at the start [s]. */
uint64_t snapshot_age_s(const struct snapshot *m);
/* Sets PART to CONTENT (an object, of which a reference is taken). It is written soon. */
void snapshot_store(struct snapshot *m, const char *part, json_t *content);
/* Deletes PART. */
void snapshot_delete(struct snapshot *m, const char *part);
