/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/split_map_check.h"

enum { NAME_ROOM = 16, MANY = 100000 };

struct entry {
    struct split_node node;
    int number;
    char name[NAME_ROOM];
};

static struct slice name_of(int number, char room[NAME_ROOM])
{
    int n = snprintf(room, NAME_ROOM, "key %d", number);

    return (struct slice){room, (size_t)n};
}

static void put(struct split_map *m, struct entry *e, int number)
{
    struct slice name = name_of(number, e->name);

    e->number = number;
    assert_true(split_map_add(m, &e->node, name.len));
}

static struct entry *get(const struct split_map *m, int number)
{
    char room[NAME_ROOM];
    struct split_node *node = split_map_find(m, name_of(number, room));

    return node != NULL ? container_of(node, struct entry, node) : NULL;
}

static int setup(void **state)
{
    struct split_map *m = malloc(sizeof(*m));

    split_map_init(m, offsetof(struct entry, name) - offsetof(struct entry, node));
    *state = m;
    return 0;
}

static int teardown(void **state)
{
    struct split_map *m = *state;

    split_map_fini(m);
    free(m);
    return 0;
}

static void an_empty_one_has_nothing(void **state)
{
    const struct split_map *m = *state;

    assert_null(get(m, 1));
    assert_null(split_map_next(m, NULL));
    split_map_check(m);
}

static void an_entry_is_found_under_its_key_only(void **state)
{
    struct split_map *m = *state;
    struct entry a;
    struct entry b;

    put(m, &a, 1);
    put(m, &b, 12);
    assert_ptr_equal(get(m, 1), &a);
    assert_ptr_equal(get(m, 12), &b);
    assert_null(get(m, 2));
    assert_int_equal(split_map_key(m, &b.node).len, 6);
    split_map_remove(m, &a.node);
    assert_null(get(m, 1));
    split_map_remove(m, &b.node);
    assert_int_equal(split_map_count(m), 0);
}

static void the_map_grows_and_shrinks_a_few_buckets_at_a_time_and_loses_nothing(void **state)
{
    struct split_map *m = *state;
    struct entry *all = calloc(MANY, sizeof(*all));
    size_t buckets = m->buckets;

    for (int i = 0; i < MANY; ++i) {
        put(m, &all[i], i);
        assert_in_range(m->buckets, buckets, buckets + 1);
        buckets = m->buckets;
        if (i % 9973 == 0)
            split_map_check(m);
    }
    split_map_check(m);
    assert_true(buckets >= MANY);
    for (int i = 0; i < MANY; ++i)
        assert_ptr_equal(get(m, i), &all[i]);
    for (int i = 0; i < MANY; ++i) {
        split_map_remove(m, &all[i].node);
        assert_in_range(m->buckets, buckets - 4, buckets);
        buckets = m->buckets;
        assert_null(get(m, i));
        if (i % 9973 == 0)
            split_map_check(m);
        if (i + 1 < MANY)
            assert_ptr_equal(get(m, MANY - 1), &all[MANY - 1]);
    }
    assert_true(buckets <= 64);
    free(all);
}

static void random_comings_and_goings_leave_what_they_should(void **state)
{
    enum { KEYS = 3000, STEPS = 400000 };
    struct split_map *m = *state;
    struct entry *all = calloc(KEYS, sizeof(*all));
    bool *in = calloc(KEYS, sizeof(*in));
    unsigned random = 20261122;
    size_t n = 0;

    for (int step = 0; step < STEPS; ++step) {
        random = random * 1664525 + 1013904223;
        /* At times most come, at times most go. */
        int i = (int)((random >> 8) % KEYS);
        bool come = (random >> 28) % 4 != 0 ? (step / 20000) % 2 == 0 : (step / 20000) % 2 != 0;

        assert_ptr_equal(get(m, i), in[i] ? &all[i] : NULL);
        if (come && !in[i]) {
            put(m, &all[i], i);
            in[i] = true;
            ++n;
        } else if (!come && in[i]) {
            split_map_remove(m, &all[i].node);
            in[i] = false;
            --n;
        }
        assert_int_equal(split_map_count(m), n);
        if (step % 4999 == 0)
            split_map_check(m);
    }
    size_t walked = 0;
    for (struct split_node *at = split_map_next(m, NULL); at != NULL; at = split_map_next(m, at)) {
        assert_true(in[container_of(at, struct entry, node)->number]);
        ++walked;
    }
    assert_int_equal(walked, n);
    for (int i = 0; i < KEYS; ++i) {
        if (in[i])
            split_map_remove(m, &all[i].node);
    }
    free(in);
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_empty_one_has_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(an_entry_is_found_under_its_key_only, setup, teardown),
        cmocka_unit_test_setup_teardown(
            the_map_grows_and_shrinks_a_few_buckets_at_a_time_and_loses_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(random_comings_and_goings_leave_what_they_should, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
