/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lb/status/status.h"

static bool takes(const struct shared_responses *s, enum shared_page page, uint64_t now_us,
                  const char *want)
{
    struct text t = {0};
    bool found = shared_responses_take(s, page, now_us, &t);

    if (found)
        assert_string_equal(text_cstr(&t), want);
    else
        assert_int_equal(t.len, 0);
    text_fini(&t);
    return found;
}

static void keep(struct shared_responses *s, uint64_t now_us, uint64_t cost_us,
                 const char *response)
{
    shared_responses_store(s, SHARED_STATUS, now_us, cost_us, slice_of(response));
}

static void a_costly_response_is_kept_for_ten_times_what_it_took(void **state)
{
    struct shared_responses *s = shared_responses_create();

    (void)state;
    assert_false(takes(s, SHARED_STATUS, 0, ""));
    keep(s, 1000, 3000, "one");
    assert_true(takes(s, SHARED_STATUS, 1000, "one"));
    assert_true(takes(s, SHARED_STATUS, 30999, "one"));
    assert_false(takes(s, SHARED_STATUS, 31000, ""));
    keep(s, 40000, UINT64_MAX, "two");
    assert_true(takes(s, SHARED_STATUS, 40000 + SHARED_RESPONSE_MAX_US - 1, "two"));
    assert_false(takes(s, SHARED_STATUS, 40000 + SHARED_RESPONSE_MAX_US, ""));
    shared_responses_destroy(s);
}

static void a_change_drops_all_stored_pages(void **state)
{
    struct shared_responses *s = shared_responses_create();

    (void)state;
    keep(s, 1000, 5000, "before");
    shared_responses_store(s, SHARED_METRICS, 1000, 5000, slice_of("before"));
    shared_responses_clear(s);
    assert_false(takes(s, SHARED_STATUS, 1001, ""));
    assert_false(takes(s, SHARED_METRICS, 1001, ""));
    keep(s, 1002, 5000, "after");
    assert_true(takes(s, SHARED_STATUS, 1003, "after"));
    shared_responses_destroy(s);
}

static void a_cheap_response_is_made_for_each(void **state)
{
    struct shared_responses *s = shared_responses_create();

    (void)state;
    keep(s, 1000, SHARED_RESPONSE_FROM_US - 1, "cheap");
    assert_false(takes(s, SHARED_STATUS, 1000, ""));
    shared_responses_destroy(s);
}

static void each_page_has_its_own(void **state)
{
    struct shared_responses *s = shared_responses_create();

    (void)state;
    keep(s, 1000, 5000, "status");
    assert_true(takes(s, SHARED_STATUS, 1001, "status"));
    assert_false(takes(s, SHARED_METRICS, 1001, ""));
    shared_responses_destroy(s);
    shared_responses_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_costly_response_is_kept_for_ten_times_what_it_took),
        cmocka_unit_test(a_change_drops_all_stored_pages),
        cmocka_unit_test(a_cheap_response_is_made_for_each),
        cmocka_unit_test(each_page_has_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
