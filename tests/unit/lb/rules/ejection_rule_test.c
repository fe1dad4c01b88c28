/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/rules/ejection_rule.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct ejection_rule rule = {
    .time_ms = 2000, .time_max_ms = 10000, .after_refused = 1, .after = 5, .max_share = 0.5};

static void a_failed_connection_is_enough(void **state)
{
    (void)state;
    for (enum worker_fault f = FAULT_REFUSED; f <= FAULT_CONNECT_TIMEOUT; ++f) {
        struct failure_record s = {0};

        assert_int_equal(failure_record_add(&s, &rule, f), 2000);
    }
}

static void other_failures_have_to_come_in_a_row(void **state)
{
    (void)state;
    struct failure_record s = {0};

    for (int i = 0; i < 4; ++i)
        assert_int_equal(failure_record_add(&s, &rule, FAULT_RESET), 0);
    s = (struct failure_record){0};
    for (int i = 0; i < 4; ++i)
        assert_int_equal(failure_record_add(&s, &rule, FAULT_FIRST_BYTE_TIMEOUT), 0);
    assert_int_equal(failure_record_add(&s, &rule, FAULT_RESET), 2000);
    /* Once it is back, the first failure is one too many. */
    failure_record_served(&s);
    assert_int_equal(failure_record_add(&s, &rule, FAULT_RESET), 4000);
}

static void the_time_doubles_up_to_its_most_and_a_response_ends_that(void **state)
{
    (void)state;
    static const uint64_t expected[] = {2000, 4000, 8000, 10000, 10000};
    struct failure_record s = {0};

    for (size_t i = 0; i < ARRAY_LEN(expected); ++i) {
        assert_int_equal(failure_record_add(&s, &rule, FAULT_REFUSED), expected[i]);
        failure_record_served(&s);
    }
    for (int i = 0; i < 100; ++i)
        failure_record_served(&s);
    assert_int_equal(failure_record_add(&s, &rule, FAULT_REFUSED), 10000);
    s = (struct failure_record){0};
    assert_int_equal(failure_record_add(&s, &rule, FAULT_REFUSED), 2000);
}

static void assert_probed(const struct failure_record *s, const struct ejection_rule *r,
                          enum worker_probe how, uint64_t first_ms, uint64_t then_ms)
{
    uint64_t first, then;

    failure_record_probe_ms(s, r, how, &first, &then);
    assert_int_equal(first, first_ms);
    assert_int_equal(then, then_ms);
}

static void an_ejected_worker_is_probed_soon_and_later_each_time_it_fails_again(void **state)
{
    (void)state;
    static const uint64_t expected[] = {300, 600, 1200, 2400, 4800, 9600, 10000, 10000};
    struct ejection_rule r = rule;
    struct failure_record s = {0};

    r.probe_ms = 300;
    for (size_t i = 0; i < ARRAY_LEN(expected); ++i) {
        uint64_t then = 2 * expected[i] < 10000 ? 2 * expected[i] : 10000;

        if (i < 3)
            then = 2 * expected[i] < rule.time_ms << i ? 2 * expected[i] : rule.time_ms << i;
        assert_probed(&s, &r, PROBE_CONNECT, expected[i], then);
        assert_probed(&s, &r, PROBE_CHECK, expected[i], then);
        failure_record_served(&s);
    }
    r.probe_ms = 0;
    assert_probed(&s, &r, PROBE_CONNECT, 0, 0);
    assert_probed(&s, &r, PROBE_REQUEST, 0, 0);
    /* Never later than it would be back without. */
    s = (struct failure_record){0};
    r.probe_ms = 5000;
    assert_probed(&s, &r, PROBE_CONNECT, 2000, 2000);
    assert_probed(&s, &r, PROBE_REQUEST, 2000, 2000);
}

static void probes_by_requests_are_rarer_and_do_not_become_later(void **state)
{
    (void)state;
    struct ejection_rule r = rule;
    struct failure_record s = {0};

    r.probe_ms = 250;
    for (int i = 0; i < 10; ++i) {
        assert_probed(&s, &r, PROBE_REQUEST, 1500, 1500);
        failure_record_served(&s);
    }
}

