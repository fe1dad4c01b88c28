/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/inspect/inspect.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

typedef enum err (*word_fn)(const json_t *page, const struct ctl_options *o, struct text *out);

static const char status_page[] =
    "{\"program\":\"resumelb\",\"version\":\"0.1.0\",\"pid\":12,\"phase\":\"serving\",\"uptime_s\":"
    "3661.5,"
    "\"threads\":2,\"applications\":{"
    "\"shop\":{\"policy\":\"resume\",\"backlog\":3,\"mean_backlog\":1.25,\"max_backlog\":9,"
    "\"waiting\":0,"
    "\"classes\":42,\"picks\":{\"skilled\":90,\"overflow\":0,\"unskilled\":10},"
    "\"workers\":[{\"name\":\"127.0.0.1:9001\",\"state\":\"ready\",\"version\":\"1.4\","
    "\"sources\":[\"list\",\"tree\"],\"backlog\":2,"
    "\"mean_backlog\":1.5,\"oldest_s\":0.25,\"skills\":7,\"active\":true,\"available\":true,"
    "\"requests\":100,\"failures\":1,\"service_s\":0.2,"
    "\"connections\":{\"in_use\":1,\"idle\":2,\"waiting\":0}},"
    "{\"name\":\"unix:/run/"
    "x\",\"state\":\"ready\",\"active\":false,\"available\":true,\"oldest_s\":null,"
    "\"connections\":{\"in_use\":1,\"idle\":0,\"waiting\":5}},"
    "{\"name\":\"10.0.0.1:80\",\"state\":\"ready\",\"ejected\":true,\"ejected_why\":\"reset\"}],"
    "\"tree\":{\"used\":true,\"connected\":false,\"rejected_providers\":[\"x: other "
    "application\"]},"
    "\"rejected\":[{\"name\":\"variance\",\"why\":\"\\\"-\\\\-\\\" \\u001b[2J\"}]},"
    "\"empty\":{\"policy\":\"classless\",\"workers\":[]}}}";

static const char resumes_page[] =
    "{\"applications\":{\"shop\":{\"a\":{\"x.example\":30.5,\"y.example\":40,\"\":1},"
    "\"b\":{\"x.example\":50}},\"empty\":{}}}";

static enum err show(word_fn word, const char *page, const struct ctl_options *o, struct text *out)
{
    json_t *v = json_loads(page, 0, NULL);

    assert_non_null(v);
    enum err e = word(v, o, out);
    json_decref(v);
    return e;
}

static void expect(word_fn word, const char *page, struct ctl_options o, const char *text)
{
    struct text out = {0};

    assert_int_equal(show(word, page, &o, &out), ERR_OK);
    assert_string_equal(text_cstr(&out), text);
    text_fini(&out);
}

static void status_shows_each_application_and_its_workers(void **state)
{
    (void)state;
    expect(ctl_status_text, status_page, (struct ctl_options){0},
           "resumelb 0.1.0, pid 12, serving, up 1h 1m, 2 threads\n"
           "\n"
           "shop: policy resume, backlog 3 (mean 1.25, cutoff 9), waiting 0, classes 42\n"
           "  the tree cannot be reached: continuing with the last known state\n"
           "  rejected registration: x: other application\n"
           "  rejected setting variance: \"-\\-\" \\x1b[2J\n"
           "  picks: skilled 90 (90.0 %), unskilled 10 (10.0 %)\n"
           "  worker          state                   version  known from  backlog  mean  oldest  "
           "skills  "
           "requests  "
           "failures  "
           "service      connections\n"
           "  127.0.0.1:9001  ready                   1.4      list, tree        2  1.50   0.2 s   "
           "    7       "
           "100    "
           "     1  "
           "2.00 ms              1+2\n"
           "  unix:/run/x     ready, inactive         -        -                 -     -       -   "
           "    -       "
           "  -    "
           "     -  "
           "      -  1+0 (5 waiting)\n"
           "  10.0.0.1:80     ready, ejected (reset)  -        -                 -     -       -   "
           "    -       "
           "  -    "
           "     -  "
           "      -                -\n"
           "\n"
           "empty: policy classless, backlog 0 (mean -), waiting 0, classes 0\n"
           "  no workers\n");
}

static void status_shows_where_a_worker_is_that_has_a_standby(void **state)
{
    static const char page[] =
        "{\"applications\":{\"shop\":{\"workers\":["
        "{\"name\":\"10.0.0.1:80\",\"state\":\"ready\",\"standby\":\"10.0.0.2:80\","
        "\"on_standby\":false},"
        "{\"name\":\"10.0.0.3:80\",\"state\":\"ready\",\"standby\":\"10.0.0.4:80\","
        "\"on_standby\":true}]}}}";
    struct text out = {0};

    (void)state;
    assert_int_equal(show(ctl_status_text, page, &(struct ctl_options){0}, &out), ERR_OK);
    assert_non_null(strstr(text_cstr(&out), "10.0.0.1:80  ready, standby 10.0.0.2:80 "));
    assert_non_null(strstr(text_cstr(&out), "10.0.0.3:80  ready, at its standby 10.0.0.4:80 "));
    text_fini(&out);
}

