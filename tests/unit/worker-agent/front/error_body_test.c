/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker-agent/front/front.h"

static void expect(const struct error_facts *e, bool html, const char *expected)
{
    struct text out = {0};

    error_body(e, html, &out);
    assert_string_equal(text_cstr(&out), expected);
    text_fini(&out);
}

static struct failure died(void)
{
    struct failure f = {.kind = FAILURE_DIED_STARTING,
                        .slot = 1,
                        .pid = 7,
                        .id = "ab",
                        .how = "exit status 1",
                        .at_ms = 500};

    last_lines_add(&f.lines, SLICE_LIT("<script>alert(1)</script>"));
    last_lines_add(&f.lines, SLICE_LIT("\x1b[2J \"&\""));
    return f;
}

static void without_a_failure_the_reason_stands_alone(void **state)
{
    const struct error_facts e = {.reason = SLICE_LIT("no process")};

    (void)state;
    expect(&e, false, "no process\n");
    expect(&e, true,
           "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>error</title>\n"
           "<h1>no process</h1>\n<pre></pre>\n</html>\n");
}

static void plain_text_has_the_last_lines_without_control_bytes(void **state)
{
    struct failure f = died();
    const struct error_facts e = {.reason = SLICE_LIT("no process"), .failure = &f, .now_ms = 2000};

    (void)state;
    expect(&e, false,
           "no process\n\n"
           "slot 1: process 7 (ab) died before it was ready: exit status 1 (1.5 s ago)\n\n"
           "What it wrote last:\n  <script>alert(1)</script>\n  \\x1b[2J \"&\"\n");
    last_lines_fini(&f.lines);
}

static void html_has_no_markup_of_the_application(void **state)
{
    struct failure f = died();
    const struct error_facts e = {.reason = SLICE_LIT("no process"), .failure = &f, .now_ms = 2000};

    (void)state;
    expect(&e, true,
           "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>error</title>\n"
           "<h1>no process</h1>\n<pre>\n"
           "slot 1: process 7 (ab) died before it was ready: exit status 1 (1.5 s ago)\n\n"
           "What it wrote last:\n  &lt;script&gt;alert(1)&lt;/script&gt;\n"
           "  \\x1b[2J &quot;&amp;&quot;\n</pre>\n</html>\n");
    last_lines_fini(&f.lines);
}

static void the_latest_output_goes_before_an_older_failure(void **state)
{
    struct failure f = died();
    struct last_lines now = {0};
    struct error_facts e = {.reason = SLICE_LIT("the application failed"),
                            .failure = &f,
                            .lines = &now,
                            .pid = 8,
                            .now_ms = 2000};
    struct text out = {0};

    (void)state;
    error_body(&e, false, &out);
    assert_non_null(strstr(text_cstr(&out), "process 7 (ab) died"));
    text_clear(&out);
    last_lines_add(&now, SLICE_LIT("out of memory"));
    error_body(&e, false, &out);
    assert_string_equal(text_cstr(&out), "the application failed\n\nprocess 8\n\n"
                                         "What it wrote last:\n  out of memory\n");
    text_clear(&out);
    /* Its own death has more information. */
    e.pid = 7;
    error_body(&e, false, &out);
    assert_non_null(strstr(text_cstr(&out), "process 7 (ab) died"));
    text_fini(&out);
    last_lines_fini(&now);
    last_lines_fini(&f.lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_failure_the_reason_stands_alone),
        cmocka_unit_test(plain_text_has_the_last_lines_without_control_bytes),
        cmocka_unit_test(html_has_no_markup_of_the_application),
        cmocka_unit_test(the_latest_output_goes_before_an_older_failure),
    };

    return cmocka_run_group_tests_name("error body", tests, NULL, NULL);
}
