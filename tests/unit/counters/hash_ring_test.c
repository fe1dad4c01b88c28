/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/text.h"
#include "common/counters/pool_counter_line.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEYS = 100000, NAMES_MAX = 8 };

static const struct slice names[NAMES_MAX] = {
    SLICE_LIT("10.0.0.1:7531"), SLICE_LIT("10.0.0.2:7531"),
    SLICE_LIT("10.0.0.3:7531"), SLICE_LIT("10.0.0.4:7531"),
    SLICE_LIT("pool-a"),        SLICE_LIT("pool-b"),
    SLICE_LIT("[::1]:7531"),    SLICE_LIT("p"),
};

struct shares {
    unsigned of[NAMES_MAX]; /* index of the server, key by key */
};

static struct slice key_of(unsigned i, char room[32])
{
    return (struct slice){room, (size_t)snprintf(room, 32, "page:%u", i)};
}

/* The index of the owner of each key; the caller frees it. */
static unsigned char *spread(const struct slice *of, size_t n, struct shares *shares)
{
    struct hash_ring *r = hash_ring_create(of, n);
    unsigned char *owner = calloc(KEYS, 1);
    char room[32];

    *shares = (struct shares){0};
    for (unsigned i = 0; i < KEYS; ++i) {
        size_t server = hash_ring_find(r, key_of(i, room));
        assert_true(server < n);
        owner[i] = (unsigned char)server;
        ++shares->of[server];
    }
    free(r);
    return owner;
}

static void shares_are_within_a_quarter_of_even(void **state)
{
    (void)state;
    for (size_t n = 1; n <= NAMES_MAX; ++n) {
        struct shares shares;
        free(spread(names, n, &shares));
        for (size_t i = 0; i < n; ++i) {
            assert_in_range(shares.of[i], KEYS / n * 3 / 4, KEYS / n * 5 / 4);
            print_message("%zu servers, %.*s: %.1f%% of even\n", n, SLICE_FMT(names[i]),
                          100.0 * shares.of[i] * (double)n / KEYS);
        }
    }
}

/* From FEWER servers to one more, and back: only keys of the one that comes or goes move. */
static void change(size_t fewer)
{
    struct shares before;
    struct shares after;
    unsigned char *old = spread(names, fewer, &before);
    unsigned char *new = spread(names, fewer + 1, &after);
    unsigned moved = 0;

    for (unsigned i = 0; i < KEYS; ++i) {
        if (old[i] == new[i])
            continue;
        assert_int_equal(new[i], fewer);
        ++moved;
    }
    assert_int_equal(moved, after.of[fewer]);
    assert_in_range(moved, KEYS / (fewer + 1) * 3 / 4, KEYS / (fewer + 1) * 5 / 4);
    print_message("%zu <-> %zu servers: %u of %d keys move\n", fewer, fewer + 1, moved, KEYS);
    free(old);
    free(new);
}

static void a_server_that_comes_or_goes_moves_its_own_share_and_no_other_key(void **state)
{
    (void)state;
    for (size_t fewer = 1; fewer < NAMES_MAX; ++fewer)
        change(fewer);
}

static void the_order_in_which_names_are_reported_does_not_matter(void **state)
{
    struct slice turned[NAMES_MAX];
    struct shares shares;

    (void)state;
    for (size_t i = 0; i < NAMES_MAX; ++i)
        turned[i] = names[(i + 3) % NAMES_MAX];
    unsigned char *a = spread(names, NAMES_MAX, &shares);
    unsigned char *b = spread(turned, NAMES_MAX, &shares);
    for (unsigned i = 0; i < KEYS; ++i)
        assert_true(slice_eq(names[a[i]], turned[b[i]]));
    free(a);
    free(b);
}

/* What load balancers of different versions and machines agree on; computed by another program. */
static void the_servers_of_keys_stay_the_same_for_ever(void **state)
{
    static const unsigned char expected[] = {3, 1, 3, 7, 0, 6, 3, 0, 3, 4, 0, 4, 0, 2, 4, 6,
                                             7, 6, 4, 4, 7, 7, 7, 6, 4, 6, 5, 6, 7, 5, 4, 2};
    struct shares shares;

    (void)state;
    unsigned char *owner = spread(names, NAMES_MAX, &shares);
    assert_memory_equal(owner, expected, sizeof(expected));
    free(owner);
}

static void a_ring_of_none_has_no_response(void **state)
{
    struct hash_ring *r = hash_ring_create(NULL, 0);

    (void)state;
    assert_true(hash_ring_find(r, SLICE_LIT("x")) == SIZE_MAX);
    free(r);
}

static void keys_may_be_empty_and_hold_any_bytes(void **state)
{
    struct hash_ring *r = hash_ring_create(names, 3);

    (void)state;
    assert_true(hash_ring_find(r, SLICE_NULL) < 3);
    assert_true(hash_ring_find(r, SLICE_LIT("\0\n\xff")) < 3);
    free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_within_a_quarter_of_even),
        cmocka_unit_test(a_server_that_comes_or_goes_moves_its_own_share_and_no_other_key),
        cmocka_unit_test(the_order_in_which_names_are_reported_does_not_matter),
        cmocka_unit_test(the_servers_of_keys_stay_the_same_for_ever),
        cmocka_unit_test(a_ring_of_none_has_no_response),
        cmocka_unit_test(keys_may_be_empty_and_hold_any_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
