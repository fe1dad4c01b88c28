/* SPDX-License-Identifier: Apache-2.0
 *
 * strptime(3) is lenient about blanks, leading zeros, and the length and case of names. So a date
 * is compared with the pattern of a form first, in which these stand for others:
 *
 *     9 a digit   _ a digit or a blank   A, a a letter of that case   * small letters, or none
 */
#include "common/wire/http_date.h"

#include <ctype.h>
#include <time.h>

enum {
    /* RFC 9110 5.6.7: a year of two digits that far ahead is one of the past. */
    YEARS_AHEAD_MAX = 50,
    DATE_MAX = sizeof("Wednesday, 06-Nov-94 08:49:37 GMT"), /* the longest */
};

/* The program never leaves the "C" locale. */
static const struct form {
    const char *pattern, *format;
    bool short_year;
} forms[] = {
    {"Aaa, 99 Aaa 9999 99:99:99 GMT", "%a, %d %b %Y %H:%M:%S GMT", false},
    {"Aaa Aaa _9 99:99:99 9999", "%a %b %d %H:%M:%S %Y", false},
    {"Aaaa*, 99-Aaa-99 99:99:99 GMT", "%A, %d-%b-%y %H:%M:%S GMT", true},
};

static bool fits(const char *text, const char *pattern)
{
    for (; *pattern != '\0'; ++pattern) {
        unsigned char c = (unsigned char)*text;
        bool same = c == (unsigned char)*pattern;

        if (*pattern == '*') {
            text += strspn(text, "abcdefghijklmnopqrstuvwxyz");
            continue;
        }
        if (*pattern == '9')
            same = isdigit(c);
        else if (*pattern == '_')
            same = isdigit(c) || c == ' ';
        else if (*pattern == 'A')
            same = isupper(c);
        else if (*pattern == 'a')
            same = islower(c);
        if (!same)
            return false;
        ++text;
    }
    return *text == '\0';
}

/* Years since 1900, of a year's last two digits. */
static int full_year(int two, int64_t now_s)
{
    time_t now = (time_t)now_s;
    struct tm t;

    if (gmtime_r(&now, &t) == NULL)
        return two;
    int year = t.tm_year - t.tm_year % 100 + two;
    if (year + 100 <= t.tm_year + YEARS_AHEAD_MAX)
        return year + 100;
    return year > t.tm_year + YEARS_AHEAD_MAX ? year - 100 : year;
}

bool http_date_parse(struct slice s, int64_t now_s, int64_t *out)
{
    const struct form *f = forms;
    char text[DATE_MAX] = {0};
    struct tm t = {0};

    if (s.len == 0 || s.len >= sizeof(text) || memchr(s.p, '\0', s.len) != NULL)
        return false;
    memcpy(text, s.p, s.len);
    while (f != forms + ARRAY_LEN(forms) && !fits(text, f->pattern))
        ++f;
    if (f == forms + ARRAY_LEN(forms) || strptime(text, f->format, &t) == NULL || t.tm_sec > 60)
        return false;
    if (f->short_year)
        t.tm_year = full_year(t.tm_year % 100, now_s);
    /* A leap second: the day must stay what it is. */
    if (t.tm_sec == 60)
        t.tm_sec = 59;
    int day = t.tm_mday;
    time_t seconds = timegm(&t);
    /* timegm takes a 31 February for one of March. */
    if (t.tm_mday != day)
        return false;
    *out = (int64_t)seconds;
    return true;
}
