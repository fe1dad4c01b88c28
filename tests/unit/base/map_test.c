/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/map.h"

struct entry {
    struct map_node node;
    char name[16];
};

static void a_key_has_one_hash_for_the_life_of_a_process(void **state)
{
    (void)state;
    assert_true(map_hash("abc", 3) == map_hash("abc", 3));
    assert_true(map_hash("abc", 3) != map_hash("abd", 3));
    assert_true(map_hash("", 0) == map_hash("x", 0));
}

/* The hash in a process of its own, forked before this one has chosen a seed. */
static uint64_t hash_elsewhere(void)
{
    uint64_t hash = 0;
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        hash = map_hash("abc", 3);
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

static struct entry *find(const struct map *m, const char *name)
{
    return map_entry(map_find(m, name, strlen(name)), struct entry, node);
}

static void fill(struct map *m, struct entry *entries, int n)
{
    for (int i = 0; i < n; ++i) {
        struct entry *e = &entries[i];

        snprintf(e->name, sizeof(e->name), "n%d", i);
        map_add(m, &e->node, e->name, strlen(e->name));
    }
}

static void a_table_finds_what_was_put_in(void **state)
{
    struct entry *entries = xcalloc(1000, sizeof(*entries));
    struct map table = {0};

    (void)state;
    assert_null(find(&table, "n1"));
    fill(&table, entries, 1000);
    assert_ptr_equal(find(&table, "n777"), &entries[777]);
    assert_ptr_equal(map_find_hashed(&table, "n777", 4, map_hash("n777", 4)), &entries[777].node);
    assert_null(map_find_hashed(&table, "n1000", 5, map_hash("n1000", 5)));
    assert_int_equal(map_key(&entries[777].node).len, 4);
    assert_null(find(&table, "n1000"));
    assert_null(find(&table, "n"));
    map_remove(&table, &entries[777].node);
    assert_null(find(&table, "n777"));
    assert_int_equal(map_count(&table), 999);
    map_clear(&table);
    assert_int_equal(map_count(&table), 0);
    free(entries);
}

static void a_walk_is_in_the_order_of_arrival_and_entries_may_leave_on_the_way(void **state)
{
    struct entry entries[3];
    struct map table = {0};
    size_t at = 0;

    (void)state;
    fill(&table, entries, 3);
    map_for_each (struct entry, e, &table, node)
        assert_ptr_equal(e, &entries[at++]);
    assert_int_equal(at, 3);
    map_for_each_safe (struct entry, e, &table, node) {
        map_remove(&table, &e->node);
        memset(e, 0xff, sizeof(*e));
    }
    assert_int_equal(map_count(&table), 0);
}

/* So many of one length that some have the same 32 bits of hash: five pairs, mostly. */
static void keys_that_share_a_hash_are_distinguished(void **state)
{
    enum { KEYS = 200000 };
    struct entry *entries = xcalloc(KEYS, sizeof(*entries));
    struct map m = {0};

    (void)state;
    for (int i = 0; i < KEYS; ++i) {
        int n = snprintf(entries[i].name, sizeof(entries[i].name), "%06d-%06d", i, i);

        map_add(&m, &entries[i].node, entries[i].name, (size_t)n);
    }
    for (int i = 0; i < KEYS; ++i)
        assert_ptr_equal(find(&m, entries[i].name), &entries[i]);
    map_clear(&m);
    free(entries);
}

static void a_key_of_any_length_is_found_and_its_like_is_not(void **state)
{
    char key[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    char other[sizeof(key)];
    struct entry e;
    struct map m = {0};

    (void)state;
    memcpy(other, key, sizeof(key));
    for (size_t len = 0; len < sizeof(key); ++len) {
        map_add(&m, &e.node, key, len);
        assert_ptr_equal(map_find(&m, other, len), &e.node);
        for (size_t i = 0; i < len; ++i) {
            other[i] ^= 1;
            assert_null(map_find(&m, other, len));
            other[i] ^= 1;
        }
        map_remove(&m, &e.node);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* First: it needs a process without a seed. */
        cmocka_unit_test(another_process_hashes_otherwise),
        cmocka_unit_test(a_key_has_one_hash_for_the_life_of_a_process),
        cmocka_unit_test(keys_that_share_a_hash_are_distinguished),
        cmocka_unit_test(a_key_of_any_length_is_found_and_its_like_is_not),
        cmocka_unit_test(a_table_finds_what_was_put_in),
        cmocka_unit_test(a_walk_is_in_the_order_of_arrival_and_entries_may_leave_on_the_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
