/* SPDX-License-Identifier: Apache-2.0 */
#include "common/http/http2_urgency.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { STREAMS = 16 };

static struct urgency_entry entries[STREAMS];

static void activate(struct http2_urgency *q, uint32_t id, unsigned level, bool incremental)
{
    entries[id] = (struct urgency_entry){
        .id = id, .urgency = {.level = (uint8_t)level, .incremental = incremental}};
    http2_urgency_activate(q, &entries[id]);
}

/* Compares the streams of the next turns with IDS, which end with 0. */
static void check_turns(struct http2_urgency *q, const uint32_t *ids)
{
    for (; *ids != 0; ++ids) {
        struct urgency_entry *e = http2_urgency_next(q);

        assert_non_null(e);
        assert_int_equal(e->id, *ids);
    }
}

static void most_urgent_level_sends_in_the_order_of_its_streams(void **state)
{
    struct http2_urgency *q = http2_urgency_create();

    (void)state;
    assert_null(http2_urgency_next(q));
    activate(q, 5, 3, false);
    activate(q, 3, 3, false);
    activate(q, 9, 3, false);
    activate(q, 7, 6, false);
    activate(q, 11, 0, false);
    check_turns(q, (const uint32_t[]){11, 11, 0});
    http2_urgency_deactivate(&entries[11]);
    check_turns(q, (const uint32_t[]){3, 3, 3, 0});
    http2_urgency_deactivate(&entries[3]);
    check_turns(q, (const uint32_t[]){5, 5, 0});
    http2_urgency_activate(q, &entries[3]);
    http2_urgency_activate(q, &entries[3]); /* again: without effect */
    check_turns(q, (const uint32_t[]){3, 3, 0});
    http2_urgency_change(q, &entries[7], (struct urgency){.level = 1});
    check_turns(q, (const uint32_t[]){7, 0});
    for (uint32_t id = 3; id <= 9; ++id)
        http2_urgency_deactivate(&entries[id]);
    assert_null(http2_urgency_next(q));
    http2_urgency_destroy(q);
}

static void incremental_streams_share_turns_in_rotation(void **state)
{
    struct http2_urgency *q = http2_urgency_create();

    (void)state;
    activate(q, 1, 4, true);
    activate(q, 3, 4, true);
    activate(q, 5, 4, true);
    check_turns(q, (const uint32_t[]){1, 3, 5, 1, 3, 5, 0});
    activate(q, 7, 4, false);
    activate(q, 9, 4, false);
    check_turns(q, (const uint32_t[]){7, 1, 7, 3, 7, 5, 7, 1, 0});
    http2_urgency_deactivate(&entries[7]);
    http2_urgency_deactivate(&entries[1]);
    http2_urgency_deactivate(&entries[3]);
    check_turns(q, (const uint32_t[]){9, 5, 9, 5, 0});
    http2_urgency_deactivate(&entries[5]);
    check_turns(q, (const uint32_t[]){9, 9, 0});
    http2_urgency_deactivate(&entries[9]);
    http2_urgency_destroy(q);
}

static void announcements_are_taken_once_and_bounded(void **state)
{
    struct http2_urgency *q = http2_urgency_create();
    struct urgency u;

    (void)state;
    for (uint32_t i = 0; i <= URGENCY_EARLY_MAX; ++i)
        http2_urgency_announce(q, 2 * i + 1, (struct urgency){.level = 1});
    http2_urgency_announce(q, 5, (struct urgency){.level = 6, .incremental = true});
    assert_false(http2_urgency_announced(q, 1, &u)); /* the oldest was replaced */
    assert_true(http2_urgency_announced(q, 5, &u));
    assert_int_equal(u.level, 6);
    assert_true(u.incremental);
    assert_false(http2_urgency_announced(q, 5, &u));
    assert_true(http2_urgency_announced(q, 2 * URGENCY_EARLY_MAX + 1, &u));
    http2_urgency_destroy(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(most_urgent_level_sends_in_the_order_of_its_streams),
        cmocka_unit_test(incremental_streams_share_turns_in_rotation),
        cmocka_unit_test(announcements_are_taken_once_and_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
