/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/text.h"

#define assert_slice(s, text) assert_true(slice_is((s), (text)))

static void empty_slices_are_equal_whatever_they_point_to(void **state)
{
    (void)state;
    assert_true(slice_eq(SLICE_NULL, SLICE_LIT("")));
    assert_true(slice_is(SLICE_NULL, ""));
    assert_true(slice_is(SLICE_NULL, NULL));
    assert_false(slice_eq(SLICE_LIT("a"), SLICE_NULL));
    assert_true(slice_eq((struct slice){"a\0b", 3}, (struct slice){"a\0b", 3}));
    assert_false(slice_eq((struct slice){"a\0b", 3}, (struct slice){"a\0c", 3}));
}

static void case_is_ignored_in_ascii_only(void **state)
{
    (void)state;
    assert_true(slice_eq_nocase(SLICE_LIT("X-Request-ID"), SLICE_LIT("x-request-id")));
    assert_false(slice_eq_nocase(SLICE_LIT("\xc4"), SLICE_LIT("\xe4")));
    assert_false(slice_eq_nocase(SLICE_LIT("@"), SLICE_LIT("`")));
    assert_false(slice_eq_nocase(SLICE_LIT("a"), SLICE_LIT("ab")));
}

static void starts_and_ends_compare_no_further_than_there_is(void **state)
{
    (void)state;
    assert_true(slice_starts(SLICE_LIT("/a/b"), SLICE_LIT("/a")));
    assert_true(slice_starts(SLICE_LIT("/a"), SLICE_NULL));
    assert_false(slice_starts(SLICE_LIT("/a"), SLICE_LIT("/a/b")));
    assert_true(slice_ends(SLICE_LIT("a.example"), SLICE_LIT(".example")));
    assert_false(slice_ends(SLICE_LIT("example"), SLICE_LIT(".example")));
    assert_true(slice_ends(SLICE_NULL, SLICE_NULL));
}

static void trim_takes_blanks_and_tabs_from_both_ends(void **state)
{
    (void)state;
    assert_slice(slice_trim(SLICE_LIT(" \t a b\t ")), "a b");
    assert_slice(slice_trim(SLICE_LIT(" \t ")), "");
    assert_slice(slice_trim(SLICE_LIT("\n")), "\n");
}

static void cut_walks_through_the_parts(void **state)
{
    struct slice rest = SLICE_LIT("a,,b");

    (void)state;
    assert_slice(slice_cut(&rest, ','), "a");
    assert_slice(slice_cut(&rest, ','), "");
    assert_slice(slice_cut(&rest, ','), "b");
    assert_int_equal(rest.len, 0);
    assert_slice(slice_cut(&rest, ','), "");
    assert_int_equal(slice_find(SLICE_LIT("abc"), 'c'), 2);
    assert_true(slice_find(SLICE_LIT("abc"), 'd') == SIZE_MAX);
}

static void whole_numbers_are_digits_within_a_bound(void **state)
{
    static const char *const bad[] = {"",
                                      "+1",
                                      "-1",
                                      " 1",
                                      "1 ",
                                      "0x10",
                                      "1e3",
                                      "101",
                                      "18446744073709551616",
                                      "99999999999999999999"};
    uint64_t v = 7;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        assert_false(parse_u64(slice_of(bad[i]), 100, &v));
        assert_int_equal(v, 7);
    }
    assert_true(parse_u64(SLICE_LIT("100"), 100, &v));
    assert_int_equal(v, 100);
    assert_true(parse_u64(SLICE_LIT("18446744073709551615"), UINT64_MAX, &v));
    assert_true(v == UINT64_MAX);
}

static void numbers_are_finite_and_decimal(void **state)
{
    static const char *const bad[] = {"",   "inf", "nan",   "0x1p3", " 1",    "1 ",
                                      "1e", "-",   "1e999", "1,5",   "1.5.5", "infinity"};
    double v = 7;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        assert_false(parse_double(slice_of(bad[i]), &v));
        assert_true(v == 7);
    }
    assert_true(parse_double(SLICE_LIT("-1.25e2"), &v));
    assert_true(v == -125);
    assert_true(parse_double(SLICE_LIT(".5"), &v));
    assert_true(v == 0.5);
}

static void percent_encoding_keeps_what_is_visible_ascii(void **state)
{
    char out[12];

    (void)state;
    size_t n = percent_encode(SLICE_LIT("a%b c"), out, sizeof(out));
    assert_slice(((struct slice){out, n}), "a%25b%20c");
    n = percent_encode(SLICE_LIT("\xff\x7f~!"), out, sizeof(out));
    assert_slice(((struct slice){out, n}), "%FF%7F~!");
    assert_int_equal(percent_encode(SLICE_NULL, out, 0), 0);
    assert_true(percent_plain(SLICE_NULL));
    assert_true(percent_encode(SLICE_LIT("    "), out, sizeof(out)) == 12);
    assert_true(percent_encode(SLICE_LIT("     "), out, sizeof(out)) == SIZE_MAX);
    assert_true(percent_encode(SLICE_LIT("ab"), out, 1) == SIZE_MAX);
}

