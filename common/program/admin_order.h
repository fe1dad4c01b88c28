/* SPDX-License-Identifier: Apache-2.0
 *
 * What an operator's order at an admin address says: POST /actions/... {"application": NAME,
 * "worker": NAME, "class": CLASS}, where each may be left out. It is read whole, and what is
 * unknown refused, before anything is done.
 */
#ifndef RLB_PROGRAM_ADMIN_ORDER_H
#define RLB_PROGRAM_ADMIN_ORDER_H

#include "common/base/json.h"

enum { ADMIN_ORDER_BYTES_MAX = 4096 /* the admin address takes no longer bodies */ };

struct admin_order {
    json_t *root;
    struct slice application, worker, cls; /* empty: it does not say */
    bool has_class;                        /* "" is a class too */
};

/* Returns NULL, or why ENTITY is not a valid action (constant text). admin_order_fini must be
 * called in either case. */
const char *admin_order_read(struct admin_order *o, struct slice entity);
void admin_order_fini(struct admin_order *o);
/* Whether it is about the application NAME, or says none. */
bool admin_order_means(const struct admin_order *o, const char *name);
/* {"error": WHY} into BODY -> STATUS */
int admin_order_refuse(struct text *body, int status, const char *why);
/* The answer to an order to forget skills; logged. */
void admin_order_forgotten(struct text *body, size_t workers, size_t scores);

#endif
