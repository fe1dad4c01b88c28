/* SPDX-License-Identifier: Apache-2.0
 *
 * The examples of the protocol's specification.
 */
#include "common/base/text.h"
#include "common/wire/proxy_line.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"
#define INET "\300\0\2\1\306\63\144\11\xc7\x38\1\xbb" /* 192.0.2.1:51000 to 198.51.100.9:443 */

static void put_binary(struct text *t, unsigned command, unsigned family, struct slice body)
{
    text_clear(t);
    text_add(t, SLICE_LIT(SIGNATURE));
    text_add_char(t, (char)command);
    text_add_char(t, (char)family);
    text_add_char(t, (char)(body.len >> 8));
    text_add_char(t, (char)body.len);
    text_add(t, body);
}

static void assert_from(const struct proxy_line *line, const char *source, const char *destination)
{
    char a[INET6_ADDRSTRLEN];
    char b[INET6_ADDRSTRLEN];
    int family = line->family == PROXY_INET ? AF_INET : AF_INET6;

    assert_non_null(inet_ntop(family, line->source, a, sizeof(a)));
    assert_non_null(inet_ntop(family, line->destination, b, sizeof(b)));
    assert_string_equal(a, source);
    assert_string_equal(b, destination);
    assert_int_equal(line->source_port, 51000);
    assert_int_equal(line->destination_port, 443);
}

static void text_names_both_ends(void **state)
{
    static const struct {
        const char *text, *source, *destination;
        enum proxy_family family;
    } cases[] = {
        {"PROXY TCP4 192.0.2.1 198.51.100.9 51000 443\r\n", "192.0.2.1", "198.51.100.9",
         PROXY_INET},
        {"PROXY TCP6 2001:db8::1 2001:DB8::2 51000 443\r\n", "2001:db8::1", "2001:db8::2",
         PROXY_INET6},
        {"PROXY TCP6 ::ffff:192.0.2.1 ::1 51000 443\r\n", "::ffff:192.0.2.1", "::1", PROXY_INET6},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); ++i) {
        struct proxy_line line;

        assert_int_equal(proxy_line_check(slice_of(cases[i].text), &line), FAULT_NONE);
        assert_int_equal(line.bytes, strlen(cases[i].text));
        assert_int_equal(line.family, cases[i].family);
        assert_from(&line, cases[i].source, cases[i].destination);
    }
}

static void text_of_unknown_connections_may_state_anything(void **state)
{
    static const char *const texts[] = {
        "PROXY UNKNOWN\r\n",
        "PROXY UNKNOWN anything at all\r\n",
        /* The longest there is, from the protocol's text. */
        ("PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff "
         "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n"),
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); ++i) {
        struct proxy_line line;

        assert_int_equal(proxy_line_check(slice_of(texts[i]), &line), FAULT_NONE);
        assert_int_equal(line.bytes, strlen(texts[i]));
        assert_int_equal(line.family, PROXY_UNKNOWN);
    }
    assert_int_equal(strlen(texts[2]), PROXY_LINE_TEXT_MAX);
}

