/* SPDX-License-Identifier: Apache-2.0
 *
 * What a worker keeps of the classes that live there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>

#include "common/base/text.h"
#include "common/skills/home_records.h"
#include "tests/support/skills_check.h"

enum { SEEN_MAX = 8, SECOND = 1000000 };
static const uint64_t START = 1000 * (uint64_t)SECOND;

struct seen {
    size_t n;
    struct {
        char cls[16], from[16];
        enum home_kind kind;
        uint64_t since_us, used_us;
        double rate;
    } of[SEEN_MAX];
};

/* Adds at most MAX records with changes after CURSOR to S; returns the cursor of the last one. */
static uint64_t see(const struct home_records *h, uint64_t cursor, size_t max, uint64_t now_us,
                    struct seen *s)
{
    const struct home_record *r = home_records_after(h, cursor);

    for (size_t n = 0; r != NULL && n < max; ++n, r = home_records_next(h, r)) {
        struct slice cls = class_name(&r->base);

        assert_true(s->n < SEEN_MAX);
        snprintf(s->of[s->n].cls, 16, "%.*s", (int)cls.len, cls.p);
        snprintf(s->of[s->n].from, 16, "%s", r->from != NULL ? r->from : "");
        s->of[s->n].kind = r->kind;
        s->of[s->n].since_us = r->since_us;
        s->of[s->n].used_us = r->used_us;
        s->of[s->n++].rate = home_record_rate(h, r, now_us);
        cursor = r->change;
    }
    return cursor;
}

static void use(struct home_records *h, const char *cls, enum home_kind kind, const char *from,
                uint64_t now_us)
{
    home_records_use(h, slice_of(cls), kind, from != NULL ? slice_of(from) : SLICE_NULL, now_us);
    home_records_check(h);
}

static void a_decision_begins_a_record_and_uses_keep_it(void **state)
{
    struct home_records *h = home_records_create(10);
    struct seen s = {0};

    (void)state;
    use(h, "a", HOME_REASSIGN, "w7", START);
    use(h, "a", HOME_USED, NULL, START + SECOND);
    see(h, 0, SIZE_MAX, START + SECOND, &s);
    assert_int_equal(s.n, 1);
    assert_string_equal(s.of[0].from, "w7");
    assert_int_equal(s.of[0].kind, HOME_REASSIGN);
    assert_int_equal(s.of[0].since_us, START);
    assert_int_equal(s.of[0].used_us, START + SECOND);
    home_records_destroy(h);
}

static void a_home_used_again_after_a_long_time_begins_again(void **state)
{
    struct home_records *h = home_records_create(10);
    struct seen s = {0};

    (void)state;
    use(h, "a", HOME_REASSIGN, "w7", START);
    use(h, "a", HOME_USED, NULL, START + 11 * SECOND);
    see(h, 0, SIZE_MAX, START + 11 * SECOND, &s);
    assert_int_equal(s.of[0].kind, HOME_USED);
    assert_string_equal(s.of[0].from, "");
    assert_int_equal(s.of[0].since_us, START + 11 * SECOND);
    home_records_destroy(h);
}

static void work_fades(void **state)
{
    struct home_records *h = home_records_create(10);
    struct seen s = {0};

    (void)state;
    use(h, "a", HOME_NEW, NULL, START);
    home_records_served(h, SLICE_LIT("a"), 2 * SECOND, START);
    home_records_served(h, SLICE_LIT("unknown"), 2 * SECOND, START);
    see(h, 0, SIZE_MAX, START, &s);
    see(h, 0, SIZE_MAX, START + 20 * SECOND, &s);
    assert_int_equal(s.n, 2);
    assert_true(fabs(s.of[0].rate - 0.1) < 1e-9);
    assert_true(fabs(s.of[1].rate - 0.1 * exp(-1)) < 1e-9);
    home_records_destroy(h);
}

static void a_reader_gets_what_has_changed_since_it_read_and_no_more_than_it_takes(void **state)
{
    struct home_records *h = home_records_create(10);
    struct seen s = {0};

    (void)state;
    use(h, "a", HOME_NEW, NULL, START);
    use(h, "b", HOME_NEW, NULL, START);
    use(h, "c", HOME_REPLICATE, NULL, START);
    uint64_t cursor = see(h, 0, 2, START, &s);
    assert_int_equal(s.n, 2);
    assert_true(home_records_decided(h, cursor));
    cursor = see(h, cursor, 2, START, &s);
    assert_int_equal(s.n, 3);
    assert_string_equal(s.of[2].cls, "c");
    assert_false(home_records_decided(h, cursor));
    assert_int_equal(see(h, cursor, 2, START, &s), cursor);
    use(h, "a", HOME_USED, NULL, START + SECOND);
    assert_false(home_records_decided(h, cursor));
    see(h, cursor, 2, START, &s);
    assert_int_equal(s.n, 4);
    assert_string_equal(s.of[3].cls, "a");
    home_records_destroy(h);
}

