/* SPDX-License-Identifier: Apache-2.0
 *
 * What the reader reports of what a client sends. Every case is read whole, byte by byte, and in
 * random pieces, with the same events. The cases of tests/e2e/http2_cases.py are here too, each
 * with the one result that it has.
 */
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

static const struct http2_reader_limits limits = {
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

static void add_head(struct text *t, size_t len, unsigned type, unsigned flags, uint32_t stream)
{
    const char head[HTTP2_HEAD_BYTES] = {
        (char)(len >> 16),    (char)(len >> 8),     (char)len,           (char)type,   (char)flags,
        (char)(stream >> 24), (char)(stream >> 16), (char)(stream >> 8), (char)stream,
    };

    text_add(t, (struct slice){head, sizeof(head)});
}

static void add_frame(struct text *t, const struct sent_frame *f)
{
    add_head(t, f->payload.len, f->type, f->flags, f->stream);
    text_add(t, f->payload);
}

static size_t piece_of(void *context)
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
static enum request_fault read_once(struct http2_owner *o, struct slice bytes, uint64_t state)
{
    http2_owner_start(o, &limits);
    enum request_fault f = http2_owner_read_pieces(o, bytes, piece_of, &state);
    http2_owner_flush(o);
    if (f != FAULT_NONE)
        assert_int_equal(http2_owner_read(o, S("\0")), f); /* and nothing more is reported */
    return f;
}

/* As USUAL does things. Returns the events, which the caller frees. */
static struct text read_all_ways(struct slice bytes, const struct http2_owner *usual,
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

static void check_bytes(struct slice bytes, const struct http2_owner *usual,
                        enum request_fault fault, const char *want)
{
    struct text log = read_all_ways(bytes, usual, fault);

    assert_string_equal(text_cstr(&log), want);
    text_fini(&log);
}

static void check_row_as(const struct row *row, const struct http2_owner *usual)
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

static void check_rows(const struct row *rows, size_t n)
{
    static const struct http2_owner usual = {.no_frames = true};

    for (size_t i = 0; i < n; ++i)
        check_row_as(&rows[i], &usual);
}

/* ---- requests ---- */

static void requests_are_reported_with_their_fields_and_bodies(void **state)
{
    static const struct row rows[] = {
        {"a request", {{1, END | WHOLE, 1, S(REQUEST)}}, 0, GOT " ends\n"},
        {"unknown flags", {{1, END | WHOLE | 0x52, 1, S(REQUEST)}}, 0, GOT " ends\n"},
        {"the reserved bit", {{1, END | WHOLE, 0x80000001, S(REQUEST)}}, 0, GOT " ends\n"},
        {"fields",
         {{1, END | WHOLE, 1, S(REQUEST "\0\3x-y\2zz\0\1z\0")}},
         0,
         GOT " x-y: zz z:  ends\n"},
        {"padding", {{1, END | WHOLE | PAD, 1, S("\2" REQUEST "\0\0")}}, 0, GOT " ends\n"},
        {"padding and priority",
         {{1, END | WHOLE | PAD | PRI, 1, S("\3\x80\0\0\5\7" REQUEST "\0\0\0")}},
         0,
         GOT " weight 8 of 5 exclusive ends\n"},
        {"a head in three frames",
         {{1, END, 1, S("\x82\x84")}, {9, 0, 1, S("")}, {9, WHOLE, 1, S("\x87\x41\1a")}},
         0,
         GOT " ends\n"},
        {"a head in frames, padded and with priority",
         {{1, END | PAD | PRI, 1, S("\1\0\0\0\0\xf\x82\0")}, {9, WHOLE, 1, S("\x84\x87\x41\1a")}},
         0,
         GOT " weight 16 of 0 ends\n"},
        {"all of the block in CONTINUATION",
         {{1, END, 1, S("")}, {9, WHOLE, 1, S(REQUEST)}},
         0,
         GOT " ends\n"},
        {"a body",
         {{1, WHOLE, 1, S(POST)}, {0, END, 1, S("abc")}},
         0,
         POSTED "\ndata 1 abc ends\n"},
        {"a body in pieces, padded",
         {{1, WHOLE, 1, S(POST)}, {0, 0, 1, S("ab")}, {0, PAD | END, 1, S("\2c\0\0")}},
         0,
         POSTED "\ndata 1 ab\ndata 1 c +3 ends\n"},
        {"padding alone",
         {{1, WHOLE, 1, S(POST)}, {0, PAD, 1, S("\0")}, {0, PAD | END, 1, S("\3\0\0\0")}},
         0,
         POSTED "\ndata 1 +1\ndata 1 +4 ends\n"},
        {"an empty body, its end apart",
         {{1, WHOLE, 1, S(POST)}, {0, 0, 1, S("")}, {0, END, 1, S("")}},
         0,
         POSTED "\ndata 1 ends\n"},
        {"content-length as the body",
         {{1, WHOLE, 1, S(POST LENGTH_3)}, {0, 0, 1, S("a")}, {0, END, 1, S("bc")}},
         0,
         POSTED " length 3\ndata 1 a\ndata 1 bc ends\n"},
        {"content-length 0 without a body",
         {{1, END | WHOLE, 1,
           S(POST "\x0f\x0d\1"
                  "0")}},
         0,
         POSTED " length 0 ends\n"},
        {"trailers",
         {{1, WHOLE, 1, S(POST LENGTH_3)},
          {0, 0, 1, S("abc")},
          {1, END | WHOLE, 1,
           S("\0\5x-sum\1"
             "1\0\4host\1b")}},
         0,
         POSTED " length 3\ndata 1 abc\ntrailers 1 x-sum: 1 host: b ends\n"},
        {"trailers with a priority, in two frames",
         {{1, WHOLE, 1, S(POST)}, {1, END | PRI, 1, S("\0\0\0\3\0")}, {9, WHOLE, 1, S("\0\1a\1b")}},
         0,
         POSTED "\npriority 1 weight 1 of 3\ntrailers 1 a: b weight 1 of 3 ends\n"},
        {"a stream that skips numbers",
         {{1, END | WHOLE, 77, S(REQUEST)}},
         0,
         "request 77 GET https a / ends\n"},
        {"two streams at once",
         {{1, WHOLE, 1, S(POST)},
          {1, WHOLE, 3, S(POST)},
          {0, END, 3, S("three")},
          {0, END, 1, S("one")}},
         0,
         POSTED "\nrequest 3 POST https a /\ndata 3 three ends\ndata 1 one ends\n"},
        {"host as :authority",
         {{1, END | WHOLE, 1,
           S(REQUEST "\0\4host\1"
                     "A")}},
         0,
         GOT " ends\n"},
        {"host alone",
         {{1, END | WHOLE, 1, S("\x82\x84\x87\0\4host\3b:1")}},
         0,
         "request 1 GET https b:1 / ends\n"},
        {"neither", {{1, END | WHOLE, 1, S("\x82\x84\x87")}}, 0, "request 1 GET https - / ends\n"},
        {"CONNECT",
         {{1, END | WHOLE, 1, S("\2\7CONNECT\1\3a:1")}},
         0,
         "request 1 CONNECT - a:1 - ends\n"},
        {"te: trailers",
         {{1, END | WHOLE, 1, S(REQUEST "\0\2te\x8trailers")}},
         0,
         GOT " te: trailers ends\n"},
        {"an unknown frame",
         {{0x42, 0xff, 1, S("abc")}, {1, END | WHOLE, 1, S(REQUEST)}},
         0,
         GOT " ends\n"},
    };

    (void)state;
    check_rows(rows, ARRAY_LEN(rows));
}

static void other_frames_are_reported(void **state)
{
    static const struct row rows[] = {
        {"settings",
         {{4, 0, 0,
           S("\0\1\0\0\0\0\0\2\0\0\0\1\0\4\x7f\xff\xff\xff\0\5\0\xff\xff\xff\0\x99\0\0\0\7")}},
         0,
         "setting 1 0\nsetting 2 1\nsetting 4 2147483647\nsetting 5 16777215\nsetting 153 7\n"
         "settings\n"},
        {"settings acknowledged", {{4, 1, 0, S("")}}, 0, "settings ack\n"},
        {"ping",
         {{6, 0, 0, S("12345678")}, {6, 1, 0, S("abcdefgh")}},
         0,
         "ping 12345678\nping ack abcdefgh\n"},
        {"priority of an idle stream",
         {{2, 0, 8, S("\x80\0\0\3\xff")}},
         0,
         "priority 8 weight 256 of 3 exclusive\n"},
        {"goaway",
         {{7, 0, 0,
           S("\x80\0\0\3\0\0\0\2"
             "debug data")}},
         0,
         "goaway 3 2\n"},
        {"window", {{8, 0, 0, S("\xff\xff\xff\xff")}}, 0, "window 0 2147483647\n"},
        {"of a stream",
         {{1, WHOLE, 1, S(POST)}, {8, 0, 1, S("\0\0\0\1")}, {3, 0, 1, S("\0\0\0\x8")}},
         0,
         POSTED "\nwindow 1 1\nreset 1 8\n"},
        {"of a closed stream",
         {{1, END | WHOLE, 1, S(REQUEST)},
          {8, 0, 1, S("\0\0\0\1")},
          {3, 0, 1, S("\0\0\0\0")},
          {3, 0, 1, S("\0\0\0\0")},
          {2, 0, 1, S("\0\0\0\0\0")}},
         0,
         GOT " ends\nwindow 1 1\nreset 1 0\nreset 1 0\npriority 1 weight 1 of 0\n"},
        {"of a skipped stream",
         {{1, END | WHOLE, 5, S(REQUEST)}, {8, 0, 3, S("\0\0\0\1")}, {3, 0, 1, S("\0\0\0\0")}},
         0,
         "request 5 GET https a / ends\nwindow 3 1\nreset 1 0\n"},
    };

    (void)state;
    check_rows(rows, ARRAY_LEN(rows));
}

/* ---- errors of the connection ---- */

#define REJECTED(fault_, ...)                                                                      \
    {                                                                                              \
#__VA_ARGS__, {__VA_ARGS__ }, FAULT_HTTP2_##fault_, ""                                     \
    }
#define AFTER_GET(fault_, ...)                                                                     \
    {                                                                                              \
        "after a GET: " #__VA_ARGS__, {{1, END | WHOLE, 1, S(REQUEST)}, __VA_ARGS__},              \
            FAULT_HTTP2_##fault_, GOT " ends\n"                                                    \
    }
#define AFTER_POST(fault_, ...)                                                                    \
    {                                                                                              \
        "after a POST: " #__VA_ARGS__, {{1, WHOLE, 1, S(POST)}, __VA_ARGS__},                      \
            FAULT_HTTP2_##fault_, POSTED "\n"                                                      \
    }

static void frames_of_a_wrong_size_or_stream_end_the_connection(void **state)
{
    static const struct row rows[] = {
        REJECTED(PROTOCOL, {0, END, 0, S("abc")}),
        REJECTED(PROTOCOL, {1, END | WHOLE, 0, S(REQUEST)}),
        REJECTED(PROTOCOL, {2, 0, 0, S("\0\0\0\0\0")}),
        REJECTED(PROTOCOL, {3, 0, 0, S("\0\0\0\0")}),
        REJECTED(PROTOCOL, {4, 0, 1, S("")}),
        REJECTED(PROTOCOL, {6, 0, 1, S("12345678")}),
        REJECTED(PROTOCOL, {7, 0, 1, S("\0\0\0\0\0\0\0\0")}),
        REJECTED(FRAME_SIZE, {2, 0, 1, S("\0\0\0\0")}),
        REJECTED(FRAME_SIZE, {2, 0, 1, S("\0\0\0\0\0\0")}),
        REJECTED(FRAME_SIZE, {4, 0, 0, S("\0\0\0\0\0")}),
        REJECTED(FRAME_SIZE, {4, 1, 0, S("\0\1\0\0\0\0")}),
        REJECTED(FRAME_SIZE, {6, 0, 0, S("1234567")}),
        REJECTED(FRAME_SIZE, {6, 0, 0, S("123456789")}),
        REJECTED(FRAME_SIZE, {7, 0, 0, S("\0\0\0\0\0\0\0")}),
        REJECTED(FRAME_SIZE, {8, 0, 0, S("\0\0\0")}),
        REJECTED(FRAME_SIZE, {8, 0, 0, S("\0\0\0\0\1")}),
        REJECTED(PROTOCOL, {5, WHOLE, 1, S("\0\0\0\2" REQUEST)}),
        REJECTED(PROTOCOL, {1, END | WHOLE | PAD, 1, S("")}),
        REJECTED(PROTOCOL, {1, END | WHOLE | PAD, 1, S("\xff" REQUEST)}),
        REJECTED(PROTOCOL, {1, END | WHOLE | PAD | PRI, 1, S("\3\0\0")}),
        REJECTED(FRAME_SIZE, {1, END | WHOLE | PRI, 1, S("\0\0")}),
        REJECTED(FRAME_SIZE, {1, END | WHOLE | PRI | PAD, 1, S("\2\0\0\0\0\0\0")}),
        REJECTED(PROTOCOL, {1, END | WHOLE | PRI, 1, S("\0\0\0\1\0" REQUEST)}),
        REJECTED(PROTOCOL, {2, 0, 1, S("\0\0\0\1\0")}),
        AFTER_POST(FRAME_SIZE, {3, 0, 1, S("\0\0\0")}),
        AFTER_POST(FRAME_SIZE, {3, 0, 1, S("\0\0\0\0\0")}),
        AFTER_POST(PROTOCOL, {0, PAD, 1, S("\3ab")}),
        AFTER_POST(FRAME_SIZE, {0, PAD, 1, S("")}),
    };
    struct text large = {0};

    (void)state;
    check_rows(rows, ARRAY_LEN(rows));
    for (unsigned type = 0; type <= 16; ++type) {
        static const struct http2_owner usual = {.no_frames = true};

        text_clear(&large);
        text_add(&large, S(PREFACE SETTINGS));
        add_head(&large, HTTP2_FRAME_MAX + 1, type, 0, 1);
        check_bytes(text_slice(&large), &usual, FAULT_HTTP2_FRAME_SIZE, "settings\n");
    }
    text_fini(&large);
}

static void frames_of_a_stream_in_another_state_end_the_connection(void **state)
{
    static const struct row rows[] = {
        REJECTED(PROTOCOL, {0, END, 1, S("abc")}),
        REJECTED(PROTOCOL, {0, END, 2, S("abc")}),
        REJECTED(PROTOCOL, {3, 0, 1, S("\0\0\0\0")}),
        REJECTED(PROTOCOL, {8, 0, 1, S("\0\0\0\1")}),
        REJECTED(PROTOCOL, {8, 0, 2, S("\0\0\0\1")}),
        REJECTED(PROTOCOL, {1, END | WHOLE, 2, S(REQUEST)}),
        AFTER_GET(CLOSED, {0, END, 1, S("abc")}),
        AFTER_GET(CLOSED, {0, 0, 1, S("")}),
        AFTER_GET(CLOSED, {1, END | WHOLE, 1, S(REQUEST)}),
        AFTER_GET(PROTOCOL, {3, 0, 3, S("\0\0\0\0")}),
        AFTER_POST(PROTOCOL, {1, WHOLE, 1, S("\0\1a\1b")}),
        {"DATA after END_STREAM",
         {{1, WHOLE, 1, S(POST)}, {0, END, 1, S("a")}, {0, END, 1, S("b")}},
         FAULT_HTTP2_CLOSED,
         POSTED "\ndata 1 a ends\n"},
        {"DATA after trailers",
         {{1, WHOLE, 1, S(POST)}, {1, END | WHOLE, 1, S("")}, {0, END, 1, S("b")}},
         FAULT_HTTP2_CLOSED,
         POSTED "\ntrailers 1 ends\n"},
        {"DATA after RST_STREAM",
         {{1, WHOLE, 1, S(POST)}, {3, 0, 1, S("\0\0\0\0")}, {0, END, 1, S("b")}},
         FAULT_HTTP2_CLOSED,
         POSTED "\nreset 1 0\n"},
        {"HEADERS after RST_STREAM",
         {{1, WHOLE, 1, S(POST)}, {3, 0, 1, S("\0\0\0\0")}, {1, END | WHOLE, 1, S(REQUEST)}},
         FAULT_HTTP2_CLOSED,
         POSTED "\nreset 1 0\n"},
        {"HEADERS of a number that was skipped at first",
         {{1, END | WHOLE, 5, S(REQUEST)}, {1, END | WHOLE, 3, S(REQUEST)}},
         FAULT_HTTP2_PROTOCOL,
         "request 5 GET https a / ends\n"},
        {"HEADERS of a number that was skipped later",
         {{1, END | WHOLE, 1, S(REQUEST)},
          {1, END | WHOLE, 5, S(REQUEST)},
          {1, END | WHOLE, 7, S(REQUEST)},
          {1, END | WHOLE, 3, S(REQUEST)}},
         FAULT_HTTP2_PROTOCOL,
         GOT " ends\nrequest 5 GET https a / ends\nrequest 7 GET https a / ends\n"},
        {"HEADERS of a lower number that was used",
         {{1, END | WHOLE, 1, S(REQUEST)},
          {1, END | WHOLE, 5, S(REQUEST)},
          {1, END | WHOLE, 1, S(REQUEST)}},
         FAULT_HTTP2_CLOSED,
         GOT " ends\nrequest 5 GET https a / ends\n"},
        {"DATA of a number that was skipped",
         {{1, END | WHOLE, 5, S(REQUEST)}, {0, END, 3, S("abc")}},
         FAULT_HTTP2_CLOSED,
         "request 5 GET https a / ends\n"},
    };

    (void)state;
    check_rows(rows, ARRAY_LEN(rows));
}

static void nothing_may_come_within_a_header_block(void **state)
{
    static const struct row rows[] = {
        REJECTED(PROTOCOL, {9, WHOLE, 1, S(REQUEST)}),
        AFTER_GET(PROTOCOL, {9, WHOLE, 1, S(REQUEST)}),
        REJECTED(PROTOCOL, {1, END, 1, S(REQUEST)}, {9, WHOLE, 3, S("")}),
        REJECTED(PROTOCOL, {1, END, 1, S(REQUEST)}, {6, 0, 0, S("12345678")}),
        REJECTED(PROTOCOL, {1, END, 1, S(REQUEST)}, {4, 0, 0, S("")}),
        REJECTED(PROTOCOL, {1, 0, 1, S(REQUEST)}, {0, END, 1, S("abc")}),
        REJECTED(PROTOCOL, {1, END, 1, S(REQUEST)}, {1, END | WHOLE, 3, S(REQUEST)}),
        REJECTED(PROTOCOL, {1, END, 1, S(REQUEST)}, {1, END | WHOLE, 1, S(REQUEST)}),
        REJECTED(PROTOCOL, {1, END, 1, S(REQUEST)}, {3, 0, 1, S("\0\0\0\0")}),
        REJECTED(PROTOCOL, {1, END, 1, S(REQUEST)}, {0x42, 0, 1, S("")}),
    };

    (void)state;
    check_rows(rows, ARRAY_LEN(rows));
}

static void settings_and_windows_have_ranges(void **state)
{
    static const struct row rows[] = {
        REJECTED(PROTOCOL, {4, 0, 0, S("\0\2\0\0\0\2")}),
        REJECTED(WINDOW, {4, 0, 0, S("\0\4\x80\0\0\0")}),
        REJECTED(PROTOCOL, {4, 0, 0, S("\0\5\0\0\x3f\xff")}),
        REJECTED(PROTOCOL, {4, 0, 0, S("\0\5\1\0\0\0")}),
        REJECTED(PROTOCOL, {8, 0, 0, S("\0\0\0\0")}),
        REJECTED(PROTOCOL, {8, 0, 0, S("\x80\0\0\0")}),
        AFTER_POST(PROTOCOL, {8, 0, 1, S("\0\0\0\0")}),
        {"the ones before an invalid one are reported",
         {{4, 0, 0, S("\0\3\0\0\0\1\0\2\0\0\0\2")}},
         FAULT_HTTP2_PROTOCOL,
         "setting 3 1\n"},
    };

    (void)state;
    check_rows(rows, ARRAY_LEN(rows));
}

static void malformed_blocks_end_the_connection(void **state)
{
    static const struct row rows[] = {
        REJECTED(COMPRESSION, {1, END | WHOLE, 1, S("\x80")}),
        REJECTED(COMPRESSION, {1, END | WHOLE, 1, S("\xbe")}),
        REJECTED(COMPRESSION, {1, END | WHOLE, 1, S("\x7f\x10\1a")}),
        REJECTED(COMPRESSION, {1, END | WHOLE, 1, S("\xff\x80\x80\x80\x80\x80\x80\x80\1")}),
        REJECTED(COMPRESSION, {1, END | WHOLE, 1, S("\xff\xff\xff\xff\xff\x0f")}),
        REJECTED(COMPRESSION, {1, END | WHOLE, 1, S(REQUEST "\xff\x80")}),
        REJECTED(COMPRESSION, {1, END | WHOLE, 1, S(REQUEST "\0\1a\5bc")}),
        REJECTED(COMPRESSION, {1, END | WHOLE, 1, S("\x3f\xe2\x1f" REQUEST)}), /* 4097 */
        REJECTED(COMPRESSION, {1, END | WHOLE, 1, S(REQUEST "\x20")}),
        REJECTED(COMPRESSION, {1, END | WHOLE, 1, S(REQUEST "\0\1a\x82\x1f\xff")}),
        REJECTED(COMPRESSION, {1, END | WHOLE, 1, S(REQUEST "\0\1a\x81\x18")}),
        REJECTED(COMPRESSION, {1, END | WHOLE, 1, S(REQUEST "\0\1a\x84\xff\xff\xff\xff")}),
        REJECTED(COMPRESSION, {1, END | WHOLE, 1, S("\x20" REQUEST "\x40\1x\1y\xbe")}),
        /* Also when the fields before have been found to be malformed. */
        REJECTED(COMPRESSION, {1, END | WHOLE, 1, S("\x82\x82\x80")}),
        AFTER_POST(COMPRESSION, {1, END | WHOLE, 1, S("\x80")}),
        {"a table of nothing, and of all again",
         {{1, END | WHOLE, 1, S("\x20\x3f\xe1\x1f" REQUEST "\x40\1x\1y\xbe")}},
         0,
         GOT " x: y x: y ends\n"},
    };

    (void)state;
    check_rows(rows, ARRAY_LEN(rows));
}

static void header_blocks_are_limited(void **state)
{
    struct text fragment = {0};
    struct text padded = {0};
    struct text list = {0};
    struct text listed = {0};

    (void)state;
    while (fragment.len < limits.block_bytes)
        text_add_char(&fragment, '\x82'); /* as many fields as bytes */
    struct slice half = {fragment.p, limits.block_bytes / 2};
    text_add_char(&padded, 5);
    text_add(&padded, text_slice(&fragment));
    text_add(&padded, S("\0\0\0\0\0"));
    /* The pseudo-header fields are 167 bytes, and the field 193: nine times is allowed. */
    text_add(&list, S(REQUEST "\x40\1x\x7f\x21"));
    text_add(&listed, S(GOT " x: "));
    for (int i = 0; i < 160; ++i) {
        text_add_char(&list, 'y');
        text_add_char(&listed, 'y');
    }
    struct slice once = {listed.p + sizeof(GOT) - 1, listed.len - sizeof(GOT) + 1};
    char *again = xslicedup(once);
    for (int i = 0; i < 8; ++i) {
        text_add_char(&list, '\xbe');
        text_add(&listed, slice_of(again));
    }
    free(again);
    text_add(&listed, S(" ends\n"));
    struct slice nine = text_slice(&list);
    text_add_char(&list, '\xbe');
    nine.p = list.p;
    const struct row rows[] = {
        {"frames",
         {{1, END, 1, S("\x82")},
          {9, 0, 1, S("")},
          {9, 0, 1, S("")},
          {9, 0, 1, S("")},
          {9, 0, 1, S("")},
          {9, 0, 1, S("")}},
         FAULT_FRAMES_CONTINUATION,
         ""},
        {"as many as allowed",
         {{1, END, 1, S("\x82")},
          {9, 0, 1, S("")},
          {9, 0, 1, S("")},
          {9, 0, 1, S("")},
          {9, WHOLE, 1, S("\x84\x87\x41\1a")}},
         FAULT_NONE,
         GOT " ends\n"},
        {"bytes of a frame",
         {{1, END, 1, text_slice(&fragment)}, {9, 0, 1, S("\x82")}},
         FAULT_HEADERS_TOO_LARGE,
         ""},
        {"bytes of several",
         {{1, END, 1, half}, {9, 0, 1, half}, {9, 0, 1, S("\x82")}},
         FAULT_HEADERS_TOO_LARGE,
         ""},
        {"bytes as many as allowed", {{1, END, 1, half}, {9, 0, 1, half}}, FAULT_NONE, ""},
        {"padding does not count", {{1, PAD, 1, text_slice(&padded)}}, FAULT_NONE, ""},
        {"fields",
         {{1, END | WHOLE, 1, (struct slice){fragment.p, 21}}},
         FAULT_HEADERS_TOO_LARGE,
         ""},
        {"fields as many as allowed",
         {{1, END | WHOLE, 1, (struct slice){fragment.p, 20}}},
         FAULT_NONE,
         "malformed 1: missing, repeated or misplaced pseudo-header field, ends\n"},
        {"a list as large as allowed", {{1, END | WHOLE, 1, nine}}, FAULT_NONE, text_cstr(&listed)},
        {"a larger one", {{1, END | WHOLE, 1, text_slice(&list)}}, FAULT_HEADERS_TOO_LARGE, ""},
    };
    check_rows(rows, ARRAY_LEN(rows));
    text_fini(&fragment);
    text_fini(&padded);
    text_fini(&list);
    text_fini(&listed);
}

/* ---- malformed requests ---- */

struct block_row {
    struct slice block;
    enum request_fault fault;
};

static const struct block_row malformed_heads[] = {
    {S("\x84\x87\x41\1a"), FAULT_PSEUDO_FIELD},      /* no :method */
    {S("\x82\x84\x41\1a"), FAULT_PSEUDO_FIELD},      /* no :scheme */
    {S("\x82\x87\x41\1a"), FAULT_PSEUDO_FIELD},      /* no :path */
    {S("\x82\4\0\x87\x41\1a"), FAULT_PSEUDO_FIELD},  /* an empty one */
    {S(REQUEST "\x82"), FAULT_PSEUDO_FIELD},         /* :method twice */
    {S("\x84" REQUEST), FAULT_PSEUDO_FIELD},         /* :path twice */
    {S(REQUEST "\1\1a"), FAULT_PSEUDO_FIELD},        /* :authority twice */
    {S("\0\5:what\1x" REQUEST), FAULT_PSEUDO_FIELD}, /* unknown */
    {S("\0\1:\1x" REQUEST), FAULT_PSEUDO_FIELD},     /* a colon alone */
    {S("\x88" REQUEST), FAULT_PSEUDO_FIELD},         /* :status */
    {S("\0\x9:protocol\1x\2\7CONNECT"
       "\x84\x87\x41\1a"),
     FAULT_PSEUDO_FIELD},
    {S("\0\1a\1b" REQUEST), FAULT_PSEUDO_FIELD}, /* after others */
    {S(REQUEST "\0\3X-A\1b"), FAULT_HEADER},     /* upper case */
    {S(REQUEST "\0\0\1b"), FAULT_HEADER},        /* an empty name */
    {S(REQUEST "\0\3a b\1c"), FAULT_HEADER},
    {S(REQUEST "\0\3a:b\1c"), FAULT_HEADER},
    {S(REQUEST "\0\3a\rb\1c"), FAULT_HEADER},
    {S(REQUEST "\0\2a\xff\1c"), FAULT_HEADER},
    {S(REQUEST "\0\1a\6b\nc: d"), FAULT_HEADER},
    {S(REQUEST "\0\1a\3b\rc"), FAULT_HEADER},
    {S(REQUEST "\0\1a\3b\0c"), FAULT_HEADER},
    {S(REQUEST "\0\1a\2 b"), FAULT_HEADER},
    {S(REQUEST "\0\1a\2b\t"), FAULT_HEADER},
    {S(REQUEST "\0\xa"
               "connection\5close"),
     FAULT_CONNECTION_FIELD},
    {S(REQUEST "\0\xakeep-alive\1"
               "1"),
     FAULT_CONNECTION_FIELD},
    {S(REQUEST "\0\x10proxy-connection\5close"), FAULT_CONNECTION_FIELD},
    {S(REQUEST "\x0f\x2a\7chunked"), FAULT_CONNECTION_FIELD}, /* transfer-encoding */
    {S(REQUEST "\0\7upgrade\3h2c"), FAULT_CONNECTION_FIELD},
    {S(REQUEST "\0\xehttp2-settings\1x"), FAULT_CONNECTION_FIELD},
    {S(REQUEST "\0\2te\4gzip"), FAULT_CONNECTION_FIELD},
    {S(REQUEST "\0\4host\1b"), FAULT_AUTHORITY},
    {S("\x82\x84\x87\0\4host\1a\0\4host\1a"), FAULT_HOST_REPEATED},
    {S("\x82\x84\x87\1\3a\nb"), FAULT_PSEUDO_FIELD},
    {S("\x82\4\7/ H\r\na:\x87\x41\1a"), FAULT_PSEUDO_FIELD},
    {S("\2\6GET /x\x84\x87\x41\1a"), FAULT_METHOD},
    {S("\2\4GET\n\x84\x87\x41\1a"), FAULT_METHOD},
    {S("\2\0\x84\x87\x41\1a"), FAULT_METHOD},
    {S("\x82\x84\6\x8https://\x41\1a"), FAULT_PSEUDO_FIELD},
    {S("\x82\x84\6\0\x41\1a"), FAULT_PSEUDO_FIELD},        /* an empty :scheme */
    {S("\2\7CONNECT\x84\x87\x41\1a"), FAULT_PSEUDO_FIELD}, /* with a path */
    {S("\2\7CONNECT\x84\x41\1a"), FAULT_PSEUDO_FIELD},
    {S(POST LENGTH_3), FAULT_BODY_LENGTH}, /* and no body */
    {S(POST LENGTH_3 LENGTH_3), FAULT_LENGTH_REPEATED},
    {S(POST "\x0f\x0d\2+3"), FAULT_LENGTH},
    {S(POST "\x0f\x0d\4"
            "3, 3"),
     FAULT_LENGTH},
    {S(POST "\x0f\x0d\0"), FAULT_LENGTH},
    {S(POST "\x0f\x0d\x14"
            "99999999999999999999"),
     FAULT_LENGTH},
};

static void a_malformed_head_is_reported_and_the_table_stays_right(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(malformed_heads); ++i) {
        const struct block_row *m = &malformed_heads[i];
        struct text want = {0};
        struct text block = {0};

        /* What comes after the fault is in the table all the same. */
        text_add(&block, m->block);
        text_add(&block, S("\x40\1x\1y"));
        text_addf(&want, "malformed 1: %s, ends\nrequest 3 GET https a / x: y ends\n",
                  request_fault_text(m->fault));
        const struct row row = {"malformed",
                                {{1, END | WHOLE, 1, text_slice(&block)},
                                 {1, END | WHOLE, 3, S(REQUEST "\xbf")}}, /* :authority is 62 */
                                FAULT_NONE,
                                text_cstr(&want)};
        check_rows(&row, 1);
        text_fini(&want);
        text_fini(&block);
    }
}

static void the_rest_of_a_malformed_request_is_discarded(void **state)
{
    static const struct row rows[] = {
        {"its body, then nothing may come",
         {{1, WHOLE, 1, S("\x82\x84")},
          {0, 0, 1, S("abc")},
          {0, PAD | END, 1, S("\1x\0")},
          {0, 0, 1, S("y")}},
         FAULT_HTTP2_CLOSED,
         "malformed 1: missing, repeated or misplaced pseudo-header field\n"
         "discard 1 +3\ndiscard 1 +3 ends\n"},
        {"its trailers, malformed or not; the table is kept right",
         {{1, WHOLE, 1, S("\x82\x84")},
          {1, END | WHOLE, 1, S("\x82\x40\1x\1y")},
          {1, END | WHOLE, 3, S(REQUEST "\xbf")}},
         FAULT_NONE,
         "malformed 1: missing, repeated or misplaced pseudo-header field\n"
         "discard 1 ends\nrequest 3 GET https a / x: y ends\n"},
        {"until it is reset",
         {{1, WHOLE, 1, S("\x82\x84")},
          {0, 0, 1, S("abc")},
          {3, 0, 1, S("\0\0\0\0")},
          {0, 0, 1, S("abc")}},
         FAULT_HTTP2_CLOSED,
         "malformed 1: missing, repeated or misplaced pseudo-header field\n"
         "discard 1 +3\nreset 1 0\n"},
    };

    (void)state;
    check_rows(rows, ARRAY_LEN(rows));
}

static void malformed_trailers_are_reported(void **state)
{
    static const struct block_row trailers[] = {
        {S("\0\5:path\1/"), FAULT_PSEUDO_FIELD},
        {S("\0\3X-A\1b"), FAULT_HEADER},
        {S("\0\1a\3b\nc"), FAULT_HEADER},
        {S("\0\2te\4gzip"), FAULT_CONNECTION_FIELD},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(trailers); ++i) {
        struct text want = {0};

        text_addf(&want, POSTED "\ndata 1 abc\nmalformed 1: %s, ends\nreset 1 5\n",
                  request_fault_text(trailers[i].fault));
        const struct row row = {"malformed trailers",
                                {{1, WHOLE, 1, S(POST)},
                                 {0, 0, 1, S("abc")},
                                 {1, END | WHOLE, 1, trailers[i].block},
                                 {3, 0, 1, S("\0\0\0\5")}},
                                FAULT_NONE,
                                text_cstr(&want)};
        check_rows(&row, 1);
        text_fini(&want);
    }
}

static void a_body_of_another_length_is_malformed(void **state)
{
#define WRONG "malformed 1: body of another length than Content-Length"
    static const struct row rows[] = {
        {"more",
         {{1, WHOLE, 1, S(POST LENGTH_3)}, {0, END, 1, S("abcd")}},
         FAULT_NONE,
         POSTED " length 3\n" WRONG "\ndiscard 1 +4 ends\n"},
        {"more, in pieces, and what follows is discarded",
         {{1, WHOLE, 1, S(POST LENGTH_3)},
          {0, 0, 1, S("ab")},
          {0, 0, 1, S("cd")},
          {0, 0, 1, S("efghij")},
          {0, END, 1, S("")}},
         FAULT_NONE,
         POSTED " length 3\ndata 1 ab\n" WRONG "\ndiscard 1 +2\ndiscard 1 +6\ndiscard 1 ends\n"},
        {"less",
         {{1, WHOLE, 1, S(POST LENGTH_3)}, {0, END, 1, S("ab")}},
         FAULT_NONE,
         POSTED " length 3\n" WRONG "\ndiscard 1 +2 ends\n"},
        {"less, and trailers",
         {{1, WHOLE, 1, S(POST LENGTH_3)}, {0, 0, 1, S("ab")}, {1, END | WHOLE, 1, S("\0\1a\1b")}},
         FAULT_NONE,
         POSTED " length 3\ndata 1 ab\n" WRONG ", ends\n"},
        {"padding is not body",
         {{1, WHOLE, 1, S(POST LENGTH_3)}, {0, PAD | END, 1, S("\2a\0\0")}},
         FAULT_NONE,
         POSTED " length 3\n" WRONG "\ndiscard 1 +4 ends\n"},
        {"a length that is repeated from the table",
         {{1, END | WHOLE, 1,
           S(REQUEST "\x5c\1"
                     "0")},
          {1, END | WHOLE, 3, S("\x82\x84\x87\xbf\xbe\xbe")},
          {1, WHOLE, 5, S("\x82\x84\x87\xbf\xbe")},
          {0, END, 5, S("abc")}},
         FAULT_NONE,
         GOT " length 0 ends\nmalformed 3: more than one Content-Length, ends\n"
             "request 5 GET https a / length 0\n"
             "malformed 5: body of another length than Content-Length\ndiscard 5 +3 ends\n"},
    };

    (void)state;
    check_rows(rows, ARRAY_LEN(rows));
}

/* ---- what the owner decides ---- */

static void what_the_owner_discards_is_counted_and_not_checked(void **state)
{
    static const struct http2_owner discards = {.no_frames = true, .discards = true};
    static const struct row rows[] = {
        {"a body that is too long",
         {{1, WHOLE, 1, S(POST LENGTH_3)},
          {0, 0, 1, S("abcdef")},
          {0, PAD, 1, S("\1a\0")},
          {0, END, 1, S("")},
          {0, END, 1, S("")}},
         FAULT_HTTP2_CLOSED,
         POSTED " length 3\ndiscard 1 +6\ndiscard 1 +3\ndiscard 1 ends\n"},
        {"trailers",
         {{1, WHOLE, 1, S(POST LENGTH_3)}, {1, END | WHOLE, 1, S("\0\1a\1b")}},
         FAULT_NONE,
         POSTED " length 3\ndiscard 1 ends\n"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); ++i)
        check_row_as(&rows[i], &discards);
}

static void a_stream_that_the_owner_does_not_know_is_closed(void **state)
{
    static const struct http2_owner forgets = {.no_frames = true, .forgets = true};
    static const struct row row = {"dropped",
                                   {{1, WHOLE, 1, S(POST)}, {0, END, 1, S("abc")}},
                                   FAULT_HTTP2_CLOSED,
                                   POSTED "\n"};

    (void)state;
    check_row_as(&row, &forgets);
}

static void a_stream_may_be_dropped_within_a_frame(void **state)
{
    struct http2_owner o = {.no_frames = true};

    (void)state;
    http2_owner_start(&o, &limits);
    assert_int_equal(
        http2_owner_read(&o, S(PREFACE SETTINGS "\0\0\6\1\4\0\0\0\1" POST "\0\0\6\0\1\0\0\0\1ab")),
        FAULT_NONE);
    http2_owner_flush(&o);
    o.nstreams = 0;
    assert_int_equal(http2_owner_read(&o, S("cd")), FAULT_NONE);
    assert_int_equal(http2_owner_read(&o, S("ef")), FAULT_NONE);
    http2_owner_flush(&o);
    /* Trailers too. */
    assert_int_equal(http2_owner_read(&o, S("\0\0\6\1\4\0\0\0\3" POST "\0\0\4\1\5\0\0\0\3\0\1a")),
                     FAULT_NONE);
    o.nstreams = 0;
    assert_int_equal(http2_owner_read(&o, S("\0" SETTINGS)), FAULT_NONE);
    assert_string_equal(text_cstr(&o.log), "settings\n" POSTED "\ndata 1 ab\ndiscard 1 +4 ends\n"
                                           "request 3 POST https a /\nsettings\n");
    http2_owner_finish(&o);
}

/* Each event in its turn. */
static void a_fault_of_the_owner_ends_the_reading(void **state)
{
    static const char bytes[] = PREFACE "\0\0\x6\4\0\0\0\0\0\0\3\0\0\0\1"
                                        "\0\0\0\4\1\0\0\0\0"
                                        "\0\0\x8\6\0\0\0\0\0"
                                        "12345678"
                                        "\0\0\5\2\0\0\0\0\7\0\0\0\0\0"
                                        "\0\0\6\1\4\0\0\0\1" POST "\0\0\0\0\1\0\0\0\1"
                                        "\0\0\6\1\4\0\0\0\3" POST "\0\0\4\1\5\0\0\0\3\0\1a\0"
                                        "\0\0\1\1\5\0\0\0\5\x82"
                                        "\0\0\4\x8\0\0\0\0\0\0\0\0\1"
                                        "\0\0\4\3\0\0\0\0\1\0\0\0\1"
                                        "\0\0\x8\7\0\0\0\0\0\0\0\0\0\0\0\0\0";
    enum { EVENTS = 13 };

    (void)state;
    for (unsigned i = 1; i <= EVENTS + 1; ++i) {
        struct http2_owner fails = {.no_frames = true, .fails_after = i};
        struct text log = read_all_ways((struct slice){bytes, sizeof(bytes) - 1}, &fails,
                                        i <= EVENTS ? FAULT_FRAMES_RESETS : FAULT_NONE);
        unsigned lines = 0;

        for (size_t at = 0; at < log.len; ++at)
            lines += log.p[at] == '\n';
        assert_int_equal(lines, i <= EVENTS ? i : EVENTS);
        text_fini(&log);
    }
}

static void a_frame_that_the_owner_rejects_ends_the_reading(void **state)
{
    static const struct http2_owner third = {.frames_max = 3};
    static const struct http2_owner priorities = {.no_frames = true, .fails_after = 3};

    (void)state;
    check_bytes(S(PREFACE SETTINGS "\0\0\0\x42\0\0\0\0\0\0\0\0\x42\0\0\0\0\0"
                                   "\0\0\x8\6\0\0\0\0\0"
                                   "12345678"),
                &third, FAULT_FRAMES_UNKNOWN,
                "frame 4 0 0 0\nsettings\nframe 66 0 0 0\nframe 66 0 0 0\nframe 6 0 8 0\n");
    /* The priority of trailers, too. */
    check_bytes(S(PREFACE SETTINGS "\0\0\6\1\4\0\0\0\1" POST "\0\0\5\1\x25\0\0\0\1\0\0\0\0\0"),
                &priorities, FAULT_FRAMES_RESETS,
                "settings\n" POSTED "\npriority 1 weight 1 of 0\n");
}

static void every_frame_is_reported_before_its_contents(void **state)
{
    static const struct http2_owner usual = {0};

    (void)state;
    check_bytes(S(PREFACE SETTINGS "\0\0\2\1\1\0\0\0\1\x82\x84\0\0\4\x9\4\0\0\0\1\x87\x41\1a"
                                   "\0\0\1\x42\7\0\0\0\0x\0\0\0\5\0\0\0\0\1"),
                &usual, FAULT_HTTP2_PROTOCOL,
                "frame 4 0 0 0\nsettings\nframe 1 1 2 1\nframe 9 4 4 1\n" GOT " ends\n"
                "frame 66 7 1 0\nframe 5 0 0 1\n");
}

/* ---- preface, phases, codes ---- */

static void the_first_frame_is_settings(void **state)
{
    static const struct http2_owner usual = {0};

    (void)state;
    check_bytes(S(PREFACE "\0\0\4\x8\0\0\0\0\0\0\0\0\1"), &usual, FAULT_HTTP2_PROTOCOL, "");
    check_bytes(S(PREFACE "\0\0\0\4\1\0\0\0\0"), &usual, FAULT_HTTP2_PROTOCOL, "");
    check_bytes(S(PREFACE "\0\0\0\x42\1\0\0\0\0"), &usual, FAULT_HTTP2_PROTOCOL, "");
    check_bytes(S(PREFACE "\0\0\1\4\0\0\0\0\0\0"), &usual, FAULT_HTTP2_FRAME_SIZE,
                "frame 4 0 1 0\n");
}

static void a_wrong_preface_is_seen_at_its_first_wrong_byte(void **state)
{
    (void)state;
    for (size_t wrong = 0; wrong <= HTTP2_PREFACE_BYTES; ++wrong) {
        struct http2_owner o = {0};
        char bytes[] = PREFACE;

        bytes[wrong] ^= 1; /* the last time the zero after it */
        http2_owner_start(&o, &limits);
        for (size_t i = 0; i < HTTP2_PREFACE_BYTES; ++i) {
            enum request_fault f = http2_owner_read(&o, (struct slice){bytes + i, 1});

            assert_int_equal(f, i == wrong ? FAULT_HTTP2_PREFACE : FAULT_NONE);
            assert_int_equal(http2_reader_has_preface(o.reader),
                             i != wrong && i == HTTP2_PREFACE_BYTES - 1);
            if (f != FAULT_NONE)
                break;
        }
        assert_int_equal(o.log.len, 0);
        http2_owner_finish(&o);
    }
}

static void the_phase_is_that_of_the_input(void **state)
{
    static const struct {
        struct slice bytes;
        enum http2_phase phase;
    } steps[] = {
        {S(""), HTTP2_PHASE_PREFACE},
        {S(PREFACE), HTTP2_PHASE_PREFACE},
        {S("\0\0\6\4\0\0\0\0\0\0\4\0\0\0"), HTTP2_PHASE_PREFACE},
        {S("\1"), HTTP2_PHASE_IDLE},
        {S("\0"), HTTP2_PHASE_FRAME},
        {S("\0\6\1\0\0\0\0\1"), HTTP2_PHASE_BLOCK},
        {S(POST), HTTP2_PHASE_BLOCK},
        {S("\0\0\0"), HTTP2_PHASE_BLOCK},
        {S("\x9\4\0\0\0\1"), HTTP2_PHASE_IDLE},
        {S("\0\0\2\0\1\0\0\0\1x"), HTTP2_PHASE_FRAME},
        {S("y"), HTTP2_PHASE_IDLE},
        {S("\0\0\x9\1\x0d\0\0\0\3\2" REQUEST "\0"), HTTP2_PHASE_FRAME}, /* padding alone */
        {S("\0"), HTTP2_PHASE_IDLE},
    };
    struct http2_owner o = {0};

    (void)state;
    http2_owner_start(&o, &limits);
    for (size_t i = 0; i < ARRAY_LEN(steps); ++i) {
        assert_int_equal(http2_owner_read(&o, steps[i].bytes), FAULT_NONE);
        assert_int_equal(http2_reader_phase(o.reader), steps[i].phase);
    }
    assert_int_equal(http2_reader_last_stream(o.reader), 3);
    http2_owner_finish(&o);
}

static void faults_have_error_codes(void **state)
{
    (void)state;
    assert_int_equal(http2_error_of(FAULT_NONE), HTTP2_ERROR_NONE);
    assert_int_equal(http2_error_of(FAULT_HTTP2_PREFACE), HTTP2_ERROR_PROTOCOL);
    assert_int_equal(http2_error_of(FAULT_HTTP2_PROTOCOL), HTTP2_ERROR_PROTOCOL);
    assert_int_equal(http2_error_of(FAULT_HTTP2_FRAME_SIZE), HTTP2_ERROR_FRAME_SIZE);
    assert_int_equal(http2_error_of(FAULT_HTTP2_COMPRESSION), HTTP2_ERROR_COMPRESSION);
    assert_int_equal(http2_error_of(FAULT_HTTP2_CLOSED), HTTP2_ERROR_STREAM_CLOSED);
    assert_int_equal(http2_error_of(FAULT_HTTP2_WINDOW), HTTP2_ERROR_FLOW_CONTROL);
    assert_int_equal(http2_error_of(FAULT_HEADERS_TOO_LARGE), HTTP2_ERROR_ENHANCE_YOUR_CALM);
    assert_int_equal(http2_error_of(FAULT_FRAMES_PING), HTTP2_ERROR_ENHANCE_YOUR_CALM);
    for (size_t i = 0; i < ARRAY_LEN(malformed_heads); ++i)
        assert_int_equal(http2_error_of(malformed_heads[i].fault), HTTP2_ERROR_PROTOCOL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_reported_with_their_fields_and_bodies),
        cmocka_unit_test(other_frames_are_reported),
        cmocka_unit_test(frames_of_a_wrong_size_or_stream_end_the_connection),
        cmocka_unit_test(frames_of_a_stream_in_another_state_end_the_connection),
        cmocka_unit_test(nothing_may_come_within_a_header_block),
        cmocka_unit_test(settings_and_windows_have_ranges),
        cmocka_unit_test(malformed_blocks_end_the_connection),
        cmocka_unit_test(header_blocks_are_limited),
        cmocka_unit_test(a_malformed_head_is_reported_and_the_table_stays_right),
        cmocka_unit_test(the_rest_of_a_malformed_request_is_discarded),
        cmocka_unit_test(malformed_trailers_are_reported),
        cmocka_unit_test(a_body_of_another_length_is_malformed),
        cmocka_unit_test(what_the_owner_discards_is_counted_and_not_checked),
        cmocka_unit_test(a_stream_that_the_owner_does_not_know_is_closed),
        cmocka_unit_test(a_stream_may_be_dropped_within_a_frame),
        cmocka_unit_test(a_fault_of_the_owner_ends_the_reading),
        cmocka_unit_test(a_frame_that_the_owner_rejects_ends_the_reading),
        cmocka_unit_test(every_frame_is_reported_before_its_contents),
        cmocka_unit_test(the_first_frame_is_settings),
        cmocka_unit_test(a_wrong_preface_is_seen_at_its_first_wrong_byte),
        cmocka_unit_test(the_phase_is_that_of_the_input),
        cmocka_unit_test(faults_have_error_codes),
    };

    return cmocka_run_group_tests_name("http2_reader", tests, NULL, NULL);
}
