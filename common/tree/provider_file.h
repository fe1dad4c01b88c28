/* SPDX-License-Identifier: Apache-2.0
 *
 * A provider in the directory tree: a file that its owner keeps open under an OFD lock. The lock
 * belongs to the open file, so the kernel releases it with the process, and one process may hold
 * many of them and test its own. Two rules make this safe without any other lock:
 *   - a file is complete and locked when it appears under its name, and never replaces the file of
 *     another owner;
 *   - a file is unlinked only by the holder of its lock, after verifying under that lock that the
 *     file is still in place.
 * Short blocking I/O; any thread, but one thread at a time for each file.
 */
#pragma once

#include "common/base/base.h"
#include "common/base/err.h"
#include "common/base/text.h"

#include <limits.h>
#include <sys/stat.h>

/* A file name is at most this, whatever the file system (NAME_MAX), with its NUL. */
enum { PROVIDER_NAME_ROOM = 256 };

/* The file name of provider NAME. False: it would be too long, or NAME is empty. */
bool provider_name_encode(const char *name, char out[PROVIDER_NAME_ROOM]) must_check;
/* Decodes the provider's name from FILE. Returns false if FILE is not the name of a provider's file
 * (hidden, or not encoded as above). */
bool provider_name_decode(const char *file, char out[PROVIDER_NAME_ROOM]) must_check;

/*
 * Creates a locked file with BYTES at PATH, and sets *FD to it. Before, *FD must be -1, or our file
 * that is at PATH, which is replaced and closed. Errors: ERR_BUSY if another owner has the name, or
 * its file is being removed; ERR_SYSTEM with errno.
 */
enum err provider_file_put(int *fd, const char *path, struct slice bytes) must_check;
/* Returns true if the file FD (-1: none) is still the one at PATH. */
bool provider_file_in_place(int fd, const char *path);
/* Unlinks it if it is still in place, and closes it: *FD becomes -1. Harmless without a file. */
void provider_file_drop(int *fd, const char *path);

/*
 * Unlinks PATH if its lock is not held.
 * Errors: ERR_BUSY if the lock is held, ERR_NOT_FOUND if PATH does not exist, ERR_SYSTEM.
 */
enum err provider_file_clear(const char *path) must_check;
/* Whether the lock of open file FD is held (another open of the same file counts). */
bool provider_file_held(int fd);

/*
 * Opens a regular file for reading, without following a symbolic link and without blocking; *ST is
 * set to its status.
 * Errors: ERR_NOT_FOUND, ERR_UNSUPPORTED (not a regular file), ERR_SYSTEM.
 */
enum err plain_file_open(const char *path, int *fd, struct stat *st) must_check;

/* Prefix of the names of files and nodes before they are in place. */
#define NEW_FILE_PREFIX ".new-"
/* Sets OUT to a path in the directory of PATH, with a random name that has the prefix. */
bool hidden_path_beside(const char *path, char out[PATH_MAX]) must_check;

/* ---- access of a group ---- */

/*
 * Creates the files and directories of a directory tree with the access that its group needs.
 * Several programs share a tree through a group that may write to it. Whatever one of them creates
 * must be accessible to the others, also if it was created by root (an agent) and another user owns
 * the tree. No state; any thread.
 */

/*
 * Creates directory PATH, accessible to its owner and group regardless of the umask. Its group is
 * that of the directory above, if that is writable by its group and this process may change the
 * group. Returns false with errno set, also if PATH exists (EEXIST).
 */
bool group_directory_make(const char *path) must_check;
/* The same, including missing directories above PATH. It is not an error if PATH exists. */
bool group_directory_make_all(const char *path) must_check;
/* The same for the file FD, which was just created at PATH. */
bool group_file_share(int fd, const char *path) must_check;
