/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/rules/worker_call.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void assert_named(const char *path, const char *name)
{
    struct worker_call c;

    assert_null(worker_call_read(&c, true, slice_of(path), SLICE_NULL));
    assert_string_equal(c.name, name);
    assert_int_equal(c.ttl_s, 0);
    assert_int_equal(json_object_size(c.properties), 0);
    assert_int_equal(c.application.len, 0);
    worker_call_fini(&c);
}

static void assert_rejected(bool put, const char *path, const char *body, const char *why)
{
    struct worker_call c;
    const char *got = worker_call_read(&c, put, slice_of(path), slice_of(body));

    if (got == NULL || strstr(got, why) == NULL)
        fail_msg("%s %s: %s, expected %s", path, body, got != NULL ? got : "accepted", why);
    worker_call_fini(&c);
}

static void spellings_of_an_address_have_one_name(void **state)
{
    (void)state;
    assert_named("10.0.0.1:80", "10.0.0.1:80");
    assert_named("[::ffff:10.0.0.1]:80", "10.0.0.1:80");
    assert_named("%5B::1%5d:80", "[::1]:80");
    assert_named("[0:0::1]:80", "[::1]:80");
    assert_named("unix:%2Frun%2Fapp.sock", "unix:/run/app.sock");
    assert_named("unix:/run/app.sock", "unix:/run/app.sock");
    assert_named("app.internal:8000", "app.internal:8000");
}

static void other_texts_are_no_address(void **state)
{
    const char *const paths[] = {"10.0.0.1", "10.0.0.1:80/", "10.0.0.256:80",  "10.0.0.1:80%00",
                                 "a b:80",   "app.internal", "%ff.internal:1", "app.internal:99999",
                                 "%31%30:x"};
    char path[1200];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(paths); ++i)
        assert_rejected(true, paths[i], "", "not an address");
    snprintf(path, sizeof(path), "unix:/%0250d", 0);
    assert_rejected(true, path, "", "too long");
    snprintf(path, sizeof(path), "unix:/%0800d", 0);
    assert_rejected(true, path, "", "too long");
}

static void members_of_a_registration_are_properties(void **state)
{
    struct worker_call c;

    (void)state;
    assert_null(worker_call_read(
        &c, true, SLICE_LIT("10.0.0.1:80"),
        SLICE_LIT("{\"application\": \"shop\", \"ttl\": 2678400, \"version\": \"7\", "
                  "\"instance\": \"a\", \"pid\": 12, \"description\": \"text\"}")));
    assert_true(slice_is(text_slice(&c.application), "shop"));
    assert_int_equal(c.ttl_s, WORKER_CALL_TTL_MAX);
    assert_int_equal(json_object_size(c.properties), 4);
    assert_true(slice_is(json_text(c.properties, "version"), "7"));
    assert_int_equal(json_integer_value(json_object_get(c.properties, "pid")), 12);
    worker_call_fini(&c);
    assert_null(worker_call_read(&c, false, SLICE_LIT("10.0.0.1:80"),
                                 SLICE_LIT("{\"application\": \"shop\"}")));
    assert_true(slice_is(text_slice(&c.application), "shop"));
    worker_call_fini(&c);
}

static void other_members_and_values_are_rejected(void **state)
{
    const char *const a = "10.0.0.1:80";
    char body[400];

    (void)state;
    assert_rejected(true, a, "[1]", "not a JSON object");
    assert_rejected(true, a, "{\"a\":", "not a JSON object");
    assert_rejected(true, a, "{\"tll\": 5}", "unknown member");
    assert_rejected(true, a, "{\"ttl\": 0}", "\"ttl\" must be");
    assert_rejected(true, a, "{\"ttl\": -1}", "\"ttl\" must be");
    assert_rejected(true, a, "{\"ttl\": 2678401}", "\"ttl\" must be");
    assert_rejected(true, a, "{\"ttl\": 5.0}", "\"ttl\" must be");
    assert_rejected(true, a, "{\"pid\": \"5\"}", "\"pid\" must be");
    assert_rejected(true, a, "{\"version\": null}", "must be strings");
    assert_rejected(true, a, "{\"application\": 1}", "\"application\" must be");
    snprintf(body, sizeof(body), "{\"version\": \"%0101d\"}", 0);
    assert_rejected(true, a, body, "a version 100");
    snprintf(body, sizeof(body), "{\"instance\": \"%065d\"}", 0);
    assert_rejected(true, a, body, "at most 64 bytes");
    assert_rejected(false, a, "{\"ttl\": 5}", "the only one is application");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spellings_of_an_address_have_one_name),
        cmocka_unit_test(other_texts_are_no_address),
        cmocka_unit_test(members_of_a_registration_are_properties),
        cmocka_unit_test(other_members_and_values_are_rejected),
    };

    return cmocka_run_group_tests_name("worker_call", tests, NULL, NULL);
}
