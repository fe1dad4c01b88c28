/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

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

static void text_ends_at_the_first_control_byte_whatever_stands_around_it(void **state)
{
    static const char around[] = {'x', '\t', ' ', '~', (char)0x80, (char)0xff};
    char room[LONGEST];

    (void)state;
    for (size_t a = 0; a < sizeof(around); ++a) {
        memset(room, around[a], sizeof(room));
        assert_int_equal(http1_text_length((struct slice){room, sizeof(room)}), sizeof(room));
        for (size_t at = 0; at < sizeof(room); ++at) {
            for (int c = 0; c < 256; ++c) {
                bool text = (c >= 0x20 && c != 0x7f) || c == '\t';

                room[at] = (char)c;
                assert_int_equal(http1_text_length((struct slice){room, sizeof(room)}),
                                 text ? sizeof(room) : at);
            }
            room[at] = around[a];
        }
    }
    assert_int_equal(http1_text_length(SLICE_NULL), 0);
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

static void a_line_is_split_at_its_colon_and_blanks_go(void **state)
{
    struct slice name;
    struct slice value;

    (void)state;
    assert_true(http1_split_text(SLICE_LIT("Accept: \t text/html \t"), &name, &value));
    assert_true(slice_is(name, "Accept"));
    assert_true(slice_is(value, "text/html"));
    assert_true(http1_split_header(SLICE_LIT("a:"), &name, &value));
    assert_int_equal(value.len, 0);
    assert_false(http1_split_text(SLICE_LIT(": x"), &name, &value));
    assert_false(http1_split_text(SLICE_LIT("Accept : x"), &name, &value));
    assert_false(http1_split_text(SLICE_LIT("Accept"), &name, &value));
    assert_false(http1_split_header(SLICE_LIT("a: \x01"), &name, &value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_control_character_anywhere_makes_it_no_text),
        cmocka_unit_test(text_ends_at_the_first_control_byte_whatever_stands_around_it),
        cmocka_unit_test(a_token_ends_where_any_other_byte_stands),
        cmocka_unit_test(a_line_is_split_at_its_colon_and_blanks_go),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
