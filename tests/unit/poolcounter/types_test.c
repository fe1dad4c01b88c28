/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <arpa/inet.h>
#include <cmocka.h>

#include "common/base/text.h"
#include "poolcounter/server_internal.h"

static void the_first_types_have_entries_and_the_rest_share_one(void **state)
{
    struct types t;

    (void)state;
    types_init(&t, 2);
    struct type_entry *a = types_get(&t, SLICE_LIT("a"));
    struct type_entry *b = types_get(&t, SLICE_LIT("b"));
    assert_ptr_not_equal(a, b);
    assert_true(slice_is(a->name, "a"));
    assert_ptr_equal(types_get(&t, SLICE_LIT("c")), &t.others);
    assert_ptr_equal(types_get(&t, SLICE_LIT("")), &t.others);
    assert_ptr_equal(types_get(&t, SLICE_LIT("a")), a);
    types_fini(&t);
}

static struct sockaddr_storage address(const char *text)
{
    struct sockaddr_storage s = {0};
    struct sockaddr_in *in = (struct sockaddr_in *)&s;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&s;

    if (inet_pton(AF_INET, text, &in->sin_addr) == 1) {
        s.ss_family = AF_INET;
    } else {
        assert_int_equal(inet_pton(AF_INET6, text, &in6->sin6_addr), 1);
        s.ss_family = AF_INET6;
    }
    return s;
}

static struct source_entry *join(struct sources *s, const char *text)
{
    struct sockaddr_storage a = address(text);

    return sources_join(s, (struct sockaddr *)&a);
}

static void clients_are_counted_by_address_whatever_the_family_states(void **state)
{
    struct sources s = {0};
    struct source_entry *a = join(&s, "10.0.0.1");

    (void)state;
    assert_ptr_equal(join(&s, "::ffff:10.0.0.1"), a);
    assert_int_equal(a->clients, 2);
    struct source_entry *b = join(&s, "10.0.0.2");
    struct source_entry *c = join(&s, "2001:db8::1");
    assert_int_equal(map_count(&s.map), 3);
    sources_leave(&s, a);
    assert_int_equal(a->clients, 1);
    sources_leave(&s, a);
    sources_leave(&s, b);
    sources_leave(&s, c);
    sources_leave(&s, NULL);
    assert_int_equal(map_count(&s.map), 0);
}

static void clients_of_unix_sockets_are_not_counted(void **state)
{
    struct sources s = {0};
    struct sockaddr a = {.sa_family = AF_UNIX};

    (void)state;
    assert_null(sources_join(&s, &a));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_types_have_entries_and_the_rest_share_one),
        cmocka_unit_test(clients_are_counted_by_address_whatever_the_family_states),
        cmocka_unit_test(clients_of_unix_sockets_are_not_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
