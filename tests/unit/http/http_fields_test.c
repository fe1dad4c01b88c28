/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/http/http_fields.h"

static void a_response_lists_what_its_connection_fields_name(void **state)
{
    struct http1_head head = {.nheaders = 2};

    (void)state;
    head.headers[0] = (struct http1_header){.name = SLICE_LIT("CONNECTION"),
                                            .value = SLICE_LIT("close, X-One"),
                                            .kind = FIELD_CONNECTION};
    head.headers[1] =
        (struct http1_header){.name = SLICE_LIT("X-Two"), .value = SLICE_LIT("X-Three")};
    assert_true(http_response_lists(&head, SLICE_LIT("x-one")));
    assert_false(http_response_lists(&head, SLICE_LIT("x-three")));
}

static void expect_length(const char *method, char *body, const char *line)
{
    struct text out = {0};

    http_put_length(slice_of(method), body != NULL ? slice_of(body) : SLICE_NULL, &out);
    assert_string_equal(text_cstr(&out), line);
    text_fini(&out);
}

static void a_length_is_told_of_a_body_or_of_none_where_one_is_expected(void **state)
{
    char body[] = "four";
    char empty[] = "";

    (void)state;
    expect_length("POST", body, "Content-Length: 4\r\n");
    expect_length("POST", NULL, "Content-Length: 0\r\n");
    expect_length("PATCH", NULL, "Content-Length: 0\r\n");
    expect_length("GET", NULL, "");
    expect_length("DELETE", NULL, "");
    expect_length("GET", empty, "Content-Length: 0\r\n");
    expect_length("DELETE", body, "Content-Length: 4\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_response_lists_what_its_connection_fields_name),
        cmocka_unit_test(a_length_is_told_of_a_body_or_of_none_where_one_is_expected),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