static void text_has_one_grammar(void **state)
{
    static const struct {
        const char *text;
        enum request_fault fault;
    } cases[] = {
        {"PROXY TCP4 192.0.2.1 198.51.100.9 51000\r\n", FAULT_PROXY_LINE},
        {"PROXY TCP4 192.0.2.1 198.51.100.9 51000 443 \r\n", FAULT_PROXY_LINE},
        {"PROXY TCP4 192.0.2.1 198.51.100.9 51000 443 1\r\n", FAULT_PROXY_LINE},
        {"PROXY TCP4  192.0.2.1 198.51.100.9 51000 443\r\n", FAULT_PROXY_LINE},
        {"PROXY TCP4 192.0.2.1 198.51.100.9 051000 443\r\n", FAULT_PROXY_LINE},
        {"PROXY TCP4 192.0.2.1 198.51.100.9 51000 65536\r\n", FAULT_PROXY_LINE},
        {"PROXY TCP4 192.0.2.1 198.51.100.9 51000 +443\r\n", FAULT_PROXY_LINE},
        {"PROXY TCP4 192.0.02.1 198.51.100.9 51000 443\r\n", FAULT_PROXY_LINE},
        {"PROXY TCP4 192.0.2.256 198.51.100.9 51000 443\r\n", FAULT_PROXY_LINE},
        {"PROXY TCP4 192.0.2 198.51.100.9 51000 443\r\n", FAULT_PROXY_LINE},
        {"PROXY TCP4 ::1 ::1 51000 443\r\n", FAULT_PROXY_LINE},
        {"PROXY TCP6 192.0.2.1 198.51.100.9 51000 443\r\n", FAULT_PROXY_LINE},
        {"PROXY TCP6 fe80::1%lo ::1 51000 443\r\n", FAULT_PROXY_LINE},
        {"PROXY TCP6 1::2::3 ::1 51000 443\r\n", FAULT_PROXY_LINE},
        {"PROXY UDP4 192.0.2.1 198.51.100.9 51000 443\r\n", FAULT_PROXY_LINE},
        {"PROXY tcp4 192.0.2.1 198.51.100.9 51000 443\r\n", FAULT_PROXY_LINE},
        {"PROXY UNKNOWNS\r\n", FAULT_PROXY_LINE},
        {"PROXY \r\n", FAULT_PROXY_LINE},
        {"PROXY UNKNOWN\n", FAULT_PROXY_LINE},
        {"PROXY TCP4 192.0.2.1 198.51.100.9 51000 443\n", FAULT_PROXY_LINE},
        {"PROXY\r\n", FAULT_PROXY_MISSING},
        {"proxy TCP4", FAULT_PROXY_MISSING},
        {"GET / HTTP/1.1\r\n", FAULT_PROXY_MISSING},
        {"\r\n\r\nGET", FAULT_PROXY_MISSING},
        {"\x16\x03\x01", FAULT_PROXY_MISSING},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); ++i) {
        struct proxy_line line;
        enum request_fault f = proxy_line_check(slice_of(cases[i].text), &line);

        if (f != cases[i].fault || line.bytes != 0)
            fail_msg("%s: %s", cases[i].text, request_fault_text(f));
    }
}

static void a_line_without_end_is_rejected_at_its_107th_byte(void **state)
{
    struct text t = {0};
    struct proxy_line line;

    (void)state;
    text_addf(&t, "PROXY UNKNOWN %092d", 0);
    assert_int_equal(t.len, PROXY_LINE_TEXT_MAX - 1);
    assert_int_equal(proxy_line_check(text_slice(&t), &line), FAULT_NONE);
    assert_int_equal(line.bytes, 0);
    text_add_char(&t, '\r');
    assert_int_equal(proxy_line_check(text_slice(&t), &line), FAULT_PROXY_TOO_LONG);
    text_add_char(&t, '\n');
    assert_int_equal(proxy_line_check(text_slice(&t), &line), FAULT_PROXY_TOO_LONG);
    text_fini(&t);
}

static void binary_names_both_ends(void **state)
{
    static const char inet6[] = "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\1"
                                "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\2\xc7\x38\1\xbb";
    struct text t = {0};
    struct proxy_line line;

    (void)state;
    put_binary(&t, 0x21, 0x11, SLICE_LIT(INET));
    assert_int_equal(proxy_line_check(text_slice(&t), &line), FAULT_NONE);
    assert_int_equal(line.bytes, 28);
    assert_int_equal(line.family, PROXY_INET);
    assert_from(&line, "192.0.2.1", "198.51.100.9");
    put_binary(&t, 0x21, 0x21, (struct slice){inet6, sizeof(inet6) - 1});
    assert_int_equal(proxy_line_check(text_slice(&t), &line), FAULT_NONE);
    assert_int_equal(line.bytes, 52);
    assert_int_equal(line.family, PROXY_INET6);
    assert_from(&line, "2001:db8::1", "2001:db8::2");
    text_fini(&t);
}

static void bytes_after_the_header_are_not_consumed(void **state)
{
    struct text t = {0};
    struct proxy_line line;

    (void)state;
    put_binary(&t, 0x21, 0x11, SLICE_LIT(INET "\4\0\2xx\2\0\1a"));
    size_t header = t.len;
    text_add(&t, SLICE_LIT("\x16\x03\x01\2"));
    assert_int_equal(proxy_line_check(text_slice(&t), &line), FAULT_NONE);
    assert_int_equal(line.bytes, header);
    text_fini(&t);
}

