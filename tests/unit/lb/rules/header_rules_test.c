/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/rules/header_rules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static char why[SETTINGS_WHY_ROOM];

static bool takes(enum header_side side, enum header_op op, const char *name, const char *value)
{
    struct header_rules *r = header_rules_create();
    bool good = header_rules_add(r, side, op, slice_of(name), slice_of(value), why);

    assert_int_equal(r->n[side], good);
    header_rules_unref(r);
    return good;
}

static void names_that_others_rely_on_are_rejected(void **state)
{
    static const char *const bad[] = {"Host",
                                      "Connection",
                                      "content-length",
                                      "Content_Length",
                                      "Transfer-Encoding",
                                      "TE",
                                      "Trailer",
                                      "Upgrade",
                                      "Keep-Alive",
                                      "Expect",
                                      "HTTP2-Settings",
                                      "Proxy-Authorization",
                                      "Resumelb-Class",
                                      "resumelb_x",
                                      "X-Forwarded-For",
                                      "X_Forwarded_Proto",
                                      "X-Forwarded-Host",
                                      "X-Request-ID",
                                      "Via",
                                      "Max-Forwards"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        for (int op = HEADER_REMOVE; op <= HEADER_ADD; ++op) {
            assert_false(takes(HEADER_REQUEST, op, bad[i], "x"));
            assert_false(takes(HEADER_RESPONSE, op, bad[i], "x"));
        }
    }
    assert_false(takes(HEADER_RESPONSE, HEADER_SET, "Date", "x"));
    assert_false(takes(HEADER_RESPONSE, HEADER_SET, "Server", "x"));
    assert_true(takes(HEADER_RESPONSE, HEADER_REMOVE, "Server", ""));
    assert_true(takes(HEADER_REQUEST, HEADER_SET, "Cookie", "x"));
}

static void names_are_tokens_and_bounded(void **state)
{
    char longest[HEADER_NAME_MAX + 2];

    (void)state;
    memset(longest, 'x', sizeof(longest));
    longest[HEADER_NAME_MAX] = '\0';
    assert_true(takes(HEADER_REQUEST, HEADER_REMOVE, longest, ""));
    longest[HEADER_NAME_MAX] = 'x';
    longest[HEADER_NAME_MAX + 1] = '\0';
    assert_false(takes(HEADER_REQUEST, HEADER_REMOVE, longest, ""));
    assert_false(takes(HEADER_REQUEST, HEADER_REMOVE, "", ""));
    assert_false(takes(HEADER_REQUEST, HEADER_REMOVE, "X Y", ""));
    assert_false(takes(HEADER_REQUEST, HEADER_REMOVE, "X:", ""));
    assert_false(takes(HEADER_REQUEST, HEADER_REMOVE, "X\r\nY", ""));
}

static void templates_are_strict(void **state)
{
    static const char *const bad[] = {
        "",     "{",    "}",    "{class",   "a}b",     "{colour}",      "{}",
        "a\nb", "a\rb", "\x01", "\xc3\xa4", "{HTTP_}", "{remote_addr}", "{class}}"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i)
        assert_false(takes(HEADER_RESPONSE, HEADER_SET, "X-A", bad[i]));
    assert_true(takes(HEADER_RESPONSE, HEADER_SET, "X-A", "max-age=1; b"));
    assert_true(takes(HEADER_RESPONSE, HEADER_SET, "X-A", "{{{class}}}"));
}

