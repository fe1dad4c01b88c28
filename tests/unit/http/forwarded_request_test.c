/* SPDX-License-Identifier: Apache-2.0 */
#include "common/http/http_request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct fixture {
    struct http_request req;
    struct forwarded_request out;
    struct text text;
};

static void add(struct fixture *f, const char *name, const char *value)
{
    http_request_add(&f->req, &f->req.fields, slice_of(name), slice_of(value));
}

static struct slice value_of(const struct message_fields *fields, const char *name)
{
    const struct message_field *found = message_fields_find(fields, slice_of(name), NULL);

    return found != NULL ? found->value : SLICE_NULL;
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    http_request_init(&f->req, NULL, 0);
    f->req.method = SLICE_LIT("GET");
    f->req.target = SLICE_LIT("/x?y=1");
    f->req.authority = SLICE_LIT("a.example");
    f->req.version = 0x101;
    f->out = (struct forwarded_request){
        .req = &f->req,
        .target = SLICE_LIT("/x?y=1"),
        .authority = SLICE_LIT("a.example"),
        .client = SLICE_LIT("192.0.2.7"),
        .dropped = FIELD_BIT(FIELD_OURS),
        .cls = SLICE_LIT("a.example"),
        .fingerprint = SLICE_LIT("0123456789abcdef"),
    };
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    text_fini(&f->text);
    http_request_fini(&f->req);
    free(f);
    return 0;
}

static const char *head(struct fixture *f)
{
    text_clear(&f->text);
    http_put_request(&f->out, &f->text);
    return text_cstr(&f->text);
}

#define TAIL "Resumelb-Class: a.example\r\nResumelb-Classifier: 0123456789abcdef\r\n"

static void a_request_is_written_again_with_its_fields_in_order(void **state)
{
    struct fixture *f = *state;

    add(f, "User-Agent", "t/1");
    add(f, "X-Odd_Name", "");
    assert_string_equal(head(f), "GET /x?y=1 HTTP/1.1\r\nHost: a.example\r\nUser-Agent: t/1\r\n"
                                 "X-Odd_Name: \r\n" TAIL "\r\n");
}

static void hop_by_hop_fields_and_framing_stay_behind(void **state)
{
    static const char *const names[] = {"Connection",
                                        "Keep-Alive",
                                        "Proxy-Connection",
                                        "TE",
                                        "Trailer",
                                        "Transfer-Encoding",
                                        "Upgrade",
                                        "Content-Length",
                                        "content_length",
                                        "Transfer_Encoding",
                                        "Expect",
                                        "HTTP2-Settings",
                                        "Proxy-Authorization"};
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_LEN(names); ++i)
        add(f, names[i], "close");
    assert_string_equal(head(f), "GET /x?y=1 HTTP/1.1\r\nHost: a.example\r\n" TAIL "\r\n");
}

static void our_own_names_are_taken_off_in_any_spelling(void **state)
{
    struct fixture *f = *state;

    add(f, "Resumelb-Class", "evil");
    add(f, "X", "1");
    add(f, "RESUMELB_FEED", "1");
    add(f, "resumelb-anything-longer-than-the-table", "1");
    message_fields_drop(&f->req.fields, FIELD_BIT(FIELD_OURS));
    assert_int_equal(f->req.fields.n, 1);
    assert_null(value_of(&f->req.fields, "resumelb-class").p);
    assert_true(slice_is(value_of(&f->req.fields, "x"), "1"));
}

static void fields_about_client_certificates_are_claims(void **state)
{
    struct fixture *f = *state;

    add(f, "X-SSL-Client-S-DN", "CN=forged");
    add(f, "x_ssl-CLIENT_verify", "SUCCESS");
    add(f, "X-SSL-Cipher", "1");
    message_fields_drop(&f->req.fields, FIELD_BIT(FIELD_OURS));
    assert_int_equal(f->req.fields.n, 3);
    message_fields_drop(&f->req.fields, FIELD_CLAIMS);
    assert_int_equal(f->req.fields.n, 1);
    assert_true(slice_is(value_of(&f->req.fields, "x-ssl-cipher"), "1"));
}

static void set_replaces_all_that_claims_where_a_request_came_from(void **state)
{
    struct fixture *f = *state;

    f->out.forwards = true;
    f->out.tls = true;
    add(f, "X-Forwarded-For", "1.2.3.4");
    add(f, "x_forwarded_for", "1.2.3.4");
    add(f, "X-Forwarded-Proto", "gopher");
    add(f, "X-Forwarded-Host", "evil");
    add(f, "Forwarded", "for=1.2.3.4");
    assert_string_equal(head(f),
                        "GET /x?y=1 HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-For: 192.0.2.7\r\n"
                        "X-Forwarded-Proto: https\r\nX-Forwarded-Host: a.example\r\n" TAIL "\r\n");
}

static void append_keeps_what_a_trusted_proxy_states_and_adds_to_the_list(void **state)
{
    struct fixture *f = *state;

    f->out.forwards = f->out.appends = true;
    add(f, "X-Forwarded-For", "1.2.3.4");
    add(f, "X-Forwarded-Proto", "https");
    add(f, "X-Forwarded-For", "5.6.7.8");
    assert_string_equal(head(f),
                        "GET /x?y=1 HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-Proto: https\r\n"
                        "X-Forwarded-For: 1.2.3.4, 5.6.7.8, 192.0.2.7\r\n"
                        "X-Forwarded-Host: a.example\r\n" TAIL "\r\n");
}

