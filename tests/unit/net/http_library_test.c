/* SPDX-License-Identifier: Apache-2.0
 *
 * What libh2o gets of an answer, and what handlers get of its request; the request is filled here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/net/http_conn.h"

enum { HTTP11 = 0x101, HTTP2 = 0x200 };

static int setup(void **state)
{
    h2o_req_t *library = xcalloc(1, sizeof(*library));

    h2o_mem_init_pool(&library->pool);
    library->method = h2o_iovec_init(H2O_STRLIT("GET"));
    library->path = h2o_iovec_init(H2O_STRLIT("/a?b"));
    library->authority = h2o_iovec_init(H2O_STRLIT("a.example"));
    library->version = HTTP2;
    *state = library;
    return 0;
}

static int teardown(void **state)
{
    h2o_req_t *library = *state;

    h2o_mem_clear_pool(&library->pool);
    free(library);
    return 0;
}

/* LIBRARY's request, answered with two fields: one that libh2o knows, and one of somebody's own. */
static void answer(h2o_req_t *library, int status)
{
    struct http_request *req = http_library_request(library);

    req->res.status = status;
    req->res.reason = "Whatever";
    req->res.content_length = 12;
    http_request_answer(req, "Content-TYPE", SLICE_LIT("Text/Plain"));
    http_request_answer(req, "X-Made-UP_9", SLICE_LIT("As It Is"));
    http_library_answer(req);
    assert_int_equal(library->res.status, status);
    assert_string_equal(library->res.reason, "Whatever");
    assert_int_equal(library->res.content_length, 12);
}

static void expect(h2o_iovec_t v, const char *text)
{
    assert_int_equal(v.len, strlen(text));
    assert_memory_equal(v.base, text, v.len);
}

static void field_names_are_in_lower_case_for_http2(void **state)
{
    h2o_req_t *library = *state;

    answer(library, 200);
    const h2o_headers_t *fields = &library->res.headers;
    assert_int_equal(fields->size, 2);
    assert_ptr_equal(fields->entries[0].name, &H2O_TOKEN_CONTENT_TYPE->buf);
    expect(*fields->entries[1].name, "x-made-up_9");
    for (size_t i = 0; i < fields->size; ++i)
        assert_null(fields->entries[i].orig_name);
    expect(fields->entries[0].value, "Text/Plain");
    expect(fields->entries[1].value, "As It Is");
}

static void a_client_of_http1_that_gets_a_tunnel_has_them_as_they_were_written(void **state)
{
    h2o_req_t *library = *state;

    library->version = HTTP11;
    answer(library, 101);
    const h2o_headers_t *fields = &library->res.headers;
    assert_int_equal(fields->size, 2);
    assert_memory_equal(fields->entries[0].orig_name, "Content-TYPE", 12);
    assert_memory_equal(fields->entries[1].orig_name, "X-Made-UP_9", 11);
    expect(fields->entries[1].value, "As It Is");
}

static void other_answers_of_http1_leave_libh2o_without_fields(void **state)
{
    h2o_req_t *library = *state;

    library->version = HTTP11;
    answer(library, 200);
    assert_int_equal(library->res.headers.size, 0);
}

static void an_answer_without_a_length_has_none_for_libh2o(void **state)
{
    h2o_req_t *library = *state;
    struct http_request *req = http_library_request(library);

    req->keep_alive = true;
    http_library_answer(req);
    assert_true(library->res.content_length == SIZE_MAX);
    assert_true(library->http1_is_persistent);
}

static void expect_field(const struct message_field *f, const char *name, const char *value,
                         enum http_field kind)
{
    assert_true(slice_is(f->name, name));
    assert_true(slice_is(f->value, value));
    assert_int_equal(f->kind, kind);
}

static void a_request_has_its_names_as_they_were_sent_and_their_kinds(void **state)
{
    h2o_req_t *library = *state;
    h2o_mem_pool_t *pool = &library->pool;

    h2o_add_header_by_str(pool, &library->headers, H2O_STRLIT("user-agent"), 1, "User-AGENT",
                          H2O_STRLIT("somebody"));
    h2o_add_header_by_str(pool, &library->headers, H2O_STRLIT("x-made-up"), 1, NULL,
                          H2O_STRLIT("1"));
    struct http_request *req = http_library_request(library);
    assert_true(slice_is(req->method, "GET"));
    assert_true(slice_is(req->target, "/a?b"));
    assert_true(slice_is(req->authority, "a.example"));
    assert_int_equal(req->version, HTTP2);
    assert_int_equal(req->fields.n, 2);
    expect_field(&req->fields.at[0], "User-AGENT", "somebody", FIELD_USER_AGENT);
    expect_field(&req->fields.at[1], "x-made-up", "1", FIELD_OTHER);
    assert_true(message_fields_may_have(&req->fields, FIELD_BIT(FIELD_USER_AGENT)));
    assert_false(message_fields_may_have(&req->fields, FIELD_BIT(FIELD_COOKIE)));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(field_names_are_in_lower_case_for_http2),
        TEST(a_client_of_http1_that_gets_a_tunnel_has_them_as_they_were_written),
        TEST(other_answers_of_http1_leave_libh2o_without_fields),
        TEST(an_answer_without_a_length_has_none_for_libh2o),
        TEST(a_request_has_its_names_as_they_were_sent_and_their_kinds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
