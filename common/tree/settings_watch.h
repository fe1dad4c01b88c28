/* SPDX-License-Identifier: Apache-2.0
 *
 * Live settings that follow their node: watched, kept in a memory, and taken from it at a start
 * while the tree does not answer. Owned by whoever has the settings, which with tree and memory
 * outlive it; on the tree's loop.
 */
#ifndef RLB_TREE_SETTINGS_WATCH_H
#define RLB_TREE_SETTINGS_WATCH_H

#include "common/tree/live_settings.h"
#include "common/tree/tree_memory.h"

struct settings_watch;

/* What a program's or an application's own node is called in the memory. */
#define SETTINGS_WATCH_PART "settings"
/*
 * PART: under which name the memory has it; copied. WAIT_MS: how long the tree may take to answer.
 */
struct settings_watch *settings_watch_start(struct tree *t, const char *path,
                                            struct live_settings *live, struct tree_memory *memory,
                                            const char *part, uint64_t wait_ms);
/* What the memory has is in force now, and until the tree answers; not only when that takes
 * WAIT_MS.
 */
void settings_watch_recall(struct settings_watch *w);
/* NULL is fine. */
void settings_watch_stop(struct settings_watch *w);

#endif