static void proxies_have_connections_of_their_own(void **state)
{
    static const struct {
        unsigned command, family;
        struct slice body;
        enum proxy_family found;
    } cases[] = {
        {0x20, 0x00, {"", 0}, PROXY_UNKNOWN},       {0x20, 0x11, {INET, 12}, PROXY_UNKNOWN},
        {0x20, 0x77, {"\1\2\3", 3}, PROXY_UNKNOWN}, {0x21, 0x00, {"", 0}, PROXY_UNKNOWN},
        {0x21, 0x00, {"\1\2\3", 3}, PROXY_UNKNOWN},
    };
    struct text t = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); ++i) {
        struct proxy_line line;

        put_binary(&t, cases[i].command, cases[i].family, cases[i].body);
        assert_int_equal(proxy_line_check(text_slice(&t), &line), FAULT_NONE);
        assert_int_equal(line.bytes, 16 + cases[i].body.len);
        assert_int_equal(line.family, cases[i].found);
    }
    text_fini(&t);
}

static void unix_peers_are_known_as_such(void **state)
{
    char paths[216] = "/run/a.sock";
    struct text t = {0};
    struct proxy_line line;

    (void)state;
    put_binary(&t, 0x21, 0x31, (struct slice){paths, sizeof(paths)});
    assert_int_equal(proxy_line_check(text_slice(&t), &line), FAULT_NONE);
    assert_int_equal(line.family, PROXY_UNIX);
    put_binary(&t, 0x21, 0x31, (struct slice){paths, sizeof(paths) - 1});
    assert_int_equal(proxy_line_check(text_slice(&t), &line), FAULT_PROXY_LINE);
    text_fini(&t);
}

static void binary_has_one_grammar(void **state)
{
    static const struct {
        unsigned command, family;
        struct slice body;
    } cases[] = {
        {0x11, 0x11, {INET, 12}},           /* version 1 */
        {0x31, 0x11, {INET, 12}},           /* version 3 */
        {0x22, 0x11, {INET, 12}},           /* no such command */
        {0x21, 0x41, {INET, 12}},           /* no such family */
        {0x21, 0x13, {INET, 12}},           /* no such transport */
        {0x21, 0x10, {INET, 12}},           /* of no transport */
        {0x21, 0x01, {INET, 12}},           /* of no family */
        {0x21, 0x11, {INET, 11}},           /* too short */
        {0x21, 0x21, {INET, 12}},           /* too short for its family */
        {0x21, 0x11, {INET "\1", 13}},      /* half a record */
        {0x21, 0x11, {INET "\1\0\2a", 16}}, /* a record beyond the end */
        {0x21, 0x11, {INET "\3\0\1a", 16}}, /* a checksum of one byte */
        {0x21, 0x11, {INET "\3\0\4aaaa\3\0\4aaaa", 26}},
        {0x21, 0x11, {INET "\x20\0\4\1\0\0\0", 19}},                     /* TLS: too short */
        {0x21, 0x11, {INET "\x20\0\6\1\0\0\0\0\x21", 21}},               /* half a record in it */
        {0x21, 0x11, {INET "\x20\0\xa\1\0\0\0\0\x21\0\3ab", 25}},        /* one beyond its end */
        {0x21, 0x11, {INET "\x20\0\5\1\0\0\0\0\x20\0\5\0\0\0\0\0", 28}}, /* duplicate */
    };
    struct text t = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); ++i) {
        struct proxy_line line;

        put_binary(&t, cases[i].command, cases[i].family, cases[i].body);
        enum request_fault f = proxy_line_check(text_slice(&t), &line);
        if (f != FAULT_PROXY_LINE)
            fail_msg("case %zu: %s", i, request_fault_text(f));
        assert_int_equal(line.bytes, 0);
    }
    text_fini(&t);
}