static void plain_bytes_are_copied_up_to_the_first_one_that_needs_encoding(void **state)
{
    char raw[24];
    char out[3 * sizeof(raw)];
    char wanted[3 * sizeof(raw) + 1];

    (void)state;
    for (size_t len = 1; len <= sizeof(raw); ++len) {
        for (size_t at = 0; at < len; ++at) {
            for (int c = 0; c < 256; ++c) {
                bool plain = c > 0x20 && c < 0x7f && c != '%';
                size_t whole = plain ? len : len + 2;

                memset(raw, 'x', len);
                raw[at] = (char)c;
                memset(wanted, 'x', sizeof(wanted));
                snprintf(wanted + at, 4, plain ? "%c" : "%%%02X", (unsigned)c);
                wanted[at + (plain ? 1 : 3)] = 'x';
                assert_int_equal(percent_plain((struct slice){raw, len}), plain);
                assert_int_equal(percent_encode((struct slice){raw, len}, out, sizeof(out)), whole);
                assert_memory_equal(out, wanted, whole);
                assert_int_equal(percent_encode((struct slice){raw, len}, out, whole), whole);
                assert_true(percent_encode((struct slice){raw, len}, out, whole - 1) == SIZE_MAX);
            }
        }
    }
}

static void a_text_grows(void **state)
{
    struct text t = {0};

    (void)state;
    for (int i = 0; i < 1000; ++i)
        text_addf(&t, "%d,", i);
    assert_int_equal(t.len, 10 * 2 + 90 * 3 + 900 * 4);
    text_add_char(&t, '!');
    assert_true(slice_ends(text_slice(&t), SLICE_LIT("998,999,!")));
    text_clear(&t);
    text_add(&t, SLICE_LIT("ab"));
    text_add(&t, SLICE_NULL);
    assert_string_equal(text_cstr(&t), "ab");
    assert_int_equal(t.len, 2);
    memcpy(text_reserve(&t, 5000), "cd", 2);
    t.len += 2;
    assert_string_equal(text_cstr(&t), "abcd");
    text_fini(&t);
    assert_null(t.p);
}

static void a_real_is_as_short_as_reads_back(void **state)
{
    struct text t = {0};

    (void)state;
    text_add_real(&t, 0.1);
    text_add_char(&t, ' ');
    text_add_real(&t, 1.0 / 3);
    text_add_char(&t, ' ');
    text_add_real(&t, 0.1 + 0.2);
    text_add_char(&t, ' ');
    text_add_real(&t, -4);
    assert_string_equal(text_cstr(&t), "0.1 0.3333333333333333 0.30000000000000004 -4");
    text_fini(&t);
}

/* What text_add_real was before it had a way around printf. */
static void print_real(double v, char out[40])
{
    for (int precision = 15; precision <= 17; ++precision) {
        snprintf(out, 40, "%.*g", precision, v);
        if (strtod(out, NULL) == v)
            return;
    }
}

static void reals_are_printed_as_printf_would(void **state)
{
    static const double some[] = {0,
                                  -0.0,
                                  1,
                                  10,
                                  0.5,
                                  0.0001,
                                  0.00011,
                                  0.00009,
                                  1e-6,
                                  123.456789,
                                  1e9,
                                  1795224806.123,
                                  999999999999999,
                                  1e15,
                                  1e16,
                                  1e300,
                                  4.35,
                                  0.1 + 0.7,
                                  1.0 / 3,
                                  2.675,
                                  5e-324,
                                  1.7976931348623157e308,
                                  1234567.0000005};
    char want[40];
    uint64_t seed = 1;

    (void)state;
    for (size_t i = 0; i < 200000; ++i) {
        struct text t = {0};
        double v = 0;

        seed = seed * 6364136223846793005u + 1442695040888963407u;
        if (i < ARRAY_LEN(some))
            v = some[i];
        else if (i % 3 == 0)
            memcpy(&v, &seed, sizeof(v)); /* any pattern of bits */
        else
            v = (double)(int64_t)(seed >> (11 + i % 40)) / (i % 3 == 1 ? 1e6 : 1e3);
        if (!isfinite(v))
            continue;
        for (int sign = 0; sign < 2; ++sign, v = -v) {
            text_clear(&t);
            text_add_real(&t, v);
            print_real(v, want);
            assert_string_equal(text_cstr(&t), want);
        }
        text_fini(&t);
    }
}

