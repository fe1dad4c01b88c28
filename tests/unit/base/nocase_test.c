/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/bytes.h"
#include "common/base/text.h"

enum { LONGEST = 40 };

static bool same_bytewise(const char *a, const char *b, size_t len)
{
    for (size_t i = 0; i < len; ++i) {
        if (ascii_lower(a[i]) != ascii_lower(b[i]))
            return false;
    }
    return true;
}

static void bytes_that_differ_in_more_than_case_are_not_the_same(void **state)
{
    static const char around[] = {'a', 'Z', '-', '@', '{', (char)0xc1};

    (void)state;
    for (size_t a = 0; a < sizeof(around); ++a) {
        for (size_t len = 1; len <= LONGEST; ++len) {
            char one[LONGEST];
            char other[LONGEST];

            memset(one, around[a], len);
            memset(other, around[a], len);
            for (size_t at = 0; at < len; ++at) {
                for (int byte = 0; byte < 256; ++byte) {
                    other[at] = (char)byte;
                    assert_int_equal(bytes_eq_nocase(one, other, len),
                                     same_bytewise(one, other, len));
                }
                other[at] = around[a];
            }
        }
    }
}

/* WORD with each of its bytes changed to each other byte. */
#define ASSERT_WORD_KNOWN(word)                                                                    \
    do {                                                                                           \
        char room[sizeof(word)] = word;                                                            \
        struct slice s = {room, sizeof(word) - 1};                                                 \
                                                                                                   \
        assert_true(SLICE_IS_WORD(s, word));                                                       \
        assert_false(SLICE_IS_WORD(((struct slice){room, s.len - 1}), word));                      \
        for (size_t at = 0; at < s.len; ++at) {                                                    \
            for (int byte = 0; byte < 256; ++byte) {                                               \
                room[at] = (char)byte;                                                             \
                assert_int_equal(SLICE_IS_WORD(s, word), same_bytewise(room, word, s.len));        \
            }                                                                                      \
            room[at] = word[at];                                                                   \
        }                                                                                          \
    } while (0)

static void a_known_word_is_reported_in_any_case_and_nothing_else_for_it(void **state)
{
    (void)state;
    ASSERT_WORD_KNOWN("x");
    ASSERT_WORD_KNOWN("te");
    ASSERT_WORD_KNOWN("a-1");
    ASSERT_WORD_KNOWN("host");
    ASSERT_WORD_KNOWN("close");
    ASSERT_WORD_KNOWN("{cookie");
    ASSERT_WORD_KNOWN("upgrade:");
    ASSERT_WORD_KNOWN("forwarded");
    ASSERT_WORD_KNOWN("http2-settings");
    ASSERT_WORD_KNOWN("x-forwarded-host");
    ASSERT_WORD_KNOWN("transfer-encoding");
    ASSERT_WORD_KNOWN("zz`a@a[z-a b-0123456789~");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_that_differ_in_more_than_case_are_not_the_same),
        cmocka_unit_test(a_known_word_is_reported_in_any_case_and_nothing_else_for_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
