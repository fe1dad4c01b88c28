/* SPDX-License-Identifier: Apache-2.0
 *
 * Small files, whole: read within a bound, written so that a crash leaves the old or the new one,
 * set aside when bad. Blocking; not for data loops.
 */
#ifndef RLB_BASE_FILE_H
#define RLB_BASE_FILE_H

#include "common/base/err.h"
#include "common/base/text.h"

#include <sys/types.h>

/*
 * Append the whole of PATH to OUT.
 * Errors: ERR_NOT_FOUND, ERR_TOO_LARGE (over MAX bytes), ERR_SYSTEM (errno says).
 */
enum err file_read(const char *path, size_t max, struct text *out) must_check;
/* The same of a file in a state_dir, which programs alone make: a symbolic link is ERR_SYSTEM. */
enum err file_read_state(const char *path, size_t max, struct text *out) must_check;
/*
 * Create the temporary file PATH, whose name includes this process's id, and open it for writing.
 * An existing entry (left by an earlier process of that id, or a trap such as a symbolic link) is
 * removed first. Returns the descriptor, or -1 with errno set.
 */
int file_open_new(const char *path, mode_t mode) must_check;
/* All of BYTES to FD, which blocks. False: errno says. */
bool file_write_all(int fd, struct slice bytes) must_check;
/* Write PATH through a new PATH.tmp.PID, whatever has that name: write, fsync, rename, fsync of the
 * folder. ERR_SYSTEM: errno says. */
enum err file_write(const char *path, struct slice bytes) must_check;
/* The same, for nobody's eyes but our own user's: mode 0600. */
enum err file_write_private(const char *path, struct slice bytes) must_check;
/*
 * Open PATH, made with mode 0600, and lock it as a whole for as long as the descriptor, or one that
 * a child has inherited, is open; waits up to WAIT_MS for who has it locked.
 *   -> the descriptor, or -1: errno says; EWOULDBLOCK: it is locked
 */
int file_lock(const char *path, uint64_t wait_ms) must_check;
/*
 * Write the warning secret-file-exposed to the log if the mode of PATH, which holds a secret, lets
 * others read it. Permissions of its group are normal: services read keys as members of a group.
 */
void file_warn_exposed(const char *path);
/* Rename PATH to PATH.bad (replacing an older one), so that somebody can look at it. */
enum err file_set_aside(const char *path) must_check;

#endif
