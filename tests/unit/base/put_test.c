/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/bytes.h"

enum { LONGEST = 100 };

static void pieces_of_every_length_are_put_whole_and_nothing_beyond_them(void **state)
{
    char from[LONGEST];
    char to[LONGEST + 1];

    (void)state;
    for (size_t i = 0; i < sizeof(from); ++i)
        from[i] = (char)(i + 1);
    for (size_t len = 0; len <= LONGEST; ++len) {
        /* Of that very size, so that a byte read beyond it is found out. */
        char *piece = malloc(len != 0 ? len : 1);

        assert_non_null(piece);
        memcpy(piece, from, len);
        memset(to, 0, sizeof(to));
        assert_ptr_equal(put_slice(to, (struct slice){piece, len}), to + len);
        assert_memory_equal(to, from, len);
        assert_int_equal(to[len], 0);
        free(piece);
    }
    assert_ptr_equal(put_slice(to, SLICE_NULL), to);
}

static void assert_line(struct slice name, struct slice value, const char *line)
{
    char to[LONGEST];
    char *end = put_line(to, name, value);

    assert_int_equal(end - to, strlen(line));
    assert_int_equal(end - to, name.len + value.len + PUT_LINE_EXTRA);
    assert_memory_equal(to, line, strlen(line));
}

static void a_line_is_put_the_same_however_its_parts_stood_before(void **state)
{
    static const char read[] = "Accept: text/html\r\nA:\tb\r\nX-Empty: \r\nName??value";

    (void)state;
    assert_line((struct slice){read, 6}, (struct slice){read + 8, 9}, "Accept: text/html\r\n");
    assert_line((struct slice){read + 19, 1}, (struct slice){read + 22, 1}, "A: b\r\n");
    assert_line((struct slice){read + 25, 7}, (struct slice){read + 34, 0}, "X-Empty: \r\n");
    assert_line((struct slice){read + 36, 4}, (struct slice){read + 42, 5}, "Name: value\r\n");
    assert_line((struct slice){read, 6}, SLICE_LIT("*/*"), "Accept: */*\r\n");
    assert_line(SLICE_LIT("x"), SLICE_NULL, "x: \r\n");
}

static void a_line_with_a_known_name_is_put_as_any_other(void **state)
{
    char to[LONGEST];
    char *end = PUT_LINE(to, "Via", SLICE_LIT("1.1 x"));

    (void)state;
    assert_int_equal(end - to, 12);
    assert_memory_equal(to, "Via: 1.1 x\r\n", 12);
}

static void assert_number(uint64_t v, const char *digits)
{
    size_t n = strlen(digits);
    char to[PUT_U64_MAX + 2];
    char *end = to + sizeof(to) - 1;

    memset(to, '#', sizeof(to));
    assert_ptr_equal(put_u64(to, v), to + n);
    assert_memory_equal(to, digits, n);
    assert_int_equal(to[n], '#');
    memset(to, '#', sizeof(to));
    assert_ptr_equal(put_u64_before(end, v), end - n);
    assert_memory_equal(end - n, digits, n);
    assert_int_equal(end[-1 - (ptrdiff_t)n], '#');
    assert_int_equal(*end, '#');
}

static void a_number_is_put_in_as_many_digits_as_it_has_behind_a_place_or_before_it(void **state)
{
    (void)state;
    assert_number(0, "0");
    assert_number(9, "9");
    assert_number(10, "10");
    assert_number(99, "99");
    assert_number(100, "100");
    assert_number(1234567, "1234567");
    assert_number(UINT32_MAX, "4294967295");
    assert_number((uint64_t)UINT32_MAX + 1, "4294967296");
    assert_number(9999999999999999999U, "9999999999999999999");
    assert_number(10000000000000000000U, "10000000000000000000");
    assert_number(UINT64_MAX, "18446744073709551615");
    assert_int_equal(strlen("18446744073709551615"), PUT_U64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_of_every_length_are_put_whole_and_nothing_beyond_them),
        cmocka_unit_test(a_line_is_put_the_same_however_its_parts_stood_before),
        cmocka_unit_test(a_line_with_a_known_name_is_put_as_any_other),
        cmocka_unit_test(a_number_is_put_in_as_many_digits_as_it_has_behind_a_place_or_before_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
