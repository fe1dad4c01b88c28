/* SPDX-License-Identifier: Apache-2.0 */
#include "common/net/fair_shares.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX = 64, CLAIMS = 256 };

/* The claims of one connection; each has a single file. */
struct client {
    struct fair_owner owner;
    struct fair_claim claims[CLAIMS];
    size_t n;
};

struct fixture {
    struct loop *loop;
    struct fair_shares shares;
    struct fair_loop *home;
    struct fair_claim *revoked[CLAIMS];
    size_t nrevoked;
};

static struct fixture *current;

static void on_revoked(struct fair_claim *c)
{
    current->revoked[current->nrevoked++] = c;
    fair_end(c);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    f->loop = loop_create(0);
    atomic_init(&f->shares.max, MAX);
    f->home = fair_loop_create(&f->shares, f->loop, on_revoked);
    current = f;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    fair_loop_destroy(f->home);
    loop_turn(f->loop, 0);
    loop_destroy(f->loop);
    assert_int_equal(atomic_load(&f->shares.used), 0);
    fair_shares_fini(&f->shares);
    free(f);
    return 0;
}

/* A connection is its address only. */
static const char connections[1024];

static struct client *client(const char *address, size_t number)
{
    struct client *c = calloc(1, sizeof(*c));
    struct addr a;

    assert_int_equal(addr_parse((struct slice){address, strlen(address)}, &a), ERR_OK);
    assert_true(number < sizeof(connections));
    c->owner = fair_owner_of(&a, &connections[number]);
    return c;
}

/* Returns how many of N further files C gets. */
static size_t take(struct fixture *f, struct client *c, size_t n)
{
    size_t got = 0;

    for (; n != 0; --n)
        got += (size_t)fair_take(f->home, &c->claims[c->n++], &c->owner, 1, true);
    return got;
}

static size_t held(const struct client *c)
{
    size_t n = 0;

    for (size_t i = 0; i < c->n; ++i)
        n += c->claims[i].node.weight;
    return n;
}

static void leave(struct client *c)
{
    for (size_t i = 0; i < c->n; ++i)
        fair_end(&c->claims[i]);
    free(c);
}

static size_t reported(struct fixture *f)
{
    size_t before = f->nrevoked;

    loop_turn(f->loop, 0);
    return f->nrevoked - before;
}

static void a_single_client_gets_all_and_nothing_of_it_is_revoked(void **state)
{
    struct fixture *f = *state;
    struct client *c = client("10.0.0.1:1", 1);

    assert_int_equal(take(f, c, MAX + 10), MAX);
    assert_int_equal(reported(f), 0);
    assert_int_equal(atomic_load(&f->shares.used), MAX);
    assert_int_equal(fair_others(f->home, &c->claims[0], &c->owner), MAX - 1);
    leave(c);
}

static void another_address_gets_its_part_from_the_one_that_has_most(void **state)
{
    struct fixture *f = *state;
    struct client *many = client("10.0.0.1:1", 1);
    struct client *some = client("10.0.0.2:1", 2);
    struct client *few = client("10.0.0.3:1", 3);

    assert_int_equal(take(f, some, 10), 10);
    assert_int_equal(take(f, many, MAX), MAX - 10);
    assert_int_equal(fair_take(f->home, &few->claims[0], &few->owner, 1, false), 0);
    assert_int_equal(take(f, few, 5), 5);
    assert_int_equal(held(many), MAX - 15);
    assert_int_equal(held(some), 10);
    assert_int_equal(reported(f), 5);
    for (size_t i = 0; i < 5; ++i)
        assert_true(f->revoked[i] >= many->claims && f->revoked[i] < many->claims + many->n);
    /* Up to half of what the largest has, and no more. */
    assert_true(take(f, few, MAX) < MAX);
    assert_int_equal(held(few), (held(many) + 1) / 2);
    assert_int_equal(atomic_load(&f->shares.used), MAX);
    (void)reported(f);
    leave(many);
    leave(some);
    leave(few);
}

