/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/map.h"

struct entry {
    UT_hash_handle hh;
    char name[16];
};

static void a_key_has_one_hash_for_the_life_of_a_process(void **state)
{
    (void)state;
    assert_true(map_hash64("abc", 3) == map_hash64("abc", 3));
    assert_true(map_hash64("abc", 3) != map_hash64("abd", 3));
    assert_true(map_hash("abc", 3) == (unsigned)map_hash64("abc", 3));
    assert_true(map_hash64("", 0) == map_hash64("x", 0));
}

/* The hash in a process of its own, forked before this one has chosen a seed. */
static uint64_t hash_elsewhere(void)
{
    uint64_t hash = 0;
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        hash = map_hash64("abc", 3);
        _exit(write(ends[1], &hash, sizeof(hash)) == (ssize_t)sizeof(hash) ? 0 : 1);
    }
    assert_int_equal(read(ends[0], &hash, sizeof(hash)), sizeof(hash));
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(ends[0]);
    close(ends[1]);
    return hash;
}

static void another_process_hashes_otherwise(void **state)
{
    (void)state;
    assert_true(hash_elsewhere() != hash_elsewhere());
}

static void a_table_finds_what_was_put_in(void **state)
{
    struct entry *table = NULL;
    struct entry *e;
    struct entry *next;

    (void)state;
    for (int i = 0; i < 1000; ++i) {
        e = xcalloc(1, sizeof(*e));
        snprintf(e->name, sizeof(e->name), "n%d", i);
        HASH_ADD_STR(table, name, e);
    }
    HASH_FIND_STR(table, "n777", e);
    assert_non_null(e);
    assert_string_equal(e->name, "n777");
    HASH_FIND_STR(table, "n1000", e);
    assert_null(e);
    HASH_ITER (hh, table, e, next) {
        HASH_DEL(table, e);
        free(e);
    }
    assert_int_equal(HASH_COUNT(table), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* First: it needs a process without a seed. */
        cmocka_unit_test(another_process_hashes_otherwise),
        cmocka_unit_test(a_key_has_one_hash_for_the_life_of_a_process),
        cmocka_unit_test(a_table_finds_what_was_put_in),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