static void formatted_text_of_any_length_is_whole(void **state)
{
    char long_one[1000];

    (void)state;
    memset(long_one, 'x', sizeof(long_one) - 1);
    long_one[sizeof(long_one) - 1] = '\0';
    for (size_t len = 0; len < sizeof(long_one); ++len) {
        struct text t = {0};

        text_addf(&t, "%s", &long_one[sizeof(long_one) - 1 - len]);
        text_addf(&t, "<%zu>", len);
        assert_int_equal(strspn(text_cstr(&t), "x"), len);
        assert_int_equal(strtoul(text_cstr(&t) + len + 1, NULL, 10), len);
        text_fini(&t);
    }
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/* Every byte at every place of a word, beside every kind of neighbour. */
static void plain_bytes_are_distinguished_from_others_wherever_they_are(void **state)
{
    static const char around[] = {'a', ' ', '~', '!', '#', '[', ']'};

    (void)state;
    for (size_t k = 0; k < sizeof(around); ++k) {
        for (size_t len = 1; len <= 25; ++len) {
            for (size_t at = 0; at < len; ++at) {
                for (unsigned c = 0; c < 256; ++c) {
                    char bytes[25];

                    memset(bytes, around[k], sizeof(bytes));
                    bytes[at] = (char)c;
                    assert_int_equal(text_plain_length((struct slice){bytes, len}),
                                     is_plain((unsigned char)c) ? len : at);
                }
            }
        }
    }
    assert_int_equal(text_plain_length(SLICE_NULL), 0);
}

static void escaped_text_fits_one_line(void **state)
{
    struct text t = {0};

    (void)state;
    text_add_escaped(&t, (struct slice){"a\n\0\"\\\xc3 ~", 8});
    assert_string_equal(text_cstr(&t), "a\\x0a\\x00\\x22\\x5c\\xc3 ~");
    text_fini(&t);
}

static void invisible_bytes_are_replaced(void **state)
{
    char mixed[] = "a b~\x7f\xc3\xa4\n";
    char empty[] = "";

    (void)state;
    ascii_clean(mixed);
    assert_string_equal(mixed, "a b~????");
    ascii_clean(empty);
    assert_string_equal(empty, "");
}

static void visible_text_keeps_letters_and_nothing_that_hides(void **state)
{
    struct text t = {0};

    (void)state;
    text_add_visible(&t, SLICE_LIT("a\t\"\\<\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"));
    assert_string_equal(text_cstr(&t), "a\t\"\\<\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
    text_clear(&t);
    /* ESC, NUL, DEL, CR; a C1 control; a right-to-left override; half a character; an overlong one.
     */
    text_add_visible(&t, SLICE_LIT("\x1b[2J\0\x7f\r"));
    text_add_visible(&t, SLICE_LIT("\xc2\x9b|\xe2\x80\xae|\xe2\x82|\xc0\xaf|\xf3\xa0\x81\x81"));
    assert_string_equal(text_cstr(&t),
                        "\\x1b[2J\\x00\\x7f\\x0d\\xc2\\x9b|\\xe2\\x80\\xae|\\xe2\\x82|"
                        "\\xc0\\xaf|\\xf3\\xa0\\x81\\x81");
    text_fini(&t);
}

static void html_has_no_markup_of_strangers(void **state)
{
    struct text t = {0};

    (void)state;
    text_add_html(&t, SLICE_LIT("<b a=\"1\" c='2'>&\x01\xc3\xa4"));
    assert_string_equal(text_cstr(&t), "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;\\x01\xc3\xa4");
    text_clear(&t);
    text_add_html(&t, SLICE_NULL);
    assert_int_equal(t.len, 0);
    text_fini(&t);
}

/* Lengths around those of a word, each byte value at each place. */
enum { LONGEST = 19 };

static void each_byte_somewhere(void (*check)(struct slice s))
{
    char room[LONGEST];

    for (size_t len = 0; len <= LONGEST; ++len) {
        for (size_t at = 0; at < len; ++at) {
            for (int byte = 0; byte < 256; ++byte) {
                memset(room, byte % 2 != 0 ? 'Q' : '-', len);
                room[at] = (char)byte;
                check((struct slice){room, len});
            }
        }
    }
}

static void check_lower(struct slice s)
{
    char out[LONGEST + 1];

    out[s.len] = '#';
    ascii_lower_copy(out, s);
    for (size_t i = 0; i < s.len; ++i)
        assert_int_equal(out[i], ascii_lower(s.p[i]));
    assert_int_equal(out[s.len], '#');
    assert_true(slice_eq_nocase(s, (struct slice){out, s.len}));
    for (size_t i = 0; i < s.len; ++i) {
        out[i] ^= 0x01;
        assert_false(slice_eq_nocase(s, (struct slice){out, s.len}));
        out[i] ^= 0x01;
        out[i] ^= 0x20;
        assert_int_equal(slice_eq_nocase(s, (struct slice){out, s.len}),
                         ascii_lower(out[i]) == ascii_lower(s.p[i]));
        out[i] ^= 0x20;
    }
}

static void many_bytes_at_once_are_lowered_and_compared_as_one_by_one(void **state)
{
    (void)state;
    each_byte_somewhere(check_lower);
    check_lower(SLICE_LIT(""));
}

static void check_plain(struct slice s)
{
    struct text t = {0};

    text_add_escaped(&t, s);
    assert_int_equal(text_plain_length(s) == s.len, slice_eq(s, text_slice(&t)));
    text_fini(&t);
}

static void plain_is_what_escaping_leaves_as_it_is(void **state)
{
    (void)state;
    each_byte_somewhere(check_plain);
    check_plain(SLICE_LIT(""));
}

static void whole_numbers_are_added_digit_by_digit(void **state)
{
    static const struct {
        uint64_t v;
        const char *text;
    } cases[] = {{0, "0"},
                 {9, "9"},
                 {10, "10"},
                 {99, "99"},
                 {100, "100"},
                 {1234567890, "1234567890"},
                 {UINT64_MAX, "18446744073709551615"}};
    struct text t = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); ++i) {
        text_clear(&t);
        text_add_u64(&t, cases[i].v);
        assert_string_equal(text_cstr(&t), cases[i].text);
    }
    text_fini(&t);
}