static void connections_of_one_address_share_what_it_has(void **state)
{
    struct fixture *f = *state;
    struct client *many[4];
    struct client *one = client("10.0.0.1:9", 9);

    for (size_t i = 0; i < ARRAY_LEN(many); ++i) {
        many[i] = client("10.0.0.1:1", i + 1);
        (void)take(f, many[i], 16 + i);
    }
    assert_int_equal(take(f, one, 3), 3);
    assert_int_equal(reported(f), 3);
    assert_int_equal(held(one), 3);
    for (size_t i = 0; i < ARRAY_LEN(many); ++i)
        leave(many[i]);
    leave(one);
}

static void a_client_with_many_connections_has_no_more_than_with_one(void **state)
{
    struct fixture *f = *state;
    struct client *many[MAX];
    struct client *one = client("[2001:db8::1]:1", 1);

    /* Any address of a /64 is the same client. */
    for (size_t i = 0; i < MAX; ++i) {
        char text[64];
        snprintf(text, sizeof(text), "[2001:db8:0:1::%zx]:1", i + 1);
        many[i] = client(text, 100 + i);
        assert_int_equal(take(f, many[i], 1), 1);
    }
    assert_int_equal(take(f, one, 20), 20);
    assert_int_equal(reported(f), 20);
    for (size_t i = 0; i < MAX; ++i)
        leave(many[i]);
    leave(one);
}

static void equal_clients_take_nothing_from_each_other(void **state)
{
    struct fixture *f = *state;
    struct client *clients[MAX + 1];
    size_t got = 0;

    for (size_t i = 0; i <= MAX; ++i) {
        char text[64];
        snprintf(text, sizeof(text), "10.0.0.%zu:1", i + 1);
        clients[i] = client(text, i);
        got += take(f, clients[i], 1);
    }
    assert_int_equal(got, MAX);
    assert_int_equal(reported(f), 0);
    assert_int_equal(fair_others(f->home, &clients[MAX]->claims[0], &clients[MAX]->owner), 0);
    for (size_t i = 0; i <= MAX; ++i)
        leave(clients[i]);
}

static void the_largest_claim_of_bytes_is_revoked_and_a_part_is_given(void **state)
{
    struct fixture *f = *state;
    struct client *many = client("10.0.0.1:1", 1);
    struct client *one = client("10.0.0.2:1", 2);

    assert_int_equal(fair_take(f->home, &many->claims[0], &many->owner, 10, true), 10);
    assert_int_equal(fair_take(f->home, &many->claims[1], &many->owner, 40, true), 40);
    assert_int_equal(fair_take(f->home, &many->claims[0], &many->owner, 20, true), 14);
    many->n = 2;
    assert_int_equal(fair_take(f->home, &one->claims[0], &one->owner, 8, true), 8);
    one->n = 1;
    assert_int_equal(many->claims[1].node.weight, 0);
    assert_int_equal(many->claims[0].node.weight, 24);
    /* Until it is reported, a revoked claim gets nothing, and gives nothing back. */
    assert_int_equal(fair_take(f->home, &many->claims[1], &many->owner, 1, true), 0);
    fair_give_back(&many->claims[1], 40);
    fair_give_back(&one->claims[0], 3);
    assert_int_equal(atomic_load(&f->shares.used), 24 + 5);
    assert_int_equal(reported(f), 1);
    assert_ptr_equal(f->revoked[0], &many->claims[1]);
    leave(many);
    leave(one);
}

static void only_claim_of_a_client_is_not_revoked(void **state)
{
    struct fixture *f = *state;
    struct client *large = client("192.0.2.1:1", 1);
    struct client *same = client("192.0.2.1:2", 2);
    struct client *other = client("192.0.2.2:1", 3);

    assert_int_equal(fair_take(f->home, &large->claims[0], &large->owner, MAX, true), MAX);
    assert_int_equal(fair_take(f->home, &same->claims[0], &same->owner, 1, true), 0);
    assert_int_equal(fair_take(f->home, &other->claims[0], &other->owner, 1, true), 0);
    assert_int_equal(reported(f), 0);
    large->n = 1;
    leave(large);
    leave(same);
    leave(other);
}

