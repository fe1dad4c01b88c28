/* SPDX-License-Identifier: Apache-2.0
 *
 * Detects whether files have changed since they were read. Owned by the code that reads the files.
 */
#ifndef RLB_TLS_TLS_FILES_H
#define RLB_TLS_TLS_FILES_H

#include "common/base/base.h"

struct tls_files;

/* Records the state of N PATHS (NULL: no file). Must be called before the files are read, so that
 * a change in between is detected. */
struct tls_files *tls_files_look(const char *const *paths, size_t n);
/* Records the state of the same PATHS again, replacing *F. Returns whether any file has changed. */
bool tls_files_changed(struct tls_files **f, const char *const *paths, size_t n);
/* NULL is allowed. */
void tls_files_destroy(struct tls_files *f);

#endif
