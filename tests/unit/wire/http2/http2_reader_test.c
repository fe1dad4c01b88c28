/* SPDX-License-Identifier: Apache-2.0
 *
 * What the reader reports of requests, valid or malformed, and what it leaves to its owner. Errors
 * of the connection: http2_reader_errors_test.c.
 */
#include "tests/support/http2_rows.h"

/* ---- requests ---- */

static void requests_are_reported_with_their_fields(void **state)
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
        {"a stream that skips numbers",
         {{1, END | WHOLE, 77, S(REQUEST)}},
         0,
         "request 77 GET https a / ends\n"},
        {"host as :authority",
         {{1, END | WHOLE, 1,
           S(REQUEST "\0\4host\1"
                     "A")}},
         0,
         GOT " ends\n"},
        {"host as :authority, with the default port of https",
         {{1, END | WHOLE, 1, S(REQUEST "\0\4host\5A:443")}},
         0,
         GOT " ends\n"},
        {":authority as host, with an empty port",
         {{1, END | WHOLE, 1, S("\x82\x84\x87\1\2a:\0\4host\5a:443")}},
         0,
         "request 1 GET https a: / ends\n"},
        {"host as :authority, with the default port of http",
         {{1, END | WHOLE, 1,
           S("\x82\x84\x86\1\4a:80\0\4host\1"
             "a")}},
         0,
         "request 1 GET http a:80 / ends\n"},
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

static void bodies_and_trailers_are_reported(void **state)
{
    static const struct row rows[] = {
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
        {"two streams at once",
         {{1, WHOLE, 1, S(POST)},
          {1, WHOLE, 3, S(POST)},
          {0, END, 3, S("three")},
          {0, END, 1, S("one")}},
         0,
         POSTED "\nrequest 3 POST https a /\ndata 3 three ends\ndata 1 one ends\n"},
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
        {"settings acknowledged", {{4, 1, 0, S("")}}, 0, ""},
        {"ping",
         {{6, 0, 0, S("12345678")}, {6, 1, 0, S("abcdefgh")}},
         0,
         "ping 12345678\nping ack abcdefgh\n"},
        {"priority of an idle stream",
         {{2, 0, 8, S("\x80\0\0\3\xff")}},
         0,
         "priority 8 weight 256 of 3 exclusive\n"},
        {"priority updates",
         {{16, 0, 0, S("\0\0\0\7u=1, i")}, {16, 0xff, 0, S("\x80\0\0\1")}},
         0,
         "urgency 7 u=1, i\nurgency 1 \n"},
        {"goaway",
         {{7, 0, 0,
           S("\x80\0\0\3\0\0\0\2"
             "debug data")}},
         0,
         ""},
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
    {S(REQUEST "\0\4host\4a:80"), FAULT_AUTHORITY}, /* the port of another scheme */
    {S(REQUEST "\0\4host\5a:444"), FAULT_AUTHORITY},
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
        struct text expected = {0};
        struct text block = {0};

        /* What comes after the fault is in the table all the same. */
        text_add(&block, m->block);
        text_add(&block, S("\x40\1x\1y"));
        text_addf(&expected, "malformed 1: %s, ends\nrequest 3 GET https a / x: y ends\n",
                  request_fault_text(m->fault));
        const struct row row = {"malformed",
                                {{1, END | WHOLE, 1, text_slice(&block)},
                                 {1, END | WHOLE, 3, S(REQUEST "\xbf")}}, /* :authority is 62 */
                                FAULT_NONE,
                                text_cstr(&expected)};
        check_rows(&row, 1);
        text_fini(&expected);
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
        struct text expected = {0};

        text_addf(&expected, POSTED "\ndata 1 abc\nmalformed 1: %s, ends\nreset 1 5\n",
                  request_fault_text(trailers[i].fault));
        const struct row row = {"malformed trailers",
                                {{1, WHOLE, 1, S(POST)},
                                 {0, 0, 1, S("abc")},
                                 {1, END | WHOLE, 1, trailers[i].block},
                                 {3, 0, 1, S("\0\0\0\5")}},
                                FAULT_NONE,
                                text_cstr(&expected)};
        check_rows(&row, 1);
        text_fini(&expected);
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

static void discarded_bytes_are_counted_and_not_checked(void **state)
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
    http2_owner_start(&o, &row_limits);
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

/* Each event in order. */
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
    enum { EVENTS = 11 };

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

static void a_wrong_preface_is_seen_at_its_first_wrong_byte(void **state)
{
    (void)state;
    for (size_t wrong = 0; wrong <= HTTP2_PREFACE_BYTES; ++wrong) {
        struct http2_owner o = {0};
        char bytes[] = PREFACE;

        bytes[wrong] ^= 1; /* the last time the zero after it */
        http2_owner_start(&o, &row_limits);
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
    http2_owner_start(&o, &row_limits);
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
        cmocka_unit_test(requests_are_reported_with_their_fields),
        cmocka_unit_test(bodies_and_trailers_are_reported),
        cmocka_unit_test(other_frames_are_reported),
        cmocka_unit_test(a_malformed_head_is_reported_and_the_table_stays_right),
        cmocka_unit_test(the_rest_of_a_malformed_request_is_discarded),
        cmocka_unit_test(malformed_trailers_are_reported),
        cmocka_unit_test(a_body_of_another_length_is_malformed),
        cmocka_unit_test(discarded_bytes_are_counted_and_not_checked),
        cmocka_unit_test(a_stream_that_the_owner_does_not_know_is_closed),
        cmocka_unit_test(a_stream_may_be_dropped_within_a_frame),
        cmocka_unit_test(a_fault_of_the_owner_ends_the_reading),
        cmocka_unit_test(a_frame_that_the_owner_rejects_ends_the_reading),
        cmocka_unit_test(every_frame_is_reported_before_its_contents),
        cmocka_unit_test(a_wrong_preface_is_seen_at_its_first_wrong_byte),
        cmocka_unit_test(the_phase_is_that_of_the_input),
        cmocka_unit_test(faults_have_error_codes),
    };

    return cmocka_run_group_tests_name("http2_reader", tests, NULL, NULL);
}
