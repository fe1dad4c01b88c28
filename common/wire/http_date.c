/* SPDX-License-Identifier: Apache-2.0 */
#include "common/wire/http_date.h"

#include <ctype.h>

enum {
    /* RFC 9110 5.6.7: a year of two digits that far ahead is one of the past. */
    YEARS_AHEAD_MAX = 50,
    DATE_MAX = sizeof("Wednesday, 06-Nov-94 08:49:37 GMT"), /* the longest */
};

static const struct form {
    const char *pattern, *format;
    bool short_year;
} forms[] = {
    {"Aaa, 99 Aaa 9999 99:99:99 GMT", "%a, %d %b %Y %H:%M:%S GMT", false},
    {"Aaa Aaa _9 99:99:99 9999", "%a %b %d %H:%M:%S %Y", false},
    {"Aaaa*, 99-Aaa-99 99:99:99 GMT", "%A, %d-%b-%y %H:%M:%S GMT", true},
};

static bool fits_pattern(const char *text, const char *pattern)
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
        else if (*pattern == '+')
            same = c == '+' || c == '-';
        else if (*pattern == 'A')
            same = isupper(c);
        else if (*pattern == 'a')
            same = islower(c);
        else if (*pattern == '@')
            same = isalpha(c);
        if (!same)
            return false;
        ++text;
    }
    return *text == '\0';
}

bool http_date_match(struct slice s, const char *pattern, const char *format, struct tm *out)
{
    char text[DATE_MAX] = {0};

    if (s.len == 0 || s.len >= sizeof(text) || memchr(s.p, '\0', s.len) != NULL)
        return false;
    memcpy(text, s.p, s.len);
    *out = (struct tm){0};
    return fits_pattern(text, pattern) && strptime(text, format, out) != NULL;
}

bool http_date_parse(struct slice s, int64_t now_s, int64_t *out)
{
    const struct form *f = forms;
    struct tm t;

    while (f != forms + ARRAY_LEN(forms) && !http_date_match(s, f->pattern, f->format, &t))
        ++f;
    if (f == forms + ARRAY_LEN(forms) || t.tm_sec > 60)
        return false;
    time_t now = (time_t)now_s;
    struct tm today;
    if (f->short_year)
        t.tm_year %= 100;
    /* The last of the years with these two digits that is not too far ahead. */
    if (f->short_year && gmtime_r(&now, &today) != NULL)
        t.tm_year =
            today.tm_year + YEARS_AHEAD_MAX - (today.tm_year + YEARS_AHEAD_MAX - t.tm_year) % 100;
    /* A leap second: the day must stay what it is. */
    if (t.tm_sec == 60)
        t.tm_sec = 59;
    int day = t.tm_mday;
    time_t seconds = timegm(&t);
    /* timegm() converts a 31 February to a day in March. */
    if (t.tm_mday != day)
        return false;
    *out = (int64_t)seconds;
    return true;
}
