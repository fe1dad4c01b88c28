/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/text.h"
#include "common/net/networks.h"

static bool has(const struct networks *n, const char *peer)
{
    struct addr a;

    assert_int_equal(addr_parse(slice_of(peer), &a), ERR_OK);
    return networks_have(n, &a);
}

static struct networks made_of(const char *text)
{
    struct networks n = {0};

    assert_int_equal(networks_add(&n, slice_of(text)), ERR_OK);
    return n;
}

static void a_network_has_its_addresses_and_no_others(void **state)
{
    struct networks n = made_of("10.1.128.0/17");

    (void)state;
    assert_true(has(&n, "10.1.128.0:1"));
    assert_true(has(&n, "10.1.255.255:1"));
    assert_false(has(&n, "10.1.127.255:1"));
    assert_false(has(&n, "[::1]:1"));
    networks_fini(&n);
    n = made_of("fd00:1::/32");
    assert_true(has(&n, "[fd00:1:2::3]:1"));
    assert_false(has(&n, "[fd00:2::3]:1"));
    networks_fini(&n);
    n = made_of("0.0.0.0/0");
    assert_true(has(&n, "192.0.2.1:1"));
    networks_fini(&n);
}

static void an_address_is_a_network_of_one(void **state)
{
    struct networks n = made_of("192.0.2.7");

    (void)state;
    assert_true(has(&n, "192.0.2.7:1"));
    assert_false(has(&n, "192.0.2.6:1"));
    networks_fini(&n);
}

static void loopback_is_both_families(void **state)
{
    struct networks n = made_of("loopback");

    (void)state;
    assert_true(has(&n, "127.0.0.1:1"));
    assert_true(has(&n, "127.9.9.9:1"));
    assert_true(has(&n, "[::1]:1"));
    assert_true(has(&n, "[::ffff:127.0.0.1]:1"));
    assert_false(has(&n, "192.0.2.1:1"));
    networks_fini(&n);
}

static void ipv4_within_ipv6_counts_as_ipv4(void **state)
{
    struct networks n = made_of("10.0.0.0/8");

    (void)state;
    assert_true(has(&n, "[::ffff:10.2.3.4]:1"));
    assert_false(has(&n, "[::ffff:11.2.3.4]:1"));
    networks_fini(&n);
}

static void unix_peers_are_in_where_they_are_named(void **state)
{
    struct networks n = made_of("0.0.0.0/0");

    (void)state;
    assert_false(has(&n, "unix:/run/x"));
    networks_fini(&n);
    n = made_of("unix");
    assert_true(has(&n, "unix:/run/x"));
    assert_false(has(&n, "127.0.0.1:1"));
    networks_fini(&n);
}

static void a_network_of_ipv4_within_ipv6_is_one_of_ipv4(void **state)
{
    struct networks n = made_of("::ffff:10.0.0.0/104");

    (void)state;
    assert_true(has(&n, "10.2.3.4:1"));
    assert_true(has(&n, "[::ffff:10.2.3.4]:1"));
    assert_false(has(&n, "11.2.3.4:1"));
    networks_fini(&n);
    assert_int_equal(networks_add(&n, SLICE_LIT("::ffff:10.0.0.1/104")), ERR_RANGE);
}

static void a_list_has_an_end(void **state)
{
    struct networks n = {0};

    (void)state;
    for (size_t i = 0; i < NETWORKS_MAX; ++i)
        assert_int_equal(networks_add(&n, SLICE_LIT("10.0.0.0/8")), ERR_OK);
    assert_int_equal(networks_add(&n, SLICE_LIT("11.0.0.0/8")), ERR_TOO_LARGE);
    assert_int_equal(n.n, NETWORKS_MAX);
    networks_fini(&n);
}

static void nonsense_is_rejected(void **state)
{
    static const char *const bad[] = {
        "",           "10.0.0.0/",    "10.0.0.0/33",  "10.0.0.0/-1", "10.0.0/8",
        "fd00::/129", "host.example", "10.0.0.0/8/8", "10.0.0.0/8x", "::1/128 "};
    struct networks n = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i)
        assert_int_equal(networks_add(&n, slice_of(bad[i])), ERR_SYNTAX);
    assert_int_equal(networks_add(&n, slice_of("10.0.0.1/8")), ERR_RANGE);
    assert_int_equal(n.n, 0);
}

static void equal_networks_are_the_same_in_the_same_order(void **state)
{
    static const char *const lists[] = {"192.0.2.0/24",  "192.0.2.0/25", "192.0.3.0/24",
                                        "2001:db8::/32", "loopback",     "unix"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(lists); ++i) {
        struct networks n = made_of(lists[i]);

        for (size_t k = 0; k < ARRAY_LEN(lists); ++k) {
            struct networks other = made_of(lists[k]);

            assert_int_equal(networks_equal(&other, &n), i == k);
            networks_fini(&other);
        }
        networks_fini(&n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_networks_are_the_same_in_the_same_order),
        cmocka_unit_test(a_network_has_its_addresses_and_no_others),
        cmocka_unit_test(an_address_is_a_network_of_one),
        cmocka_unit_test(loopback_is_both_families),
        cmocka_unit_test(ipv4_within_ipv6_counts_as_ipv4),
        cmocka_unit_test(unix_peers_are_in_where_they_are_named),
        cmocka_unit_test(a_network_of_ipv4_within_ipv6_is_one_of_ipv4),
        cmocka_unit_test(a_list_has_an_end),
        cmocka_unit_test(nonsense_is_rejected),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
