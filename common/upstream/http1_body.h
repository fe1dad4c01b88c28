/* SPDX-License-Identifier: Apache-2.0
 *
 * Response bodies as http1_client.c makes them: the bytes that were read, cut to those of the body.
 * struct held_body is internal to the client; other modules use only the functions at the end. A
 * held body belongs to its creator until it is passed on as a struct http1_body. One loop's thread.
 */
#ifndef RLB_UPSTREAM_HTTP1_BODY_H
#define RLB_UPSTREAM_HTTP1_BODY_H

#include "common/event/loop.h"
#include "common/upstream/http1_client.h"

/* Parts and, mostly, bytes in the same piece of memory. Each struct http1_body is in one. */
struct held_body {
    struct http1_body body;
    struct slice parts[HTTP1_BODY_PARTS_MAX];
    struct loop *home; /* all of it is a block of this loop's; NULL: it is malloc's */
    char bytes[];
};

/* Where the body ends. */
struct body_framing {
    enum http1_framing kind;
    struct http1_chunked chunked;
    uint64_t left; /* HTTP1_BODY_LENGTH: bytes to come */
};

/* What H is, which is memory for one, before it has parts. */
void held_body_init(struct held_body *h, struct loop *home);
/* Without parts yet, with ROOM for bytes. */
struct held_body *held_body_create(size_t room) returns_nonnull_;
/* Give up the room but for its first BYTES. H has no parts yet. */
struct held_body *held_body_shrink(struct held_body *h, size_t bytes) returns_nonnull_;
/*
 * Takes body bytes from the front of *BYTES, which are in H's memory and may be moved within it, as
 * H's parts. H must not have parts yet.
 * Returns ERR_OK; ERR_NOT_FOUND if the body has ended, and the rest of *BYTES does not belong to
 * it; ERR_SYNTAX or ERR_TOO_LARGE if the body is malformed.
 */
enum err held_body_take(struct held_body *h, struct body_framing *f,
                        struct slice *bytes) must_check;
/* For bytes that are in memory of our own, or that a system call only reads. */
static inline char *writable(const char *p)
{
    union {
        const char *borrowed;
        char *own;
    } same = {.borrowed = p};

    return same.own;
}
/* Cut the first N bytes (or fewer) off *S and return them. */
struct slice slice_take(struct slice *s, size_t n);

#endif
