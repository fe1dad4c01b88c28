/* SPDX-License-Identifier: Apache-2.0
 *
 * The wall clock of a loop: right, rarely read, and noticed when it is set.
 */
#include "common/base/clock.h"
#include "common/event/loop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { HOUR_MS = 3600 * 1000 };

/* Both clocks are the test's (--wrap). */
static uint64_t mono_us, wall_us;
static unsigned wall_reads;

uint64_t __wrap_clock_mono_us(void);
uint64_t __wrap_clock_mono_us(void)
{
    return mono_us;
}

uint64_t __wrap_clock_wall_us(void);
uint64_t __wrap_clock_wall_us(void)
{
    ++wall_reads;
    return wall_us;
}

static void pass(uint64_t us)
{
    mono_us += us;
    wall_us += us;
}

static int set_up(void **state)
{
    mono_us = 5000; /* as after a start of the machine */
    wall_us = 1700000000000000;
    *state = loop_create(0);
    wall_reads = 0;
    return 0;
}

static int tear_down(void **state)
{
    loop_destroy(*state);
    return 0;
}

static void the_wall_clock_advances_without_being_read(void **state)
{
    struct loop *l = *state;

    for (unsigned i = 0; i < 99; ++i) {
        assert_true(loop_wall_ms(l) == wall_us / 1000);
        pass(10001);
    }
    assert_int_equal(wall_reads, 0);
    pass(10001);
    assert_true(loop_wall_ms(l) == wall_us / 1000);
    assert_true(loop_wall_ms(l) == wall_us / 1000);
    assert_int_equal(wall_reads, 1);
}

static void a_change_is_noticed_within_a_second(void **state)
{
    struct loop *l = *state;
    uint64_t before_ms = loop_wall_ms(l);

    wall_us += 1000ull * HOUR_MS;
    pass(1000 * 1000);
    assert_true(loop_wall_ms(l) == before_ms + HOUR_MS + 1000);
    wall_us -= 2000ull * HOUR_MS;
    pass(1000 * 1000);
    assert_true(loop_wall_ms(l) == before_ms - HOUR_MS + 2000);
}

struct seen {
    struct loop_deferred d;
    struct loop *loop;
    uint64_t first_ms, second_ms;
};

static void on_turn(struct loop_deferred *d)
{
    struct seen *s = container_of(d, struct seen, d);

    (void)loop_now_us(s->loop);
    pass(7000); /* a long turn: the clocks are compared late in it */
    s->first_ms = loop_wall_ms(s->loop);
    pass(7000);
    s->second_ms = loop_wall_ms(s->loop);
}

static void within_a_turn_it_is_the_turns_time(void **state)
{
    struct seen s = {.d.run = on_turn, .loop = *state};

    pass(5000 * 1000);
    uint64_t began_ms = wall_us / 1000;
    loop_each_turn(s.loop, &s.d);
    loop_turn(s.loop, 0);
    list_remove(&s.d.node);
    assert_true(s.first_ms == began_ms);
    assert_true(s.second_ms == began_ms);
    assert_int_equal(wall_reads, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_wall_clock_advances_without_being_read),
        TEST(a_change_is_noticed_within_a_second),
        TEST(within_a_turn_it_is_the_turns_time),
    };

    return cmocka_run_group_tests_name("wall_clock", tests, NULL, NULL);
}
