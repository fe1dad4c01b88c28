/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sim/draw.h"
#include "sim/event_queue.h"

static void events_come_by_time_and_then_in_the_order_they_were_added(void **state)
{
    enum { EVENTS = 5000, TIMES = 40 };
    struct event_queue q = {0};
    struct draw d = draw_of(1);
    uint64_t last_ns = 0;
    uint64_t last_added = 0;

    (void)state;
    for (uint64_t i = 0; i < EVENTS; ++i)
        event_queue_add(&q, draw_below(&d, TIMES), NULL, i);
    for (size_t i = 0; i < EVENTS; ++i) {
        assert_non_null(event_queue_peek(&q));
        struct event e = event_queue_take(&q);

        assert_true(e.at_ns >= last_ns);
        if (i != 0 && e.at_ns == last_ns)
            assert_true(e.value > last_added);
        last_ns = e.at_ns;
        last_added = e.value;
    }
    assert_null(event_queue_peek(&q));
    event_queue_fini(&q);
}

static void what_is_added_meanwhile_takes_its_place(void **state)
{
    struct event_queue q = {0};

    (void)state;
    event_queue_add(&q, 10, NULL, 1);
    event_queue_add(&q, 30, NULL, 3);
    assert_int_equal(event_queue_take(&q).value, 1);
    event_queue_add(&q, 20, NULL, 2);
    event_queue_add(&q, 30, NULL, 4);
    assert_int_equal(event_queue_take(&q).value, 2);
    assert_int_equal(event_queue_take(&q).value, 3);
    assert_int_equal(event_queue_take(&q).value, 4);
    event_queue_fini(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_come_by_time_and_then_in_the_order_they_were_added),
        cmocka_unit_test(what_is_added_meanwhile_takes_its_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
