/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/metrics.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static bool wants(const char *accept)
{
    return metrics_wants_open(slice_of(accept));
}

static void only_who_asks_for_openmetrics_gets_it(void **state)
{
    (void)state;
    assert_false(wants(""));
    assert_false(wants("*/*"));
    assert_false(wants("text/html,application/xhtml+xml"));
    assert_true(wants("application/openmetrics-text"));
    assert_true(wants("Application/OpenMetrics-Text; version=1.0.0; charset=utf-8"));
    /* As Prometheus 2.42 asks. */
    assert_true(wants("application/openmetrics-text;version=1.0.0,application/openmetrics-text;"
                      "version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"));
    assert_false(wants("application/openmetrics-text;version=0.0.1"));
    assert_false(wants("application/openmetrics-text;q=0.4,text/plain;q=0.5"));
    assert_false(wants("application/openmetrics-text;q=0"));
    assert_false(wants("application/openmetrics-text;q=nonsense"));
    assert_false(wants(",,;;=,application/openmetrics-tex"));
}

static void families_of_counters_lose_their_end_and_the_page_has_one(void **state)
{
    struct text out = {0};

    (void)state;
    metrics_put_open(SLICE_LIT("# HELP a_total Says \"this\" \\\\ that.\n"
                               "# TYPE a_total counter\n"
                               "a_total{x=\"1\"} 3\n"
                               "# HELP b_total A gauge by a bad name.\n"
                               "# TYPE b_total gauge\n"
                               "b_total 1\n"
                               "# TYPE c histogram\n"
                               "c_bucket{le=\"+Inf\"} 1\n"
                               "c_sum 0.5\n"
                               "c_count 1\n"),
                     &out);
    assert_string_equal(text_cstr(&out), "# TYPE a counter\n"
                                         "# HELP a Says \\\"this\\\" \\\\ that.\n"
                                         "a_total{x=\"1\"} 3\n"
                                         "# TYPE b_total gauge\n"
                                         "# HELP b_total A gauge by a bad name.\n"
                                         "b_total 1\n"
                                         "# TYPE c histogram\n"
                                         "c_bucket{le=\"+Inf\"} 1\n"
                                         "c_sum 0.5\n"
                                         "c_count 1\n"
                                         "# EOF\n");
    text_clear(&out);
    metrics_put_open(SLICE_NULL, &out);
    assert_string_equal(text_cstr(&out), "# EOF\n");
    text_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_who_asks_for_openmetrics_gets_it),
        cmocka_unit_test(families_of_counters_lose_their_end_and_the_page_has_one),
    };

    return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
