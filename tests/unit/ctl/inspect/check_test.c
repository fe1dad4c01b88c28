/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/inspect/inspect.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct check_range range(const char *text, enum check_bare bare)
{
    struct check_range r = {0};

    assert_true(check_range_parse(text, bare, &r));
    return r;
}

static void expect_alerts(const char *text, enum check_bare bare, double v, bool alerts)
{
    struct check_range r = range(text, bare);

    if (check_range_alerts(&r, v) != alerts)
        fail_msg("%s with %g: want %d", text, v, alerts);
}

static void a_range_alerts_outside_of_it_and_turned_within_it(void **state)
{
    static const struct {
        const char *text;
        double v;
        bool alerts;
    } cases[] = {
        {"10:", 9.9, true},    {"10:", 10, false},   {"~:10", 10, false},  {"~:10", 10.1, true},
        {"~:10", -5, false},   {"10:20", 9, true},   {"10:20", 10, false}, {"10:20", 20, false},
        {"10:20", 21, true},   {"@10:20", 9, false}, {"@10:20", 10, true}, {"@10:20", 20, true},
        {"@10:20", 21, false}, {":10", 11, true},    {":10", -1, true},    {":10", 0, false},
        {"@:10", 3, true},     {"@5", 5, true},      {"@5", 6, false},     {"@~:10", -3, true},
        {"-5:5", -5, false},   {"-5:5", -6, true},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); ++i)
        expect_alerts(cases[i].text, CHECK_BARE_HIGH, cases[i].v, cases[i].alerts);
}

static void a_bare_number_alerts_when_it_is_reached(void **state)
{
    (void)state;
    expect_alerts("3", CHECK_BARE_HIGH, 3, true);
    expect_alerts("3", CHECK_BARE_HIGH, 2.9, false);
    expect_alerts("3", CHECK_BARE_LOW, 3, true);
    expect_alerts("3", CHECK_BARE_LOW, 4, false);
    expect_alerts("3", CHECK_BARE_LOW, 0, true);
}

static void an_invalid_range_is_rejected(void **state)
{
    static const char *const bad[] = {"",   "a",   "1:a", "20:10", "~",   "@",   ":",   "1::2",
                                      "1 ", "inf", "nan", "1:~",   "~:~", "@:@", "--1", "1e999"};
    struct check_range r;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        if (check_range_parse(bad[i], CHECK_BARE_HIGH, &r))
            fail_msg("'%s' was taken", bad[i]);
    }
}

static void a_range_is_printed_so_that_it_states_the_same(void **state)
{
    static const struct {
        const char *text, *printed;
    } cases[] = {{"3", "@3:"},       {"10:", "10:"},   {"~:10", "~:10"},
                 {"10:20", "10:20"}, {"@1:2", "@1:2"}, {":7.5", "0:7.5"}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); ++i) {
        struct check_range r = range(cases[i].text, CHECK_BARE_HIGH);
        struct text out = {0};

        check_range_print(&r, &out);
        assert_string_equal(text_cstr(&out), cases[i].printed);
        text_fini(&out);
    }
}

/* ---- pages ---- */

static struct check_thresholds thresholds(bool metrics)
{
    struct check_thresholds t = {.metrics = metrics};

    t.warn[CHECK_MEAN_BACKLOG] = range("3", CHECK_BARE_HIGH);
    t.error[CHECK_MEAN_BACKLOG] = range("9", CHECK_BARE_HIGH);
    t.warn[CHECK_MAX_BACKLOG] = range("9", CHECK_BARE_HIGH);
    t.error[CHECK_MAX_BACKLOG] = range("19", CHECK_BARE_HIGH);
    t.warn[CHECK_MAX_AGE] = range("1", CHECK_BARE_HIGH);
    t.error[CHECK_MAX_AGE] = range("2", CHECK_BARE_HIGH);
    t.warn[CHECK_WORKERS] = range("2", CHECK_BARE_LOW);
    t.error[CHECK_WORKERS] = range("1", CHECK_BARE_LOW);
    return t;
}

static void expect_page(const char *json, const char *application, bool metrics,
                        enum check_state state, const char *line)
{
    struct check_thresholds t = thresholds(metrics);
    struct ctl_options o = {.application = application};
    json_t *page = json_loads(json, 0, NULL);
    struct text out = {0};

    assert_non_null(page);
    assert_int_equal(check_page(page, &o, &t, &out), state);
    assert_string_equal(text_cstr(&out), line);
    text_fini(&out);
    json_decref(page);
}

