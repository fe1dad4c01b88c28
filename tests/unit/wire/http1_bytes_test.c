/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/wire/http1_bytes.h"

enum { LONGEST = 19 };

static bool is_text_byte(unsigned char c)
{
    return (c >= 0x20 && c != 0x7f) || c == '\t';
}

static void one_control_character_anywhere_makes_it_no_text(void **state)
{
    char room[LONGEST];

    (void)state;
    assert_true(http1_is_text(SLICE_LIT("")));
    for (size_t len = 1; len <= LONGEST; ++len) {
        for (size_t at = 0; at < len; ++at) {
            for (int byte = 0; byte < 256; ++byte) {
                memset(room, byte % 2 != 0 ? 0xa0 : '\t', len);
                room[at] = (char)byte;
                assert_int_equal(http1_is_text((struct slice){room, len}),
                                 is_text_byte((unsigned char)byte));
            }
        }
    }
}

static void a_token_ends_where_any_other_byte_stands(void **state)
{
    char room[LONGEST];

    (void)state;
    for (size_t len = 0; len <= LONGEST; ++len) {
        memset(room, 'x', len);
        assert_int_equal(http1_token_length((struct slice){room, len}), len);
        for (size_t at = 0; at < len; ++at) {
            room[at] = ':';
            assert_int_equal(http1_token_length((struct slice){room, len}), at);
            room[at] = 'x';
        }
    }
}

enum { LONGEST_LINE = 36 };

static size_t length_of(const bool bytes[256], struct slice s)
{
    size_t n = 0;

    while (n < s.len && bytes[(unsigned char)s.p[n]])
        ++n;
    return n;
}

/* S, scanned in whatever strides this machine has, and byte by byte. */
static void assert_scanned_alike(struct slice s)
{
    assert_int_equal(http1_token_length(s), length_of(http1_token_bytes, s));
    assert_int_equal(http1_token_length_bytes(s, 0), length_of(http1_token_bytes, s));
    assert_int_equal(http1_scan_target(s), length_of(http1_target_bytes, s));
}

static void scanning_in_strides_finds_what_scanning_byte_by_byte_finds(void **state)
{
    static const char around[] = {'x', '_', '\t', (char)0xff};

    (void)state;
    for (size_t a = 0; a < sizeof(around); ++a) {
        for (size_t len = 0; len <= LONGEST_LINE; ++len) {
            /* Of that very size, so that a byte read beyond it is found out. */
            char *room = malloc(len != 0 ? len : 1);

            assert_non_null(room);
            memset(room, around[a], len);
            for (size_t at = 0; at < len; ++at) {
                for (int byte = 0; byte < 256; ++byte) {
                    room[at] = (char)byte;
                    assert_scanned_alike((struct slice){room, len});
                }
                room[at] = around[a];
            }
            free(room);
        }
    }
}

enum { BLOCK = 64 };

/* A bit for each of the N bytes at P that is a control character. */
static uint64_t marks_of(const char *p, size_t n)
{
    uint64_t marks = 0;

    for (size_t i = 0; i < n; ++i) {
        unsigned char c = (unsigned char)p[i];

        marks |= (uint64_t)(c < 0x20 || c == 0x7f) << i;
    }
    return marks;
}

static void control_characters_of_a_block_are_marked_each_by_its_bit(void **state)
{
    static const char around[] = {'x', '\0', '\t', 0x1f, ' ', 0x7f, (char)0x80, (char)0xff};
    /* Of that very size, so that a byte read beyond it is found out. */
    char *room = malloc(BLOCK);

    (void)state;
    assert_non_null(room);
    for (size_t a = 0; a < sizeof(around); ++a) {
        memset(room, around[a], BLOCK);
        for (size_t at = 0; at < BLOCK; ++at) {
            for (int byte = 0; byte < 256; ++byte) {
                room[at] = (char)byte;
                assert_true(http1_marks(room) == marks_of(room, BLOCK));
                assert_true(http1_marks_words(room) == marks_of(room, BLOCK));
            }
            assert_true(http1_few_marks(room + BLOCK - at, at) == marks_of(room + BLOCK - at, at));
            room[at] = around[a];
        }
    }
    free(room);
}

/* The next of LINES must be LINE; NULL: there is none. */
static void assert_next_line(struct http1_lines *lines, const char *line)
{
    struct slice next = SLICE_NULL;

    if (line == NULL) {
        assert_int_equal(http1_lines_take(lines, &next), HTTP1_LINE_CUT);
        return;
    }
    assert_int_equal(http1_lines_take(lines, &next), HTTP1_LINE);
    assert_true(slice_is(next, line));
}

