/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/rules/classify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/text.h"

struct field {
    const char *name, *value;
};

static bool field_at(const void *context, size_t i, struct slice *name, struct slice *value)
{
    const struct field *fields = context;

    if (fields == NULL || fields[i].name == NULL)
        return false;
    *name = slice_of(fields[i].name);
    *value = slice_of(fields[i].value);
    return true;
}

static struct addr address(const char *text)
{
    struct addr a;

    assert_int_equal(addr_parse(slice_of(text), &a), ERR_OK);
    return a;
}

static struct addr peer, local;

static struct classify_request request(void)
{
    peer = address("192.0.2.7:4711");
    local = address("[::1]:8080");
    return (struct classify_request){
        .method = SLICE_LIT("GET"),
        .path = SLICE_LIT("/"),
        .host = SLICE_LIT("A.example:8080"),
        .protocol = SLICE_LIT("HTTP/1.1"),
        .peer = &peer,
        .local = &local,
        .content_length = UINT64_MAX,
        .header = field_at,
    };
}

static void expect(const struct classify_request *r, const char *name, const char *value)
{
    struct classify_environment e;
    size_t len = 0;

    classify_environment_init(&e, r);
    const char *p = e.super.get(&e.super, name, &len);

    if (value == NULL) {
        assert_null(p);
    } else {
        assert_non_null(p);
        assert_int_equal(len, strlen(value));
        assert_memory_equal(p, value, len);
    }
    classify_environment_fini(&e);
}

static void the_environment_is_that_of_wsgi(void **state)
{
    struct classify_request r = request();

    (void)state;
    r.query = SLICE_LIT("a=%20");
    r.content_length = 12;
    r.tls = true;
    expect(&r, "REQUEST_METHOD", "GET");
    expect(&r, "SCRIPT_NAME", "");
    expect(&r, "PATH_INFO", "/");
    expect(&r, "QUERY_STRING", "a=%20");
    expect(&r, "SERVER_NAME", "A.example");
    expect(&r, "SERVER_PORT", "8080");
    expect(&r, "SERVER_PROTOCOL", "HTTP/1.1");
    expect(&r, "REMOTE_ADDR", "192.0.2.7");
    expect(&r, "REMOTE_PORT", "4711");
    expect(&r, "CONTENT_LENGTH", "12");
    expect(&r, "wsgi.url_scheme", "https");
    expect(&r, "HTTP_HOST", "A.example:8080");
    expect(&r, "PATH", NULL);
    expect(&r, "", NULL);
}

static void an_absent_part_of_a_request_is_none_and_not_empty(void **state)
{
    struct classify_request r = request();

    (void)state;
    r.host = SLICE_NULL;
    expect(&r, "HTTP_HOST", NULL);
    expect(&r, "CONTENT_LENGTH", NULL);
    expect(&r, "CONTENT_TYPE", NULL);
    expect(&r, "HTTP_COOKIE", NULL);
    expect(&r, "QUERY_STRING", "");
    expect(&r, "SERVER_NAME", "::1");
}

static void an_ipv6_host_keeps_its_colons(void **state)
{
    struct classify_request r = request();

    (void)state;
    r.host = SLICE_LIT("[2001:db8::1]:80");
    expect(&r, "SERVER_NAME", "[2001:db8::1]");
}

static void paths_are_decoded_once_and_broken_escapes_stay(void **state)
{
    struct classify_request r = request();

    (void)state;
    r.path = SLICE_LIT("/a%2fb%2525/%zz%4");
    expect(&r, "PATH_INFO", "/a/b%25/%zz%4");
    r.path = SLICE_LIT("/%e4%00x");
    struct classify_environment e;
    size_t len = 0;

    classify_environment_init(&e, &r);
    assert_memory_equal(e.super.get(&e.super, "PATH_INFO", &len), "/\xe4\0x", 4);
    assert_int_equal(len, 4);
    classify_environment_fini(&e);
}

static void fields_are_found_whatever_their_spelling(void **state)
{
    static const struct field fields[] = {
        {"X-Tenant-Id", "7"}, {"content-type", "text/plain"}, {"Empty", ""}, {0}};
    struct classify_request r = request();

    (void)state;
    r.context = fields;
    expect(&r, "HTTP_X_TENANT_ID", "7");
    expect(&r, "HTTP_EMPTY", "");
    expect(&r, "CONTENT_TYPE", "text/plain");
    expect(&r, "HTTP_CONTENT_TYPE", NULL);
    expect(&r, "HTTP_X_TENANT", NULL);
}

static void fields_that_came_twice_are_joined(void **state)
{
    static const struct field fields[] = {
        {"cookie", "a=1"}, {"X-A", ""}, {"x-a", "2"}, {"Cookie", "b=2"}, {0}};
    struct classify_request r = request();

    (void)state;
    r.context = fields;
    expect(&r, "HTTP_X_A", ",2");
    expect(&r, "HTTP_COOKIE", "a=1; b=2");
}

static void values_stay_until_the_class_is_known_however_long(void **state)
{
    struct classify_request r = request();
    char path[5000];
    struct classify_environment e;
    const char *found[40];
    size_t len = 0;

    (void)state;
    memset(path, 'x', sizeof(path));
    memcpy(path, "/%41", 4);
    r.path = (struct slice){path, sizeof(path)};
    classify_environment_init(&e, &r);
    for (size_t i = 0; i < ARRAY_LEN(found); ++i)
        found[i] = e.super.get(&e.super, i % 2 != 0 ? "PATH_INFO" : "SERVER_PORT", &len);
    for (size_t i = 0; i < ARRAY_LEN(found); ++i)
        assert_memory_equal(found[i], i % 2 != 0 ? "/Axx" : "8080", 4);
    classify_environment_fini(&e);
}

static void the_class_is_what_the_configured_classifier_states(void **state)
{
    struct classify_request r = request();
    struct diag d = {0};
    struct config c = {0};

    assert_true(config_parse("t", SLICE_LIT("classifier: host\n"), &c, &d));
    struct classifier *k = classifier_create(&c, config_get(c.root, "classifier"), &d);
    char cls[CLASS_BYTES_MAX];
    char long_host[10000];

    (void)state;
    assert_non_null(k);
    assert_int_equal(classify_run(k, &r, cls), 9);
    assert_memory_equal(cls, "a.example", 9);
    r.host = SLICE_NULL;
    assert_int_equal(classify_run(k, &r, cls), 0);
    memset(long_host, 'h', sizeof(long_host));
    r.host = (struct slice){long_host, sizeof(long_host)};
    assert_int_equal(classify_run(k, &r, cls), 0);
    classifier_destroy(k);
    config_fini(&c);
    diag_fini(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_environment_is_that_of_wsgi),
        cmocka_unit_test(an_absent_part_of_a_request_is_none_and_not_empty),
        cmocka_unit_test(an_ipv6_host_keeps_its_colons),
        cmocka_unit_test(paths_are_decoded_once_and_broken_escapes_stay),
        cmocka_unit_test(fields_are_found_whatever_their_spelling),
        cmocka_unit_test(fields_that_came_twice_are_joined),
        cmocka_unit_test(values_stay_until_the_class_is_known_however_long),
        cmocka_unit_test(the_class_is_what_the_configured_classifier_states),
    };

    return cmocka_run_group_tests_name("classify", tests, NULL, NULL);
}
