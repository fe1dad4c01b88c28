/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/config/cpu_affinity.h"

#include "common/base/text.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* 1, 2, 3, 5 and 9. */
static cpu_set_t some(void)
{
    static const unsigned cpus[] = {1, 2, 3, 5, 9};
    cpu_set_t set;

    CPU_ZERO(&set);
    for (size_t i = 0; i < ARRAY_LEN(cpus); ++i)
        CPU_SET(cpus[i], &set);
    return set;
}

static const char *parse(const char *text, struct cpu_affinity *out)
{
    cpu_set_t allowed = some();

    return cpu_affinity_parse(slice_of(text), &allowed, out);
}

static void off_leaves_every_loop_where_it_likes(void **state)
{
    (void)state;
    struct cpu_affinity a = {.n = 3};

    assert_null(parse("off", &a));
    assert_int_equal(cpu_affinity_of(&a, 0), -1);
    assert_int_equal(cpu_affinity_of(&a, 63), -1);
}

static void auto_takes_the_allowed_ones_in_order_and_begins_again(void **state)
{
    (void)state;
    static const int wanted[] = {1, 2, 3, 5, 9, 1, 2};
    struct cpu_affinity a;

    assert_null(parse("auto", &a));
    for (unsigned i = 0; i < ARRAY_LEN(wanted); ++i)
        assert_int_equal(cpu_affinity_of(&a, i), wanted[i]);
}

static void a_list_is_taken_in_its_order(void **state)
{
    (void)state;
    static const int wanted[] = {9, 1, 2, 3, 9};
    struct cpu_affinity a;

    assert_null(parse("9,1-3", &a));
    for (unsigned i = 0; i < ARRAY_LEN(wanted); ++i)
        assert_int_equal(cpu_affinity_of(&a, i), wanted[i]);
}

static void invalid_texts_are_rejected_and_change_nothing(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        ",",
                                        "1,",
                                        ",1",
                                        "1,,2",
                                        "3-1",
                                        "1-",
                                        "-1",
                                        "1-1",
                                        "1 ,2",
                                        " 1",
                                        "on",
                                        "Auto",
                                        "0x1",
                                        "1.5",
                                        "1-2-3",
                                        "99999999999999999999",
                                        "1024"};
    struct cpu_affinity a = {.n = 1, .cpus = {5}};

    for (size_t i = 0; i < ARRAY_LEN(texts); ++i)
        assert_string_equal(parse(texts[i], &a), "expected off, auto, or CPUs as in 0,2-5");
    assert_string_equal(parse("4", &a), "names a CPU that this process may not use");
    assert_string_equal(parse("3-5", &a), "names a CPU that this process may not use");
    assert_string_equal(parse("1,2,1", &a), "duplicate CPU");
    assert_string_equal(parse("2,1-3", &a), "duplicate CPU");
    assert_int_equal(a.n, 1);
    assert_int_equal(cpu_affinity_of(&a, 0), 5);
}

static void *enter_first(void *context)
{
    const cpu_set_t *before = context;
    struct cpu_affinity a = {0};
    cpu_set_t now;

    if (cpu_affinity_parse(SLICE_LIT("auto"), before, &a) != NULL ||
        !cpu_affinity_enter(cpu_affinity_of(&a, 0)) ||
        pthread_getaffinity_np(pthread_self(), sizeof(now), &now) != 0)
        return NULL;
    return CPU_COUNT(&now) == 1 && CPU_ISSET(a.cpus[0], &now) ? context : NULL;
}

static void a_thread_enters_its_cpu_alone(void **state)
{
    (void)state;
    cpu_set_t before;
    cpu_set_t after;
    pthread_t thread;
    void *result = NULL;

    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    assert_int_equal(pthread_create(&thread, NULL, enter_first, &before), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, &before);
    assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
    assert_true(cpu_affinity_enter(-1));
    assert_false(cpu_affinity_enter(CPU_SETSIZE - 1)); /* no machine of ours has so many */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(off_leaves_every_loop_where_it_likes),
        cmocka_unit_test(auto_takes_the_allowed_ones_in_order_and_begins_again),
        cmocka_unit_test(a_list_is_taken_in_its_order),
        cmocka_unit_test(invalid_texts_are_rejected_and_change_nothing),
        cmocka_unit_test(a_thread_enters_its_cpu_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
