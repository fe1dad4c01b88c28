/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/text.h"
#include "common/wire/http1_head.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

/* In memory of exactly its size, so that reading past the end shows; facts are compared by length.
 */
static enum request_fault check(const char *text, struct http1_request_facts *facts)
{
    size_t len = strlen(text);
    char *exact = xmalloc(len + (len == 0));

    memcpy(exact, text, len);
    enum request_fault f = http1_request_read((struct slice){exact, len}, facts, NULL, 0);
    free(exact);
    return f;
}

static void proper_head_passes_and_its_facts_are_reported(void **state)
{
    const char *text =
        "POST /a?b HTTP/1.1\r\nhost: a.example:80\r\nContent-Length: 3\r\nX:\r\n\r\nabc";
    struct http1_request_facts facts;

    (void)state;
    assert_int_equal(http1_request_read(slice_of(text), &facts, NULL, 0), FAULT_NONE);
    assert_true(slice_is(facts.method, "POST"));
    assert_true(slice_is(facts.target, "/a?b"));
    assert_true(slice_is(facts.host, "a.example:80"));
    assert_int_equal(facts.minor_version, 1);
    assert_int_equal(facts.nheaders, 3);
    assert_int_equal(facts.bytes, strlen(text) - 3);
}

static void fields_are_reported_in_their_order_as_far_as_there_is_room(void **state)
{
    const char *text = "GET / HTTP/1.1\r\nHOST: a\r\nX-One:  1 \r\nEmpty:\r\nUpgrade: h2c\r\n"
                       "Expect: 100-continue\r\nContent-Length: 0\r\n\r\nLate: 1\r\n";
    struct http1_request_facts facts;
    struct message_field fields[8] = {0};

    (void)state;
    assert_int_equal(http1_request_read(slice_of(text), &facts, fields, ARRAY_LEN(fields)),
                     FAULT_NONE);
    assert_int_equal(facts.nheaders, 6);
    assert_true(slice_is(fields[0].name, "HOST"));
    assert_int_equal(fields[0].kind, FIELD_FRAMING);
    assert_int_equal(fields[1].kind, FIELD_OTHER);
    assert_int_equal(fields[3].kind, FIELD_HOP);
    assert_true(slice_is(fields[1].name, "X-One"));
    assert_true(slice_is(fields[1].value, "1"));
    assert_true(slice_is(fields[2].name, "Empty"));
    assert_int_equal(fields[2].value.len, 0);
    assert_null(fields[6].name.p);
    assert_true(facts.has_length);
    assert_true(facts.expects);
    assert_false(facts.upgrades);
    memset(fields, 0, sizeof(fields));
    assert_int_equal(http1_request_read(slice_of(text), &facts, fields, 2), FAULT_NONE);
    assert_int_equal(facts.nheaders, 6);
    assert_true(slice_is(fields[1].name, "X-One"));
    assert_null(fields[2].name.p);
    assert_int_equal(check("GET / HTTP/1.1\r\nHost: a\r\n\r\n", &facts), FAULT_NONE);
    assert_false(facts.has_length);
    assert_false(facts.expects);
    assert_false(facts.upgrades);
}

static void
fields_that_connection_lists_are_hop_by_hop_but_not_those_that_others_rely_on(void **state)
{
    const char *text =
        "GET / HTTP/1.1\r\nHost: a\r\nX-Private: 1\r\nCookie: a=b\r\nX-Public: 2\r\n"
        "X-Forwarded-For: 192.0.2.1\r\nX-Real-IP: 192.0.2.1\r\nX-SSL-Client-Verify: 1\r\n"
        "Resumelb-Class: c\r\nConnection: close, x-private , x-forwarded-for,cookie, host\r\n"
        "Connection: x-real-ip, resumelb-class,,x-ssl-client-verify\r\nX-private: 3\r\n\r\n";
    static const enum http_field kinds[] = {
        FIELD_FRAMING, FIELD_HOP,  FIELD_HOP,        FIELD_OTHER,      FIELD_FOR, FIELD_CLAIM,
        FIELD_HOP,     FIELD_OURS, FIELD_CONNECTION, FIELD_CONNECTION, FIELD_HOP};
    struct message_field fields[16];
    struct http1_request_facts facts;

    (void)state;
    assert_int_equal(http1_request_read(slice_of(text), &facts, fields, ARRAY_LEN(fields)),
                     FAULT_NONE);
    assert_int_equal(facts.nheaders, ARRAY_LEN(kinds));
    for (size_t i = 0; i < ARRAY_LEN(kinds); ++i)
        assert_int_equal(fields[i].kind, kinds[i]);
    assert_false(facts.keep_alive);
}