static void a_proxy_states_whether_its_client_has_tls(void **state)
{
    static const struct {
        unsigned command, family;
        struct slice body;
        bool tls;
    } cases[] = {
        {0x21, 0x11, {INET, 12}, false},
        {0x21, 0x11, {INET "\x20\0\5\1\0\0\0\0", 20}, true},
        {0x21, 0x11, {INET "\x20\0\5\7\0\0\0\1", 20}, true},  /* and a certificate, no good one */
        {0x21, 0x11, {INET "\x20\0\5\6\0\0\0\0", 20}, false}, /* a certificate without TLS */
        {0x21, 0x11, {INET "\x20\0\5\0\0\0\0\0", 20}, false},
        {0x21, 0x11, {INET "\4\0\1z\x20\0\xf\1\0\0\0\0\x21\0\7TLSv1.3\4\0\1z", 38}, true},
        /* its own connection, or one that it cannot name */
        {0x20, 0x11, {INET "\x20\0\5\1\0\0\0\0", 20}, false},
        {0x21, 0x00, {"\x20\0\5\1\0\0\0\0", 8}, false},
    };
    struct text t = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); ++i) {
        struct proxy_line line;

        put_binary(&t, cases[i].command, cases[i].family, cases[i].body);
        assert_int_equal(proxy_line_check(text_slice(&t), &line), FAULT_NONE);
        assert_int_equal(line.bytes, t.len);
        if (line.tls != cases[i].tls)
            fail_msg("case %zu: tls %d", i, line.tls);
    }
    text_fini(&t);
}

static void a_length_over_the_bound_is_rejected_before_it_comes(void **state)
{
    struct text t = {0};
    struct proxy_line line;

    (void)state;
    put_binary(&t, 0x21, 0x11, SLICE_LIT(INET));
    t.p[14] = (char)((PROXY_LINE_BINARY_MAX - 16) >> 8);
    t.p[15] = (char)(PROXY_LINE_BINARY_MAX - 16);
    assert_int_equal(proxy_line_check(text_slice(&t), &line), FAULT_NONE);
    assert_int_equal(line.bytes, 0);
    ++t.p[15];
    assert_int_equal(proxy_line_check((struct slice){t.p, 16}, &line), FAULT_PROXY_TOO_LONG);
    text_fini(&t);
}

static void a_checksum_is_believed_only_when_it_fits(void **state)
{
    /* Worked out apart from the code under test, by the table-driven form of RFC 3720 B.4. */
    static const char sum[] = "\x7c\x9a\x92\xc3";
    struct text t = {0};
    struct proxy_line line;

    (void)state;
    put_binary(&t, 0x21, 0x11, SLICE_LIT(INET "\3\0\4\0\0\0\0\4\0\1z"));
    assert_int_equal(proxy_line_check(text_slice(&t), &line), FAULT_PROXY_CHECKSUM);
    memcpy(t.p + 31, sum, 4);
    assert_int_equal(proxy_line_check(text_slice(&t), &line), FAULT_NONE);
    assert_from(&line, "192.0.2.1", "198.51.100.9");
    for (size_t i = 16; i < 28; ++i) {
        ++t.p[i];
        assert_int_equal(proxy_line_check(text_slice(&t), &line), FAULT_PROXY_CHECKSUM);
        --t.p[i];
    }
    text_fini(&t);
}

static void byte_by_byte_more_is_asked_for_until_it_is_whole(void **state)
{
    struct text t[2] = {{0}, {0}};

    (void)state;
    text_add(&t[0], SLICE_LIT("PROXY TCP4 192.0.2.1 198.51.100.9 51000 443\r\n"));
    put_binary(&t[1], 0x21, 0x11, SLICE_LIT(INET "\4\0\1z"));
    for (size_t i = 0; i < ARRAY_LEN(t); ++i) {
        for (size_t n = 0; n <= t[i].len; ++n) {
            struct proxy_line line;

            assert_int_equal(proxy_line_check((struct slice){t[i].p, n}, &line), FAULT_NONE);
            assert_int_equal(line.bytes, n == t[i].len ? n : 0);
        }
        text_fini(&t[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_names_both_ends),
        cmocka_unit_test(text_of_unknown_connections_may_state_anything),
        cmocka_unit_test(text_has_one_grammar),
        cmocka_unit_test(a_line_without_end_is_rejected_at_its_107th_byte),
        cmocka_unit_test(binary_names_both_ends),
        cmocka_unit_test(bytes_after_the_header_are_not_consumed),
        cmocka_unit_test(proxies_have_connections_of_their_own),
        cmocka_unit_test(unix_peers_are_known_as_such),
        cmocka_unit_test(binary_has_one_grammar),
        cmocka_unit_test(a_proxy_states_whether_its_client_has_tls),
        cmocka_unit_test(a_length_over_the_bound_is_rejected_before_it_comes),
        cmocka_unit_test(a_checksum_is_believed_only_when_it_fits),
        cmocka_unit_test(byte_by_byte_more_is_asked_for_until_it_is_whole),
    };

    return cmocka_run_group_tests_name("proxy_line", tests, NULL, NULL);
}
