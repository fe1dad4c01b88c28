/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/text.h"
#include "common/wire/http_field.h"

static enum http_field of(const char *name)
{
    return http_field_of(slice_of(name));
}

static void a_field_is_known_in_any_case_and_with_underscores(void **state)
{
    (void)state;
    assert_int_equal(of("Connection"), FIELD_CONNECTION);
    assert_int_equal(of("Keep_Alive"), FIELD_HOP);
    assert_int_equal(of("TRANSFER_ENCODING"), FIELD_HOP);
    assert_int_equal(of("content_length"), FIELD_HOP);
    assert_int_equal(of("x-forwarded_for"), FIELD_FOR);
    assert_int_equal(of("proxy-authorization"), FIELD_HOP);
    assert_int_equal(of("proxy-authorizations"), FIELD_OTHER);
    assert_int_equal(of("PROXY"), FIELD_HOP);
    assert_int_equal(of("accept"), FIELD_OTHER);
    assert_int_equal(of(""), FIELD_OTHER);
}

static void claims_of_clients_are_recognized_by_their_beginning(void **state)
{
    (void)state;
    assert_int_equal(of("X-Forwarded-Port"), FIELD_CLAIM);
    assert_int_equal(of("x_forwarded_ssl"), FIELD_CLAIM);
    assert_int_equal(of("X-Forwarded-Something-Longer"), FIELD_CLAIM);
    assert_int_equal(of("X-Real_IP"), FIELD_CLAIM);
    assert_int_equal(of("X-Forwarded"), FIELD_OTHER);
}

static void ours_are_recognized_by_their_beginning(void **state)
{
    (void)state;
    assert_int_equal(of("Resumelb-Class"), FIELD_OURS);
    assert_int_equal(of("resumelb_class"), FIELD_OURS);
    assert_int_equal(of("resumelb-a-name-longer-than-any-known"), FIELD_OURS);
    assert_int_equal(of("resumelb-"), FIELD_OURS);
    assert_int_equal(of("resumelb"), FIELD_OTHER);
    assert_int_equal(of("RESUMELB_FEED"), FIELD_OURS);
    assert_int_equal(of("x-resumelb-feed"), FIELD_OTHER);
}

static void fields_about_certificates_are_recognized_by_their_beginning(void **state)
{
    (void)state;
    assert_int_equal(of("X-SSL-Client-Verify"), FIELD_CLIENT_CERTIFICATE);
    assert_int_equal(of("x_ssl-CLIENT_s-dn"), FIELD_CLIENT_CERTIFICATE);
    assert_int_equal(of("X-SSL-Cipher"), FIELD_OTHER);
}

static void framing_and_searched_fields_have_one_spelling(void **state)
{
    (void)state;
    assert_int_equal(of("HOST"), FIELD_FRAMING);
    assert_int_equal(of("Content-Length"), FIELD_FRAMING);
    assert_int_equal(of("Content_Length"), FIELD_HOP);
    assert_int_equal(of("Referer"), FIELD_REFERER);
    assert_int_equal(of("User-AGENT"), FIELD_USER_AGENT);
    assert_int_equal(of("User_Agent"), FIELD_OTHER);
    assert_true((FIELD_BIT(of("host")) & FIELDS_HOP) != 0);
    assert_true((FIELD_BIT(of("connection")) & FIELDS_HOP) != 0);
    assert_true((FIELD_BIT(of("te")) & FIELDS_HOP) != 0);
    assert_true((FIELD_BIT(of("user-agent")) & FIELDS_HOP) == 0);
}

/* What NAME is with BYTE somewhere in it. */
static enum http_field spelled(const char *name, char byte)
{
    enum http_field field = of(name);

    if (byte == '_' && field == FIELD_FRAMING)
        return FIELD_HOP;
    return byte == '_' && field == FIELD_USER_AGENT ? FIELD_OTHER : field;
}

/* Of every length and first byte, and each name that is known, with one byte changed. */
static void a_kind_is_recognized_by_length_and_first_letter_only_where_it_is_other(void **state)
{
    static const char *const known[] = {"te",
                                        "date",
                                        "proxy",
                                        "host",
                                        "cookie",
                                        "referer",
                                        "user-agent",
                                        "priority",
                                        "x-ssl-client-verify",
                                        "expect",
                                        "server",
                                        "trailer",
                                        "upgrade",
                                        "forwarded",
                                        "x-real-ip",
                                        "connection",
                                        "keep-alive",
                                        "x-request-id",
                                        "content-length",
                                        "http2-settings",
                                        "x-forwarded-for",
                                        "proxy-connection",
                                        "x-forwarded-host",
                                        "x-forwarded-proto",
                                        "transfer-encoding",
                                        "proxy-authorization",
                                        "resumelb-feed",
                                        "x-forwarded-anything-else"};
    char name[48];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(known); ++i) {
        size_t len = strlen(known[i]);

        assert_int_not_equal(of(known[i]), FIELD_OTHER);
        for (size_t at = 0; at < len; ++at) {
            for (int byte = 0; byte < 256; ++byte) {
                memcpy(name, known[i], len);
                name[at] = (char)byte;
                struct slice s = {name, len};
                bool same =
                    ascii_lower((char)byte) == known[i][at] || (byte == '_' && known[i][at] == '-');

                assert_int_equal(http_field_kind(s), http_field_of(s));
                if (same)
                    assert_int_equal(http_field_of(s), spelled(known[i], (char)byte));
                else if (len < 12)
                    assert_int_equal(http_field_of(s), FIELD_OTHER);
            }
        }
    }
    for (size_t len = 0; len < sizeof(name); ++len) {
        memset(name, 'x', sizeof(name));
        for (int byte = 0; byte < 256; ++byte) {
            name[0] = (char)byte;
            assert_int_equal(http_field_kind((struct slice){name, len}), FIELD_OTHER);
            assert_int_equal(http_field_of((struct slice){name, len}), FIELD_OTHER);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_field_is_known_in_any_case_and_with_underscores),
        cmocka_unit_test(claims_of_clients_are_recognized_by_their_beginning),
        cmocka_unit_test(ours_are_recognized_by_their_beginning),
        cmocka_unit_test(fields_about_certificates_are_recognized_by_their_beginning),
        cmocka_unit_test(framing_and_searched_fields_have_one_spelling),
        cmocka_unit_test(a_kind_is_recognized_by_length_and_first_letter_only_where_it_is_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
