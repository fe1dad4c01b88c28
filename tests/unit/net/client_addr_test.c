/* SPDX-License-Identifier: Apache-2.0 */
#include "common/net/networks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/base/text.h"

static const char *parsed(const char *text)
{
    static char out[ADDR_TEXT_MAX];
    struct addr a = {.len = 0};

    if (!client_addr_parse(slice_of(text), &a)) {
        assert_int_equal(a.len, 0);
        return "rejected";
    }
    return addr_format(&a, out);
}

static void an_element_is_an_address_with_or_without_port(void **state)
{
    (void)state;
    assert_string_equal(parsed("192.0.2.1"), "192.0.2.1:0");
    assert_string_equal(parsed("192.0.2.1:4711"), "192.0.2.1:4711");
    assert_string_equal(parsed("2001:db8::1"), "[2001:db8::1]:0");
    assert_string_equal(parsed("[2001:db8::1]"), "[2001:db8::1]:0");
    assert_string_equal(parsed("[2001:db8::1]:80"), "[2001:db8::1]:80");
    assert_string_equal(parsed("::1"), "[::1]:0");
    assert_string_equal(parsed("::ffff:192.0.2.1"), "192.0.2.1:0");
    assert_string_equal(parsed("[::ffff:c000:201]:80"), "192.0.2.1:80");
}

static void an_invalid_text_is_not_an_address(void **state)
{
    static const char *const bad[] = {"",
                                      "unknown",
                                      "_hidden",
                                      "client.example",
                                      "client.example:80",
                                      "192.0.2",
                                      "192.0.2.1:",
                                      "192.0.2.1:x",
                                      "192.0.2.256",
                                      "unix:/run/x",
                                      "[192.0.2.1]",
                                      "[::1",
                                      "::1]",
                                      "[::1]:",
                                      "[::1]80",
                                      "[[::1]]",
                                      "192.0.2.1 x",
                                      "\"::1\"",
                                      "fe80::1%eth0",
                                      ":",
                                      "[",
                                      "]",
                                      "[]",
                                      "192.0.2.1:99999"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i)
        assert_string_equal(parsed(bad[i]), "rejected");
}

/* The client address if the trusted PEER sends VALUES, the last of them being the nearest hop. */
static const char *client(const char *const *values, size_t n)
{
    static char out[ADDR_TEXT_MAX];
    struct networks trusted = {0};
    struct client_search s = {.trusted = &trusted};

    assert_int_equal(networks_add(&trusted, SLICE_LIT("10.0.0.0/8")), ERR_OK);
    assert_int_equal(networks_add(&trusted, SLICE_LIT("fd00::/8")), ERR_OK);
    assert_int_equal(addr_parse(SLICE_LIT("10.0.0.1:99"), &s.client), ERR_OK);
    while (n-- != 0 && client_addr_search(&s, slice_of(values[n])))
        ;
    networks_fini(&trusted);
    return addr_host(&s.client, out);
}

static void the_client_is_the_first_from_the_right_that_is_not_trusted(void **state)
{
    (void)state;
    assert_string_equal(client((const char *[]){"192.0.2.9"}, 1), "192.0.2.9");
    assert_string_equal(client((const char *[]){"1.1.1.1, 192.0.2.9"}, 1), "192.0.2.9");
    assert_string_equal(client((const char *[]){"1.1.1.1,192.0.2.9 , 10.0.0.2,\tfd00::7"}, 1),
                        "192.0.2.9");
    assert_string_equal(client((const char *[]){"1.1.1.1", "192.0.2.9", "10.0.0.2"}, 3),
                        "192.0.2.9");
    assert_string_equal(client((const char *[]){"192.0.2.9:81, , ,"}, 1), "192.0.2.9");
}

static void the_farthest_address_is_the_client_if_all_are_trusted(void **state)
{
    (void)state;
    assert_string_equal(client(NULL, 0), "10.0.0.1");
    assert_string_equal(client((const char *[]){"10.0.0.3, 10.0.0.2"}, 1), "10.0.0.3");
}

static void an_invalid_address_ends_the_search(void **state)
{
    (void)state;
    assert_string_equal(client((const char *[]){"192.0.2.9, unknown"}, 1), "10.0.0.1");
    assert_string_equal(client((const char *[]){"192.0.2.9, unknown, 10.0.0.2"}, 1), "10.0.0.2");
    assert_string_equal(client((const char *[]){"192.0.2.9", "unknown", "10.0.0.2"}, 3),
                        "10.0.0.2");
}

static void no_more_than_so_many_hops_are_checked(void **state)
{
    struct text list = {0};

    (void)state;
    text_add(&list, SLICE_LIT("192.0.2.9"));
    for (int i = 0; i < CLIENT_HOPS_MAX; ++i)
        text_addf(&list, ", 10.0.1.%d", i);
    assert_string_equal(client((const char *[]){text_cstr(&list)}, 1), "10.0.1.0");
    text_fini(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_element_is_an_address_with_or_without_port),
        cmocka_unit_test(an_invalid_text_is_not_an_address),
        cmocka_unit_test(the_client_is_the_first_from_the_right_that_is_not_trusted),
        cmocka_unit_test(the_farthest_address_is_the_client_if_all_are_trusted),
        cmocka_unit_test(an_invalid_address_ends_the_search),
        cmocka_unit_test(no_more_than_so_many_hops_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
