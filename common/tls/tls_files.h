/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies of the texts of TLS options, of which some name files: detects whether these have changed
 * since they were read. Embedded in the options' owner; all zero is empty.
 */
#pragma once

#include "common/base/base.h"

struct stat;

struct tls_files {
    char **texts;        /* NULL: none was given */
    struct stat *states; /* of the first NFILES texts, which name files */
    size_t n, nfiles;
};

/* Returns a copy of TEXT (NULL is allowed), which F owns. */
const char *tls_files_add(struct tls_files *f, const char *text);
/* Records the state of the files that all texts so far name. Must be called before the files are
 * read, so that a change in between is detected. */
void tls_files_watch(struct tls_files *f);
/* Records the state of the files again. Returns whether any file has changed. */
bool tls_files_changed(struct tls_files *f);
void tls_files_fini(struct tls_files *f);
