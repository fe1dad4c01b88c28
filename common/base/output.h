/* SPDX-License-Identifier: Apache-2.0
 *
 * A descriptor that is written to without waiting for its reader: standard output and error, which
 * may be a pipe, a socket or a terminal with a reader that has stopped. The open file description
 * of such a descriptor is shared with other programs, so it is not made non-blocking itself. A
 * value; the owner of the descriptor is the caller.
 */
#pragma once

#include <sys/types.h>

#include "common/base/base.h"

enum output_kind {
    OUTPUT_POLLED,       /* may block: is written to in small parts when it can be written */
    OUTPUT_SOCKET,       /* does not block with MSG_DONTWAIT */
    OUTPUT_NON_BLOCKING, /* a description of its own, or a file */
};

struct output {
    int fd; /* -1: none, what is written is discarded */
    enum output_kind kind;
};

/*
 * Opens /dev/null for those of the descriptors 0, 1 and 2 that are closed: the next file that is
 * opened, a socket or a file of state, would get their number, and what is printed. Writing to 1
 * and 2 then fails as it does when they are closed. To be called first.
 */
void output_fill_standard(void);
/* Opens what FD is open on once more, or duplicates FD where this is not permitted. */
struct output output_open(int fd);
/*
 * Writes the beginning of S without waiting for the reader. Returns its length, or -1 with errno
 * set: EAGAIN if the reader has to read first. At most PIPE_BUF bytes are written completely or not
 * at all to a pipe or a local socket. A pipe that could not be opened once more can still block if
 * another process fills it at that moment.
 */
ssize_t output_write(const struct output *o, struct slice s) must_check;
/* Waits for room for MS milliseconds at most (-1: without limit). Returns true if there is any. */
bool output_wait(const struct output *o, int ms);
