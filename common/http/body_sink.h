/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the body of a request is collected while it is received: in memory up to a limit, then in
 * an unnamed file. One for sized, chunked and HTTP/2 bodies.
 *
 * Embedded in its request. The loop's thread, except for the totals, which servers of several loops
 * share.
 */
#pragma once

#include "common/base/text.h"
#include "common/net/body_file.h"
#include "common/net/fair_shares.h"

/* Use and limits of the bodies of all requests in progress; a limit of 0: none. Initially all zero.
 * Files and their bytes are shared fairly among clients: a body that is not complete may lose its
 * file to another client's. */
struct body_totals {
    _Atomic uint64_t memory_bytes, memory_max;
    struct fair_shares files, file_bytes;
};

/* How many files bodies may have, where DESCRIPTORS are left for clients and bodies. */
size_t body_files_max(size_t descriptors);
/* Sets the limits of T, which may be in use. Any thread. */
void body_totals_set(struct body_totals *t, uint64_t memory_max, uint64_t file_bytes_max,
                     size_t files_max);

/* The files of one loop, in TOTALS. */
struct body_shares {
    struct fair_loop *files, *bytes;
};

struct body_sink_limits {
    size_t memory_bytes;              /* a body that is larger goes to a file */
    const char *directory;            /* for files; NULL: there are none */
    struct body_totals *totals;       /* NULL: without totals */
    const struct body_shares *shares; /* NULL if there are no totals; the server's own */
};

struct body_claims;
struct body_sink;

/* The owner of a body, for its share; and what happens if the share is lost. */
struct body_sink_user {
    struct fair_owner (*owner)(struct body_sink *b);
    /* Another client got the file of B. Reject the request; called by the loop. */
    void (*lost)(struct body_sink *b);
};

struct body_sink {
    struct text memory;         /* unless there is a file */
    struct body_file *file;     /* all of it */
    uint64_t bytes;             /* received */
    struct body_totals *totals; /* where it is counted; NULL: nowhere */
    uint64_t counted_memory;
    struct body_claims *claims; /* owned, of FILE; NULL: none */
    const struct body_sink_user
        *user; /* set by the owner before it is used; NULL: all are one client's */
};

void body_shares_init(struct body_shares *s, struct body_totals *t, struct loop *l);
/* After all sinks. */
void body_shares_fini(struct body_shares *s);
void body_totals_fini(struct body_totals *t);

/* All zero is an empty one. What it holds goes to BIN. */
void body_sink_fini(struct body_sink *b, struct body_file_bin *bin);
/*
 * Reserves memory or opens a file for a body of EXPECTED bytes in total. Returns false with errno
 * set, as body_sink_add() does, if neither is available (disk, descriptors, directory or the
 * totals); the failure is logged.
 */
bool body_sink_expect(struct body_sink *b, const struct body_sink_limits *l,
                      uint64_t expected) must_check;
/* Append BYTES. */
bool body_sink_add(struct body_sink *b, const struct body_sink_limits *l,
                   struct slice bytes) must_check;
/* How many bytes may be received to the end of MEMORY itself; its owner adds them to the counts. */
size_t body_sink_room(const struct body_sink *b);
/* Counts BYTES more in memory, B's or what the owner uses instead. False with errno: the totals do
 * not allow them. */
bool body_sink_count(struct body_sink *b, const struct body_sink_limits *l,
                     uint64_t bytes) must_check;
/* The whole body; not NULL even if it is empty. Nothing is added any more, and its file is not
 * lost. p == NULL: a file that cannot be mapped, or that was lost before (errno). */
struct slice body_sink_bytes(struct body_sink *b);
