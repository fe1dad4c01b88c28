/* SPDX-License-Identifier: Apache-2.0
 *
 * An accepted date, written in the preferred form and parsed again, is the same time; and a date
 * in the preferred form is written as it was read, except for the weekday.
 */
#include "common/wire/http_date.h"

#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <time.h>

enum { PREFERRED_LEN = 29, DAY_LEN = 3 };

/* 2026-03-01 */
static const int64_t now_s = 1772366400;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice text = {(const char *)data, size};
    int64_t at = INT64_MIN;
    int64_t again = 0;
    char out[64];
    struct tm t;

    if (!http_date_parse(text, now_s, &at)) {
        ASSERT(at == INT64_MIN);
        return 0;
    }
    time_t seconds = (time_t)at;
    ASSERT(gmtime_r(&seconds, &t) != NULL);
    ASSERT(t.tm_year + 1900 >= 0);
    ASSERT(t.tm_year + 1900 <= 9999);
    size_t n = strftime(out, sizeof(out), "%a, %d %b ", &t);
    n += (size_t)snprintf(out + n, sizeof(out) - n, "%04d", t.tm_year + 1900);
    n += strftime(out + n, sizeof(out) - n, " %H:%M:%S GMT", &t);
    ASSERT(n == PREFERRED_LEN);
    ASSERT(http_date_parse((struct slice){out, n}, now_s, &again));
    ASSERT(again == at);
    bool leap_second = size == PREFERRED_LEN && memcmp(text.p + 23, "60", 2) == 0;
    if (size == PREFERRED_LEN && text.p[DAY_LEN] == ',' && !leap_second)
        ASSERT(memcmp(out + DAY_LEN, text.p + DAY_LEN, PREFERRED_LEN - DAY_LEN) == 0);
    return 0;
}
