/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether files have changed since they were read. Owned by whoever reads them.
 */
#ifndef RLB_TLS_TLS_FILES_H
#define RLB_TLS_TLS_FILES_H

#include "common/base/base.h"

struct tls_files;

/* Looks at N PATHS (NULL: no file). Before they are read, so that a change in between shows. */
struct tls_files *tls_files_look(const char *const *paths, size_t n);
/* Looks at the same PATHS again and replaces *F. Returns whether any of them has changed. */
bool tls_files_changed(struct tls_files **f, const char *const *paths, size_t n);
/* NULL is allowed. */
void tls_files_destroy(struct tls_files *f);

#endif
