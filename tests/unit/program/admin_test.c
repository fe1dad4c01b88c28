/* SPDX-License-Identifier: Apache-2.0 */
#include "common/program/admin.h"

#include <stdio.h>

#include "tests/support/log_capture.h"
#include "tests/support/raw_peer.h"

struct fixture {
    struct loop *loop;
    struct admin *admin;
    struct addr addr;
    struct raw_peer client;
    bool stopped;
    struct text query;
    struct text acted_on;
};

static int hello_page(void *context, struct slice query, struct text *body)
{
    struct fixture *f = context;

    text_clear(&f->query);
    text_add(&f->query, query);
    text_add(body, SLICE_LIT("<p>hello"));
    return 200;
}

static int state_page(void *context, struct slice query, struct text *body)
{
    (void)context;
    text_addf(body, "{\"q\":\"%.*s\",\"n\":1}\n", (int)query.len, query.p);
    return 200;
}

static int unready_page(void *context, struct slice query, struct text *body)
{
    (void)context;
    (void)query;
    text_add(body, SLICE_LIT("no workers\n"));
    return 503;
}

static int act(void *context, struct slice argument, struct text *body)
{
    struct fixture *f = context;

    text_add(&f->acted_on, argument);
    text_add(body, SLICE_LIT("done\n"));
    return slice_is(argument, "nobody") ? 404 : 200;
}

static void create(struct fixture *f, const char *token)
{
    char host[] = "admin.example";
    char *hosts[] = {host};
    struct addr a;
    struct admin_config c = {.addresses = &a, .n = 1, .s.hosts = {.items = hosts, .n = 1}};

    c.s.token = (char *)(uintptr_t)token;
    assert_int_equal(addr_parse(SLICE_LIT("127.0.0.1:0"), &a), ERR_OK);
    assert_int_equal(admin_create(f->loop, &c, NULL, &f->admin), ERR_OK);
    admin_address(f->admin, 0, &f->addr);
    assert_true(addr_port(&f->addr) != 0);
    admin_add(f->admin, "/hello", "text/html; charset=utf-8", hello_page, f);
    admin_add_health(f->admin, unready_page, f);
    admin_add_status_page(f->admin, SLICE_LIT("let x\n"), state_page, f);
    admin_add_action(f->admin, "/processes/", "/detach", act, f);
    raw_init(&f->client);
    f->stopped = false;
}

static int setup(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    raw_ignore_sigpipe();
    f->loop = loop_create(0);
    create(f, NULL);
    *state = f;
    return 0;
}

static void on_stopped(void *context)
{
    ((struct fixture *)context)->stopped = true;
}

static void destroy(struct fixture *f)
{
    admin_stop(f->admin, on_stopped, f);
    raw_turn_until_set(f->loop, &f->stopped);
    admin_destroy(f->admin);
    raw_fini(&f->client);
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    destroy(f);
    loop_destroy(f->loop);
    text_fini(&f->query);
    text_fini(&f->acted_on);
    free(f);
    return 0;
}

/* The response to one request on a connection of its own, until it ends. */
static const char *ask(struct fixture *f, const char *request)
{
    raw_fini(&f->client);
    raw_connect(&f->addr, &f->client);
    raw_send(f->loop, &f->client, request);
    raw_send(f->loop, &f->client, "Connection: close\r\n\r\n");
    raw_await_end(f->loop, &f->client);
    return text_cstr(&f->client.in);
}

static void assert_status(struct fixture *f, const char *request, const char *status)
{
    const char *response = ask(f, request);

    if (strncmp(response, "HTTP/1.1 ", 9) != 0 || strncmp(response + 9, status, 3) != 0)
        fail_msg("%s\n->\n%s", request, response);
    assert_true(raw_has(&f->client, "Cache-Control: no-store\r\n"));
}

static void page_is_made_on_demand(void **state)
{
    struct fixture *f = *state;

    assert_status(f, "GET /hello?a=b&c HTTP/1.1\r\nHost: localhost:1\r\n", "200");
    assert_true(raw_has(&f->client, "\r\n\r\n<p>hello"));
    assert_true(raw_has(&f->client, "Content-Type: text/html; charset=utf-8\r\n"));
    assert_true(raw_has(&f->client, "Content-Security-Policy: default-src 'none';"));
    assert_true(raw_has(&f->client, "X-Content-Type-Options: nosniff\r\n"));
    assert_string_equal(text_cstr(&f->query), "a=b&c");
}

static void head_announces_what_get_sends(void **state)
{
    struct fixture *f = *state;

    assert_status(f, "HEAD /hello HTTP/1.1\r\nHost: localhost\r\n", "200");
    assert_true(raw_has(&f->client, "Content-Length: 8\r\n"));
    assert_false(raw_has(&f->client, "hello"));
}

