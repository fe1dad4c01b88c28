/* SPDX-License-Identifier: Apache-2.0
 *
 * Applications that name the same tree in the same way have one connection to it. Owned by the load
 * balancer while any application uses it; control thread.
 */
#ifndef RLB_LB_BACKENDS_SHARED_TREE_H
#define RLB_LB_BACKENDS_SHARED_TREE_H

#include "common/tree/tree.h"
#include "lb/core/lb.h"

/* The tree that S names. Pair with shared_tree_close. Errors: those of tree_open, problems to D. */
enum err shared_tree_open(struct lb *lb, const struct app_settings *s, struct tree **out,
                          struct diag *d) must_check;
/* No watch or registration of the caller's is left in it. */
void shared_tree_close(struct lb *lb, struct tree *t);

#endif
