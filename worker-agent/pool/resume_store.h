/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes resume files on a thread of its own, so that no loop waits for a disk. Of several texts
 * for one file only the newest is written. Owned by the pool. Any thread may call; errors are
 * logged.
 */
#pragma once

#include "common/base/text.h"

struct resume_store;

struct resume_store *resume_store_create(void);
/* Writes what is left first. */
void resume_store_destroy(struct resume_store *s);
/* Schedules writing BYTES (copied) to PATH, or, if they are empty, removing PATH. */
void resume_store_put(struct resume_store *s, const char *path, struct slice bytes);