static void page_decides_its_status(void **state)
{
    assert_status(*state, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n", "503");
}

static void other_paths_and_methods_are_rejected(void **state)
{
    struct fixture *f = *state;

    assert_status(f, "GET /other HTTP/1.1\r\nHost: localhost\r\n", "404");
    assert_status(f, "GET // HTTP/1.1\r\nHost: localhost\r\n", "404");
    assert_status(f, "GET /readyz/ HTTP/1.1\r\nHost: localhost\r\n", "404");
    assert_status(f, "POST /hello HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n", "405");
    assert_true(raw_has(&f->client, "Allow: GET, HEAD\r\n"));
}

static void addresses_and_own_names_are_fine_as_host(void **state)
{
    struct fixture *f = *state;

    assert_status(f, "GET /hello HTTP/1.1\r\nHost: 127.0.0.1:8081\r\n", "200");
    assert_status(f, "GET /hello HTTP/1.1\r\nHost: 10.1.2.3\r\n", "200");
    assert_status(f, "GET /hello HTTP/1.1\r\nHost: [::1]:8081\r\n", "200");
    assert_status(f, "GET /hello HTTP/1.1\r\nHost: LOCALHOST\r\n", "200");
    assert_status(f, "GET /hello HTTP/1.1\r\nHost: Admin.example:80\r\n", "200");
    assert_status(f, "GET /hello HTTP/1.0\r\n", "200");
    assert_status(f, "GET /hello HTTP/1.0\r\n", "200");
}

static void foreign_names_are_rejected_as_host(void **state)
{
    struct fixture *f = *state;

    assert_status(f, "GET /hello HTTP/1.1\r\nHost: evil.example\r\n", "421");
    assert_status(f, "GET /hello HTTP/1.1\r\nHost: localhost.evil.example\r\n", "421");
    assert_status(f, "GET /hello HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n", "421");
    assert_status(f, "GET /hello HTTP/1.1\r\nHost: 127.1\r\n", "421");
    assert_false(raw_has(&f->client, "hello"));
}

static void token_is_wanted_where_there_is_one(void **state)
{
    struct fixture *f = *state;

    destroy(f);
    create(f, "s3cret");
    assert_status(f, "GET /hello HTTP/1.1\r\nHost: localhost\r\n", "401");
    assert_true(raw_has(&f->client, "WWW-Authenticate: Bearer\r\n"));
    assert_status(f, "GET /hello HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer s3cre\r\n",
                  "401");
    assert_status(f, "GET /hello HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer s3creT\r\n",
                  "401");
    assert_status(f, "GET /hello HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic s3cret\r\n",
                  "401");
    assert_status(f, "GET /nowhere HTTP/1.1\r\nHost: localhost\r\n", "401");
    assert_status(f,
                  "GET /hello HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer s3cret\r\n"
                  "Authorization: Bearer x\r\n",
                  "401");
    assert_status(f, "GET /hello HTTP/1.1\r\nHost: localhost\r\nAuthorization: bearer s3cret\r\n",
                  "200");
}

static void health_is_reported_without_the_token_by_its_status_only(void **state)
{
    struct fixture *f = *state;

    destroy(f);
    create(f, "s3cret");
    assert_status(f, "GET /healthz HTTP/1.1\r\nHost: 10.1.2.3:8081\r\n", "200");
    assert_false(raw_has(&f->client, "ok\n"));
    assert_status(f, "GET /readyz HTTP/1.1\r\nHost: 10.1.2.3:8081\r\n", "503");
    assert_false(raw_has(&f->client, "no workers"));
    assert_status(f, "POST /readyz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n", "401");
    assert_status(f, "GET /readyz HTTP/1.1\r\nHost: rebound.example\r\n", "421");
    assert_status(f, "GET /readyz HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer s3cret\r\n",
                  "503");
    assert_true(raw_has(&f->client, "no workers"));
}

static void the_status_page_and_its_parts_are_served(void **state)
{
    struct fixture *f = *state;

    assert_status(f, "GET /?q=any HTTP/1.1\r\nHost: localhost\r\n", "200");
    assert_true(raw_has(&f->client, "Content-Type: text/html; charset=utf-8\r\n"));
    assert_true(raw_has(&f->client, "<script type=\"module\" src=\"/page.js\"></script>"));
    assert_status(f, "GET /page.js HTTP/1.1\r\nHost: localhost\r\n", "200");
    assert_true(raw_has(&f->client, "\r\n\r\nlet x\n"));
    assert_status(f, "GET /status.js HTTP/1.1\r\nHost: localhost\r\n", "200");
    assert_true(raw_has(&f->client, "Content-Type: text/javascript; charset=utf-8\r\n"));
    assert_status(f, "GET /status.css HTTP/1.1\r\nHost: localhost\r\n", "200");
    assert_true(raw_has(&f->client, "Content-Type: text/css; charset=utf-8\r\n"));
    assert_true(raw_has(&f->client, "prefers-color-scheme: dark"));
    assert_status(f, "GET /icon.svg HTTP/1.1\r\nHost: localhost\r\n", "200");
    assert_status(f, "POST /page.js HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n", "405");
}

/* ---- actions ---- */

#define POST(path, more) "POST " path " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n" more
#define BEARER "Authorization: Bearer s3cret\r\n"

static void actions_are_off_without_a_token(void **state)
{
    struct fixture *f = *state;

    assert_status(f, POST("/processes/ab12/detach", ""), "403");
    assert_status(f, POST("/processes/ab12/detach", BEARER), "403");
    assert_int_equal(f->acted_on.len, 0);
}

static void an_action_wants_a_post_with_the_token(void **state)
{
    struct fixture *f = *state;

    destroy(f);
    create(f, "s3cret");
    assert_status(f, POST("/processes/ab12/detach", ""), "401");
    assert_status(f, POST("/processes/ab12/detach", "Authorization: Bearer guess\r\n"), "401");
    assert_status(f, POST("/processes/ab12/detach?token=s3cret", "Cookie: token=s3cret\r\n"),
                  "401");
    assert_status(f, "GET /processes/ab12/detach HTTP/1.1\r\nHost: localhost\r\n" BEARER, "405");
    assert_true(raw_has(&f->client, "Allow: POST\r\n"));
    assert_status(f, "HEAD /processes/ab12/detach HTTP/1.1\r\nHost: localhost\r\n" BEARER, "405");
    assert_status(f,
                  "POST /processes/ab12/detach HTTP/1.1\r\nHost: evil.example\r\n"
                  "Content-Length: 0\r\n" BEARER,
                  "421");
    assert_int_equal(f->acted_on.len, 0);
    assert_status(f, POST("/processes/aB-1_2.c/detach", BEARER), "200");
    assert_true(raw_has(&f->client, "\r\n\r\ndone\n"));
    assert_string_equal(text_cstr(&f->acted_on), "aB-1_2.c");
    assert_status(f, POST("/processes/nobody/detach", BEARER), "404");
}

static void the_object_of_an_action_is_a_short_word(void **state)
{
    struct fixture *f = *state;
    char request[400];
    char word[ADMIN_ARGUMENT_MAX + 2];

    destroy(f);
    create(f, "s3cret");
    assert_status(f, POST("/processes//detach", BEARER), "404");
    assert_status(f, POST("/processes/detach", BEARER), "404");
    assert_status(f, POST("/processes/a/b/detach", BEARER), "404");
    assert_status(f, POST("/processes/a%20b/detach", BEARER), "404");
    assert_status(f, POST("/processes/a/detach/", BEARER), "404");
    memset(word, 'a', sizeof(word));
    word[ADMIN_ARGUMENT_MAX + 1] = '\0';
    snprintf(request, sizeof(request), POST("/processes/%s/detach", BEARER), word);
    assert_status(f, request, "404");
    assert_int_equal(f->acted_on.len, 0);
    snprintf(request, sizeof(request), POST("/processes/%s/detach", BEARER), word + 1);
    assert_status(f, request, "200");
    assert_int_equal(f->acted_on.len, ADMIN_ARGUMENT_MAX);
}

static void beyond_loopback_a_token_is_a_must(void **state)
{
    struct fixture *f = *state;
    struct addr any;
    char empty[] = "";
    struct admin_config c = {.addresses = &any, .n = 1};
    struct admin *a = NULL;

    assert_int_equal(addr_parse(SLICE_LIT("0.0.0.0:0"), &any), ERR_OK);
    assert_int_equal(admin_create(f->loop, &c, NULL, &a), ERR_UNSUPPORTED);
    c.s.token = empty;
    assert_int_equal(admin_create(f->loop, &c, NULL, &a), ERR_UNSUPPORTED);
    assert_null(a);
}

static void address_in_use_is_an_error(void **state)
{
    struct fixture *f = *state;
    struct admin_config config = {.addresses = &f->addr, .n = 1};
    struct admin *a = NULL;
    struct log_capture c;
    char text[ADDR_TEXT_MAX];
    char expected[ADDR_TEXT_MAX + 64];

    snprintf(expected, sizeof(expected), "admin-listen-failed address=%s reason=\"",
             addr_format(&f->addr, text));
    log_capture_start(&c);
    assert_int_not_equal(admin_create(f->loop, &config, NULL, &a), ERR_OK);
    assert_non_null(strstr(log_capture_end(&c), expected));
    assert_null(a);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(page_is_made_on_demand),
        TEST(head_announces_what_get_sends),
        TEST(page_decides_its_status),
        TEST(other_paths_and_methods_are_rejected),
        TEST(addresses_and_own_names_are_fine_as_host),
        TEST(foreign_names_are_rejected_as_host),
        TEST(token_is_wanted_where_there_is_one),
        TEST(health_is_reported_without_the_token_by_its_status_only),
        TEST(the_status_page_and_its_parts_are_served),
        TEST(actions_are_off_without_a_token),
        TEST(an_action_wants_a_post_with_the_token),
        TEST(the_object_of_an_action_is_a_short_word),
        TEST(beyond_loopback_a_token_is_a_must),
        TEST(address_in_use_is_an_error),
    };

    return cmocka_run_group_tests_name("admin", tests, NULL, NULL);
}
