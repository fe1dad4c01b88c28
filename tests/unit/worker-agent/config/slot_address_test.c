/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/text.h"
#include "worker-agent/config/settings.h"

static void expect_slot(const char *text, unsigned nslots, unsigned n, const char *expected)
{
    struct slot_address a;
    struct addr slot;
    char why[160];
    char shown[ADDR_TEXT_MAX];

    assert_int_equal(slot_address_parse(slice_of(text), nslots, &a, why), ERR_OK);
    slot_address_of(&a, n, &slot);
    assert_string_equal(addr_format(&slot, shown), expected);
    slot_address_fini(&a);
}

static void expect_error(const char *text, unsigned nslots, enum err expected)
{
    struct slot_address a;
    char why[160] = "";

    assert_int_equal(slot_address_parse(slice_of(text), nslots, &a, why), expected);
    assert_true(why[0] != '\0');
}

static void slot_n_is_n_ports_above_the_first(void **state)
{
    (void)state;
    expect_slot("127.0.0.1:9000+", 4, 0, "127.0.0.1:9000");
    expect_slot("127.0.0.1:9000+", 4, 3, "127.0.0.1:9003");
    expect_slot("[::1]:9000+", 4, 3, "[::1]:9003");
}

static void port_zero_stays_zero_for_each(void **state)
{
    (void)state;
    expect_slot("127.0.0.1:0+", 4, 3, "127.0.0.1:0");
}

static void the_number_takes_the_place_of_the_plus_in_a_unix_path(void **state)
{
    (void)state;
    expect_slot("unix:/run/slot+.sock", 20, 12, "unix:/run/slot12.sock");
    expect_slot("unix:/run/slot.sock", 1, 0, "unix:/run/slot.sock");
}

static void one_slot_needs_no_plus(void **state)
{
    (void)state;
    expect_slot("127.0.0.1:9000", 1, 0, "127.0.0.1:9000");
    expect_error("127.0.0.1:9000", 2, ERR_SYNTAX);
    expect_error("unix:/run/slot.sock", 2, ERR_SYNTAX);
}

static void addresses_that_slots_cannot_listen_on_are_rejected(void **state)
{
    (void)state;
    expect_error("127.0.0.1:65534+", 3, ERR_RANGE);
    expect_error("0.0.0.0:9000+", 2, ERR_UNSUPPORTED);
    expect_error("[::]:9000+", 2, ERR_UNSUPPORTED);
    expect_error("host.example:9000+", 2, ERR_UNSUPPORTED);
    expect_error("unix:/run/+/+", 2, ERR_SYNTAX);
    expect_error("unix:@abstract+", 2, ERR_SYNTAX);
    expect_error("9000+", 2, ERR_SYNTAX);
    expect_error("", 1, ERR_SYNTAX);
    expect_error("unix:/0123456789012345678901234567890123456789012345678901234567890123456789"
                 "0123456789012345678901234567890123+",
                 1000, ERR_TOO_LARGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slot_n_is_n_ports_above_the_first),
        cmocka_unit_test(port_zero_stays_zero_for_each),
        cmocka_unit_test(the_number_takes_the_place_of_the_plus_in_a_unix_path),
        cmocka_unit_test(one_slot_needs_no_plus),
        cmocka_unit_test(addresses_that_slots_cannot_listen_on_are_rejected),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