static void cookies_that_came_apart_are_one_field(void **state)
{
    struct fixture *f = *state;

    f->req.version = 0x200;
    add(f, "cookie", "a=1");
    add(f, "accept", "*/*");
    add(f, "cookie", "b=2");
    assert_string_equal(head(f), "GET /x?y=1 HTTP/1.1\r\nHost: a.example\r\ncookie: a=1; b=2\r\n"
                                 "accept: */*\r\n" TAIL "\r\n");
}

static void values_of_a_trusted_proxy_replace_our_own(void **state)
{
    struct fixture *f = *state;

    f->out.forwards = true;
    f->out.client = SLICE_LIT("198.51.100.9");
    f->out.forwarded_host = SLICE_LIT("front.example");
    f->out.tls = true;
    add(f, "X-Forwarded-For", "1.2.3.4, 198.51.100.9");
    assert_string_equal(
        head(f), "GET /x?y=1 HTTP/1.1\r\nHost: a.example\r\n"
                 "X-Forwarded-For: 198.51.100.9\r\n"
                 "X-Forwarded-Proto: https\r\nX-Forwarded-Host: front.example\r\n" TAIL "\r\n");
}

static void claims_are_dropped_in_any_spelling(void **state)
{
    static const char *const names[] = {"X-Forwarded-For", "x_forwarded_host", "X-Forwarded_Proto",
                                        "FORWARDED", "X-Request-ID"};
    struct fixture *f = *state;

    add(f, "X-First", "1");
    for (size_t i = 0; i < ARRAY_LEN(names); ++i)
        add(f, names[i], "forged");
    add(f, "X-Last", "2");
    message_fields_drop(&f->req.fields, FIELD_CLAIMS);
    assert_string_equal(head(f), "GET /x?y=1 HTTP/1.1\r\nHost: a.example\r\nX-First: 1\r\n"
                                 "X-Last: 2\r\n" TAIL "\r\n");
}

static void via_and_request_id_are_ours(void **state)
{
    struct fixture *f = *state;

    f->out.via = true;
    f->out.request_id = SLICE_LIT("id-1");
    f->req.version = 0x100;
    add(f, "Via", "1.1 outer");
    add(f, "X-Request-ID", "id-0");
    assert_string_equal(head(f), "GET /x?y=1 HTTP/1.1\r\nHost: a.example\r\nVia: 1.1 outer\r\n"
                                 "Via: 1.0 resumelb\r\nX-Request-ID: id-1\r\n" TAIL "\r\n");
}

/* As an agent sends it to a process that no load balancer is in front of. */
static void without_a_class_no_field_of_ours_is_sent(void **state)
{
    struct fixture *f = *state;

    f->out.cls = f->out.fingerprint = SLICE_NULL;
    assert_string_equal(head(f), "GET /x?y=1 HTTP/1.1\r\nHost: a.example\r\n\r\n");
}

static void fields_of_ours_pass_unless_they_are_dropped(void **state)
{
    struct fixture *f = *state;

    f->out.dropped = 0;
    f->out.cls = f->out.fingerprint = SLICE_NULL;
    add(f, "Resumelb-Class", "b.example");
    assert_string_equal(head(f), "GET /x?y=1 HTTP/1.1\r\nHost: a.example\r\n"
                                 "Resumelb-Class: b.example\r\n\r\n");
}

static void further_lines_and_an_upgrade_follow_all_else(void **state)
{
    struct fixture *f = *state;

    f->out.more = SLICE_LIT("X-More: 1\r\n");
    f->out.websocket = true;
    assert_string_equal(head(f), "GET /x?y=1 HTTP/1.1\r\nHost: a.example\r\n" TAIL
                                 "X-More: 1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
                                 "\r\n");
}

static void a_length_is_reported_for_a_body_or_none_where_one_is_expected(void **state)
{
    static const struct {
        const char *method, *body, *line;
    } rows[] = {
        {"POST", "four", "Content-Length: 4\r\n"},
        {"POST", NULL, "Content-Length: 0\r\n"},
        {"PATCH", NULL, "Content-Length: 0\r\n"},
        {"GET", NULL, ""},
        {"DELETE", NULL, ""},
        {"GET", "", "Content-Length: 0\r\n"},
        {"DELETE", "four", "Content-Length: 4\r\n"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_LEN(rows); ++i) {
        char end[80];

        snprintf(end, sizeof(end), "0123456789abcdef\r\n%s\r\n", rows[i].line);
        f->req.method = slice_of(rows[i].method);
        f->req.body = rows[i].body != NULL ? slice_of(rows[i].body) : SLICE_NULL;
        assert_non_null(strstr(head(f), end));
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_request_is_written_again_with_its_fields_in_order),
        TEST(hop_by_hop_fields_and_framing_stay_behind),
        TEST(our_own_names_are_taken_off_in_any_spelling),
        TEST(fields_about_client_certificates_are_claims),
        TEST(set_replaces_all_that_claims_where_a_request_came_from),
        TEST(append_keeps_what_a_trusted_proxy_states_and_adds_to_the_list),
        TEST(cookies_that_came_apart_are_one_field),
        TEST(values_of_a_trusted_proxy_replace_our_own),
        TEST(claims_are_dropped_in_any_spelling),
        TEST(via_and_request_id_are_ours),
        TEST(without_a_class_no_field_of_ours_is_sent),
        TEST(fields_of_ours_pass_unless_they_are_dropped),
        TEST(further_lines_and_an_upgrade_follow_all_else),
        TEST(a_length_is_reported_for_a_body_or_none_where_one_is_expected),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
