/* SPDX-License-Identifier: Apache-2.0
 *
 * A piece of a body of a response, from its worker to its client, by HTTP/1 or HTTP/2: the bytes
 * that were read, cut to those of the body. One loop's thread.
 */
#pragma once

#include "common/event/loop.h"
#include "common/wire/http1_chunked.h"

enum {
    BODY_PIECE_PARTS_MAX = 16, /* parts of one struct body_piece */
};

/* Bytes of a body, valid until body_piece_release. */
struct body_piece {
    struct list node; /* for the owner's queue */
    struct slice parts[BODY_PIECE_PARTS_MAX];
    size_t nparts;
    size_t bytes;                /* of all parts; may be 0 */
    void (*release)(void *hold); /* NULL: they lie in MEMORY */
    void *hold;
    struct loop *loop; /* all of it is a block of this loop's; NULL: it is malloc's */
    char memory[];
};
/* On the loop it came from. NULL is fine. */
void body_piece_release(struct body_piece *b);
/* For a body that is not passed on at once: B, or a copy in its place, where B's few bytes are in a
 * large piece of memory. */
struct body_piece *body_piece_compact(struct body_piece *b) returns_nonnull_ noinline_;
/* The same for all that are in a list, and how many bytes these have. */
void body_pieces_release(struct list *bodies);
size_t body_pieces_bytes(const struct list *bodies);
/* Cut B to its first MAX bytes, if it has more. */
void body_piece_clip(struct body_piece *b, uint64_t max);
/* A body of our own making; copies BYTES (of which there may be none). */
struct body_piece *body_piece_copy(struct slice bytes) returns_nonnull_;
/* As body_piece_copy, without copying: BYTES belong to HOLD; RELEASE is called with HOLD once BYTES
 * are not used any more. */
struct body_piece *body_piece_borrow(struct slice bytes, void (*release)(void *hold),
                                     void *hold) returns_nonnull_;

/* ---- for http1_client.c, but for the last two functions ---- */

/* Where the body ends. */
struct body_framing {
    enum http1_framing kind;
    struct http1_chunked chunked;
    uint64_t left; /* HTTP1_BODY_LENGTH: bytes to come */
};

/* Initializes B, before it has parts. */
void body_piece_init(struct body_piece *b, struct loop *loop);
/* Creates a body without parts; its memory has ROOM bytes. */
struct body_piece *body_piece_create(size_t room) returns_nonnull_;
/* Changes the room to BYTES; the first bytes stay. B has no parts yet, and is malloc's then. */
struct body_piece *body_piece_resize(struct body_piece *b, size_t bytes) returns_nonnull_;
/*
 * Takes body bytes from the front of *BYTES, which are in B's memory and may be moved within it, as
 * B's parts. B must not have parts yet.
 * Returns ERR_OK; ERR_NOT_FOUND if the body has ended, and the rest of *BYTES does not belong to
 * it; ERR_SYNTAX or ERR_TOO_LARGE if the body is malformed.
 */
enum err body_piece_take(struct body_piece *b, struct body_framing *f,
                         struct slice *bytes) must_check;
/* For bytes that are in memory of our own, or that a system call only reads. */
static inline char *writable_bytes(const char *p)
{
    union {
        const char *borrowed;
        char *own;
    } same = {.borrowed = p};

    return same.own;
}
