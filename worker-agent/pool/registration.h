/* SPDX-License-Identifier: Apache-2.0
 *
 * A slot's entry in the tree: PATH/providers/ADDRESS with what load balancers want to know of it.
 * Embedded in the slot. Control loop only.
 */
#ifndef RLB_AGENT_POOL_REGISTRATION_H
#define RLB_AGENT_POOL_REGISTRATION_H

#include "common/net/addr.h"
#include "common/tree/tree.h"

struct registration {
    struct tree_registration *entry; /* NULL: not registered */
    json_t *properties;              /* as last said */
};

struct registration_facts {
    const char *application, *version, *description;
    const char *agent;       /* which agent: host and pid */
    const char *admin;       /* where the agent's operators connect; NULL: nowhere */
    const char *fingerprint; /* of the classifier that its latest skills are of; NULL: none yet */
    const char *state;
    const char *incarnation;
    long pid; /* 0: no process */
};

/* The name of a slot that listens at A: A, or with ADVERTISE (or NULL) in place of its host. */
void registration_name(const char *advertise, const struct addr *a, char out[ADDR_TEXT_MAX]);
/* Register under PATH of TREE, or say what has changed. TREE NULL: nothing happens. */
void registration_set(struct registration *r, struct tree *tree, const char *path, const char *name,
                      const struct registration_facts *f);
void registration_end(struct registration *r);

#endif
