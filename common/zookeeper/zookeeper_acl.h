/* SPDX-License-Identifier: Apache-2.0
 *
 * Who may do what with the nodes that we make. The vectors are the caller's; any thread.
 */
#ifndef RLB_ZOOKEEPER_ZOOKEEPER_ACL_H
#define RLB_ZOOKEEPER_ZOOKEEPER_ACL_H

#include <zookeeper/zookeeper.h>

/*
 * Everybody reads; who wrote it (or, for nodes that stay, the configured identity) does all.
 *   own       for our ephemeral nodes: empty, to be freed with zk_acl_free
 *   open      for nodes that stay: the same
 *   creator   USER:PASSWORD of this process alone
 *   identity  the same of the configuration; NULL: everybody may write what stays
 */
void zk_acls_make(struct ACL_vector *own, struct ACL_vector *open, const char *creator,
                  const char *identity);
void zk_acl_free(struct ACL_vector *v);

#endif
