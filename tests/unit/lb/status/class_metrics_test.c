/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lb/status/class_metrics.h"

#include <stdio.h>
#include <stdlib.h>

static bool has(const struct class_metrics *m, const char *cls)
{
    return class_metrics_find(m, slice_of(cls)) != NULL;
}

static void count(struct class_metrics *m, const char *cls, double requests)
{
    struct class_figures f = {.requests = requests, .seconds = requests / 2};

    class_metrics_add(m, class_metrics_find(m, slice_of(cls)), &f);
}

struct found {
    const char *cls; /* NULL: the others */
    double requests;
    double sum;
};

static void look(void *context, const char *cls, const struct class_figures *f)
{
    struct found *found = context;

    found->sum += f->requests;
    if (cls == found->cls || (cls != NULL && found->cls != NULL && strcmp(cls, found->cls) == 0))
        found->requests = f->requests;
}

/* The exported value of CLS; -1: none. */
static double reported(const struct class_metrics *m, const char *cls)
{
    struct found f = {.cls = cls, .requests = -1};

    class_metrics_each(m, look, &f);
    return f.requests;
}

#define CHOOSE(m, limit, move, ...)                                                                \
    ({                                                                                             \
        struct class_rank ranks_[] = {__VA_ARGS__};                                                \
        class_metrics_choose(m, ranks_, ARRAY_LEN(ranks_), limit, move);                           \
    })
#define RANK(name, requests)                                                                       \
    {                                                                                              \
        SLICE_LIT(name), requests                                                                  \
    }

static void as_long_as_there_is_room_the_busiest_get_series(void **state)
{
    struct class_metrics *m = class_metrics_create();

    (void)state;
    assert_false(has(m, "a"));
    assert_true(CHOOSE(m, 2, false, RANK("a", 1), RANK("b", 3), RANK("c", 2)));
    assert_true(has(m, "b"));
    assert_true(has(m, "c"));
    assert_false(has(m, "a"));
    assert_false(CHOOSE(m, 2, false, RANK("a", 1000), RANK("b", 3), RANK("c", 2)));
    assert_false(has(m, "a"));
    class_metrics_destroy(m);
}

static void a_class_without_a_name_is_a_class(void **state)
{
    struct class_metrics *m = class_metrics_create();
    struct class_rank nameless = {SLICE_NULL, 5};

    (void)state;
    assert_true(class_metrics_choose(m, &nameless, 1, 20, true));
    assert_non_null(class_metrics_find(m, SLICE_NULL));
    assert_non_null(class_metrics_find(m, SLICE_LIT("")));
    count(m, "", 4);
    assert_true(reported(m, "") == 4);
    class_metrics_destroy(m);
}

static void a_class_gives_way_only_to_one_with_twice_its_requests_and_enough_of_them(void **state)
{
    struct class_metrics *m = class_metrics_create();

    (void)state;
    assert_true(CHOOSE(m, 1, true, RANK("a", 8)));
    assert_false(CHOOSE(m, 1, true, RANK("a", 8), RANK("b", 16)));
    assert_false(CHOOSE(m, 1, true, RANK("a", 4), RANK("b", 9.9)));
    assert_true(CHOOSE(m, 1, true, RANK("a", 8), RANK("b", 16.1)));
    assert_true(has(m, "b"));
    assert_false(has(m, "a"));
    /* And not back at once. */
    assert_false(CHOOSE(m, 1, true, RANK("a", 17), RANK("b", 16)));
    class_metrics_destroy(m);
}

static void one_busy_class_at_a_time_is_replaced_but_quiet_ones_all_at_once(void **state)
{
    struct class_metrics *m = class_metrics_create();

    (void)state;
    CHOOSE(m, 3, true, RANK("a", 1), RANK("b", 1), RANK("c", 1));
    assert_true(CHOOSE(m, 3, true, RANK("a", 1), RANK("b", 1), RANK("c", 1), RANK("x", 90),
                       RANK("y", 80), RANK("z", 70)));
    assert_true(has(m, "x"));
    assert_false(has(m, "y"));
    assert_int_equal(class_metrics_count(m), 3);
    /* a and b are no longer requested; x is unknown. */
    assert_true(CHOOSE(m, 3, true, RANK("a", 0.1), RANK("b", 0.1), RANK("c", 0.1), RANK("y", 80),
                       RANK("z", 70)));
    assert_true(has(m, "y"));
    assert_true(has(m, "z"));
    class_metrics_destroy(m);
}

