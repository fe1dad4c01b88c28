/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { BYTES = 488, MANY = 1000, ROUNDS = 20000 };

static void assert_filled(const char *object, char with)
{
    for (size_t i = 0; i < BYTES; ++i)
        assert_int_equal(object[i], with);
}

static void objects_are_zeroed_and_do_not_overlap(void **state)
{
    struct slab s;
    char *objects[MANY];

    (void)state;
    slab_init(&s, BYTES);
    for (int i = 0; i < MANY; ++i) {
        objects[i] = slab_alloc(&s);
        assert_int_equal((uintptr_t)objects[i] % sizeof(void *), 0);
        assert_filled(objects[i], 0);
        memset(objects[i], i % 100 + 1, BYTES);
    }
    assert_int_equal(s.objects, MANY);
    for (int i = 0; i < MANY; ++i) {
        assert_filled(objects[i], (char)(i % 100 + 1));
        slab_free(&s, objects[i]);
    }
    assert_int_equal(s.objects, 0);
    slab_fini(&s);
}

static void freed_objects_are_reused_before_the_slab_grows(void **state)
{
    struct slab s;
    char *objects[MANY];

    (void)state;
    slab_init(&s, BYTES);
    for (int i = 0; i < MANY; ++i)
        objects[i] = slab_alloc(&s);
    size_t blocks = s.blocks;
    for (int i = 0; i < MANY; i += 2)
        slab_free(&s, objects[i]);
    assert_true(s.blocks <= blocks);
    for (int i = 0; i < MANY; i += 2)
        objects[i] = slab_alloc(&s);
    assert_int_equal(s.blocks, blocks);
    for (int i = 0; i < MANY; ++i)
        slab_free(&s, objects[i]);
    slab_fini(&s);
}

static void empty_blocks_are_freed_but_one_that_may_be_wanted_again(void **state)
{
    struct slab s;
    char *objects[MANY];

    (void)state;
    slab_init(&s, BYTES);
    for (int i = 0; i < MANY; ++i)
        objects[i] = slab_alloc(&s);
    assert_true(s.blocks > 2);
    for (int i = 0; i < MANY; ++i)
        slab_free(&s, objects[i]);
    assert_true(s.blocks <= 1);
    slab_fini(&s);
    assert_int_equal(s.blocks, 0);
}

static void any_order_of_taking_and_giving_keeps_what_is_in_them(void **state)
{
    struct slab s;
    char *objects[MANY] = {NULL};
    unsigned seed = 1;
    size_t n = 0;

    (void)state;
    slab_init(&s, BYTES);
    for (int i = 0; i < ROUNDS; ++i) {
        seed = seed * 1103515245 + 12345;
        unsigned at = (seed >> 8) % MANY;

        if (objects[at] == NULL) {
            objects[at] = slab_alloc(&s);
            memset(objects[at], (int)(at % 100 + 1), BYTES);
            ++n;
        } else {
            assert_filled(objects[at], (char)(at % 100 + 1));
            slab_free(&s, objects[at]);
            objects[at] = NULL;
            --n;
        }
        assert_int_equal(s.objects, n);
    }
    for (int i = 0; i < MANY; ++i)
        if (objects[i] != NULL)
            slab_free(&s, objects[i]);
    slab_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_are_zeroed_and_do_not_overlap),
        cmocka_unit_test(freed_objects_are_reused_before_the_slab_grows),
        cmocka_unit_test(empty_blocks_are_freed_but_one_that_may_be_wanted_again),
        cmocka_unit_test(any_order_of_taking_and_giving_keeps_what_is_in_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
