/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROOM = 100, MANY = 400 };

static void pieces_of_any_size_are_aligned_and_do_not_overlap(void **state)
{
    static const size_t rooms[] = {0, 1, 16, ROOM, 1024};
    static const size_t sizes[] = {1,
                                   15,
                                   16,
                                   17,
                                   100,
                                   1000,
                                   ARENA_BLOCK_BYTES / 4 + 1,
                                   ARENA_BLOCK_BYTES,
                                   3 * ARENA_BLOCK_BYTES};
    _Alignas(ARENA_ALIGN) char room[1024];
    unsigned char *taken[MANY];

    (void)state;
    for (size_t r = 0; r < ARRAY_LEN(rooms); ++r) {
        struct arena a;

        arena_init(&a, room, rooms[r]);
        for (size_t i = 0; i < MANY; ++i) {
            size_t n = sizes[i % ARRAY_LEN(sizes)];

            taken[i] = arena_take(&a, n);
            assert_int_equal((uintptr_t)taken[i] % ARENA_ALIGN, 0);
            memset(taken[i], (int)(i % 251), n);
        }
        for (size_t i = 0; i < MANY; ++i) {
            for (size_t at = 0; at < sizes[i % ARRAY_LEN(sizes)]; ++at)
                assert_int_equal(taken[i][at], i % 251);
        }
        arena_fini(&a);
    }
}

/* Where the sanitizer looks on, nothing is there: each piece has a block of its own. */
static void owners_room_is_used_up_before_there_is_a_block(void **state)
{
    _Alignas(ARENA_ALIGN) char room[ROOM];
    struct arena a;
    size_t inside = 0;

    (void)state;
    arena_init(&a, room, sizeof(room));
    bool checked = a.at == a.end;
    while (a.blocks == NULL) {
        char *p = arena_take(&a, 20);
        if (a.blocks != NULL)
            break;
        assert_true(p >= room && p + 20 <= room + sizeof(room));
        ++inside;
    }
    assert_int_equal(inside, checked ? 0 : 3);
    arena_fini(&a);
}

/* A large piece does not end the block that small ones are taken from. */
static void large_piece_has_a_block_of_its_own(void **state)
{
    _Alignas(ARENA_ALIGN) char room[ROOM];
    struct arena a;

    (void)state;
    arena_init(&a, room, sizeof(room));
    bool checked = a.at == a.end;
    char *before = arena_take(&a, 16);
    memset(arena_take(&a, ARENA_BLOCK_BYTES), 1, ARENA_BLOCK_BYTES);
    char *after = arena_take(&a, 16);
    if (!checked)
        assert_ptr_equal(after, before + 16);
    assert_non_null(a.blocks);
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_of_any_size_are_aligned_and_do_not_overlap),
        cmocka_unit_test(owners_room_is_used_up_before_there_is_a_block),
        cmocka_unit_test(large_piece_has_a_block_of_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
