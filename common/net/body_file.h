/* SPDX-License-Identifier: Apache-2.0
 *
 * A large request or response body in an unnamed file, which is removed when its descriptor is
 * closed. A request's body is written completely, then read as often as needed. A response's body
 * is read while it is written, and the space that has been read is released. Belongs to its
 * creator; one loop's thread.
 */
#pragma once

#include "common/base/list.h"
#include "common/event/loop.h"

#include <sys/types.h>

struct body_file;
struct transport;

/* Creates an unnamed file in DIRECTORY. Returns NULL with errno set if it cannot be created. */
struct body_file *body_file_create(const char *directory);
void body_file_destroy(struct body_file *f);

/*
 * Files to be destroyed. Freeing a gigabyte at once takes the kernel some 60 ms, which would block
 * the loop; so files are truncated piece by piece, then closed.
 */
struct body_file_bin {
    struct loop *loop;
    struct timer timer;
    struct list files;
};
void body_file_bin_init(struct body_file_bin *b, struct loop *l);
/* Frees the remaining files at once. */
void body_file_bin_fini(struct body_file_bin *b);
/* Destroys F some time later. F may be NULL. */
void body_file_throw(struct body_file_bin *b, struct body_file *f);
/* Appends BYTES. Returns false with errno set if the disk is full or fails. */
bool body_file_add(struct body_file *f, struct slice bytes) must_check;
/*
 * Reads up to ROOM bytes at offset AT, which must be below the number of bytes added. Returns the
 * number of bytes read, at least one, or -1 with errno set.
 */
ssize_t body_file_read(const struct body_file *f, size_t at, char *to, size_t room) must_check;
/*
 * Releases the space of the first BYTES of F, which must not be read any more. Offsets do not
 * change. Returns the number of bytes at the start of F that use no space now: fewer than BYTES if
 * the file system cannot release parts of a file.
 */
size_t body_file_release(struct body_file *f, size_t bytes);
/* Returns true if the file system of F is low on space. */
bool body_file_space_is_low(const struct body_file *f);
/*
 * Maps the contents into memory, which is valid as long as F. Nothing may be added afterwards. p is
 * NULL on failure.
 */
struct slice body_file_map(struct body_file *f);
/* Sends a piece of the last LEFT bytes without copying them. Result as of transport_send_file(). */
ssize_t body_file_send(const struct body_file *f, struct transport *to, size_t left);
