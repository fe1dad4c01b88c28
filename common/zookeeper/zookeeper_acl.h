/* SPDX-License-Identifier: Apache-2.0
 *
 * Access control lists of the nodes that we create. The caller owns the vectors; any thread.
 */
#ifndef RLB_ZOOKEEPER_ZOOKEEPER_ACL_H
#define RLB_ZOOKEEPER_ZOOKEEPER_ACL_H

#include <zookeeper/zookeeper.h>

/*
 * All may read; the creator (or, for persistent nodes, the configured identity) has all
 * permissions.
 *   own       set to the list for our ephemeral nodes: must be empty; freed with zk_acl_free
 *   open      the same for persistent nodes
 *   creator   USER:PASSWORD of this process only
 *   identity  the configured USER:PASSWORD; NULL: all may write persistent nodes
 */
void zk_acls_make(struct ACL_vector *own, struct ACL_vector *open, const char *creator,
                  const char *identity);
void zk_acl_free(struct ACL_vector *v);

#endif