static void paths_are_normalized(void **state)
{
    static const struct {
        const char *raw, *path;
    } rows[] = {
        {"/", "/"},
        {"/a/b", "/a/b"},
        {"/a/b/", "/a/b/"},
        {"/%61dmin", "/admin"},
        {"/a/../admin", "/admin"},
        {"/a/%2e%2E/admin", "/admin"},
        {"/a%2f..%2Fadmin", "/admin"},
        {"/./admin", "/admin"},
        {"//admin", "/admin"},
        {"/a//b///c", "/a/b/c"},
        {"/../../admin", "/admin"},
        {"/a/b/..", "/a/"},
        {"/a/.", "/a/"},
        {"/..", "/"},
        {"/.a/..b/...", "/.a/..b/..."},
        {"/%252e%252e/a", "/%2e%2e/a"}, /* once */
        {"*", "*"},
        {"", ""},
        {"%", "%"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); ++i) {
        char out[64];
        size_t n = path_normalize(slice_of(rows[i].raw), out);

        out[n] = '\0';
        assert_string_equal(out, rows[i].path);
        assert_true(n <= strlen(rows[i].raw));
        if (path_is_normal(slice_of(rows[i].raw)))
            assert_string_equal(out, rows[i].raw);
    }
}

static void usual_paths_are_recognized_as_normal(void **state)
{
    (void)state;
    assert_true(path_is_normal(slice_of("/")));
    assert_true(path_is_normal(slice_of("/a/b.html")));
    assert_true(path_is_normal(slice_of("/a/b/")));
    assert_false(path_is_normal(slice_of("//a")));
    assert_false(path_is_normal(slice_of("/a/../b")));
    assert_false(path_is_normal(slice_of("/%61")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_are_normalized),
        cmocka_unit_test(usual_paths_are_recognized_as_normal),
        cmocka_unit_test(empty_slices_are_equal_whatever_they_point_to),
        cmocka_unit_test(case_is_ignored_in_ascii_only),
        cmocka_unit_test(starts_and_ends_compare_no_further_than_there_is),
        cmocka_unit_test(trim_takes_blanks_and_tabs_from_both_ends),
        cmocka_unit_test(cut_walks_through_the_parts),
        cmocka_unit_test(whole_numbers_are_digits_within_a_bound),
        cmocka_unit_test(numbers_are_finite_and_decimal),
        cmocka_unit_test(percent_encoding_keeps_what_is_visible_ascii),
        cmocka_unit_test(plain_bytes_are_copied_up_to_the_first_one_that_needs_encoding),
        cmocka_unit_test(a_text_grows),
        cmocka_unit_test(a_real_is_as_short_as_reads_back),
        cmocka_unit_test(reals_are_printed_as_printf_would),
        cmocka_unit_test(formatted_text_of_any_length_is_whole),
        cmocka_unit_test(plain_bytes_are_distinguished_from_others_wherever_they_are),
        cmocka_unit_test(escaped_text_fits_one_line),
        cmocka_unit_test(visible_text_keeps_letters_and_nothing_that_hides),
        cmocka_unit_test(html_has_no_markup_of_strangers),
        cmocka_unit_test(invisible_bytes_are_replaced),
        cmocka_unit_test(many_bytes_at_once_are_lowered_and_compared_as_one_by_one),
        cmocka_unit_test(plain_is_what_escaping_leaves_as_it_is),
        cmocka_unit_test(whole_numbers_are_added_digit_by_digit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