static void a_settled_share_counts_and_is_not_revoked(void **state)
{
    struct fixture *f = *state;
    struct client *many = client("10.0.0.1:1", 1);
    struct client *one = client("10.0.0.2:1", 2);

    assert_int_equal(take(f, many, MAX), MAX);
    for (size_t i = 0; i < MAX; ++i)
        assert_true(fair_settle(&many->claims[i]));
    assert_int_equal(take(f, one, 1), 0);
    fair_end(&many->claims[0]);
    assert_int_equal(take(f, one, 1), 1);
    assert_int_equal(atomic_load(&f->shares.used), MAX);
    assert_int_equal(reported(f), 0);
    leave(many);
    leave(one);
}

static void a_claim_that_was_revoked_is_not_settled_and_not_reported(void **state)
{
    struct fixture *f = *state;
    struct client *many = client("10.0.0.1:1", 1);
    struct client *one = client("10.0.0.2:1", 2);
    size_t settled = 0;

    assert_int_equal(take(f, many, MAX), MAX);
    assert_int_equal(take(f, one, 1), 1);
    for (size_t i = 0; i < MAX; ++i)
        settled += fair_settle(&many->claims[i]);
    assert_int_equal(settled, MAX - 1);
    assert_int_equal(reported(f), 0);
    assert_int_equal(atomic_load(&f->shares.used), MAX);
    leave(many);
    leave(one);
}

static void a_claim_that_ended_is_not_reported(void **state)
{
    struct fixture *f = *state;
    struct client *many = client("10.0.0.1:1", 1);
    struct client *one = client("10.0.0.2:1", 2);

    assert_int_equal(take(f, many, MAX), MAX);
    assert_int_equal(take(f, one, 1), 1);
    leave(many);
    assert_int_equal(reported(f), 0);
    assert_int_equal(atomic_load(&f->shares.used), 1);
    /* The loop of the claims ends while a message is in flight. */
    struct client *again = client("10.0.0.1:1", 1);
    assert_int_equal(take(f, again, MAX - 1), MAX - 1);
    assert_int_equal(take(f, one, 1), 1);
    leave(again);
    leave(one);
}

static void any_order_of_claims_leaves_nothing_behind(void **state)
{
    struct fixture *f = *state;
    struct client *clients[8];
    unsigned seed = 7;

    for (size_t i = 0; i < ARRAY_LEN(clients); ++i) {
        char text[64];
        snprintf(text, sizeof(text), "10.0.0.%zu:1", i / 2);
        clients[i] = client(text, i);
        clients[i]->n = 16;
    }
    for (unsigned step = 0; step < 20000; ++step) {
        struct client *c = clients[rand_r(&seed) % ARRAY_LEN(clients)];
        struct fair_claim *claim = &c->claims[(unsigned)rand_r(&seed) % c->n];
        uint64_t n = 1 + (unsigned)rand_r(&seed) % 5;
        if (rand_r(&seed) % 3 != 0)
            assert_true(fair_take(f->home, claim, &c->owner, n, true) <= n);
        else if (rand_r(&seed) % 2 == 0)
            fair_give_back(claim, n);
        else
            fair_end(claim);
        assert_true(atomic_load(&f->shares.used) <= MAX);
        f->nrevoked = 0;
        if (step % 16 == 0)
            (void)reported(f);
        size_t sum = 0;
        for (size_t i = 0; i < ARRAY_LEN(clients); ++i)
            sum += held(clients[i]);
        assert_int_equal(sum, atomic_load(&f->shares.used));
    }
    for (size_t i = 0; i < ARRAY_LEN(clients); ++i)
        leave(clients[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_single_client_gets_all_and_nothing_of_it_is_revoked,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(another_address_gets_its_part_from_the_one_that_has_most,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(connections_of_one_address_share_what_it_has, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_client_with_many_connections_has_no_more_than_with_one,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(equal_clients_take_nothing_from_each_other, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_largest_claim_of_bytes_is_revoked_and_a_part_is_given,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(only_claim_of_a_client_is_not_revoked, setup, teardown),
        cmocka_unit_test_setup_teardown(a_settled_share_counts_and_is_not_revoked, setup, teardown),
        cmocka_unit_test_setup_teardown(a_claim_that_was_revoked_is_not_settled_and_not_reported,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_claim_that_ended_is_not_reported, setup, teardown),
        cmocka_unit_test_setup_teardown(any_order_of_claims_leaves_nothing_behind, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