#define WORKER(backlog, age) "{\"available\":true,\"backlog\":" #backlog ",\"oldest_s\":" #age "}"
#define POOL(mean, workers) "{\"mean_backlog\":" #mean ",\"workers\":[" workers "]}"
#define PAGE(apps) "{\"applications\":{" apps "}}"

static void a_healthy_page_has_the_result_line_of_the_old_check(void **state)
{
    (void)state;
    expect_page(PAGE("\"a\":" POOL(0, WORKER(0, null) "," WORKER(0, null) "," WORKER(1, 0.2))),
                NULL, false, CHECK_OK, "OK 3 0 1 0");
}

static void each_complaint_has_its_words_and_the_worst_counts(void **state)
{
    (void)state;
    expect_page(PAGE("\"a\":" POOL(6, WORKER(18, 1.84) "," WORKER(0, null) "," WORKER(1, 0.2))),
                NULL, false, CHECK_WARNING,
                "mean backlog high (6) max backlog high (18) max age too high (1.8)");
    expect_page(
        PAGE("\"a\":" POOL(9, WORKER(18, 1.84) "," WORKER(0, null))), NULL, false, CHECK_CRITICAL,
        "mean backlog high (9) max backlog high (18) max age too high (1.8) too few workers "
        "(2)");
}

static void workers_that_get_no_requests_do_not_count(void **state)
{
    (void)state;
    expect_page(PAGE("\"a\":" POOL(0, WORKER(0, null) ",{\"available\":false},{\"available\":true,"
                                                      "\"ejected\":true}")),
                NULL, false, CHECK_CRITICAL, "too few workers (1)");
}

static void performance_data_has_units_thresholds_and_a_minimum(void **state)
{
    (void)state;
    expect_page(PAGE("\"a\":" POOL(1.25, WORKER(2, 0.55) "," WORKER(0, null) "," WORKER(1, 0.2))),
                NULL, true, CHECK_OK,
                "OK 3 1.25 2 1|workers=3;@~:2;@~:1;0 mean_backlog=1.25;@3:;@9:;0 "
                "max_backlog=2;@9:;@19:;0 max_age=0.6s;@1:;@2:;0");
}

static void each_application_is_reported_and_one_can_be_chosen(void **state)
{
    static const char page[] = PAGE("\"a|=\":" POOL(
        0, WORKER(0, null) "," WORKER(0, null) "," WORKER(0, null)) ",\"b\":" POOL(0, ""));

    (void)state;
    expect_page(page, NULL, false, CHECK_CRITICAL, "a_=: OK 3 0 0 0; b: too few workers (0)");
    expect_page(page, "a|=", false, CHECK_OK, "OK 3 0 0 0");
    expect_page(page, "c", false, CHECK_UNKNOWN, "UNKNOWN: no such application");
    expect_page("{}", NULL, false, CHECK_UNKNOWN,
                "UNKNOWN: no pool on this page; is it the admin address of a resumelb?");
    expect_page(PAGE("\"a\":{\"workers\":3}"), NULL, false, CHECK_UNKNOWN,
                "UNKNOWN: no pool on this page; is it the admin address of a resumelb?");
}

static void labels_of_several_applications_are_quoted(void **state)
{
    struct check_thresholds t = {.metrics = true};
    const double facts[CHECK_METRICS] = {[CHECK_WORKERS] = 2};
    struct text out = {0};
    struct text perf = {0};

    (void)state;
    assert_int_equal(check_pool(&t, facts, "it's=|x", &out, &perf), CHECK_OK);
    assert_string_equal(text_cstr(&perf),
                        "'it''s__x workers'=2;;;0 'it''s__x mean_backlog'=0;;;0 "
                        "'it''s__x max_backlog'=0;;;0 'it''s__x max_age'=0.0s;;;0");
    text_fini(&out);
    text_fini(&perf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_range_alerts_outside_of_it_and_turned_within_it),
        cmocka_unit_test(a_bare_number_alerts_when_it_is_reached),
        cmocka_unit_test(an_invalid_range_is_rejected),
        cmocka_unit_test(a_range_is_printed_so_that_it_states_the_same),
        cmocka_unit_test(a_healthy_page_has_the_result_line_of_the_old_check),
        cmocka_unit_test(each_complaint_has_its_words_and_the_worst_counts),
        cmocka_unit_test(workers_that_get_no_requests_do_not_count),
        cmocka_unit_test(performance_data_has_units_thresholds_and_a_minimum),
        cmocka_unit_test(each_application_is_reported_and_one_can_be_chosen),
        cmocka_unit_test(labels_of_several_applications_are_quoted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