static void an_upgrade_counts_only_if_connection_lists_it(void **state)
{
    struct http1_request_facts facts;

    (void)state;
    assert_int_equal(check("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n", &facts),
                     FAULT_NONE);
    assert_false(facts.upgrades);
    assert_int_equal(check("GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\n"
                           "Upgrade: websocket\r\n\r\n",
                           &facts),
                     FAULT_NONE);
    assert_true(facts.upgrades);
    assert_true(facts.keep_alive);
}

static void connection_may_list_sixteen_options_over_all_its_fields(void **state)
{
    struct http1_request_facts facts;
    struct text head = {0};

    (void)state;
    text_add(&head, SLICE_LIT("GET / HTTP/1.1\r\nHost: a\r\nConnection: close,,keep-alive, close"));
    for (int i = 0; i < CONNECTION_OPTIONS_MAX; ++i)
        text_addf(&head, "%sx%d", i % 2 != 0 ? "," : "\r\nConnection: ", i);
    text_add(&head, SLICE_LIT("\r\n\r\n"));
    assert_int_equal(check(text_cstr(&head), &facts), FAULT_NONE);
    head.len -= 4;
    text_add(&head, SLICE_LIT(", one-more\r\n\r\n"));
    assert_int_equal(check(text_cstr(&head), &facts), FAULT_CONNECTION);
    text_fini(&head);
}

static void a_host_passes_with_the_head_as_it_does_alone(void **state)
{
    static const char *const hosts[] = {
        "a",
        "a.example:80",
        "127.0.0.1:28080",
        "127.0.0.1:65535",
        "a:65536",
        "a:99999",
        "a:000080",
        "a:",
        ":80",
        "a:8x",
        "a:80:80",
        "a_b",
        "a b",
        "a,b",
        "%41.b",
        "sixteen.bytes.de",
        "sixteen.b:1080",
        "sixteen.by:1080",
        "sixteen.byt:1080",
        "[::1]:80",
        "a/b",
        "u@a",
        "a\x80",
        "-",
    };
    /* With nothing behind it, and with a body. */
    static const char *const after[] = {"", "0123456789abcdef0123456789abcdef"};
    char text[128];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(hosts); ++i) {
        enum request_fault expected =
            http_authority_valid(slice_of(hosts[i])) ? FAULT_NONE : FAULT_AUTHORITY;

        for (size_t a = 0; a < ARRAY_LEN(after); ++a) {
            struct http1_request_facts facts;

            (void)snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: %s\r\n\r\n%s", hosts[i],
                           after[a]);
            assert_int_equal(check(text, &facts), expected);
        }
    }
}

static void old_version_may_have_no_host(void **state)
{
    struct http1_request_facts facts;

    (void)state;
    assert_int_equal(check("GET / HTTP/1.0\r\n\r\n", &facts), FAULT_NONE);
    assert_null(facts.host.p);
    assert_int_equal(check("GET http://a/ HTTP/1.1\r\nHost:\r\n\r\n", &facts), FAULT_NONE);
    assert_non_null(facts.host.p);
    assert_int_equal(http1_request_read(SLICE_NULL, &facts, NULL, 0), FAULT_REQUEST_LINE);
}

static void one_empty_line_may_come_before_a_request(void **state)
{
    static const char text[] = "\r\nGET /a HTTP/1.1\r\nHost: a\r\n\r\n";
    struct http1_request_facts facts;

    (void)state;
    assert_int_equal(check(text, &facts), FAULT_NONE);
    assert_int_equal(facts.bytes, sizeof(text) - 1);
    assert_int_equal(facts.target.len, 2);
}

