/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/rules/error_page.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void the_suffix_of_a_file_is_its_type(void **state)
{
    (void)state;
    assert_string_equal(error_page_type("/etc/e.json"), "application/json");
    assert_string_equal(error_page_type("/etc/e.txt"), "text/plain; charset=utf-8");
    assert_string_equal(error_page_type("/etc/e.xml"), "application/xml");
    assert_string_equal(error_page_type("/etc/e.html"), "text/html; charset=utf-8");
    assert_string_equal(error_page_type("json"), "text/html; charset=utf-8");
    assert_string_equal(error_page_type(NULL), "text/html; charset=utf-8");
}

/* Of two pages, HTML and JSON: the index of the chosen one for two Accept fields. */
static size_t choose(const char *accept, const char *more)
{
    const struct error_pages pages = {
        .n = 2, .items = {{.type = error_page_type(NULL)}, {.type = error_page_type("e.json")}}};
    struct http_request req = {0};

    http_request_init(&req, NULL, 0);
    http_request_add(&req, &req.fields, SLICE_LIT("Accept"), slice_of(accept));
    http_request_add(&req, &req.fields, SLICE_LIT("accept"), slice_of(more));
    size_t chosen = error_pages_choose(&pages, &req.fields);
    http_request_fini(&req);
    return chosen;
}

static void the_page_that_accept_prefers_is_chosen(void **state)
{
    (void)state;
    assert_int_equal(choose("application/json", ""), 1);
    assert_int_equal(choose("text/html", "application/json"), 0);
    assert_int_equal(choose("text/html;q=0.5", "Application/JSON ; q=0.51"), 1);
    assert_int_equal(choose("text/html, application/json;q=0.9, */*;q=0.8", ""), 0);
    assert_int_equal(choose("*/*", "text/html;q=0"), 1);
    assert_int_equal(choose("application/*", ""), 1);
    assert_int_equal(choose("application/*;q=0.2, application/json;q=0.1, text/*;q=0.15", ""), 0);
    assert_int_equal(choose("application/json;v=1;q=1.0", "text/html;q=0.999"), 1);
}

static void the_first_page_is_chosen_where_accept_prefers_none(void **state)
{
    (void)state;
    assert_int_equal(choose("", ""), 0);
    assert_int_equal(choose("*/*", ""), 0);
    assert_int_equal(choose("image/png", "*"), 0);
    assert_int_equal(choose("application/json;q=0", "text/html;q=0"), 0);
    assert_int_equal(choose(",;,/", "application;q=,application/;q"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_suffix_of_a_file_is_its_type),
        cmocka_unit_test(the_page_that_accept_prefers_is_chosen),
        cmocka_unit_test(the_first_page_is_chosen_where_accept_prefers_none),
    };

    return cmocka_run_group_tests_name("error_page", tests, NULL, NULL);
}
