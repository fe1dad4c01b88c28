/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/text.h"
#include "common/wire/http_date.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* 2026-03-01 12:00:00 */
static const int64_t now_s = 1772366400;

/* In memory of exactly its size, so that reading past the end shows. */
static bool parse(const char *text, int64_t *out)
{
    size_t len = strlen(text);
    char *exact = xmalloc(len + (len == 0));

    memcpy(exact, text, len);
    bool ok = http_date_parse((struct slice){exact, len}, now_s, out);
    free(exact);
    return ok;
}

static void assert_date(const char *text, int64_t expected)
{
    int64_t s = -1;

    assert_true(parse(text, &s));
    assert_int_equal(s, expected);
}

static void assert_none(const char *text)
{
    int64_t s = 42;

    assert_false(parse(text, &s));
    assert_int_equal(s, 42);
}

static void all_three_forms_of_a_date_are_read(void **state)
{
    (void)state;
    assert_date("Sun, 06 Nov 1994 08:49:37 GMT", 784111777);
    assert_date("Sunday, 06-Nov-94 08:49:37 GMT", 784111777);
    assert_date("Sun Nov  6 08:49:37 1994", 784111777);
    assert_date("Wed Nov 16 08:49:37 1994", 784975777);
    assert_date("Thu, 01 Jan 1970 00:00:00 GMT", 0);
    assert_date("Wed, 31 Dec 1969 23:59:59 GMT", -1);
}

/* RFC 9110 5.6.7 */
static void two_digits_of_a_year_are_at_most_fifty_years_ahead(void **state)
{
    (void)state;
    assert_date("Saturday, 01-Feb-76 00:00:00 GMT", 3347740800); /* 2076 */
    assert_date("Tuesday, 01-Feb-77 00:00:00 GMT", 223603200);   /* 1977 */
    assert_date("Sunday, 01-Feb-26 00:00:00 GMT", 1769904000);   /* 2026 */
}

static void leap_second_and_leap_day_are_dates(void **state)
{
    (void)state;
    assert_date("Sat, 31 Dec 2016 23:59:60 GMT", 1483228799);
    assert_date("Thu, 29 Feb 2024 00:00:00 GMT", 1709164800);
    assert_none("Wed, 29 Feb 2023 00:00:00 GMT");
}

static void an_invalid_date_is_rejected(void **state)
{
    static const char *const wrong[] = {
        "",
        "0",
        "-1",
        "Sun",
        "Sun, ",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 +0000",
        "Sun, 06 Nov 1994 08:49:37 GMT ",
        " Sun, 06 Nov 1994 08:49:37 GMT",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 06 nov 1994 08:49:37 GMT",
        "sun, 06 Nov 1994 08:49:37 GMT",
        "Son, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Now 1994 08:49:37 GMT",
        "Sun, 06 anF 1994 08:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 31 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 08:60:37 GMT",
        "Sun, 06 Nov 1994 08:49:61 GMT",
        "Sun, 06 Nov 19 4 08:49:37 GMT",
        "Sun, 06-Nov-94 08:49:37 GMT",
        "Sunday, 06-Nov-1994 08:49:37 GMT",
        "Sun Nov 6 08:49:37 1994",
        "Sun Nov    08:49:37 1994",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(wrong); ++i)
        assert_none(wrong[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_three_forms_of_a_date_are_read),
        cmocka_unit_test(two_digits_of_a_year_are_at_most_fifty_years_ahead),
        cmocka_unit_test(leap_second_and_leap_day_are_dates),
        cmocka_unit_test(an_invalid_date_is_rejected),
    };

    return cmocka_run_group_tests_name("http_date", tests, NULL, NULL);
}