static void a_worker_is_probed_by_what_it_failed_at(void **state)
{
    (void)state;
    struct ejection_rule r = rule;

    for (int f = 0; f < WORKER_FAULTS; ++f) {
        bool connects = worker_fault_connects((enum worker_fault)f);

        r.checks = false;
        assert_int_equal(worker_probe_for(&r, (enum worker_fault)f, true),
                         connects ? PROBE_CONNECT : PROBE_REQUEST);
        r.checks = true;
        assert_int_equal(worker_probe_for(&r, (enum worker_fault)f, true),
                         connects ? PROBE_CONNECT : PROBE_CHECK);
        assert_int_equal(worker_probe_for(&r, (enum worker_fault)f, false),
                         connects ? PROBE_CONNECT : PROBE_REQUEST);
    }
}

static void an_ejection_that_was_cut_short_doubles_nothing(void **state)
{
    (void)state;
    struct failure_record s = {0};

    for (int i = 0; i < 10; ++i)
        assert_int_equal(failure_record_add(&s, &rule, FAULT_REFUSED), 2000);
}

static void a_most_below_the_time_is_as_the_time(void **state)
{
    (void)state;
    struct ejection_rule r = rule;
    struct failure_record s = {0};

    r.time_max_ms = 0;
    failure_record_served(&s);
    assert_int_equal(failure_record_add(&s, &r, FAULT_REFUSED), 2000);
}

static void a_rule_that_is_switched_off_never_ejects(void **state)
{
    (void)state;
    struct ejection_rule r = rule;
    struct failure_record s = {0};

    r.after_refused = r.after = 0;
    for (int i = 0; i < 100; ++i) {
        for (int f = 0; f < WORKER_FAULTS; ++f)
            assert_int_equal(failure_record_add(&s, &r, (enum worker_fault)f), 0);
    }
    r.after = 1;
    r.time_ms = r.time_max_ms = 0;
    assert_int_equal(failure_record_add(&s, &r, FAULT_RESET), 0);
}

static void only_a_share_of_the_workers_may_be_out(void **state)
{
    (void)state;
    struct ejection_rule r = rule;

    assert_false(ejection_fits(&r, FAULT_RESET, 0, 1));
    assert_true(ejection_fits(&r, FAULT_RESET, 0, 2));
    assert_false(ejection_fits(&r, FAULT_RESET, 1, 3));
    assert_true(ejection_fits(&r, FAULT_FIRST_BYTE_TIMEOUT, 1, 4));
    assert_false(ejection_fits(&r, FAULT_CONNECT_TIMEOUT, 2, 4));
    r.max_share = 0;
    assert_false(ejection_fits(&r, FAULT_RESET, 0, 100));
}

static void a_worker_that_is_unreachable_is_ejected_whatever_the_share(void **state)
{
    (void)state;
    assert_true(ejection_fits(&rule, FAULT_REFUSED, 2, 3));
}

static void every_fault_has_its_own_text(void **state)
{
    (void)state;
    for (int f = 0; f < WORKER_FAULTS; ++f) {
        for (int g = 0; g < f; ++g)
            assert_string_not_equal(worker_fault_text((enum worker_fault)f),
                                    worker_fault_text((enum worker_fault)g));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_connection_is_enough),
        cmocka_unit_test(other_failures_have_to_come_in_a_row),
        cmocka_unit_test(the_time_doubles_up_to_its_most_and_a_response_ends_that),
        cmocka_unit_test(an_ejected_worker_is_probed_soon_and_later_each_time_it_fails_again),
        cmocka_unit_test(probes_by_requests_are_rarer_and_do_not_become_later),
        cmocka_unit_test(a_worker_is_probed_by_what_it_failed_at),
        cmocka_unit_test(an_ejection_that_was_cut_short_doubles_nothing),
        cmocka_unit_test(a_most_below_the_time_is_as_the_time),
        cmocka_unit_test(a_rule_that_is_switched_off_never_ejects),
        cmocka_unit_test(only_a_share_of_the_workers_may_be_out),
        cmocka_unit_test(a_worker_that_is_unreachable_is_ejected_whatever_the_share),
        cmocka_unit_test(every_fault_has_its_own_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
