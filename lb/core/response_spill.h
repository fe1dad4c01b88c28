/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of one response, beyond response_buffer, that its client has not received: a queue of
 * bytes in an unnamed file (common/net/body_file.h). Bytes are added at its end as they come from
 * the worker, taken from its front as the client reads, and their space is released piece by piece.
 * A struct response_spill belongs to its exchange and is used on one loop; its struct spill_loop,
 * on the same loop, outlives it. A struct spill_space is shared by all loops and outlives these.
 */
#ifndef RLB_LB_CORE_RESPONSE_SPILL_H
#define RLB_LB_CORE_RESPONSE_SPILL_H

#include "common/net/body_file.h"
#include "common/upstream/http1_client.h"

#include <stdatomic.h>

/* Shared by all loops. */
struct spill_space {
    const char *directory;         /* borrowed; constant */
    struct body_file_count *files; /* shared with the bodies of requests; NULL: not counted */
    _Atomic uint64_t used_bytes;   /* in the files of all responses, or reserved for them */
    _Atomic uint64_t total_bytes;  /* limit of that: response_spill_total */
};

/* Shared by the responses of one loop. */
struct spill_loop {
    struct spill_space *space;
    struct body_file_bin bin; /* body_file_bin_init(), body_file_bin_fini() */
};

struct response_spill;

/* Empty, without a file. */
struct response_spill *response_spill_create(struct spill_loop *l) returns_nonnull_;
/* Its space is released soon. NULL is allowed. */
void response_spill_destroy(struct response_spill *s);

/*
 * Returns how many bytes may be added now, with at most MAX_BYTES of this response in its file, as
 * far as the space of all permits; reserved for S until it is empty. At most a few hundred KiB:
 * call again after adding. 0: a limit was reached; or no file can be created or the file system is
 * nearly full, which response_spill_error reports.
 */
size_t response_spill_room(struct response_spill *s, uint64_t max_bytes);
/*
 * Appends BODY and takes ownership of it. False if it could not be written: it is part of the queue
 * all the same, in memory, and nothing is to be added until S is empty.
 */
bool response_spill_add(struct response_spill *s, struct http1_body *body) must_check;
/* Takes at most MAX bytes from the front of S, which is not empty. NULL: they cannot be read. */
struct http1_body *response_spill_take(struct response_spill *s, size_t max);

bool response_spill_is_empty(const struct response_spill *s);
/* Bytes in the file that have not been taken. */
uint64_t response_spill_in_file(const struct response_spill *s);
/* Bytes in memory: those that could not be written. */
size_t response_spill_in_memory(const struct response_spill *s);
/* errno of the last failure since response_spill_room was last called, or in it; 0: none. */
int response_spill_error(const struct response_spill *s);

#endif
