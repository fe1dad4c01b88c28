/* SPDX-License-Identifier: Apache-2.0
 *
 * Small files, whole: read within a bound, written so that a crash leaves the old or the new one,
 * set aside when bad. Blocking; not for data loops.
 */
#pragma once

#include "common/base/err.h"
#include "common/base/json.h"
#include "common/base/list.h"
#include "common/base/text.h"

#include <sys/types.h>

/*
 * Appends the contents of PATH to OUT. Errors: ERR_NOT_FOUND, ERR_TOO_LARGE (over MAX bytes),
 * ERR_SYSTEM (see errno).
 */
enum err file_read(const char *path, size_t max, struct text *out) must_check;
/* The same for the rest of the open file FD. Errors: ERR_TOO_LARGE, ERR_SYSTEM. */
enum err file_read_from(int fd, size_t max, struct text *out) must_check;
/* The same for a file in a state_dir, which only the programs write: fails with ERR_SYSTEM if
 * PATH is a symbolic link; does not wait for the writer of a FIFO, which is read as empty. */
enum err file_read_state(const char *path, size_t max, struct text *out) must_check;
/*
 * Creates the temporary file PATH and opens it for writing. PATH must include this process's id. An
 * existing entry (left by an earlier process of that id, or a trap such as a symbolic link) is
 * removed first. Returns the descriptor, or -1 with errno set.
 */
int file_open_new(const char *path, mode_t mode) must_check;
/* Writes all of BYTES to the blocking descriptor FD. Returns false with errno set on failure. */
bool file_write_all(int fd, struct slice bytes) must_check;
/*
 * Writes PATH atomically: creates PATH.tmp.PID with MODE (an existing entry of that name is
 * replaced), writes it, calls fsync, renames it to PATH, and calls fsync on the directory. Returns
 * ERR_SYSTEM with errno set on failure.
 */
enum err file_write(const char *path, struct slice bytes, mode_t mode) must_check;
/*
 * Writes a file that a user named. A regular or new one is written by file_write(); what else there
 * is, such as a device, a pipe, or a symbolic link to any file, is not replaced but written to.
 */
enum err file_write_output(const char *path, struct slice bytes, mode_t mode) must_check;
/*
 * Opens PATH, which is created with mode 0600 if it does not exist, and locks the whole file. The
 * lock is held while the descriptor, or a copy inherited by a child process, is open. Waits up to
 * WAIT_MS for the current holder of the lock.
 *
 * Returns the descriptor, or -1 with errno set; EWOULDBLOCK means that the file is still locked.
 */
int file_lock(const char *path, uint64_t wait_ms) must_check;
/*
 * Logs the warning secret-file-exposed if the mode of PATH, which contains a secret, lets others
 * read it. Permissions of its group are not reported: services read keys as members of a group.
 */
void file_warn_exposed(const char *path);
/* Renames PATH to PATH.bad for later analysis. An existing PATH.bad is replaced. */
enum err file_set_aside(const char *path) must_check;

/*
 * ---- a file in a state_dir, which is written whenever its contents change ----
 *
 * What cannot be written (a full disk, missing permissions) is logged once, listed for operators
 * until it is saved, and written again by its owner every STATE_FILE_RETRY_MS. Embedded in the
 * owner; used by one thread at a time. The list of unsaved files is one per process, under its own
 * lock.
 */

enum { STATE_FILE_RETRY_MS = 5000 };

struct state_file {
    char *path;          /* NULL: none; all calls succeed */
    int error;           /* errno of the last attempt; 0: saved */
    uint64_t unsaved_ms; /* monotonic: since when */
    struct list unsaved; /* in the list of unsaved files */
};

void state_file_init(struct state_file *f, const char *path);
/* The file is not listed any more. */
void state_file_fini(struct state_file *f);
/* Writes the file as file_write() does; creates its directory if that does not exist. Returns false
 * if it is unsaved. */
bool state_file_write(struct state_file *f, struct slice bytes, mode_t mode);
/* Removes the file. Returns false if it still exists. */
bool state_file_remove(struct state_file *f);

/* The number of unsaved files. Any thread. */
size_t state_files_unsaved(void);
/* Writes the member "unsaved_files": those that have been unsaved longest, at most 20, each with
 * its path, the reason and the time. Any thread. */
void state_files_describe(struct json_writer *w);