static void one_application_can_be_chosen(void **state)
{
    struct text out = {0};
    struct ctl_options o = {.application = "nowhere"};

    (void)state;
    expect(ctl_resumes_text, resumes_page, (struct ctl_options){.application = "empty"},
           "empty: no workers\n");
    assert_int_equal(show(ctl_resumes_text, resumes_page, &o, &out), ERR_NOT_FOUND);
    assert_int_equal(show(ctl_status_text, status_page, &o, &out), ERR_NOT_FOUND);
    assert_int_equal(out.len, 0);
}

static void resumes_show_the_best_classes_first(void **state)
{
    (void)state;
    expect(ctl_resumes_text, resumes_page, (struct ctl_options){.application = "shop"},
           "shop:\n"
           "  a: 3 skills\n"
           "    class      score\n"
           "    y.example  40.00\n"
           "    x.example  30.50\n"
           "    (none)      1.00\n"
           "  b: 1 skill\n"
           "    class      score\n"
           "    x.example  50.00\n");
    expect(ctl_resumes_text, resumes_page, (struct ctl_options){.application = "shop", .top = 1},
           "shop:\n"
           "  a: 3 skills, best 1\n"
           "    class      score\n"
           "    y.example  40.00\n"
           "  b: 1 skill\n"
           "    class      score\n"
           "    x.example  50.00\n");
}

static void a_class_shows_its_best_workers_first(void **state)
{
    (void)state;
    expect(ctl_resumes_text, resumes_page,
           (struct ctl_options){.application = "shop", .cls = "x.example"},
           "shop:\n"
           "  x.example: 2 of 2 workers skilled\n"
           "    worker  score\n"
           "    b       50.00\n"
           "    a       30.50\n");
    expect(ctl_resumes_text, resumes_page,
           (struct ctl_options){.application = "shop", .cls = "z.example"},
           "shop:\n"
           "  z.example: 0 of 2 workers skilled\n");
}

static void a_program_without_applications_reports_it(void **state)
{
    (void)state;
    expect(ctl_status_text, "{\"applications\":{}}", (struct ctl_options){0}, "no applications\n");
    expect(ctl_resumes_text, "{\"applications\":{}}", (struct ctl_options){0}, "no applications\n");
}

static void resumes_of_an_agent_are_those_of_its_slots(void **state)
{
    static const char page[] =
        "[{\"application\":\"shop\",\"slot\":0,\"address\":\"127.0.0.1:9000\",\"fingerprint\":"
        "\"f1\","
        "\"skills\":{\"a\":1,\"b\":2.5}},"
        "{\"application\":\"shop\",\"address\":\"127.0.0.1:9000\",\"fingerprint\":\"f2\","
        "\"skills\":{}},"
        "{\"application\":\"wiki\",\"address\":\"127.0.0.1:9100\",\"fingerprint\":\"f1\","
        "\"skills\":{\"a\":3}},"
        "{\"application\":\"wiki\",\"address\":7},\"x\"]";

    (void)state;
    expect(ctl_resumes_text, page, (struct ctl_options){.application = "shop", .top = 1},
           "shop:\n  127.0.0.1:9000: 2 skills, best 1\n    class  score\n    b       2.50\n"
           "  127.0.0.1:9000, classifier f2: 0 skills\n");
    expect(ctl_resumes_text, page, (struct ctl_options){.application = "wiki", .cls = "a"},
           "wiki:\n  a: 1 of 1 workers skilled\n    worker          score\n    127.0.0.1:9100   "
           "3.00\n");
    expect(ctl_resumes_text, "[]", (struct ctl_options){0}, "no applications\n");
}

static void other_pages_are_rejected(void **state)
{
    static const char *const pages[] = {"{}", "{\"applications\":[]}", "{\"applications\":3}"};
    struct ctl_options o = {0};
    struct text out = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(pages); ++i) {
        assert_int_equal(show(ctl_status_text, pages[i], &o, &out), ERR_SYNTAX);
        assert_int_equal(show(ctl_resumes_text, pages[i], &o, &out), ERR_SYNTAX);
    }
    assert_int_equal(show(ctl_status_text, "[]", &o, &out), ERR_SYNTAX);
    assert_int_equal(out.len, 0);
}

static void members_of_wrong_types_do_no_harm(void **state)
{
    (void)state;
    expect(ctl_status_text,
           "{\"applications\":{\"a\":3,\"b\":{\"workers\":[1,{\"name\":[],\"backlog\":\"x\"}],"
           "\"picks\":[],"
           "\"tree\":1,\"rejected\":{}}}}",
           (struct ctl_options){.application = "a"},
           "a: policy -, backlog 0 (mean -, cutoff -), waiting 0, classes 0\n  no workers\n");
    expect(ctl_resumes_text, "{\"applications\":{\"a\":3,\"b\":{\"w\":[],\"v\":{\"c\":\"x\"}}}}",
           (struct ctl_options){.application = "b"},
           "b:\n  w: 0 skills\n  v: 1 skill\n    class  score\n    c       0.00\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_shows_each_application_and_its_workers),
        cmocka_unit_test(status_shows_where_a_worker_is_that_has_a_standby),
        cmocka_unit_test(one_application_can_be_chosen),
        cmocka_unit_test(resumes_show_the_best_classes_first),
        cmocka_unit_test(a_class_shows_its_best_workers_first),
        cmocka_unit_test(a_program_without_applications_reports_it),
        cmocka_unit_test(resumes_of_an_agent_are_those_of_its_slots),
        cmocka_unit_test(other_pages_are_rejected),
        cmocka_unit_test(members_of_wrong_types_do_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
