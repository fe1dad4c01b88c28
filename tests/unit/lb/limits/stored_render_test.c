/* SPDX-License-Identifier: Apache-2.0
 *
 * The head of a response by itself, and the whole response as a client gets it.
 */
#include "lb/limits/response_store.h"

#include "lb/request/headers.h"
#include "tests/unit/http/http_server_fixture.h"
#include "tests/unit/lb/limits/response_store_fixture.h"

struct response_fixture {
    struct stored_memory memory;
    struct stored_rendering response;
};

static int setup(void **state)
{
    struct response_fixture *f = calloc(1, sizeof(*f));

    stored_memory_init(&f->memory, MEMORY_BYTES);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct response_fixture *f = *state;

    assert_int_equal(stored_memory_used(&f->memory), 0);
    free(f);
    return 0;
}

static struct stored_response *make_in(struct stored_memory *memory, const char *fields,
                                       struct slice body)
{
    struct stored_maker *m = stored_maker_create(memory, STORED_BYTES);

    return make_by(m, &(struct made){.fields = fields, .body = body});
}

static struct stored_response *make(struct response_fixture *f, const char *fields,
                                    const char *body)
{
    return make_in(&f->memory, fields, slice_of(body));
}

/* ---- the head ---- */

static struct slice response_field(const struct stored_rendering *a, const char *name)
{
    return field((struct cache_fields){a->head.headers, a->head.nheaders}, name);
}

/* RFC 9111 5.1, 4.2.3 */
static void response_has_the_age_of_the_stored_response(void **state)
{
    struct response_fixture *f = *state;
    struct stored_response *c = make(f, "Age: 30, 2\r\n", "x");

    stored_render(c, STORED_COALESCED, SLICE_LIT("coalesced"), NOW_US + SECOND_US - 1,
                  &f->response);
    assert_slice(response_field(&f->response, "age"), "30");
    stored_render(c, STORED_COALESCED, SLICE_LIT("coalesced"), NOW_US + 12 * SECOND_US,
                  &f->response);
    assert_slice(response_field(&f->response, "age"), "42");
    /* Used by a loop that read its clock before the stored response was made. */
    stored_render(c, STORED_COALESCED, SLICE_LIT("coalesced"), NOW_US - 1, &f->response);
    assert_slice(response_field(&f->response, "age"), "30");
    stored_put(c);
}

/* RFC 9211 2 */
static void cache_status_states_what_the_response_is(void **state)
{
    struct response_fixture *f = *state;
    struct stored_response *c = make(f, "Cache-Control: max-age=60\r\n", "x");

    stored_render(c, STORED_COALESCED, SLICE_LIT("coalesced"), NOW_US, &f->response);
    assert_slice(response_field(&f->response, "cache-status"), "resumelb; fwd=miss; collapsed");
    stored_render(c, STORED_STALE, SLICE_LIT("queue-full"), NOW_US + 100 * SECOND_US, &f->response);
    assert_slice(response_field(&f->response, "cache-status"),
                 "resumelb; hit; ttl=-40; detail=queue-full");
    stored_render(c, STORED_STALE, SLICE_LIT("queue-full"), NOW_US + 20 * SECOND_US, &f->response);
    assert_slice(response_field(&f->response, "cache-status"),
                 "resumelb; hit; ttl=40; detail=queue-full");
    stored_put(c);
}

static void cache_status_is_placed_after_those_of_others(void **state)
{
    struct response_fixture *f = *state;
    struct stored_response *c = make(f, "Cache-Status: Origin; hit\r\nX: 1\r\n", "x");
    struct stored_rendering *a = &f->response;

    stored_render(c, STORED_STALE, SLICE_LIT("timeout"), NOW_US, a);
    assert_slice(a->head.headers[0].value, "Origin; hit");
    assert_slice(a->head.headers[a->head.nheaders - 1].name, "Cache-Status");
    stored_put(c);
}

