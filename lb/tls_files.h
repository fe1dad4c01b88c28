/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of a listener's TLS were at one time, to be told from what they are now. Owned by
 * whoever looked; control thread.
 */
#ifndef RLB_LB_TLS_FILES_H
#define RLB_LB_TLS_FILES_H

#include "lb/tls_config.h"

struct tls_files;

/* Look at each file that C names. Before they are read, so that a change in between shows. */
struct tls_files *tls_files_look(const struct tls_config *c);
/* Both are of one configuration. */
bool tls_files_same(const struct tls_files *a, const struct tls_files *b);
/* NULL is fine. */
void tls_files_destroy(struct tls_files *f);

#endif
