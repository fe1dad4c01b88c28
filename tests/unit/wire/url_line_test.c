/* SPDX-License-Identifier: Apache-2.0 */
#include "common/wire/url_line.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/base/text.h"

static void expect(const char *line, bool tls, const char *host, const char *path,
                   const char *query)
{
    struct url_line u;
    const char *why = url_line_parse(slice_of(line), &u);

    if (why != NULL)
        fail_msg("%s: %s", line, why);
    assert_int_equal(u.tls, tls);
    assert_true(slice_is(u.host, host));
    assert_true(slice_is(u.path, path));
    assert_true(slice_is(u.query, query));
}

static void a_url_has_its_parts(void **state)
{
    (void)state;
    expect("http://a.example/x?y=1#z", false, "a.example", "/x", "y=1");
    expect("https://a.example:8443", true, "a.example:8443", "/", "");
    expect("HTTP://[::1]:80/", false, "[::1]:80", "/", "");
    expect("http://a.example?q", false, "a.example", "/", "q");
    expect("http://a.example#f?x", false, "a.example", "/", "");
    expect("/only/path?a?b", false, "", "/only/path", "a?b");
}

static void a_url_that_no_request_could_have_is_rejected(void **state)
{
    static const char *const bad[] = {"",          "a.example/x",    "ftp://a/",    "http://",
                                      "http:///x", "http://u@a/",    "http://a b/", "/a\r\nX: y",
                                      "/a b",      "http://a%41.x/", "http://:80/", "mailto:x"};
    struct url_line u;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        if (url_line_parse(slice_of(bad[i]), &u) == NULL)
            fail_msg("'%s' was taken", bad[i]);
    }
}

static void a_url_that_is_too_long_is_rejected(void **state)
{
    static char line[URL_LINE_MAX + 1];
    struct url_line u;

    (void)state;
    memset(line, 'a', sizeof(line));
    line[0] = '/';
    assert_null(url_line_parse((struct slice){line, URL_LINE_MAX}, &u));
    assert_non_null(url_line_parse((struct slice){line, URL_LINE_MAX + 1}, &u));
    memcpy(line, "http://", 7);
    assert_non_null(url_line_parse((struct slice){line, 7 + URL_HOST_MAX + 1}, &u));
    assert_null(url_line_parse((struct slice){line, 7 + URL_HOST_MAX}, &u));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_url_has_its_parts),
        cmocka_unit_test(a_url_that_no_request_could_have_is_rejected),
        cmocka_unit_test(a_url_that_is_too_long_is_rejected),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
