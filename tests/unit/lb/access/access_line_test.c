/* SPDX-License-Identifier: Apache-2.0
 *
 * A line has room, whatever strangers have written.
 */
#include "common/base/text.h"
#include "lb/access/access_line.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static struct access_entry entry_of(struct slice each)
{
    struct access_entry e = {
        .protocol = "HTTP/1.1", .application = "a", .reason = "", .outcome = "ok"};
    struct slice *texts = &e.client;

    for (size_t i = 0; i < ACCESS_TEXTS; ++i)
        texts[i] = each;
#define NUMBER(name, key, doc) e.name = UINT64_MAX;
#include "lb/access/access_field.def"
    return e;
}

static size_t count(struct slice s, const char *of)
{
    size_t n = 0;

    for (size_t i = 0; i + strlen(of) <= s.len; ++i)
        n += memcmp(s.p + i, of, strlen(of)) == 0;
    return n;
}

static void the_longest_line_that_there_can_be_is_written_whole(void **state)
{
    struct access_clock clock = {0};
    struct text line = {0};
    char *bytes = xmalloc(ACCESS_TEXT_MAX);

    (void)state;
    memset(bytes, 1, ACCESS_TEXT_MAX);
    struct access_entry e = entry_of((struct slice){bytes, ACCESS_TEXT_MAX});
    access_line_add(&e, ACCESS_COMBINED, ACCESS_ALL_FIELDS, &clock, &line);
    assert_int_equal(count(text_slice(&line), "\\x01"), (size_t)ACCESS_TEXTS * ACCESS_TEXT_MAX);
    assert_int_equal(line.p[line.len - 1], '\n');
    text_fini(&line);
    free(bytes);
}

static void nothing_is_a_dash_in_the_combined_part_and_empty_behind_it(void **state)
{
    struct access_clock clock = {0};
    struct text line = {0};

    (void)state;
    struct access_entry e = entry_of(SLICE_NULL);
    e.status = 200;
    e.sent_bytes = 7;
    access_line_add(&e, ACCESS_COMBINED, (uint64_t)1 << ACCESS_FIELD_host, &clock, &line);
    assert_string_equal(text_cstr(&line), " - - [01/Jan/1970:00:00:00 +0000] \"-\" 200 7 "
                                          "\"-\" \"-\" host=\"\"\n");
    text_fini(&line);
}

static void what_would_end_a_text_or_a_line_is_escaped(void **state)
{
    struct access_clock clock = {0};
    struct text line = {0};

    (void)state;
    struct access_entry e = entry_of(SLICE_LIT("a\"b\\c\nd\x7f\xff"));
    access_line_add(&e, ACCESS_COMBINED, (uint64_t)1 << ACCESS_FIELD_host, &clock, &line);
    assert_int_equal(count(text_slice(&line), "a\\x22b\\x5cc\\x0ad\\x7f\\xff"), 6);
    assert_int_equal(count(text_slice(&line), "\n"), 1);
    text_fini(&line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_line_that_there_can_be_is_written_whole),
        cmocka_unit_test(nothing_is_a_dash_in_the_combined_part_and_empty_behind_it),
        cmocka_unit_test(what_would_end_a_text_or_a_line_is_escaped),
    };

    return cmocka_run_group_tests_name("access_line", tests, NULL, NULL);
}
