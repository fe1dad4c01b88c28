/* SPDX-License-Identifier: Apache-2.0
 *
 * The timer wheel against the plain rule: a timer comes out at the first advance to or past its due
 * time. Time is an argument, so years pass in no time.
 */
#include "common/event/loop.h"
#include "common/event/timer_wheel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const uint64_t hour_ms = 3600 * 1000;

static unsigned take_due(struct timer_wheel *w)
{
    unsigned n = 0;

    while (list_pop_front(&w->due) != NULL)
        ++n;
    return n;
}

static void add(struct timer_wheel *w, struct timer *t, uint64_t due_ms)
{
    list_remove(&t->node);
    t->due_ms = due_ms;
    timer_wheel_add(w, t);
}

static void a_timer_comes_out_exactly_when_due(void **state)
{
    static const uint64_t delays[] = {1,    2,     63,     64,      65,      4095,
                                      4096, 60000, 262144, 3600000, 86400000};
    static const uint64_t starts[] = {0, 1, 63, 64, 4095, 123456789, UINT32_MAX, (uint64_t)1 << 36};
    struct timer_wheel *w = xmalloc(sizeof(*w));
    struct timer t = {.due_ms = 0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(starts) * ARRAY_LEN(delays); ++i) {
        uint64_t start = starts[i / ARRAY_LEN(delays)];
        uint64_t due = start + delays[i % ARRAY_LEN(delays)];
        timer_wheel_init(w, start);
        add(w, &t, due);
        timer_wheel_advance(w, due - 1);
        assert_int_equal(take_due(w), 0);
        timer_wheel_advance(w, due);
        assert_int_equal(take_due(w), 1);
        assert_true(timer_wheel_next(w, false) == UINT64_MAX);
    }
    free(w);
}

static void following_next_leads_to_a_far_timer_in_few_steps(void **state)
{
    struct timer_wheel *w = xmalloc(sizeof(*w));
    struct timer t = {.due_ms = 0};
    unsigned steps = 0;

    (void)state;
    timer_wheel_init(w, 987654321);
    add(w, &t, 987654321 + 10000 * hour_ms);
    while (list_empty(&w->due)) {
        uint64_t next = timer_wheel_next(w, false);
        assert_true(next > w->tick_ms);
        assert_true(next <= t.due_ms);
        timer_wheel_advance(w, next);
        ++steps;
    }
    assert_true(w->tick_ms == t.due_ms);
    assert_true(steps <= WHEEL_LEVELS);
    list_remove(&t.node);
    free(w);
}

static void the_exact_due_time_is_available(void **state)
{
    struct timer_wheel *w = xmalloc(sizeof(*w));
    struct timer t[WHEEL_SEARCH_MAX + 1] = {{.due_ms = 0}};

    (void)state;
    timer_wheel_init(w, 987654321);
    assert_true(timer_wheel_next(w, true) == UINT64_MAX);
    for (uint64_t i = 0; i < WHEEL_SEARCH_MAX; ++i)
        add(w, &t[i], 987654321 + 10000 * hour_ms - i);
    assert_true(timer_wheel_next(w, false) < t[WHEEL_SEARCH_MAX - 1].due_ms);
    assert_true(timer_wheel_next(w, true) == t[WHEEL_SEARCH_MAX - 1].due_ms);
    /* With one more, none of them is searched. */
    add(w, &t[WHEEL_SEARCH_MAX], 987654321 + 10000 * hour_ms);
    assert_true(timer_wheel_next(w, true) == timer_wheel_next(w, false));
    /* Slept through at once, with all levels between. */
    timer_wheel_advance(w, t[WHEEL_SEARCH_MAX - 1].due_ms);
    assert_int_equal(take_due(w), 1);
    add(w, &t[0], 1);
    assert_true(timer_wheel_next(w, true) == w->tick_ms);
    free(w);
}

