/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether files have changed since they were read: a file that is replaced has another inode, one
 * that is written anew another size or time; the time of change goes along, as nobody can set it
 * back. A plain value of whoever reads them.
 */
#ifndef RLB_TLS_TLS_WATCH_H
#define RLB_TLS_TLS_WATCH_H

#include "common/base/base.h"

#include <sys/stat.h>

enum { TLS_WATCH_FILES = 3 };

struct tls_watch {
    struct stat files[TLS_WATCH_FILES]; /* zero: cannot be looked at */
};

/* Look at PATHS (NULL: none). Before they are read, so that a change in between shows. */
void tls_watch_look(struct tls_watch *w, const char *const paths[TLS_WATCH_FILES]);
bool tls_watch_same(const struct tls_watch *a, const struct tls_watch *b);

#endif
