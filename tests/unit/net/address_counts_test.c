/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/text.h"
#include "common/net/address_counts.h"

static struct addr addr_from(const char *text)
{
    struct addr a;

    assert_int_equal(addr_parse(slice_of(text), &a), ERR_OK);
    return a;
}

static bool join(struct address_counts *t, const char *peer, size_t max, struct address_count **out)
{
    struct addr a = addr_from(peer);

    return address_counts_add(t, &a, max, out);
}

static void each_address_has_its_own_limit(void **state)
{
    struct address_counts *t = address_counts_create(ADDRESS_COUNTS_OF_CLIENTS);
    struct address_count *one[3];
    struct address_count *other;
    struct address_count *none;

    (void)state;
    for (size_t i = 0; i < 3; ++i) {
        assert_true(join(t, i % 2 == 0 ? "192.0.2.1:1000" : "192.0.2.1:1001", 3, &one[i]));
        assert_non_null(one[i]);
    }
    assert_false(join(t, "192.0.2.1:1002", 3, &none));
    assert_null(none);
    assert_true(join(t, "192.0.2.2:1000", 3, &other));
    address_counts_remove(t, &one[1]);
    assert_null(one[1]);
    assert_true(join(t, "192.0.2.1:1003", 3, &one[1]));
    assert_false(join(t, "192.0.2.1:1004", 3, &none));
    for (size_t i = 0; i < 3; ++i)
        address_counts_remove(t, &one[i]);
    address_counts_remove(t, &other);
    address_counts_remove(t, &none);
    address_counts_destroy(t);
}

/* Two connections, of which the second has room only if it counts as another address. */
static bool are_one_of(size_t ipv6_bytes, const char *a, const char *b)
{
    struct address_counts *t = address_counts_create(ipv6_bytes);
    struct address_count *first;
    struct address_count *second;

    assert_true(join(t, a, 1, &first));
    bool one = !join(t, b, 1, &second);
    address_counts_remove(t, &first);
    address_counts_remove(t, &second);
    address_counts_destroy(t);
    return one;
}

static bool are_one(const char *a, const char *b)
{
    return are_one_of(ADDRESS_COUNTS_OF_CLIENTS, a, b);
}

static void an_ipv6_client_is_its_64_bits(void **state)
{
    (void)state;
    assert_true(are_one("[2001:db8::1]:1", "[2001:db8::ffff:ffff:ffff:ffff]:2"));
    assert_false(are_one("[2001:db8::1]:1", "[2001:db8:0:1::1]:1"));
    assert_true(are_one("[::ffff:192.0.2.1]:1", "192.0.2.1:1"));
    assert_false(are_one("[::ffff:192.0.2.1]:1", "[::ffff:192.0.2.2]:1"));
    assert_false(are_one("[::1]:1", "127.0.0.1:1"));
    assert_false(are_one("192.0.2.1:1", "192.0.2.2:1"));
}

static void an_ipv6_host_is_all_of_its_bits(void **state)
{
    (void)state;
    assert_false(are_one_of(ADDRESS_COUNTS_OF_HOSTS, "[2001:db8::1]:1", "[2001:db8::2]:1"));
    assert_true(are_one_of(ADDRESS_COUNTS_OF_HOSTS, "[2001:db8::1]:1", "[2001:db8::1]:2"));
    assert_true(are_one_of(ADDRESS_COUNTS_OF_HOSTS, "[::ffff:192.0.2.1]:1", "192.0.2.1:1"));
}

static void unix_peers_are_not_counted(void **state)
{
    struct address_counts *t = address_counts_create(ADDRESS_COUNTS_OF_CLIENTS);
    struct address_count *one;

    (void)state;
    for (int i = 0; i < 3; ++i) {
        assert_true(join(t, "unix:/run/a.sock", 1, &one));
        assert_null(one);
    }
    address_counts_destroy(t);
}

static void at_most_one_line_a_second_states_the_number_of_the_others(void **state)
{
    struct address_counts *t = address_counts_create(ADDRESS_COUNTS_OF_CLIENTS);
    uint64_t unreported;

    (void)state;
    assert_true(address_counts_should_log(t, 5000, &unreported));
    assert_int_equal(unreported, 0);
    for (uint64_t ms = 5000; ms < 6000; ms += 250)
        assert_false(address_counts_should_log(t, ms, &unreported));
    assert_true(address_counts_should_log(t, 6000, &unreported));
    assert_int_equal(unreported, 4);
    assert_true(address_counts_should_log(t, 9000, &unreported));
    assert_int_equal(unreported, 0);
    address_counts_destroy(t);
}

enum { THREADS = 4, ROUNDS = 20000, LIMIT = 3 };

struct racer {
    pthread_t thread;
    struct address_counts *table;
    _Atomic int *inside;
    int most;
};

static void *race(void *context)
{
    struct racer *r = context;
    struct addr a = addr_from("192.0.2.1:1");

    for (int i = 0; i < ROUNDS; ++i) {
        struct address_count *one;

        if (!address_counts_add(r->table, &a, LIMIT, &one))
            continue;
        int now = atomic_fetch_add(r->inside, 1) + 1;
        if (now > r->most)
            r->most = now;
        atomic_fetch_sub(r->inside, 1);
        address_counts_remove(r->table, &one);
    }
    return NULL;
}

static void loops_together_keep_the_limit(void **state)
{
    struct address_counts *t = address_counts_create(ADDRESS_COUNTS_OF_CLIENTS);
    _Atomic int inside = 0;
    struct racer racers[THREADS] = {0};

    (void)state;
    for (size_t i = 0; i < THREADS; ++i) {
        racers[i] = (struct racer){.table = t, .inside = &inside};
        assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
    }
    int most = 0;

    /* One of them may find the others there each time. */
    for (size_t i = 0; i < THREADS; ++i) {
        pthread_join(racers[i].thread, NULL);
        most = racers[i].most > most ? racers[i].most : most;
    }
    assert_in_range(most, 1, LIMIT);
    address_counts_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_address_has_its_own_limit),
        cmocka_unit_test(an_ipv6_client_is_its_64_bits),
        cmocka_unit_test(an_ipv6_host_is_all_of_its_bits),
        cmocka_unit_test(unix_peers_are_not_counted),
        cmocka_unit_test(at_most_one_line_a_second_states_the_number_of_the_others),
        cmocka_unit_test(loops_together_keep_the_limit),
    };

    return cmocka_run_group_tests_name("address_counts", tests, NULL, NULL);
}
