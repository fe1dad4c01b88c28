/* SPDX-License-Identifier: Apache-2.0 */
#include "common/http/http_request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/text.h"

static int setup(void **state)
{
    struct http_request *req = xmalloc(sizeof(*req));

    http_request_init(req, NULL, 0);
    *state = req;
    return 0;
}

static int teardown(void **state)
{
    http_request_fini(*state);
    free(*state);
    return 0;
}

static void add(struct http_request *req, const char *name, const char *value)
{
    http_request_add(req, &req->fields, slice_of(name), slice_of(value));
}

static void fields_grow_without_limit_and_keep_their_order(void **state)
{
    struct http_request *req = *state;
    char name[16];

    for (int i = 0; i < 100; ++i) {
        int n = snprintf(name, sizeof(name), "x-%d", i);
        struct slice kept = http_request_retain(req, (struct slice){name, (size_t)n});

        http_request_add(req, &req->fields, kept, kept);
    }
    assert_int_equal(req->fields.n, 100);
    for (int i = 0; i < 100; ++i) {
        snprintf(name, sizeof(name), "x-%d", i);
        assert_true(slice_is(req->fields.at[i].name, name));
    }
}

static void field_is_found_in_any_case_and_the_next_of_its_name_behind_it(void **state)
{
    struct http_request *req = *state;
    const struct slice name = SLICE_LIT("x-name");

    assert_null(message_fields_find(&req->fields, name, NULL));
    add(req, "X-NAME", "1");
    add(req, "x_name", "2");
    add(req, "x-name", "3");
    const struct message_field *first = message_fields_find(&req->fields, name, NULL);
    assert_true(slice_is(first->value, "1"));
    const struct message_field *second = message_fields_find(&req->fields, name, first);
    assert_true(slice_is(second->value, "3"));
    assert_null(message_fields_find(&req->fields, name, second));
}

static void kinds_are_reported_and_dropped_by_what_fields_are(void **state)
{
    struct http_request *req = *state;

    assert_false(message_fields_may_have(&req->fields, UINT32_MAX));
    add(req, "Cookie", "a");
    add(req, "X-Forwarded-For", "1");
    add(req, "Accept", "*/*");
    add(req, "x_forwarded_for", "2");
    assert_true(message_fields_may_have(&req->fields, FIELD_BIT(FIELD_FOR)));
    assert_false(message_fields_may_have(&req->fields, FIELD_BIT(FIELD_PROTO)));
    message_fields_drop(&req->fields, FIELD_BIT(FIELD_PROTO));
    assert_int_equal(req->fields.n, 4);
    message_fields_drop(&req->fields, FIELD_BIT(FIELD_FOR) | FIELD_BIT(FIELD_PROTO));
    assert_int_equal(req->fields.n, 2);
    assert_true(slice_is(req->fields.at[0].name, "Cookie"));
    assert_true(slice_is(req->fields.at[1].name, "Accept"));
    assert_false(message_fields_may_have(&req->fields, FIELD_BIT(FIELD_FOR)));
    assert_true(message_fields_may_have(&req->fields, FIELD_BIT(FIELD_COOKIE)));
}

static void path_is_one_however_it_is_written(void **state)
{
    static const char *const targets[] = {"/a/b", "/a/b?c=/../d", "/a/x/../b", "/%61/./b",
                                          "/a//../a/b"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(targets); ++i) {
        struct http_request req;

        http_request_init(&req, NULL, 0);
        req.target = slice_of(targets[i]);
        assert_true(slice_is(http_request_path(&req), "/a/b"));
        assert_ptr_equal(http_request_path(&req).p, http_request_path(&req).p);
        http_request_fini(&req);
    }
}

static void a_retained_value_is_a_terminated_copy(void **state)
{
    struct http_request *req = *state;
    char bytes[] = "abc";
    struct slice kept = http_request_retain(req, (struct slice){bytes, 2});

    bytes[0] = 'x';
    assert_int_equal(kept.len, 2);
    assert_string_equal(kept.p, "ab");
    assert_string_equal(http_request_retain(req, SLICE_NULL).p, "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(fields_grow_without_limit_and_keep_their_order),
        TEST(field_is_found_in_any_case_and_the_next_of_its_name_behind_it),
        TEST(kinds_are_reported_and_dropped_by_what_fields_are),
        TEST(path_is_one_however_it_is_written),
        TEST(a_retained_value_is_a_terminated_copy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
