/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <math.h>

#include "sim/workload.h"

static const struct workload work = {
    .sites = 500, .zipf = 0.9, .site_objects = 60, .request_objects = 20, .seed = 1};

static size_t requests_for(const struct trace *t, const char *host)
{
    size_t n = 0;

    for (size_t i = 0; i < t->n; ++i)
        n += slice_is(trace_host(t, &t->pages[t->requests[i].page]), host);
    return n;
}

static void assert_near(double v, double expected, double tolerance)
{
    assert_true(fabs(v - expected) <= tolerance);
}

static void sites_and_objects_have_their_shares(void **state)
{
    struct workload_part part = {.n = 10000, .seed = 1};
    struct trace t = {0};

    (void)state;
    assert_int_equal(workload_draw(&work, &part, &t), ERR_OK);
    assert_int_equal(t.n, part.n);
    /* 1 / sum of r^-0.9 over 500 is 10.7 %; twice the rank, 2^-0.9 of it. */
    assert_near((double)requests_for(&t, "h0.example") / 1e4, .107, .01);
    assert_near((double)requests_for(&t, "h1.example") / 1e4, .0575, .008);
    /* Of 20 drawn from a normal distribution some are the same. */
    assert_near((double)t.nobjects / 1e4, 16.67, .1);
    trace_fini(&t);
}

static void sites_may_have_the_nearly_even_shares_of_simul(void **state)
{
    struct workload even = work;
    struct workload_part part = {.n = 20000, .seed = 1};
    struct trace t = {0};

    (void)state;
    even.simul = true;
    even.sites = 8;
    assert_int_equal(workload_draw(&even, &part, &t), ERR_OK);
    /* 5 3 2 2 1 1 1 1 of 16. */
    assert_near((double)requests_for(&t, "h0.example") / 2e4, 5 / 16.0, .02);
    assert_near((double)requests_for(&t, "h1.example") / 2e4, 3 / 16.0, .02);
    assert_near((double)requests_for(&t, "h3.example") / 2e4, 2 / 16.0, .02);
    assert_near((double)requests_for(&t, "h4.example") / 2e4, 1 / 16.0, .01);
    assert_near((double)requests_for(&t, "h7.example") / 2e4, 1 / 16.0, .01);
    trace_fini(&t);
}

