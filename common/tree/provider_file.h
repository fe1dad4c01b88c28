/* SPDX-License-Identifier: Apache-2.0
 *
 * A provider in the directory tree: a file that its owner keeps open under an OFD lock. The lock
 * belongs to the open file, so the kernel drops it with the process, and one process may hold many
 * and test its own. Rules that make it safe without any other lock:
 *   - a file comes into place complete and locked, never over somebody else's;
 *   - a file is unlinked only by who holds its lock and has seen it still in place under that lock.
 * Small blocking I/O; any thread, one file one thread.
 */
#ifndef RLB_TREE_PROVIDER_FILE_H
#define RLB_TREE_PROVIDER_FILE_H

#include "common/base/err.h"
#include "common/base/limits.h"
#include "common/base/text.h"

#include <sys/stat.h>

/* A file name is at most this, whatever the file system (NAME_MAX), with its NUL. */
enum { PROVIDER_NAME_ROOM = 256 };

/* A file of our own, in place. fd is -1 when there is none. */
struct provider_file {
    int fd;
    dev_t dev;
    ino_t ino;
};

/* The file name of provider NAME. False: it would be too long, or NAME is empty. */
bool provider_name_encode(const char *name, char out[PROVIDER_NAME_ROOM]) must_check;
/* The provider's name of FILE. False: that is no provider's file (hidden, or not as we encode). */
bool provider_name_decode(const char *file, char out[PROVIDER_NAME_ROOM]) must_check;

/*
 * Put a file of BYTES at FOLDER/FILE. F may hold the one there now, which is replaced and let go.
 * Errors: ERR_BUSY (another owner lives, or is just being cleared away), ERR_SYSTEM (errno says).
 */
enum err provider_file_put(struct provider_file *f, const char *folder, const char *file,
                           struct slice bytes) must_check;
/* Whether F is still what lies at PATH. */
bool provider_file_in_place(const struct provider_file *f, const char *path);
/* Unlink it if it is still in place, and let it go. Harmless without a file. */
void provider_file_drop(struct provider_file *f, const char *path);

/*
 * Unlink PATH if nobody holds it.
 * Errors: ERR_BUSY (somebody does), ERR_NOT_FOUND (gone already), ERR_SYSTEM.
 */
enum err provider_file_clear(const char *path) must_check;
/* Whether somebody holds the lock of open file FD (another open of the same file counts). */
bool provider_file_held(int fd);

/*
 * Open a regular file for reading, following no link and waiting for nobody; *ST describes it.
 * Errors: ERR_NOT_FOUND, ERR_UNSUPPORTED (no regular file), ERR_SYSTEM.
 */
enum err plain_file_open(const char *path, int *fd, struct stat *st) must_check;
/* Append all of FD. Errors: ERR_TOO_LARGE (over MAX bytes), ERR_SYSTEM. */
enum err plain_file_read(int fd, size_t max, struct text *out) must_check;

#endif
