/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/inspect/inspect.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const char before[] =
    "{\"applications\":{\"a\":{\"workers\":[{\"name\":\"x\",\"requests\":10,\"failures\":0,"
    "\"service_s\":1},{\"name\":\"y\",\"requests\":50,\"failures\":0,\"service_s\":1}]}}}";
static const char now[] =
    "{\"program\":\"resumelb\",\"version\":\"1\",\"phase\":\"serving\",\"uptime_s\":61,"
    "\"applications\":{\"a\":{\"policy\":\"resume\",\"workers\":["
    "{\"name\":\"x\",\"state\":\"ready\",\"requests\":30,\"failures\":2,\"service_s\":1.4,"
    "\"backlog\":1,\"skills\":7},"
    "{\"name\":\"y\",\"state\":\"ready\",\"requests\":4,\"backlog\":9},"
    "{\"name\":\"z\\u001b[2J\",\"state\":\"ready\",\"requests\":100,\"backlog\":5}]},\"b\":{}}}";

/* The lines of a screen, without what is for the terminal. */
static void draw(const struct top_view *v, const char *then, const char *page, struct text *out)
{
    json_t *old = then != NULL ? json_loads(then, 0, NULL) : NULL;
    json_t *new = json_loads(page, 0, NULL);

    assert_non_null(new);
    top_draw(v, old, new, 2, SLICE_NULL, out);
    json_decref(old);
    json_decref(new);
}

static size_t place_of(struct text *screen, const char *what)
{
    const char *at = strstr(text_cstr(screen), what);

    if (at == NULL)
        fail_msg("'%s' is not on the screen:\n%s", what, text_cstr(screen));
    return (size_t)(at - screen->p);
}

static struct top_view a_view(enum top_key key)
{
    return (struct top_view){.key = key, .interval_s = 2, .rows = 24, .columns = 200};
}

static void rates_are_of_the_time_between_two_pages(void **state)
{
    struct top_view v = a_view(TOP_REQUESTS);
    struct text out = {0};

    (void)state;
    draw(&v, before, now, &out);
    /* 20 requests and 2 failures in 2 s, in 0.4 s of service. */
    (void)place_of(&out, "10.0      1.0      20.00       7");
    /* Its counter fell: it was restarted. */
    (void)place_of(&out, " 2.0      0.0");
    /* It was not there before. */
    (void)place_of(&out, "        -        -");
    text_fini(&out);
}

static void workers_are_sorted_by_the_key_and_turned_round(void **state)
{
    struct top_view v = a_view(TOP_BACKLOG);
    struct text out = {0};

    (void)state;
    draw(&v, before, now, &out);
    assert_true(place_of(&out, "\033[Ky ") < place_of(&out, "\033[Kz"));
    assert_true(place_of(&out, "\033[Kz") < place_of(&out, "\033[Kx "));
    text_clear(&out);
    assert_true(top_press(&v, 'R'));
    draw(&v, before, now, &out);
    assert_true(place_of(&out, "\033[Kx ") < place_of(&out, "\033[Ky "));
    text_clear(&out);
    assert_true(top_press(&v, 'n'));
    draw(&v, NULL, now, &out);
    assert_true(place_of(&out, "\033[Kz") < place_of(&out, "\033[Kx "));
    text_fini(&out);
}

static void names_cannot_write_to_the_terminal(void **state)
{
    struct top_view v = a_view(TOP_NAME);
    struct text out = {0};

    (void)state;
    draw(&v, NULL, now, &out);
    assert_null(strstr(text_cstr(&out), "z\033"));
    text_fini(&out);
}

static void no_line_is_longer_than_the_terminal_and_no_screen_higher(void **state)
{
    struct text out = {0};

    (void)state;
    for (unsigned rows = 1; rows < 12; ++rows) {
        struct top_view v = {.interval_s = 1, .rows = rows, .columns = 7};
        unsigned lines = 1;
        unsigned column = 0;

        text_clear(&out);
        draw(&v, before, now, &out);
        for (const char *p = text_cstr(&out); *p != '\0'; ++p) {
            if (strncmp(p, "\033[K", 3) == 0 || strncmp(p, "\033[J", 3) == 0) {
                p += 2;
            } else if (*p == '\n') {
                ++lines;
                column = 0;
            } else if (*p != '\r') {
                assert_true(++column <= 7);
            }
        }
        assert_true(lines <= rows);
    }
    text_fini(&out);
}

static size_t titles_on(unsigned columns, size_t shift, enum top_key key, struct text *out)
{
    static const char *const titles[] = {"state", "backlog", "mean",       "oldest s",
                                         "req/s", "fail/s",  "service ms", "skills"};
    struct top_view v = a_view(key);
    size_t n = 0;

    v.columns = columns;
    v.shift = shift;
    text_clear(out);
    draw(&v, before, now, out);
    const char *line = strstr(text_cstr(out), "\033[Kworker  ");
    assert_non_null(line);
    const char *end = strchr(line, '\r');
    for (size_t i = 0; i < ARRAY_LEN(titles); ++i) {
        const char *at = strstr(line, titles[i]);

        n += at != NULL && at < end;
    }
    return n;
}

