/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of one response, beyond response_buffer, that its client has not received: a queue of
 * bytes in an unnamed file (common/net/body_file.h). Bytes are added at its end as they come from
 * the worker, taken from its front as the client reads, and their space is released piece by piece.
 * A struct response_spill belongs to its exchange and is used on one loop; its struct spill_loop,
 * on the same loop, outlives it. A struct spill_space is shared by all loops and outlives these.
 *
 * Files and their bytes are shared fairly among clients (common/net/fair_shares.h): a response may
 * lose its file to another client's.
 */
#pragma once

#include "common/net/body_file.h"
#include "common/net/fair_shares.h"
#include "common/upstream/http1_client.h"

/* Shared by all loops. */
struct spill_space {
    const char *directory;     /* borrowed; constant */
    struct fair_shares *files; /* shared with the bodies of requests */
    struct fair_shares bytes;  /* in the files of all responses, or reserved for them */
};

/* Shared by the responses of one loop. */
struct spill_loop {
    struct spill_space *space;
    struct fair_loop *files, *bytes;
    struct body_file_bin bin;
};

struct response_spill;

void spill_loop_init(struct spill_loop *s, struct spill_space *space, struct loop *l);
void spill_loop_fini(struct spill_loop *s);

/* Empty, without a file. LOST is called, never inside these functions, when another client got what
 * the response of OWNER had; it must destroy the spill. */
struct response_spill *response_spill_create(struct spill_loop *l, const struct fair_owner *owner,
                                             void (*lost)(void *context),
                                             void *context) returns_nonnull_;
/* Its space is released soon. NULL is allowed. */
void response_spill_destroy(struct response_spill *s);

/*
 * Returns how many bytes may be added now, with at most MAX_BYTES of this response in its file, as
 * far as the space of all permits; reserved for S until it is empty. At most a few hundred KiB:
 * call again after adding. 0: a limit was reached; or no file can be created or the file system is
 * nearly full, which response_spill_error reports. REVOKES: other clients that have more may lose
 * theirs.
 */
size_t response_spill_room(struct response_spill *s, uint64_t max_bytes, bool revokes);
/*
 * Appends BODY and takes ownership of it. False if it could not be written: it is part of the queue
 * all the same, in memory, and nothing is to be added until S is empty.
 */
bool response_spill_add(struct response_spill *s, struct body_piece *body) must_check;
/* Takes at most MAX bytes from the front of S, which is not empty. NULL: they cannot be read. */
struct body_piece *response_spill_take(struct response_spill *s, size_t max);

bool response_spill_is_empty(const struct response_spill *s);
/* Returns true if more could be added if other clients had less: a limit that all share was
 * reached. */
bool response_spill_is_crowded(const struct response_spill *s);
/* The same, and the client has other files. */
bool response_spill_is_over_share(const struct response_spill *s);
/* Bytes in the file that have not been taken. */
uint64_t response_spill_in_file(const struct response_spill *s);
/* Bytes in memory: those that could not be written. */
size_t response_spill_in_memory(const struct response_spill *s);
/* errno of the last failure since response_spill_room was last called, or in it; 0: none. */
int response_spill_error(const struct response_spill *s);
