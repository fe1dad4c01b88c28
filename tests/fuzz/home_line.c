/* SPDX-License-Identifier: Apache-2.0
 *
 * An accepted line is within bounds, and parses to the same again when printed; a line of the
 * worker, or the header field of a load balancer.
 */
#include "common/skills/home_records.h"

#include "tests/fuzz/fuzz.h"

static void check_line(struct slice bytes)
{
    struct home_line l;
    struct home_line again;
    struct text printed = {0};
    char why[160] = "";

    if (home_line_parse(bytes, &l, why) != ERR_OK) {
        ASSERT(why[0] != '\0');
        return;
    }
    ASSERT(l.n <= HOME_LINE_ROWS_MAX);
    home_line_print(l.rows, l.n, &printed);
    struct slice line = {printed.p, printed.len - 1};
    ASSERT(home_line_is(line));
    ASSERT(slice_find(line, '\n') == SIZE_MAX);
    ASSERT(home_line_parse(line, &again, why) == ERR_OK);
    ASSERT(again.n == l.n);
    for (size_t i = 0; i < l.n; ++i) {
        ASSERT(slice_eq(l.rows[i].cls, again.rows[i].cls));
        ASSERT(l.rows[i].cls.len <= CLASS_BYTES_MAX);
        ASSERT(l.rows[i].kind == again.rows[i].kind);
        ASSERT(slice_eq(l.rows[i].from, again.rows[i].from));
        ASSERT((l.rows[i].from.len != 0) == (l.rows[i].kind == HOME_REASSIGN));
        ASSERT(l.rows[i].since_age_ms == again.rows[i].since_age_ms);
        ASSERT(l.rows[i].used_age_ms <= l.rows[i].since_age_ms);
        ASSERT(l.rows[i].rate >= 0);
    }
    home_line_fini(&again);
    home_line_fini(&l);
    text_fini(&printed);
}

static void check_reported(struct slice value)
{
    struct home_report t;
    struct text printed = {0};

    if (home_report_parse(value, &t) != ERR_OK)
        return;
    home_report_print(&t, &printed);
    ASSERT(slice_eq(text_slice(&printed), value));
    text_fini(&printed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_line((struct slice){(const char *)data, size});
    check_reported((struct slice){(const char *)data, size});
    return 0;
}