static void a_connection_stays_as_its_version_and_options_state(void **state)
{
    static const struct {
        const char *text;
        bool keep_alive;
    } cases[] = {
        {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", true},
        {"GET / HTTP/1.1\r\nHost: a\r\nConnection: X\r\n\r\n", true},
        {"GET / HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n\r\n", false},
        {"GET / HTTP/1.1\r\nHost: a\r\nConnection: x\r\nConnection: close\r\n\r\n", false},
        {"GET / HTTP/1.0\r\n\r\n", false},
        {"GET / HTTP/1.0\r\nConnection: X\r\n\r\n", false},
        {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true},
        {"GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", false},
    };
    struct http1_request_facts facts;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); ++i) {
        assert_int_equal(check(cases[i].text, &facts), FAULT_NONE);
        if (facts.keep_alive != cases[i].keep_alive)
            fail_msg("%s", cases[i].text);
    }
}

static void each_fault_is_reported(void **state)
{
    static const struct {
        const char *text;
        enum request_fault fault;
    } cases[] = {
        {"", FAULT_REQUEST_LINE},
        {"GET / HTTP/1.1", FAULT_REQUEST_LINE},
        {"GET / HTTP/1.1\r\nHost: a\r\n", FAULT_HEADER},
        {"\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", FAULT_BLANK_LINE},
        {"\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", FAULT_BLANK_LINE},
        {"\r\n\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", FAULT_BLANK_LINE},
        {"\rGET / HTTP/1.1\r\nHost: a\r\n\r\n", FAULT_BLANK_LINE},
        {"GET / HTTP/1.1\r\nHost:\r\n\r\n", FAULT_AUTHORITY},
        {"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", FAULT_TARGET},
        {"GET / HTTP/0.9\r\nHost: a\r\n\r\n", FAULT_REQUEST_LINE},
        {"GET / HTTP/1.1\nHost: a\r\n\r\n", FAULT_BARE_LINE_END},
        {"GET / HTTP/1.1\r\nHost: a\n\r\n", FAULT_BARE_LINE_END},
        {"GET / HTTP/1.1\r\nHost: a\r\n\n", FAULT_BARE_LINE_END},
        {"GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n", FAULT_HEADER},
        {"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", FAULT_TARGET},
        {"GET / x HTTP/1.1\r\nHost: a\r\n\r\n", FAULT_REQUEST_LINE},
        {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", FAULT_VERSION},
        {"GET / HTTP/1.x\r\nHost: a\r\n\r\n", FAULT_REQUEST_LINE},
        {"GE(T / HTTP/1.1\r\nHost: a\r\n\r\n", FAULT_METHOD},
        {" / HTTP/1.1\r\nHost: a\r\n\r\n", FAULT_METHOD},
        {"GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n", FAULT_TARGET},
        {"GET / HTTP/1.1\r\nHost : a\r\n\r\n", FAULT_HEADER},
        {"GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n", FAULT_HEADER},
        {"GET / HTTP/1.1\r\nHost: a\r\n: y\r\n\r\n", FAULT_HEADER},
        {"GET / HTTP/1.1\r\nX: y\r\n\r\n", FAULT_HOST_MISSING},
        {"GET / HTTP/1.1\r\nHost: a\r\nHOST: a\r\n\r\n", FAULT_HOST_REPEATED},
        {"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", FAULT_AUTHORITY},
        {"P / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
         FAULT_LENGTH_REPEATED},
        {"P / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n", FAULT_LENGTH},
        {"P / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", FAULT_LENGTH},
        {"P / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
         FAULT_LENGTH_AND_CODING},
        {"P / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n",
         FAULT_CODING_REPEATED},
        {"P / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", FAULT_CODING},
        {"P / HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\n\r\n", FAULT_EXPECTATION},
        {"P / HTTP/1.1\r\nHost: a\r\nExpect:\r\n\r\n", FAULT_EXPECTATION},
        {"P / HTTP/1.1\r\nHost: a\r\nexpect: 100-Continue\r\n\r\n", FAULT_NONE},
        {"P / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", FAULT_CODING_TOO_OLD},
    };
    struct http1_request_facts facts;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); ++i) {
        enum request_fault f = check(cases[i].text, &facts);
        if (f != cases[i].fault)
            fail_msg("%s: %s", cases[i].text, request_fault_text(f));
    }
}

static void every_fault_has_a_status_and_a_text(void **state)
{
    (void)state;
    for (int f = FAULT_NONE + 1; f < FAULT_COUNT; ++f) {
        assert_true(request_fault_status((enum request_fault)f) >= 400);
        assert_true(strlen(request_fault_text((enum request_fault)f)) > 0);
    }
}