static void lines_contain_each_change_once_and_decisions_are_due_sooner(void **state)
{
    struct home_records *h = home_records_create(3000);
    struct text out = {0};
    uint64_t cursor = 0;
    size_t n = 0;

    (void)state;
    for (int i = 0; i < 2500; ++i) {
        char cls[16];

        snprintf(cls, sizeof(cls), "c%d", i);
        home_records_use(h, slice_of(cls), HOME_NEW, SLICE_NULL, START + (uint64_t)i);
    }
    assert_int_equal(home_lines_delay_ms(h, 0), HOME_LINES_DECIDED_MS);
    assert_int_equal(home_lines_print(h, &cursor, START + SECOND, &out), 3);
    struct slice rest = text_slice(&out);
    for (const char *end; (end = memchr(rest.p, '\n', rest.len)) != NULL;) {
        struct home_line line;
        char why[160];

        assert_int_equal(
            home_line_parse((struct slice){rest.p, (size_t)(end - rest.p)}, &line, why), ERR_OK);
        n += line.n;
        home_line_fini(&line);
        rest = (struct slice){end + 1, rest.len - (size_t)(end + 1 - rest.p)};
    }
    assert_int_equal(n, 2500);
    text_clear(&out);
    assert_int_equal(home_lines_print(h, &cursor, START + SECOND, &out), 0);
    use(h, "c7", HOME_USED, NULL, START + SECOND);
    assert_int_equal(home_lines_delay_ms(h, cursor), HOME_LINES_MS);
    assert_int_equal(home_lines_print(h, &cursor, START + SECOND, &out), 1);
    text_fini(&out);
    home_records_destroy(h);
}

static void set(struct home_records *h, const char *cls, enum home_kind kind, const char *from,
                uint64_t since_s, uint64_t used_s, double rate)
{
    home_records_set(h,
                     &(struct home_row){.cls = slice_of(cls),
                                        .kind = kind,
                                        .from = slice_of(from),
                                        .since_age_ms = since_s * 1000,
                                        .used_age_ms = used_s * 1000,
                                        .rate = rate},
                     START);
    home_records_check(h);
}

static void records_of_several_are_merged_to_the_latest_decision_that_is_in_use(void **state)
{
    struct home_records *of[3];
    struct home_row row;

    (void)state;
    for (size_t i = 0; i < 3; ++i)
        of[i] = home_records_create(10);
    const struct home_records *const all[] = {of[0], of[1], of[2]};
    assert_false(home_records_merge(all, 3, SLICE_LIT("a"), START, &row));
    set(of[0], "a", HOME_NEW, "", 9, 2, 0.1);
    set(of[1], "a", HOME_REASSIGN, "w1", 5, 4, 0.2);
    set(of[2], "a", HOME_USED, "", 3, 1, 0.3);
    assert_true(home_records_merge(all, 3, SLICE_LIT("a"), START, &row));
    assert_int_equal(row.kind, HOME_REASSIGN);
    assert_true(slice_is(row.from, "w1"));
    assert_int_equal(row.since_age_ms, 5000);
    assert_int_equal(row.used_age_ms, 1000);
    assert_true(fabs(row.rate - 0.6) < 1e-9);
    /* Decisions that their load balancers did not follow for long do not count. */
    set(of[0], "b", HOME_NEW, "", 90, 20, 0);
    set(of[1], "b", HOME_USED, "", 8, 7, 0);
    set(of[2], "b", HOME_USED, "", 6, 1, 0);
    assert_true(home_records_merge(all, 3, SLICE_LIT("b"), START, &row));
    assert_int_equal(row.kind, HOME_USED);
    assert_int_equal(row.since_age_ms, 8000);
    for (size_t i = 0; i < 3; ++i)
        home_records_destroy(of[i]);
}

static void the_number_of_records_is_bounded(void **state)
{
    struct home_records *h = home_records_create(10);

    (void)state;
    for (int i = 0; i < 1000; ++i) {
        char cls[16];

        snprintf(cls, sizeof(cls), "c%d", i);
        use(h, cls, HOME_NEW, NULL, START + (uint64_t)i);
    }
    assert_int_equal(h->classes.n, 10);
    home_records_destroy(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_decision_begins_a_record_and_uses_keep_it),
        cmocka_unit_test(a_home_used_again_after_a_long_time_begins_again),
        cmocka_unit_test(work_fades),
        cmocka_unit_test(a_reader_gets_what_has_changed_since_it_read_and_no_more_than_it_takes),
        cmocka_unit_test(lines_contain_each_change_once_and_decisions_are_due_sooner),
        cmocka_unit_test(records_of_several_are_merged_to_the_latest_decision_that_is_in_use),
        cmocka_unit_test(the_number_of_records_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