static void lines_are_reported_wherever_the_blocks_begin_and_end(void **state)
{
    char filling[3 * BLOCK + 1];
    char text[4 * BLOCK];

    (void)state;
    for (size_t len = 0; len < sizeof(filling); ++len) {
        memset(filling, len % 2 != 0 ? '\t' : 'x', len);
        filling[len] = '\0';
        int bytes = snprintf(text, sizeof(text), "%s\r\nA:\tb\r\n\r\nc\r", filling);
        char *exact = malloc((size_t)bytes);

        assert_non_null(exact);
        memcpy(exact, text, (size_t)bytes);
        struct http1_lines lines = http1_lines_of((struct slice){exact, (size_t)bytes});
        assert_next_line(&lines, filling);
        assert_next_line(&lines, "A:\tb");
        assert_next_line(&lines, "");
        assert_next_line(&lines, NULL);
        assert_ptr_equal(lines.at, exact + bytes - 2);
        free(exact);
    }
}

static void a_line_that_ends_otherwise_is_bad_wherever_it_does(void **state)
{
    static const char *const ends[] = {"\n", "\rx", "\x7f", "\x01\r\n", "\r\r\n"};
    char text[3 * BLOCK];
    struct slice line;

    (void)state;
    for (size_t e = 0; e < ARRAY_LEN(ends); ++e) {
        for (size_t len = 0; len < 2 * BLOCK; ++len) {
            memset(text, 'x', len);
            memcpy(text + len, ends[e], strlen(ends[e]));
            struct http1_lines lines = http1_lines_of((struct slice){text, len + strlen(ends[e])});

            assert_int_equal(http1_lines_take(&lines, &line), HTTP1_LINE_BAD);
            assert_ptr_equal(lines.at, text);
        }
    }
}

static void tokens_and_targets_have_the_bytes_that_their_rules_name(void **state)
{
    static const char tchar[] = "!#$%&'*+-.^_`|~";

    (void)state;
    for (int c = 0; c < 256; ++c) {
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        bool digit = c >= '0' && c <= '9';

        assert_int_equal(http1_token_bytes[c],
                         letter || digit || (c != 0 && strchr(tchar, c) != NULL));
        assert_int_equal(http1_target_bytes[c], c > 0x20 && c < 0x7f && strchr("\"#<>", c) == NULL);
    }
}

static void a_line_is_split_at_its_colon_and_blanks_go(void **state)
{
    struct slice name;
    struct slice value;

    (void)state;
    assert_true(http1_split_header(SLICE_LIT("Accept: \t text/html \t"), &name, &value));
    assert_true(slice_is(name, "Accept"));
    assert_true(slice_is(value, "text/html"));
    assert_true(http1_split_header(SLICE_LIT("a:"), &name, &value));
    assert_int_equal(value.len, 0);
    assert_false(http1_split_header(SLICE_LIT(": x"), &name, &value));
    assert_false(http1_split_header(SLICE_LIT("Accept : x"), &name, &value));
    assert_false(http1_split_header(SLICE_LIT("Accept"), &name, &value));
    assert_false(http1_split_header(SLICE_LIT("a: \x01"), &name, &value));
}

static void list_is_searched_by_whole_items(void **state)
{
    (void)state;
    assert_true(http1_list_has(SLICE_LIT("a, Close"), SLICE_LIT("close")));
    assert_true(http1_list_has(SLICE_LIT("close"), SLICE_LIT("close")));
    assert_true(http1_list_has(SLICE_LIT(",\tclose ,"), SLICE_LIT("close")));
    assert_false(http1_list_has(SLICE_LIT("closed, aclose"), SLICE_LIT("close")));
    assert_false(http1_list_has(SLICE_LIT(""), SLICE_LIT("close")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_control_character_anywhere_makes_it_no_text),
        cmocka_unit_test(a_token_ends_where_any_other_byte_stands),
        cmocka_unit_test(scanning_in_strides_finds_what_scanning_byte_by_byte_finds),
        cmocka_unit_test(control_characters_of_a_block_are_marked_each_by_its_bit),
        cmocka_unit_test(lines_are_reported_wherever_the_blocks_begin_and_end),
        cmocka_unit_test(a_line_that_ends_otherwise_is_bad_wherever_it_does),
        cmocka_unit_test(tokens_and_targets_have_the_bytes_that_their_rules_name),
        cmocka_unit_test(a_line_is_split_at_its_colon_and_blanks_go),
        cmocka_unit_test(list_is_searched_by_whole_items),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