static void a_flood_of_new_classes_takes_no_series_from_those_that_are_asked_for(void **state)
{
    enum { FLOOD = 5000 };
    static char names[FLOOD][16];
    struct class_rank *ranks = xcalloc(FLOOD + 1, sizeof(*ranks));
    struct class_metrics *m = class_metrics_create();

    (void)state;
    CHOOSE(m, 1, true, RANK("site", 50));
    for (size_t i = 0; i < FLOOD; ++i) {
        snprintf(names[i], sizeof(names[i]), "f%zu", i);
        ranks[i] = (struct class_rank){slice_of(names[i]), 9};
    }
    ranks[FLOOD] = (struct class_rank)RANK("site", 0.2);
    assert_false(class_metrics_choose(m, ranks, FLOOD + 1, 1, true));
    assert_true(has(m, "site"));
    class_metrics_destroy(m);
    free(ranks);
}

static void a_lower_limit_drops_the_least_and_none_leaves_none(void **state)
{
    struct class_metrics *m = class_metrics_create();

    (void)state;
    CHOOSE(m, 3, false, RANK("a", 1), RANK("b", 2), RANK("c", 3));
    assert_true(CHOOSE(m, 2, false, RANK("a", 1), RANK("b", 2), RANK("c", 3)));
    assert_false(has(m, "a"));
    assert_true(CHOOSE(m, 0, true, RANK("a", 1), RANK("b", 2), RANK("c", 3)));
    assert_int_equal(class_metrics_count(m), 0);
    assert_false(CHOOSE(m, 0, true, RANK("a", 100)));
    class_metrics_destroy(m);
}

/* Each request is counted once, and nothing ever counts less than before under the same name,
 * unless it was replaced meanwhile. */
static void counters_only_rise_and_all_together_are_what_was_counted(void **state)
{
    struct class_metrics *m = class_metrics_create();

    (void)state;
    count(m, "a", 1);
    assert_true(reported(m, NULL) == 1);
    CHOOSE(m, 1, true, RANK("a", 8));
    count(m, "a", 2);
    count(m, "b", 3);
    assert_true(reported(m, "a") == 2);
    assert_true(reported(m, NULL) == 4);
    CHOOSE(m, 1, true, RANK("a", 8), RANK("b", 100));
    assert_true(reported(m, "a") == -1);
    assert_true(reported(m, "b") == 0);
    assert_true(reported(m, NULL) == 4);
    count(m, "a", 5);
    assert_true(reported(m, NULL) == 9);
    CHOOSE(m, 1, true, RANK("a", 1000), RANK("b", 100));
    assert_true(reported(m, "a") == 0);
    count(m, "a", 0.25);
    count(m, "a", 0.5);
    assert_true(reported(m, "a") == 0.75);
    class_metrics_destroy(m);
}

static void all_series_together_count_each_request_once(void **state)
{
    struct class_metrics *m = class_metrics_create();
    struct found f = {.cls = "a"};

    (void)state;
    CHOOSE(m, 2, false, RANK("a", 1), RANK("b", 2));
    count(m, "a", 1);
    count(m, "b", 2);
    count(m, "c", 4);
    count(m, "d", 8);
    class_metrics_each(m, look, &f);
    assert_true(f.sum == 15);
    class_metrics_destroy(m);
    class_metrics_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_long_as_there_is_room_the_busiest_get_series),
        cmocka_unit_test(a_class_without_a_name_is_a_class),
        cmocka_unit_test(a_class_gives_way_only_to_one_with_twice_its_requests_and_enough_of_them),
        cmocka_unit_test(one_busy_class_at_a_time_is_replaced_but_quiet_ones_all_at_once),
        cmocka_unit_test(a_flood_of_new_classes_takes_no_series_from_those_that_are_asked_for),
        cmocka_unit_test(a_lower_limit_drops_the_least_and_none_leaves_none),
        cmocka_unit_test(counters_only_rise_and_all_together_are_what_was_counted),
        cmocka_unit_test(all_series_together_count_each_request_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