static void requests_come_at_their_rate_and_an_attack_on_top(void **state)
{
    struct workload_part part = {.n = 10000,
                                 .seed = 1,
                                 .rate = 300,
                                 .hot = WORKLOAD_FLASH,
                                 .hot_from = 2500,
                                 .hot_to = 7500,
                                 .hot_share = .6};
    struct trace t = {0};
    size_t hot = 0;

    (void)state;
    assert_int_equal(workload_draw(&work, &part, &t), ERR_OK);
    for (size_t i = 0; i < t.n; ++i) {
        bool is_hot = t.requests[i].tag == TRACE_TAG_SPECIAL;

        assert_true(!is_hot || (i >= part.hot_from && i < part.hot_to));
        hot += is_hot;
    }
    assert_int_equal(hot, requests_for(&t, "hot.example"));
    assert_near((double)hot, 3000, 150);
    /* 5000 at 300 a second, 5000 at 750. */
    assert_near((double)t.requests[t.n - 1].due_ns / 1e9, 5000 / 300.0 + 5000 / 750.0, 1);
    trace_fini(&t);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static void a_crawl_never_needs_an_object_twice(void **state)
{
    struct workload_part part = {.n = 2000,
                                 .seed = 1,
                                 .rate = 1,
                                 .hot = WORKLOAD_CRAWL,
                                 .hot_to = 2000,
                                 .hot_share = .999999};
    struct trace t = {0};
    size_t twice = 0;

    (void)state;
    assert_int_equal(workload_draw(&work, &part, &t), ERR_OK);
    assert_int_equal(requests_for(&t, "hot.example"), t.n);
    qsort(t.objects, t.nobjects, sizeof(t.objects[0]), by_value);
    for (size_t i = 1; i < t.nobjects; ++i)
        twice += t.objects[i] == t.objects[i - 1];
    /* Drawn from a thousand million. */
    assert_true(twice <= 3);
    trace_fini(&t);
}

static void costly_requests_are_a_tenth_and_tagged(void **state)
{
    struct workload_part part = {.n = 20000, .seed = 1, .costly = true};
    struct trace t = {0};
    size_t costly = 0;

    (void)state;
    assert_int_equal(workload_draw(&work, &part, &t), ERR_OK);
    for (size_t i = 0; i < t.n; ++i) {
        assert_int_equal(t.requests[i].factor == WORKLOAD_COSTLY,
                         t.requests[i].tag == TRACE_TAG_SPECIAL);
        costly += t.requests[i].factor == WORKLOAD_COSTLY;
    }
    assert_near((double)costly / (double)t.n, .094, .01);
    trace_fini(&t);
}

static void a_request_of_a_session_needs_what_the_earlier_ones_needed(void **state)
{
    struct workload_part part = {.n = 5000, .seed = 1, .sessions = true};
    struct trace t = {0};
    size_t turns = 0;

    (void)state;
    assert_int_equal(workload_draw(&work, &part, &t), ERR_OK);
    assert_int_equal(t.n, part.n);
    assert_false(t.requests[0].follows);
    for (size_t i = 0; i < t.n; ++i) {
        const struct trace_page *page = &t.pages[t.requests[i].page];
        const struct trace_page *before = page - 1;

        if (!t.requests[i].follows) {
            assert_true(i == 0 || (turns >= WORKLOAD_TURNS_MIN && turns <= WORKLOAD_TURNS_MAX));
            assert_int_equal(page->nobjects, WORKLOAD_TURN_OBJECTS);
            turns = 1;
            continue;
        }
        ++turns;
        assert_int_equal(page->nobjects, before->nobjects + WORKLOAD_TURN_OBJECTS);
        assert_memory_equal(t.objects + page->object, t.objects + before->object,
                            before->nobjects * sizeof(t.objects[0]));
        assert_true(slice_eq(trace_host(&t, page), trace_host(&t, before)));
    }
    trace_fini(&t);
}

static void a_shift_makes_other_sites_popular(void **state)
{
    struct workload_part part = {.n = 4000, .seed = 1, .shift_at = 2000, .shift = 250};
    struct trace t = {0};

    (void)state;
    assert_int_equal(workload_draw(&work, &part, &t), ERR_OK);
    assert_near((double)requests_for(&t, "h0.example") / 2000, .107, .03);
    assert_near((double)requests_for(&t, "h250.example") / 2000, .107, .03);
    trace_fini(&t);
}

static void one_seed_is_one_trace(void **state)
{
    struct workload_part part = {.n = 500, .seed = 7, .rate = 10};
    struct trace a = {0};
    struct trace b = {0};

    (void)state;
    assert_int_equal(workload_draw(&work, &part, &a), ERR_OK);
    assert_int_equal(workload_draw(&work, &part, &b), ERR_OK);
    assert_int_equal(a.nobjects, b.nobjects);
    assert_memory_equal(a.objects, b.objects, a.nobjects * sizeof(a.objects[0]));
    assert_memory_equal(a.requests, b.requests, a.n * sizeof(a.requests[0]));
    trace_fini(&b);
    part.seed = 8;
    assert_int_equal(workload_draw(&work, &part, &b), ERR_OK);
    assert_true(requests_for(&a, "h0.example") != a.n);
    assert_memory_not_equal(a.objects, b.objects, sizeof(a.objects[0]) * 100);
    trace_fini(&a);
    trace_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sites_and_objects_have_their_shares),
        cmocka_unit_test(sites_may_have_the_nearly_even_shares_of_simul),
        cmocka_unit_test(requests_come_at_their_rate_and_an_attack_on_top),
        cmocka_unit_test(a_crawl_never_needs_an_object_twice),
        cmocka_unit_test(costly_requests_are_a_tenth_and_tagged),
        cmocka_unit_test(a_request_of_a_session_needs_what_the_earlier_ones_needed),
        cmocka_unit_test(a_shift_makes_other_sites_popular),
        cmocka_unit_test(one_seed_is_one_trace),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
