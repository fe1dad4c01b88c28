/* SPDX-License-Identifier: Apache-2.0
 *
 * Each form has its bytes at fixed places (after the weekday), so a date is compared with a pattern
 * first: a letter of the pattern stands for itself but for those below, and is read by place then.
 *
 *     9 a digit   _ a digit or a blank   a a letter
 */
#include "common/wire/http_date.h"

#include "common/base/text.h"

#include <time.h>

enum {
    /* RFC 9110 5.6.7: a year of two digits that far ahead is one of the past. */
    YEARS_AHEAD_MAX = 50,
};

static const char days[][10] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                "Thursday", "Friday", "Saturday"};
static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool fits(struct slice s, const char *pattern)
{
    if (s.len != strlen(pattern))
        return false;
    for (size_t i = 0; i < s.len; ++i) {
        char c = s.p[i];
        bool ok;

        switch (pattern[i]) {
        case '9':
            ok = is_digit(c);
            break;
        case '_':
            ok = is_digit(c) || c == ' ';
            break;
        case 'a':
            ok = ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z';
            break;
        default:
            ok = c == pattern[i];
        }
        if (!ok)
            return false;
    }
    return true;
}

/* N digits; a blank counts as a zero. */
static int number(const char *p, size_t n)
{
    int v = 0;

    for (size_t i = 0; i < n; ++i)
        v = v * 10 + (p[i] == ' ' ? 0 : p[i] - '0');
    return v;
}

/* 0..11, or -1. */
static int month_of(const char *p)
{
    for (int i = 0; i < 12; ++i) {
        if (memcmp(months + 3 * (size_t)i, p, 3) == 0)
            return i;
    }
    return -1;
}

/* Cuts the weekday off *S, in full or by its first three letters. */
static bool take_day(struct slice *s, bool full)
{
    for (size_t i = 0; i < ARRAY_LEN(days); ++i) {
        size_t len = full ? strlen(days[i]) : 3;

        if (slice_starts(*s, (struct slice){days[i], len})) {
            *s = (struct slice){s->p + len, s->len - len};
            return true;
        }
    }
    return false;
}

static void take_time(const char *p, struct tm *t)
{
    t->tm_hour = number(p, 2);
    t->tm_min = number(p + 3, 2);
    t->tm_sec = number(p + 6, 2);
}

/* Of a year's last two digits. */
static int full_year(int two, int64_t now_s)
{
    time_t now = (time_t)now_s;
    struct tm t;

    if (gmtime_r(&now, &t) == NULL)
        return 1900 + two;
    int this_year = t.tm_year + 1900;
    int year = this_year - this_year % 100 + two;
    if (year + 100 <= this_year + YEARS_AHEAD_MAX)
        return year + 100;
    return year > this_year + YEARS_AHEAD_MAX ? year - 100 : year;
}

/* Into the fields of T; the month may be -1, all others are digits that were there. */
static bool take_apart(struct slice s, int64_t now_s, struct tm *t)
{
    struct slice rest = s;

    if (take_day(&rest, false)) {
        if (fits(rest, ", 99 aaa 9999 99:99:99 GMT")) {
            t->tm_mday = number(rest.p + 2, 2);
            t->tm_mon = month_of(rest.p + 5);
            t->tm_year = number(rest.p + 9, 4) - 1900;
            take_time(rest.p + 14, t);
            return true;
        }
        if (fits(rest, " aaa _9 99:99:99 9999")) {
            t->tm_mon = month_of(rest.p + 1);
            t->tm_mday = number(rest.p + 5, 2);
            take_time(rest.p + 8, t);
            t->tm_year = number(rest.p + 17, 4) - 1900;
            return true;
        }
    }
    rest = s;
    if (take_day(&rest, true) && fits(rest, ", 99-aaa-99 99:99:99 GMT")) {
        t->tm_mday = number(rest.p + 2, 2);
        t->tm_mon = month_of(rest.p + 5);
        t->tm_year = full_year(number(rest.p + 9, 2), now_s) - 1900;
        take_time(rest.p + 12, t);
        return true;
    }
    return false;
}

bool http_date_parse(struct slice s, int64_t now_s, int64_t *out)
{
    struct tm t = {0};

    if (!take_apart(s, now_s, &t) || t.tm_mon < 0)
        return false;
    if (t.tm_hour > 23 || t.tm_min > 59 || t.tm_sec > 60)
        return false;
    /* A leap second: the day must stay what it is. */
    if (t.tm_sec == 60)
        t.tm_sec = 59;
    int day = t.tm_mday;
    time_t seconds = timegm(&t);
    /* timegm takes a 31 February for one of March. */
    if (day == 0 || t.tm_mday != day)
        return false;
    *out = (int64_t)seconds;
    return true;
}
