/* SPDX-License-Identifier: Apache-2.0 */
#include "common/wire/dns_srv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* A response with one question, "_a._tcp.x", at offset 12; and RECORDS. */
#define HEADER(records) "\0\1\201\200\0\1\0" records "\0\0\0\0"
#define QUESTION "\2_a\4_tcp\1x\0\0\41\0\1"
#define OWNER "\300\14"
#define SRV(ttl, length, rest) OWNER "\0\41\0\1" ttl "\0" length rest
#define MESSAGE(text) ((struct slice){text, sizeof(text) - 1})

static struct dns_srv found[DNS_SRV_MAX];

static size_t parse(struct slice m, uint32_t *ttl_s)
{
    size_t n = 99;

    assert_true(dns_srv_parse(m, found, &n, ttl_s));
    return n;
}

static void malformed(struct slice m)
{
    uint32_t ttl_s;
    size_t n;

    assert_false(dns_srv_parse(m, found, &n, &ttl_s));
}

static void targets_are_read_with_the_least_ttl(void **state)
{
    uint32_t ttl_s;

    (void)state;
    assert_int_equal(
        parse(MESSAGE(HEADER("\2") QUESTION SRV("\0\0\1\0", "\13", "\0\1\0\2\37\220\1b\1y\0")
                          SRV("\0\0\0\7", "\12", "\0\3\0\0\0\120\1c\300\24")),
              &ttl_s),
        2);
    assert_int_equal(ttl_s, 7);
    assert_string_equal(found[0].target, "b.y");
    assert_int_equal(found[0].priority, 1);
    assert_int_equal(found[0].weight, 2);
    assert_int_equal(found[0].port, 8080);
    /* The rest of a name may be that of the question. */
    assert_string_equal(found[1].target, "c.x");
    assert_int_equal(found[1].priority, 3);
    assert_int_equal(found[1].port, 80);
}

static void other_records_and_unusable_targets_are_left_out(void **state)
{
    uint32_t ttl_s;

    (void)state;
    assert_int_equal(parse(MESSAGE(HEADER("\0") QUESTION), &ttl_s), 0);
    assert_true(ttl_s == UINT32_MAX);
    /* A CNAME; the root, which means that there is no service; port 0; a space in the name. */
    assert_int_equal(
        parse(MESSAGE(HEADER("\4") QUESTION OWNER "\0\5\0\1\0\0\0\3\0\2\300\14" SRV(
                  "\0\0\0\7", "\7", "\0\0\0\0\0\1\0") SRV("\0\0\0\7", "\11", "\0\0\0\0\0\0\1a\0")
                          SRV("\377\0\0\0", "\12", "\0\0\0\0\0\1\2a \0")),
              &ttl_s),
        0);
    /* A time to live with the top bit is 0. */
    assert_int_equal(ttl_s, 0);
}

static void malformed_messages_are_rejected(void **state)
{
    static const char whole[] =
        HEADER("\1") QUESTION SRV("\0\0\0\7", "\13", "\0\1\0\2\37\220\1b\1y\0");
    uint32_t ttl_s;

    (void)state;
    for (size_t n = 0; n < sizeof(whole) - 1; ++n)
        malformed((struct slice){whole, n});
    assert_int_equal(parse(MESSAGE(whole), &ttl_s), 1);
    /* A pointer to itself, and one that leads forward. */
    malformed(MESSAGE(HEADER("\1") QUESTION SRV("\0\0\0\7", "\10", "\0\0\0\0\0\1\300\55")));
    malformed(MESSAGE(HEADER("\1") QUESTION SRV("\0\0\0\7", "\10", "\0\0\0\0\0\1\300\77")));
    /* A label of more than 63 bytes; a target that ends before its record. */
    malformed(MESSAGE(HEADER("\1") QUESTION SRV("\0\0\0\7", "\10", "\0\0\0\0\0\1\100a")));
    malformed(MESSAGE(HEADER("\1") QUESTION SRV("\0\0\0\7", "\11", "\0\0\0\0\0\1\0aa")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(targets_are_read_with_the_least_ttl),
        cmocka_unit_test(other_records_and_unusable_targets_are_left_out),
        cmocka_unit_test(malformed_messages_are_rejected),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
