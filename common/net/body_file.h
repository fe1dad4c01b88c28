/* SPDX-License-Identifier: Apache-2.0
 *
 * A large request or response body in an unnamed file, which is removed when its descriptor is
 * closed. A request's body is written completely, then read as often as needed. A response's body
 * is read while it is written, and the space that has been read is released. Belongs to its
 * creator; one loop's thread.
 */
#ifndef RLB_NET_BODY_FILE_H
#define RLB_NET_BODY_FILE_H

#include "common/base/list.h"
#include "common/event/loop.h"

#include <stdatomic.h>
#include <sys/types.h>

struct body_file;
struct transport;

/* How many files there are, and may be: each has a descriptor. Shared by all loops; a max of 0:
 * any. */
struct body_file_count {
    _Atomic uint64_t files, max;
};

/*
 * In DIRECTORY, counted in COUNT, which outlives it (NULL: not counted). NULL with errno: no file
 * can be made there, or COUNT has as many as there may be (EMFILE).
 */
struct body_file *body_file_create(const char *directory, struct body_file_count *count);
void body_file_destroy(struct body_file *f);

/*
 * Files that are done with. To give back a gigabyte at once takes the system some 60 ms, in which
 * the loop would stand still; so they are cut short piece by piece, then closed.
 */
struct body_file_bin {
    struct loop *loop;
    struct timer timer;
    struct list files;
};
void body_file_bin_init(struct body_file_bin *b, struct loop *l);
/* Its remaining contents are freed at once. */
void body_file_bin_fini(struct body_file_bin *b);
/* Destroy F, soon. NULL is fine. */
void body_file_throw(struct body_file_bin *b, struct body_file *f);
/* Append. False with errno: the disk is full, or broken. */
bool body_file_add(struct body_file *f, struct slice bytes) must_check;
/*
 * Read up to ROOM bytes from offset AT on into TO. Returns how many, at least one; -1 with errno.
 * AT is below what was added.
 */
ssize_t body_file_read(const struct body_file *f, size_t at, char *to, size_t room) must_check;
/*
 * The first BYTES of F are not read any more: release their space. Offsets stay as they are.
 * Returns how many bytes at the start of F take no space now: fewer than BYTES where the file
 * system cannot release parts of a file.
 */
size_t body_file_release(struct body_file *f, size_t bytes);
/* Whether the file system that F is on has little space left for other files. */
bool body_file_crowded(const struct body_file *f);
/*
 * All of it, as memory that is valid as long as F; it is read from the file on access. Nothing may
 * be added any more. On errors p is NULL.
 */
struct slice body_file_map(struct body_file *f);
/*
 * Send what is left, the last LEFT bytes, without copying it, a piece at most. As
 * transport_send_file.
 */
ssize_t body_file_send(const struct body_file *f, struct transport *to, size_t left);

#endif