/* RFC 9110 8.6 */
static void response_announces_the_length_of_its_body_and_none_for_no_content(void **state)
{
    struct response_fixture *f = *state;
    struct stored_response *c = make(f, "", "four");

    stored_render(c, STORED_STALE, SLICE_LIT("full"), NOW_US, &f->response);
    assert_int_equal(f->response.head.status, 200);
    assert_slice(f->response.head.reason, "OK");
    assert_int_equal(f->response.head.content_length, 4);
    assert_null(response_field(&f->response, "content-length").p);
    assert_slice(f->response.body, "four");
    stored_put(c);
    struct stored_maker *m = stored_maker_create(&f->memory, STORED_BYTES);
    assert_true(tell_head(m, "HTTP/1.1 204 No Content\r\n\r\n", "", NOW_US, NOW_US));
    c = stored_maker_end(&m);
    stored_render(c, STORED_STALE, SLICE_LIT("full"), NOW_US, &f->response);
    assert_true(f->response.head.content_length == UINT64_MAX);
    stored_put(c);
}

/* ---- the whole ---- */

static void send_stored(struct call *call, struct stored_response *c)
{
    struct stored_rendering a;

    stored_render(c, STORED_STALE, SLICE_LIT("queue-full"), NOW_US + 7 * SECOND_US, &a);
    headers_take_response(&(struct headers_response){.req = call->response.req,
                                                     .via = true,
                                                     .request_id = SLICE_LIT("id-2")},
                          &a.head);
    http_response_start(&call->response, a.head.content_length);
    http_response_send(&call->response, stored_take_body(c), true);
}

static void client_gets_a_stored_response_whole_and_none_of_the_first_ones_request(void **state)
{
    struct fixture *f = *state;
    struct stored_memory memory;

    stored_memory_init(&memory, MEMORY_BYTES);
    struct stored_response *c =
        make_in(&memory,
                "Content-Type: text/plain\r\nX-Request-ID: id-1\r\nAge: 3\r\n"
                "Connection: close\r\n",
                SLICE_LIT("hello"));
    fixture_send(f, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    fixture_await_requests(f, 1);
    send_stored(f->call, c);
    stored_put(c);
    fixture_await(f, "\r\n\r\nhello");
    assert_true(raw_has(&f->client, "HTTP/1.1 200 OK\r\n"));
    assert_true(raw_has(&f->client, "Content-Length: 5\r\n"));
    assert_true(raw_has(&f->client, "Content-Type: text/plain\r\n"));
    assert_true(raw_has(&f->client, "\r\nAge: 10\r\n"));
    assert_true(raw_has(&f->client, "Cache-Status: resumelb; hit; ttl=-10; detail=queue-full\r\n"));
    assert_true(raw_has(&f->client, "Via: 1.1 resumelb\r\n"));
    assert_true(raw_has(&f->client, "X-Request-ID: id-2\r\n"));
    assert_false(raw_has(&f->client, "id-1"));
    assert_false(raw_has(&f->client, "Age: 3"));
    assert_false(raw_has(&f->client, "close"));
    fixture_await_gone(f, 1);
    assert_true(f->gone_done);
    assert_int_equal(stored_memory_used(&memory), 0);
}

static void client_that_leaves_gives_the_stored_response_back(void **state)
{
    struct fixture *f = *state;
    struct stored_memory memory;
    static const char body[STORED_BYTES / 2];
    enum { REQUESTS = 32 }; /* responses of more than the sockets hold */

    stored_memory_init(&memory, MEMORY_BYTES);
    struct stored_response *c = make_in(&memory, "", (struct slice){body, sizeof(body)});
    for (unsigned i = 0; i < REQUESTS && f->gone == i; ++i) {
        fixture_send(f, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        fixture_await_requests(f, i + 1);
        send_stored(f->call, c);
        fixture_turns(f, 5);
    }
    stored_put(c);
    assert_true(stored_memory_used(&memory) > sizeof(body));
    assert_non_null(f->call);
    raw_reset(&f->client);
    fixture_await_gone(f, f->requests);
    assert_false(f->gone_done);
    assert_int_equal(stored_memory_used(&memory), 0);
}

#define RESPONSE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RESPONSE_TEST(response_has_the_age_of_the_stored_response),
        RESPONSE_TEST(cache_status_states_what_the_response_is),
        RESPONSE_TEST(cache_status_is_placed_after_those_of_others),
        RESPONSE_TEST(response_announces_the_length_of_its_body_and_none_for_no_content),
        TEST(client_gets_a_stored_response_whole_and_none_of_the_first_ones_request),
        TEST(client_that_leaves_gives_the_stored_response_back),
    };

    return cmocka_run_group_tests_name("stored_render", tests, NULL, NULL);
}
