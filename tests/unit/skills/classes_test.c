/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/base/text.h"
#include "tests/support/classes_check.h"

/* An owner's entry, and an owner that counts its evicted entries. */
struct counted {
    struct class_entry base;
    uint64_t requests;
};

struct fixture {
    struct classes table;
    size_t dropped;
    char last_dropped[64];
};

static void on_drop(void *owner, struct class_entry *e)
{
    struct fixture *f = owner;

    ++f->dropped;
    snprintf(f->last_dropped, sizeof(f->last_dropped), "%.*s", SLICE_FMT(class_name(e)));
}

static void start(struct fixture *f, size_t max)
{
    *f = (struct fixture){0};
    classes_init(&f->table, sizeof(struct counted), max, on_drop, f);
}

static struct class_entry *find(struct fixture *f, const char *name)
{
    struct slice cls = slice_of(name);
    struct class_entry *e = classes_find(&f->table, cls);

    assert_ptr_equal(classes_find_hashed(&f->table, cls, class_hash(cls)), e);
    return e;
}

/* What an owner does with a request. */
static void request(struct fixture *f, const char *name)
{
    struct class_entry *e = find(f, name);

    classes_request(&f->table, e);
    if (e == NULL)
        e = classes_add(&f->table, slice_of(name));
    ++container_of(e, struct counted, base)->requests;
    classes_check(&f->table);
}

static void flood(struct fixture *f, const char *prefix, size_t n)
{
    char name[64];

    for (size_t i = 0; i < n; ++i) {
        snprintf(name, sizeof(name), "%s%zu", prefix, i);
        request(f, name);
    }
}

static void a_class_that_comes_back_in_a_later_sweep_is_known(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, 100); /* a sweep is 10 requests */
    request(&f, "a");
    request(&f, "a");
    assert_false(find(&f, "a")->known);
    flood(&f, "x", 8);
    request(&f, "a");
    assert_true(find(&f, "a")->known);
    assert_int_equal(container_of(find(&f, "a"), struct counted, base)->requests, 3);
    classes_fini(&f.table);
    assert_int_equal(f.dropped, 9);
}

static void a_flood_drops_only_classes_on_probation(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, 100);
    for (int round = 0; round < 3; ++round)
        flood(&f, "known", 80);
    assert_int_equal(f.table.nknown, 80);
    flood(&f, "new", 100000);
    assert_int_equal(f.table.nknown, 80);
    assert_int_equal(f.table.n, 100);
    assert_non_null(find(&f, "known0"));
    assert_non_null(find(&f, "new99999"));
    assert_null(find(&f, "new0"));
    classes_fini(&f.table);
}

static void classes_on_probation_use_the_room_that_known_ones_do_not_need(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, 100);
    flood(&f, "c", 100);
    assert_int_equal(f.table.n, 100);
    assert_int_equal(f.dropped, 0);
    request(&f, "one more");
    assert_string_equal(f.last_dropped, "c0");
    /* A second round over what is there makes it known, up to the room of the known. */
    for (int i = 2; i < 100; ++i) {
        char name[16];

        snprintf(name, sizeof(name), "c%d", i);
        request(&f, name);
    }
    assert_int_equal(f.table.nknown, 90);
    classes_fini(&f.table);
}

static void known_classes_drop_one_another_least_recent_first(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, 20); /* 18 known, sweeps of 2 */
    for (int round = 0; round < 2; ++round)
        flood(&f, "k", 18);
    assert_int_equal(f.table.nknown, 18);
    request(&f, "k0");
    request(&f, "new");
    request(&f, "k2");
    request(&f, "k3");
    request(&f, "new");
    assert_true(find(&f, "new")->known);
    assert_string_equal(f.last_dropped, "k1");
    assert_non_null(find(&f, "k0"));
    classes_fini(&f.table);
}

static void a_request_once_in_the_whole_room_is_enough_to_stay(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, 1000);
    request(&f, "rare");
    flood(&f, "x", 100);
    request(&f, "rare");
    assert_true(find(&f, "rare")->known);
    /* Each new class comes twice, in two sweeps, and so becomes known as well. */
    for (int i = 0; i < 50; ++i) {
        char prefix[16];

        snprintf(prefix, sizeof(prefix), "f%d-", i);
        flood(&f, prefix, 500);
        flood(&f, prefix, 499);
        request(&f, "rare");
        assert_true(find(&f, "rare")->known);
    }
    classes_fini(&f.table);
}

static void trusted_classes_are_known_while_there_is_room(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, 10);
    for (int i = 0; i < 10; ++i) {
        char name[2] = {(char)('a' + i), '\0'};

        classes_trust(&f.table, classes_add(&f.table, slice_of(name)));
        classes_check(&f.table);
    }
    assert_int_equal(f.table.nknown, 9);
    assert_int_equal(f.dropped, 0);
    classes_trust(&f.table, find(&f, "a"));
    assert_int_equal(f.table.nknown, 9);
    classes_fini(&f.table);
}

static void a_refreshed_class_is_dropped_last_and_not_known(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, 10);
    for (int i = 0; i < 10; ++i) {
        char name[2] = {(char)('a' + i), '\0'};

        classes_add(&f.table, slice_of(name));
    }
    classes_refresh(&f.table, find(&f, "a"));
    classes_check(&f.table);
    assert_int_equal(f.table.nknown, 0);
    flood(&f, "k", 9);
    assert_non_null(find(&f, "a"));
    assert_null(find(&f, "j"));
    flood(&f, "l", 1);
    assert_null(find(&f, "a"));
    classes_fini(&f.table);
}

static void a_smaller_bound_drops_what_does_not_fit(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, 100);
    for (int round = 0; round < 2; ++round)
        flood(&f, "k", 90);
    classes_set_max(&f.table, 10);
    classes_check(&f.table);
    assert_int_equal(f.table.nknown, 9);
    assert_non_null(find(&f, "k89"));
    assert_null(find(&f, "k0"));
    classes_fini(&f.table);
}

static void room_for_one_class_is_room_for_the_latest(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, 1);
    request(&f, "a");
    request(&f, "a");
    request(&f, "b");
    assert_null(find(&f, "a"));
    assert_non_null(find(&f, "b"));
    assert_int_equal(f.table.n, 1);
    classes_fini(&f.table);
}

static void names_are_bytes_of_any_kind(void **state)
{
    static const char zeros[] = "a\0b";
    struct fixture f;

    (void)state;
    start(&f, 10);
    struct class_entry *empty = classes_add(&f.table, SLICE_NULL);
    struct class_entry *odd = classes_add(&f.table, (struct slice){zeros, 3});
    assert_ptr_equal(find(&f, ""), empty);
    assert_ptr_equal(classes_find(&f.table, (struct slice){zeros, 3}), odd);
    assert_null(find(&f, "a"));
    classes_fini(&f.table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_class_that_comes_back_in_a_later_sweep_is_known),
        cmocka_unit_test(a_flood_drops_only_classes_on_probation),
        cmocka_unit_test(classes_on_probation_use_the_room_that_known_ones_do_not_need),
        cmocka_unit_test(known_classes_drop_one_another_least_recent_first),
        cmocka_unit_test(a_request_once_in_the_whole_room_is_enough_to_stay),
        cmocka_unit_test(trusted_classes_are_known_while_there_is_room),
        cmocka_unit_test(a_refreshed_class_is_dropped_last_and_not_known),
        cmocka_unit_test(a_smaller_bound_drops_what_does_not_fit),
        cmocka_unit_test(room_for_one_class_is_room_for_the_latest),
        cmocka_unit_test(names_are_bytes_of_any_kind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