static void a_name_is_set_once_and_not_what_is_removed(void **state)
{
    struct header_rules *r = header_rules_create();
    struct slice v = SLICE_LIT("v");

    (void)state;
    assert_true(header_rules_add(r, HEADER_REQUEST, HEADER_REMOVE, SLICE_LIT("X-A"), v, why));
    assert_false(header_rules_add(r, HEADER_REQUEST, HEADER_SET, SLICE_LIT("x_a"), v, why));
    assert_true(header_rules_add(r, HEADER_REQUEST, HEADER_SET, SLICE_LIT("X-B"), v, why));
    assert_false(header_rules_add(r, HEADER_REQUEST, HEADER_SET, SLICE_LIT("x-b"), v, why));
    assert_true(header_rules_add(r, HEADER_REQUEST, HEADER_ADD, SLICE_LIT("X-B"), v, why));
    assert_true(header_rules_add(r, HEADER_REQUEST, HEADER_ADD, SLICE_LIT("X-B"), v, why));
    assert_int_equal(r->n[HEADER_REQUEST], 4);
    for (size_t i = 4; i < HEADER_RULES_MAX; ++i)
        assert_true(header_rules_add(r, HEADER_REQUEST, HEADER_ADD, SLICE_LIT("X-B"), v, why));
    assert_false(header_rules_add(r, HEADER_REQUEST, HEADER_ADD, SLICE_LIT("X-B"), v, why));
    assert_true(header_rules_add(r, HEADER_RESPONSE, HEADER_ADD, SLICE_LIT("X-B"), v, why));
    header_rules_unref(header_rules_ref(r));
    header_rules_unref(r);
}

/* ---- values ---- */

static bool one_header(const void *context, size_t i, struct slice *name, struct slice *value)
{
    *name = SLICE_LIT("X-Tenant");
    *value = *(const struct slice *)context;
    return i == 0;
}

/* What TEMPLATE gives for a request with PATH and X-Tenant TENANT. */
static const char *value(const char *template, const char *path, struct slice tenant)
{
    static char out[HEADER_VALUE_MAX + 1];
    static const struct addr no_addr;
    const struct classify_request r = {.method = SLICE_LIT("GET"),
                                       .path = slice_of(path),
                                       .peer = &no_addr,
                                       .local = &no_addr,
                                       .content_length = UINT64_MAX,
                                       .header = one_header,
                                       .context = &tenant};
    struct header_rules *rules = header_rules_create();
    struct classify_environment e;

    assert_true(header_rules_add(rules, HEADER_REQUEST, HEADER_SET, SLICE_LIT("X-A"),
                                 slice_of(template), why));
    classify_environment_init(&e, &r);
    size_t n = header_rule_value(&rules->rules[HEADER_REQUEST][0], SLICE_LIT("c%20d"), &e, out);
    classify_environment_fini(&e);
    out[n] = '\0';
    header_rules_unref(rules);
    return out;
}

static void a_value_is_text_and_what_variables_state(void **state)
{
    (void)state;
    assert_string_equal(value("max-age=1; b", "/", SLICE_NULL), "max-age=1; b");
    assert_string_equal(value("{class}/{HTTP_X_TENANT} {{x}}", "/", SLICE_LIT("acme")),
                        "c%20d/acme {x}");
    assert_string_equal(value("{REQUEST_METHOD}{PATH_INFO}", "/a", SLICE_NULL), "GET/a");
    assert_string_equal(value("{HTTP_X_TENANT}", "/", SLICE_NULL), "");
    assert_string_equal(value(" {HTTP_X_TENANT} ", "/", SLICE_LIT("  a b ")), "a b");
}

static void no_request_can_end_the_line(void **state)
{
    (void)state;
    assert_string_equal(value("{PATH_INFO}", "/a%0d%0aX-Evil: 1%00%7f%c3%a4", SLICE_NULL),
                        "/a%0D%0AX-Evil: 1%00%7F%C3%A4");
}

static void a_value_is_bounded(void **state)
{
    char *path = xmalloc(2 * HEADER_VALUE_MAX);

    (void)state;
    memset(path, 'x', 2 * HEADER_VALUE_MAX);
    path[2 * HEADER_VALUE_MAX - 1] = '\0';
    assert_int_equal(strlen(value("{PATH_INFO}", path, SLICE_NULL)), HEADER_VALUE_MAX);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_others_rely_on_are_rejected),
        cmocka_unit_test(names_are_tokens_and_bounded),
        cmocka_unit_test(templates_are_strict),
        cmocka_unit_test(a_name_is_set_once_and_not_what_is_removed),
        cmocka_unit_test(a_value_is_text_and_what_variables_state),
        cmocka_unit_test(no_request_can_end_the_line),
        cmocka_unit_test(a_value_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
