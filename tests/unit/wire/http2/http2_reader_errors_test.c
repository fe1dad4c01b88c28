/* SPDX-License-Identifier: Apache-2.0
 *
 * What ends a connection of HTTP/2, each case of the protocol's rules and of the limits.
 */
#include "tests/support/http2_rows.h"

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
        REJECTED(PROTOCOL, {16, 0, 1, S("\0\0\0\1u=1")}),
        REJECTED(PROTOCOL, {16, 0, 0, S("\0\0\0\0u=1")}),
        REJECTED(PROTOCOL, {16, 0, 0, S("\x80\0\0\0u=1")}),
        REJECTED(PROTOCOL, {16, 0, 0, S("\0\0\0\2u=1")}),
        REJECTED(FRAME_SIZE, {16, 0, 0, S("\0\0\1")}),
        REJECTED(PROTOCOL, {4, 0, 0, S("\0\x9\0\0\0\2")}),
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
        add_head(&large, HTTP2_FRAME_ACCEPTED + 1, type, 0, 1);
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

static void a_frame_within_a_header_block_is_an_error(void **state)
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

    (void)state;
    while (fragment.len < row_limits.block_bytes)
        text_add_char(&fragment, '\x82');
    struct slice half = {fragment.p, row_limits.block_bytes / 2};
    text_add_char(&padded, 5);
    text_add(&padded, text_slice(&fragment));
    text_add(&padded, S("\0\0\0\0\0"));
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
    };
    check_rows(rows, ARRAY_LEN(rows));
    text_fini(&fragment);
    text_fini(&padded);
}

static void each_header_block_has_the_limits_for_itself(void **state)
{
    struct text block = {0};
    struct text log = {0};

    (void)state;
    text_add(&block, S(REQUEST "\0\1x\x7f\xd9\3")); /* a value of 600 bytes, of 1000 in all */
    for (int i = 0; i < 600; ++i)
        text_add_char(&block, 'y');
    for (unsigned id = 1; id <= 3; id += 2) {
        text_addf(&log, "request %u GET https a / x: ", id);
        text_add(&log, (struct slice){block.p + block.len - 600, 600});
        text_addf(&log, " ends\n");
    }
    const struct row rows[] = {
        {"bytes",
         {{1, END | WHOLE, 1, text_slice(&block)}, {1, END | WHOLE, 3, text_slice(&block)}},
         FAULT_NONE,
         text_cstr(&log)},
        {"frames",
         {{1, END, 1, S(REQUEST)},
          {9, 0, 1, S("")},
          {9, 0, 1, S("")},
          {9, WHOLE, 1, S("")},
          {1, END, 3, S(REQUEST)},
          {9, 0, 3, S("")},
          {9, WHOLE, 3, S("")}},
         FAULT_NONE,
         GOT " ends\nrequest 3 GET https a / ends\n"},
    };
    check_rows(rows, ARRAY_LEN(rows));
    text_fini(&block);
    text_fini(&log);
}

static void lists_of_fields_are_limited(void **state)
{
    struct text list = {0};
    struct text listed = {0};
    char twenty_one[21];

    (void)state;
    memset(twenty_one, '\x82', sizeof(twenty_one));
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
        {"fields",
         {{1, END | WHOLE, 1, (struct slice){twenty_one, 21}}},
         FAULT_HEADERS_TOO_LARGE,
         ""},
        {"fields as many as allowed",
         {{1, END | WHOLE, 1, (struct slice){twenty_one, 20}}},
         FAULT_NONE,
         "malformed 1: missing, repeated or misplaced pseudo-header field, ends\n"},
        {"a list as large as allowed", {{1, END | WHOLE, 1, nine}}, FAULT_NONE, text_cstr(&listed)},
        {"a larger one", {{1, END | WHOLE, 1, text_slice(&list)}}, FAULT_HEADERS_TOO_LARGE, ""},
    };
    check_rows(rows, ARRAY_LEN(rows));
    text_fini(&list);
    text_fini(&listed);
}

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_of_a_wrong_size_or_stream_end_the_connection),
        cmocka_unit_test(frames_of_a_stream_in_another_state_end_the_connection),
        cmocka_unit_test(a_frame_within_a_header_block_is_an_error),
        cmocka_unit_test(settings_and_windows_have_ranges),
        cmocka_unit_test(malformed_blocks_end_the_connection),
        cmocka_unit_test(header_blocks_are_limited),
        cmocka_unit_test(each_header_block_has_the_limits_for_itself),
        cmocka_unit_test(lists_of_fields_are_limited),
        cmocka_unit_test(the_first_frame_is_settings),
    };

    return cmocka_run_group_tests_name("http2_reader_errors", tests, NULL, NULL);
}
