/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of frames that a client sends, and the events that the reader of HTTP/2 reports of them.
 * Each row is read whole, byte by byte, and in random pieces, with the same events.
 */
#pragma once

#include "tests/support/http2_owner.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define S(literal) SLICE_LIT(literal)
#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define SETTINGS "\0\0\0\4\0\0\0\0\0"
#define REQUEST "\x82\x84\x87\x41\1a" /* GET / https a, by the static table */
#define POST "\x83\x84\x87\x41\1a"
#define GOT "request 1 GET https a /"
#define POSTED "request 1 POST https a /"
#define LENGTH_3                                                                                   \
    "\x0f\x0d\1"                                                                                   \
    "3"

enum { ROW_FRAMES_MAX = 7, RANDOM_ROUNDS = 20 };

/* The bits of flags. */
enum { END = FLAG_END_STREAM, WHOLE = FLAG_END_HEADERS, PAD = FLAG_PADDED, PRI = FLAG_PRIORITY };

static const struct http2_reader_limits row_limits = {
    .block_frames = 4,
    .block_bytes = 1000,
    .list = {.list_bytes = 2000, .fields = 20},
};

struct sent_frame {
    unsigned type, flags;
    uint32_t stream;
    struct slice payload; /* p == NULL: no frame, the row ends */
};

struct row {
    const char *name;
    struct sent_frame frames[ROW_FRAMES_MAX];
    enum request_fault fault;
    const char *log; /* the events, without frames */
};

/* ---- reading ---- */

static inline void add_head(struct text *t, size_t len, unsigned type, unsigned flags,
                            uint32_t stream)
{
    const char head[HTTP2_HEAD_BYTES] = {
        (char)(len >> 16),    (char)(len >> 8),     (char)len,           (char)type,   (char)flags,
        (char)(stream >> 24), (char)(stream >> 16), (char)(stream >> 8), (char)stream,
    };

    text_add(t, (struct slice){head, sizeof(head)});
}

static inline void add_frame(struct text *t, const struct sent_frame *f)
{
    add_head(t, f->payload.len, f->type, f->flags, f->stream);
    text_add(t, f->payload);
}

static inline size_t piece_of(void *context)
{
    uint64_t *state = context;

    if (*state <= 1)
        return *state == 0 ? SIZE_MAX : 1;
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return 1 + *state % 23;
}

/* STATE: 0 in one piece, 1 byte by byte, else the seed of random pieces. */
static inline enum request_fault read_once(struct http2_owner *o, struct slice bytes,
                                           uint64_t state)
{
    http2_owner_start(o, &row_limits);
    enum request_fault f = http2_owner_read_pieces(o, bytes, piece_of, &state);
    http2_owner_flush(o);
    if (f != FAULT_NONE)
        assert_int_equal(http2_owner_read(o, S("\0")), f); /* and nothing more is reported */
    return f;
}

/* As USUAL does things. Returns the events, which the caller frees. */
static inline struct text read_all_ways(struct slice bytes, const struct http2_owner *usual,
                                        enum request_fault want)
{
    struct http2_owner whole = *usual;
    enum request_fault f = read_once(&whole, bytes, 0);

    assert_string_equal(request_fault_text(f), request_fault_text(want));
    for (uint64_t state = 1; state <= RANDOM_ROUNDS; ++state) {
        struct http2_owner cut = *usual;

        assert_int_equal(read_once(&cut, bytes, state), f);
        assert_string_equal(text_cstr(&cut.log), text_cstr(&whole.log));
        assert_int_equal(cut.nstreams, whole.nstreams);
        http2_owner_finish(&cut);
    }
    struct text log = whole.log;
    whole.log = (struct text){0};
    http2_owner_finish(&whole);
    return log;
}

static inline void check_bytes(struct slice bytes, const struct http2_owner *usual,
                               enum request_fault fault, const char *want)
{
    struct text log = read_all_ways(bytes, usual, fault);

    assert_string_equal(text_cstr(&log), want);
    text_fini(&log);
}

static inline void check_row_as(const struct row *row, const struct http2_owner *usual)
{
    struct text bytes = {0};
    struct text want = {0};

    print_message("%s\n", row->name);
    text_add(&bytes, S(PREFACE SETTINGS));
    text_add(&want, S("settings\n"));
    for (size_t i = 0; i < ROW_FRAMES_MAX && row->frames[i].payload.p != NULL; ++i)
        add_frame(&bytes, &row->frames[i]);
    text_add(&want, slice_of(row->log));
    check_bytes(text_slice(&bytes), usual, row->fault, text_cstr(&want));
    text_fini(&bytes);
    text_fini(&want);
}

static inline void check_rows(const struct row *rows, size_t n)
{
    static const struct http2_owner usual = {.no_frames = true};

    for (size_t i = 0; i < n; ++i)
        check_row_as(&rows[i], &usual);
}
