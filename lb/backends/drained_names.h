/* SPDX-License-Identifier: Apache-2.0
 *
 * The addresses of one application that an operator has taken out (drain), in a file of state_dir,
 * so that neither a restart nor an upgrade puts a worker back that somebody is working at. Owned by
 * the application's membership; control thread.
 */
#ifndef RLB_LB_BACKENDS_DRAINED_NAMES_H
#define RLB_LB_BACKENDS_DRAINED_NAMES_H

#include <stdbool.h>

struct drained_names;

enum {
    /* More than anybody works at at a time. Who went while we did not run stays in the file; beyond
     * this the oldest name goes, and is told. All fit into the file that is read. */
    DRAINED_NAMES_MAX = 4096,
};

/*
 * What the file says of APPLICATION. A bad file is set aside and logged, and says nothing.
 *   state_dir  NULL: nothing is kept
 */
struct drained_names *drained_names_open(const char *state_dir, const char *application);
void drained_names_close(struct drained_names *d);
bool drained_names_has(const struct drained_names *d, const char *name);
/* NAME is taken out, or no longer: written at once. */
void drained_names_set(struct drained_names *d, const char *name, bool on);

#endif
