/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/rules/advertise.h"

#include "common/base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct addr parsed(const char *text)
{
    struct addr a;

    assert_int_equal(addr_parse(slice_of(text), &a), ERR_OK);
    return a;
}

static bool has(const struct text_list *names, const char *name)
{
    for (size_t i = 0; i < names->n; ++i) {
        if (strcmp(names->items[i], name) == 0)
            return true;
    }
    return false;
}

static void listeners_are_registered_where_they_are(void **state)
{
    const struct addr listeners[] = {parsed("192.0.2.1:80"), parsed("unix:/run/x"),
                                     parsed("[2001:db8::1]:443"), parsed("192.0.2.1:80")};
    const struct text_list none = {0};
    struct text_list names = advertise_names(&none, listeners, 4);

    (void)state;
    assert_int_equal(names.n, 3);
    assert_string_equal(names.items[0], "192.0.2.1:80");
    assert_string_equal(names.items[1], "unix:/run/x");
    assert_string_equal(names.items[2], "[2001:db8::1]:443");
    text_list_fini(&names);
}

static void a_wildcard_is_every_address_of_the_machine(void **state)
{
    const struct addr listeners[] = {parsed("0.0.0.0:8080"), parsed("[::]:8080")};
    const struct text_list none = {0};
    struct text_list names = advertise_names(&none, listeners, 2);
    size_t v4 = 0;
    size_t v6 = 0;

    (void)state;
    for (size_t i = 0; i < names.n; ++i) {
        struct addr a = parsed(names.items[i]);

        assert_int_equal(addr_port(&a), 8080);
        v4 += a.sa.sa_family == AF_INET;
        v6 += a.sa.sa_family == AF_INET6;
    }
    assert_true(v4 > 0 && v6 > 0);
    assert_false(has(&names, "0.0.0.0:8080"));
    assert_false(has(&names, "[::]:8080"));
    /* Loopback is used only if there is no other. */
    assert_true(v4 == 1 || !has(&names, "127.0.0.1:8080"));
    text_list_fini(&names);
}

static void configured_names_are_registered_instead(void **state)
{
    char *items[] = {(char[]){"lb1.example"},   (char[]){"lb2.example:81"}, (char[]){"10.0.0.1"},
                     (char[]){"[2001:db8::1]"}, (char[]){"unix:/run/y"},    (char[]){":8888"}};
    const struct text_list configured = {items, ARRAY_LEN(items)};
    const struct addr listeners[] = {parsed("unix:/run/x"), parsed("0.0.0.0:8080")};
    struct text_list names = advertise_names(&configured, listeners, 2);

    (void)state;
    assert_true(names.n >= 6);
    assert_string_equal(names.items[0], "lb1.example:8080");
    assert_string_equal(names.items[1], "lb2.example:81");
    assert_string_equal(names.items[2], "10.0.0.1:8080");
    assert_string_equal(names.items[3], "[2001:db8::1]:8080");
    assert_string_equal(names.items[4], "unix:/run/y");
    assert_true(parsed(names.items[5]).sa.sa_family == AF_INET);
    text_list_fini(&names);
}

static void names_that_cannot_be_connected_to_are_invalid(void **state)
{
    static const char *const bad[] = {"",        ":",      ":0",   ":99999",  "0.0.0.0:80",
                                      "0.0.0.0", "a b",    "[::]", "[::]:80", "10.0.0.1:0",
                                      "::1",     "host:x", "/x",   "unix:",   "10.0.0.256"};
    static const char *const good[] = {"lb",    "lb:1", "10.0.0.1", "10.0.0.1:1",
                                       "[::1]", ":80",  "unix:/x"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        if (advertise_valid(bad[i]))
            fail_msg("%s", bad[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(good); ++i) {
        if (!advertise_valid(good[i]))
            fail_msg("%s", good[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(listeners_are_registered_where_they_are),
        cmocka_unit_test(a_wildcard_is_every_address_of_the_machine),
        cmocka_unit_test(configured_names_are_registered_instead),
        cmocka_unit_test(names_that_cannot_be_connected_to_are_invalid),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