static void the_least_important_columns_are_dropped_first_and_named(void **state)
{
    struct text out = {0};

    (void)state;
    assert_int_equal(titles_on(200, 0, TOP_NAME, &out), 8);
    assert_null(strstr(text_cstr(&out), "hidden"));
    assert_int_equal(titles_on(76, 0, TOP_NAME, &out), 7);
    (void)place_of(&out, "hidden columns (left, right): skills\r");
    assert_int_equal(titles_on(60, 0, TOP_NAME, &out), 5);
    (void)place_of(&out, "hidden columns (left, right): mean, oldest s, skills\r");
    assert_int_equal(titles_on(60, 0, TOP_SKILLS, &out), 5);
    (void)place_of(&out, "hidden columns (left, right): mean, oldest s, service ms\r");
    /* No further than to the last column. */
    for (size_t shift = 0; shift < 8; ++shift)
        assert_int_equal(titles_on(200, shift, TOP_NAME, &out), 8);
    assert_int_equal(titles_on(60, 7, TOP_NAME, &out), 5);
    (void)place_of(&out, "hidden columns (left, right): state, backlog, mean\r");
    text_fini(&out);
}

static void workers_out_of_view_are_counted(void **state)
{
    struct top_view v = a_view(TOP_NAME);
    struct text out = {0};

    (void)state;
    v.rows = 6;
    draw(&v, NULL, now, &out);
    (void)place_of(&out, "workers 1 to 2 of 3 (up, down)");
    text_clear(&out);
    v.first = 1;
    draw(&v, NULL, now, &out);
    (void)place_of(&out, "workers 2 to 3 of 3 (up, down)");
    text_clear(&out);
    v.first = 0;
    v.rows = 7;
    draw(&v, NULL, now, &out);
    assert_null(strstr(text_cstr(&out), "(up, down)"));
    text_fini(&out);
}

static void a_line_that_is_cut_reports_it(void **state)
{
    struct top_view v = a_view(TOP_NAME);
    struct text out = {0};

    (void)state;
    v.columns = 40;
    draw(&v, NULL, now, &out);
    (void)place_of(&out, "resumelb 1, serving, up 1m 1s; every ...\r");
    (void)place_of(&out, "a: policy resume, 3 workers, ...\r");
    text_fini(&out);
}

static void keys_go_round_applications_and_change_the_interval(void **state)
{
    struct top_view v = a_view(TOP_NAME);
    struct text out = {0};

    (void)state;
    assert_true(top_press(&v, '\t'));
    draw(&v, NULL, now, &out);
    (void)place_of(&out, "\033[Kb: policy -");
    text_clear(&out);
    assert_true(top_press(&v, 'a'));
    draw(&v, NULL, now, &out);
    (void)place_of(&out, "\033[Ka: policy resume");
    text_fini(&out);
    assert_true(top_press(&v, '-'));
    assert_true(top_press(&v, '-'));
    assert_int_equal(v.interval_s, 1);
    assert_true(top_press(&v, '+'));
    assert_int_equal(v.interval_s, 2);
    assert_true(top_press(&v, TOP_UP));
    assert_int_equal(v.first, 0);
    assert_true(top_press(&v, TOP_PAGE_DOWN));
    assert_true(v.first > 1);
    assert_false(top_press(&v, 'Z'));
    assert_true(top_press(&v, 'q'));
    assert_true(v.quit);
}

static void members_of_wrong_types_do_no_harm(void **state)
{
    static const char *const pages[] = {
        "{}",
        "[]",
        "{\"applications\":{}}",
        "{\"applications\":{\"a\":3}}",
        "{\"applications\":{\"a\":{\"workers\":{\"x\":1}}}}",
        "{\"applications\":{\"a\":{\"workers\":[1,{\"name\":2},null]}}}"};
    struct top_view v = a_view(TOP_SERVICE);

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(pages); ++i) {
        struct text out = {0};

        v.first = 100;
        draw(&v, pages[i], pages[i], &out);
        assert_true(out.len != 0);
        text_fini(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_of_the_time_between_two_pages),
        cmocka_unit_test(workers_are_sorted_by_the_key_and_turned_round),
        cmocka_unit_test(names_cannot_write_to_the_terminal),
        cmocka_unit_test(no_line_is_longer_than_the_terminal_and_no_screen_higher),
        cmocka_unit_test(the_least_important_columns_are_dropped_first_and_named),
        cmocka_unit_test(workers_out_of_view_are_counted),
        cmocka_unit_test(a_line_that_is_cut_reports_it),
        cmocka_unit_test(keys_go_round_applications_and_change_the_interval),
        cmocka_unit_test(members_of_wrong_types_do_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
