/* SPDX-License-Identifier: Apache-2.0
 *
 * The addresses of one application that an operator has drained, in a file in state_dir, so that
 * neither a restart nor an upgrade returns a worker to service during its maintenance. Owned by the
 * application's membership; control thread.
 */
#ifndef RLB_LB_BACKENDS_DRAINED_NAMES_H
#define RLB_LB_BACKENDS_DRAINED_NAMES_H

#include <stdbool.h>

struct drained_names;

enum {
    /*
     * Far above the number of workers under maintenance at any one time. Names of workers that were
     * removed while the program did not run stay in the file; above this limit the oldest name is
     * dropped, which is logged. A file of this many names is within the limit for reading it.
     */
    DRAINED_NAMES_MAX = 4096,
};

/*
 * Reads the list of APPLICATION from the file. An invalid file is renamed, logged, and counts as
 * empty.
 *   state_dir  NULL: nothing is stored
 */
struct drained_names *drained_names_open(const char *state_dir, const char *application);
void drained_names_close(struct drained_names *d);
bool drained_names_has(const struct drained_names *d, const char *name);
/* NAME is drained, or no longer: written at once. */
void drained_names_set(struct drained_names *d, const char *name, bool on);

#endif