static void authorities_are_hosts_with_or_without_a_port(void **state)
{
    static const char *const good[] = {"a",     "a.example", "a:80",  "a:", "127.0.0.1",
                                       "[::1]", "[::1]:443", "a_b~c", "%41"};
    static const char *const bad[] = {
        "a/b", "u@a", "a b", "a:b",  "a:65536", "a:1:2",     "[::1",       "[]",  "[::1]x", "a\"b",
        "a<b", "a?b", "a#b", "a\\b", ":80",     ":a",        "[a]:x",      "",    "a,b",    "%4",
        "%zz", "%00", "%20", "%7F",  "[a]",     "[1.2.3.4]", "[::1%25lo]", "[::", "[::1]]"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); ++i) {
        if (!http_authority_valid(slice_of(good[i])))
            fail_msg("rejected: %s", good[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        if (http_authority_valid(slice_of(bad[i])))
            fail_msg("accepted: %s", bad[i]);
    }
    assert_false(http_authority_valid(SLICE_LIT("a\0b")));
}

static void paths_begin_with_a_slash_and_have_no_blanks(void **state)
{
    (void)state;
    assert_true(http_target_is_path(SLICE_LIT("/")));
    assert_true(http_target_is_path(SLICE_LIT("/a?b[]{}|\\^`~%00")));
    assert_false(http_target_is_path(SLICE_LIT("/a#b")));
    assert_false(http_target_is_path(SLICE_LIT("/a\"b")));
    assert_false(http_target_is_path(SLICE_LIT("/a<b>")));
    assert_false(http_target_is_path(SLICE_LIT("/\xff")));
    assert_false(http_target_is_path(SLICE_LIT("")));
    assert_false(http_target_is_path(SLICE_LIT("*")));
    assert_false(http_target_is_path(SLICE_LIT("a/")));
    assert_false(http_target_is_path(SLICE_LIT("/x HTTP/1.1")));
    assert_false(http_target_is_path(SLICE_LIT("/\r")));
    assert_false(http_target_is_path(SLICE_LIT("/\x7f")));
    assert_false(http_target_is_path(SLICE_LIT("/\0")));
}

static void absolute_targets_are_taken_apart(void **state)
{
    struct slice authority;
    struct slice path;

    (void)state;
    assert_true(http_target_split(SLICE_LIT("HTTP://a:80/b?c"), &authority, &path));
    assert_true(slice_is(authority, "a:80"));
    assert_true(slice_is(path, "/b?c"));
    assert_true(http_target_split(SLICE_LIT("https://a"), &authority, &path));
    assert_int_equal(path.len, 0);
    assert_true(http_target_split(SLICE_LIT("http://a?b/c"), &authority, &path));
    assert_true(slice_is(path, "?b/c"));
    assert_false(http_target_split(SLICE_LIT("http:///b"), &authority, &path));
    assert_false(http_target_split(SLICE_LIT("http://u@a/b"), &authority, &path));
    assert_false(http_target_split(SLICE_LIT("ftp://a/b"), &authority, &path));
    assert_false(http_target_split(SLICE_LIT("http:/"), &authority, &path));
    assert_false(http_target_split(SLICE_LIT("a:443"), &authority, &path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proper_head_passes_and_its_facts_are_reported),
        cmocka_unit_test(fields_are_reported_in_their_order_as_far_as_there_is_room),
        cmocka_unit_test(
            fields_that_connection_lists_are_hop_by_hop_but_not_those_that_others_rely_on),
        cmocka_unit_test(an_upgrade_counts_only_if_connection_lists_it),
        cmocka_unit_test(connection_may_list_sixteen_options_over_all_its_fields),
        cmocka_unit_test(a_host_passes_with_the_head_as_it_does_alone),
        cmocka_unit_test(old_version_may_have_no_host),
        cmocka_unit_test(one_empty_line_may_come_before_a_request),
        cmocka_unit_test(a_connection_stays_as_its_version_and_options_state),
        cmocka_unit_test(each_fault_is_reported),
        cmocka_unit_test(every_fault_has_a_status_and_a_text),
        cmocka_unit_test(authorities_are_hosts_with_or_without_a_port),
        cmocka_unit_test(paths_begin_with_a_slash_and_have_no_blanks),
        cmocka_unit_test(absolute_targets_are_taken_apart),
    };

    return cmocka_run_group_tests_name("http1_client_request", tests, NULL, NULL);
}
