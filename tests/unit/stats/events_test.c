/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <jansson.h>

#include "common/base/clock.h"
#include "common/stats/events.h"

/* The events after serial AFTER, LATER_MS from now. */
static json_t *events_after(const struct events *e, uint64_t after, uint64_t later_ms)
{
    struct text out = {0};

    events_json(e, after, clock_mono_us() / 1000 + later_ms, &out);
    json_t *page = json_loadb(out.p, out.len, 0, NULL);
    json_t *events = json_incref(json_object_get(page, "events"));
    json_decref(page);
    text_fini(&out);
    assert_true(json_is_array(events));
    return events;
}

static json_int_t serial_at(const json_t *events, size_t i)
{
    return json_integer_value(json_object_get(json_array_get(events, i), "id"));
}

static void an_event_is_listed_with_its_texts(void **state)
{
    struct events e = {0};
    const char *kind = NULL;
    const char *application = NULL;
    const char *subject = NULL;
    const char *text = NULL;
    int bad = 0;

    (void)state;
    events_add(&e, "ejected", true, "shop", "10.0.0.1:80", "5 failures");
    json_t *events = events_after(&e, 0, 0);
    assert_int_equal(json_array_size(events), 1);
    assert_int_equal(json_unpack(json_array_get(events, 0), "{s:s, s:b, s:s, s:s, s:s}", "kind",
                                 &kind, "bad", &bad, "application", &application, "subject",
                                 &subject, "text", &text),
                     0);
    assert_string_equal(kind, "ejected");
    assert_true(bad);
    assert_string_equal(application, "shop");
    assert_string_equal(subject, "10.0.0.1:80");
    assert_string_equal(text, "5 failures");
    json_decref(events);
    events_fini(&e);
}

static void a_full_ring_has_the_newest_events_oldest_first(void **state)
{
    struct events e = {0};

    (void)state;
    for (int i = 0; i < EVENTS_MAX + 3; ++i)
        events_add(&e, "joined", false, "shop", "worker", "");
    json_t *events = events_after(&e, 0, 0);
    assert_int_equal(json_array_size(events), EVENTS_MAX);
    assert_int_equal(serial_at(events, 0), 4);
    assert_int_equal(serial_at(events, EVENTS_MAX - 1), EVENTS_MAX + 3);
    json_decref(events);
    events_fini(&e);
}

static void known_and_old_events_are_left_out(void **state)
{
    struct events e = {0};

    (void)state;
    for (int i = 0; i < 5; ++i)
        events_add(&e, "left", false, "shop", "worker", "");
    json_t *events = events_after(&e, 3, 0);
    assert_int_equal(json_array_size(events), 2);
    assert_int_equal(serial_at(events, 0), 4);
    json_decref(events);
    events = events_after(&e, 0, EVENTS_AGE_MS + 60000);
    assert_int_equal(json_array_size(events), 0);
    json_decref(events);
    events_fini(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_is_listed_with_its_texts),
        cmocka_unit_test(a_full_ring_has_the_newest_events_oldest_first),
        cmocka_unit_test(known_and_old_events_are_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