static void the_last_of_times_has_its_place_too(void **state)
{
    struct timer_wheel *w = xmalloc(sizeof(*w));
    struct timer never = {.due_ms = 0};
    struct timer soon = {.due_ms = 0};

    (void)state;
    timer_wheel_init(w, 5);
    add(w, &never, UINT64_MAX);
    add(w, &soon, 7);
    timer_wheel_advance(w, 1000 * 365 * 24 * hour_ms);
    assert_int_equal(take_due(w), 1);
    assert_true(timer_running(&never));
    timer_wheel_advance(w, UINT64_MAX);
    assert_int_equal(take_due(w), 1);
    free(w);
}

static void a_clock_that_goes_back_changes_nothing(void **state)
{
    struct timer_wheel *w = xmalloc(sizeof(*w));
    struct timer t = {.due_ms = 0};

    (void)state;
    timer_wheel_init(w, 1000);
    add(w, &t, 1100);
    timer_wheel_advance(w, 1050);
    timer_wheel_advance(w, 3);
    assert_true(w->tick_ms == 1050);
    timer_wheel_advance(w, 1100);
    assert_int_equal(take_due(w), 1);
    free(w);
}

static void stopped_timers_leave_nothing_to_wake_for(void **state)
{
    struct timer_wheel *w = xmalloc(sizeof(*w));
    struct timer t[100];

    (void)state;
    timer_wheel_init(w, 77);
    for (unsigned i = 0; i < ARRAY_LEN(t); ++i) {
        list_init(&t[i].node);
        add(w, &t[i], 78 + (uint64_t)i * i * i * i);
    }
    for (unsigned i = 0; i < ARRAY_LEN(t); ++i)
        timer_stop(&t[i]);
    assert_true(timer_wheel_next(w, false) == UINT64_MAX);
    free(w);
}

/* A small linear congruential generator: the same story each time. */
static uint64_t draw(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

static void a_random_story_agrees_with_the_plain_rule(void **state)
{
    enum { TIMERS = 300, STEPS = 20000 };
    struct timer_wheel *w = xmalloc(sizeof(*w));
    struct timer *t = xcalloc(TIMERS, sizeof(*t));
    uint64_t seed = 20240607;
    uint64_t now = 4000;

    (void)state;
    timer_wheel_init(w, now);
    for (unsigned step = 0; step < STEPS; ++step) {
        struct timer *one = &t[draw(&seed) % TIMERS];
        uint64_t magnitude = (uint64_t)1 << draw(&seed) % 30;
        if (draw(&seed) % 4 == 0)
            list_remove(&one->node);
        else
            add(w, one, now + draw(&seed) % magnitude);
        if (draw(&seed) % 8 != 0)
            continue;
        now += draw(&seed) % ((uint64_t)1 << draw(&seed) % 20);
        timer_wheel_advance(w, now);
        struct list *it;
        list_for_each (it, &w->due)
            assert_true(list_entry(it, struct timer, node)->due_ms <= now);
        take_due(w);
        for (unsigned i = 0; i < TIMERS; ++i)
            assert_true(!timer_running(&t[i]) || t[i].due_ms > now);
        for (unsigned i = 0; i < TIMERS; ++i)
            assert_true(!timer_running(&t[i]) || timer_wheel_next(w, true) <= t[i].due_ms);
        assert_true(timer_wheel_next(w, false) <= timer_wheel_next(w, true));
    }
    free(t);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_timer_comes_out_exactly_when_due),
        cmocka_unit_test(following_next_leads_to_a_far_timer_in_few_steps),
        cmocka_unit_test(the_exact_due_time_is_available),
        cmocka_unit_test(the_last_of_times_has_its_place_too),
        cmocka_unit_test(a_clock_that_goes_back_changes_nothing),
        cmocka_unit_test(stopped_timers_leave_nothing_to_wake_for),
        cmocka_unit_test(a_random_story_agrees_with_the_plain_rule),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
