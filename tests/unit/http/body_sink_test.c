/* SPDX-License-Identifier: Apache-2.0
 *
 * Where request bodies are collected: the sink alone, in memory and in a file; and large bodies
 * while they are received, in all forms and with all ends.
 */
#include "common/http/body_sink.h"
#include "common/net/body_file.h"
#include "tests/unit/http/http_server_fixture.h"

enum {
    SPILL_BYTES = 64 * 1024,
    LARGE = 3 * 1024 * 1024 + 17,
};

static bool in_file; /* the body of the latest request */

static void on_request(void *context, struct http_request *req, struct http_conn *conn)
{
    in_file = req->body_file != NULL;
    fixture_on_request(context, req, conn);
}

static void start(struct fixture *f, const char *directory)
{
    struct http_server_options o = fixture_options(f);

    o.max.body_bytes = (size_t)16 << 20;
    o.sinks.memory_bytes = SPILL_BYTES;
    o.sinks.directory = directory;
    o.on_request = on_request;
    fixture_restart(f, &o);
    f->response = response_hello;
    in_file = false;
}

/* A request of so many BYTES of body, with MORE in its head. */
static struct text request_of(size_t bytes, const char *more)
{
    struct text t = {0};

    text_addf(&t, "POST /up HTTP/1.1\r\nHost: a\r\n%sContent-Length: %zu\r\n\r\n", more, bytes);
    for (size_t i = 0; i < bytes; ++i)
        text_add(&t, (struct slice){&"0123456789abcdefghijklmnopqrstuvw"[i % 33], 1});
    return t;
}

static struct slice body_in(const struct text *request, size_t bytes)
{
    return (struct slice){request->p + request->len - bytes, bytes};
}

static void assert_body(const struct fixture *f, struct slice body)
{
    assert_int_equal(f->body.len, body.len);
    assert_memory_equal(f->body.p, body.p, body.len);
}

static void connect_client(struct fixture *f)
{
    if (f->client.fd == -1)
        raw_connect(&f->addr, &f->client);
}

/* ---- the sink ---- */

struct sink {
    struct loop *loop;
    struct body_file_bin bin;
    struct body_sink sink;
    struct body_totals totals;
    struct body_shares shares;
    struct body_sink_limits limits;
};

static int sink_setup(void **state)
{
    struct sink *s = xcalloc(1, sizeof(*s));

    s->loop = loop_create(0);
    body_file_bin_init(&s->bin, s->loop);
    body_shares_init(&s->shares, &s->totals, s->loop);
    s->limits =
        (struct body_sink_limits){.memory_bytes = 10, .directory = "/tmp", .shares = &s->shares};
    *state = s;
    return 0;
}

static int sink_teardown(void **state)
{
    struct sink *s = *state;

    body_sink_fini(&s->sink, &s->bin);
    body_shares_fini(&s->shares);
    body_totals_fini(&s->totals);
    body_file_bin_fini(&s->bin);
    loop_destroy(s->loop);
    free(s);
    return 0;
}

static void add(struct sink *s, const char *text)
{
    assert_true(body_sink_add(&s->sink, &s->limits, slice_of(text)));
}

/* Nothing is added after this. */
static void assert_holds(struct sink *s, const char *text, bool file)
{
    assert_int_equal(s->sink.bytes, strlen(text));
    assert_int_equal(s->sink.file != NULL, file);
    assert_true(slice_is(body_sink_bytes(&s->sink), text));
}

static void empty_body_is_not_null(void **state)
{
    struct sink *s = *state;

    assert_true(body_sink_expect(&s->sink, &s->limits, 0));
    assert_holds(s, "", false);
    assert_non_null(body_sink_bytes(&s->sink).p);
}

static void body_moves_to_a_file_with_the_first_byte_over_the_limit(void **state)
{
    struct sink *s = *state;

    add(s, "01234");
    add(s, "56789");
    assert_null(s->sink.file);
    add(s, "a");
    assert_non_null(s->sink.file);
    assert_int_equal(s->sink.memory.len, 0);
    add(s, "bc");
    assert_holds(s, "0123456789abc", true);
}

static void body_that_will_be_large_is_in_a_file_from_the_start(void **state)
{
    struct sink *s = *state;

    assert_true(body_sink_expect(&s->sink, &s->limits, 11));
    assert_non_null(s->sink.file);
    add(s, "0123");
    assert_holds(s, "0123", true);
}

static void body_stays_in_memory_without_a_directory(void **state)
{
    struct sink *s = *state;

    s->limits.directory = NULL;
    assert_true(body_sink_expect(&s->sink, &s->limits, UINT64_C(1) << 40));
    add(s, "0123456789");
    add(s, "abcdefghij");
    assert_holds(s, "0123456789abcdefghij", false);
}

static void body_that_can_be_put_nowhere_is_an_error(void **state)
{
    struct sink *s = *state;

    s->limits.directory = "/nowhere/at/all";
    assert_false(body_sink_expect(&s->sink, &s->limits, 11));
    assert_int_equal(errno, ENOENT);
    add(s, "0123456789");
    assert_false(body_sink_add(&s->sink, &s->limits, SLICE_LIT("a")));
    assert_int_equal(errno, ENOENT);
}

/* ---- totals ---- */

static void assert_used(const struct body_totals *t, uint64_t memory, uint64_t file_bytes,
                        uint64_t files)
{
    assert_int_equal(t->memory_bytes, memory);
    assert_int_equal(t->file_bytes.used, file_bytes);
    assert_int_equal(t->files.used, files);
}

static void small_body_goes_to_a_file_when_all_together_have_too_much_memory(void **state)
{
    struct sink *s = *state;
    struct body_sink other = {0};

    body_totals_set(&s->totals, 8, 100, 10);
    s->limits.totals = &s->totals;
    assert_true(body_sink_expect(&other, &s->limits, 5));
    assert_used(&s->totals, 5, 0, 0);
    add(s, "012");
    assert_used(&s->totals, 8, 0, 0);
    add(s, "3");
    assert_used(&s->totals, 5, 4, 1);
    assert_holds(s, "0123", true);
    body_sink_fini(&s->sink, &s->bin);
    assert_used(&s->totals, 5, 0, 0);
    body_sink_fini(&other, &s->bin);
    assert_used(&s->totals, 0, 0, 0);
}

static void body_is_an_error_when_all_together_have_too_much_in_files(void **state)
{
    struct sink *s = *state;

    body_totals_set(&s->totals, 100, 12, 10);
    s->limits.totals = &s->totals;
    add(s, "0123456789a");
    assert_used(&s->totals, 0, 11, 1);
    add(s, "b");
    assert_false(body_sink_add(&s->sink, &s->limits, SLICE_LIT("c")));
    assert_int_equal(errno, EDQUOT);
    body_sink_fini(&s->sink, &s->bin);
    assert_used(&s->totals, 0, 0, 0);
}

static void body_is_an_error_when_there_are_too_many_files(void **state)
{
    struct sink *s = *state;
    struct body_sink other = {0};

    body_totals_set(&s->totals, 100, 100, 1);
    s->limits.totals = &s->totals;
    assert_true(body_sink_expect(&other, &s->limits, 11));
    assert_false(body_sink_expect(&s->sink, &s->limits, 11));
    assert_int_equal(errno, EMFILE);
    body_sink_fini(&s->sink, &s->bin);
    body_sink_fini(&other, &s->bin);
    assert_used(&s->totals, 0, 0, 0);
    assert_true(body_sink_expect(&s->sink, &s->limits, 11));
    body_sink_fini(&s->sink, &s->bin);
}

static unsigned lost;

/* All but OTHER are of one connection. */
static struct body_sink other;

static struct fair_owner owner_of_sink(struct body_sink *b)
{
    return (struct fair_owner){.connection = b == &other ? b : NULL};
}

static void on_lost(struct body_sink *b)
{
    (void)b;
    ++lost;
}

static void file_that_another_got_before_the_end_is_no_body_and_is_not_reported_again(void **state)
{
    static const struct body_sink_user user = {.owner = owner_of_sink, .lost = on_lost};
    struct sink *s = *state;
    struct body_sink small = {.user = &user};

    lost = 0;
    s->sink.user = other.user = &user;
    body_totals_set(&s->totals, 100, 70, 10);
    s->limits.totals = &s->totals;
    assert_true(body_sink_add(&small, &s->limits, SLICE_LIT("0123456789a")));
    add(s, "0123456789012345678901234567890123456789012345678");
    assert_true(body_sink_add(&other, &s->limits, SLICE_LIT("0123456789abcdef")));
    assert_used(&s->totals, 0, 27, 3);
    /* All has been received, before the loss is reported. */
    assert_null(body_sink_bytes(&s->sink).p);
    loop_turn(s->loop, 0);
    assert_int_equal(lost, 0);
    body_sink_fini(&s->sink, &s->bin);
    assert_true(slice_is(body_sink_bytes(&other), "0123456789abcdef"));
    body_sink_fini(&other, &s->bin);
    body_sink_fini(&small, &s->bin);
    assert_used(&s->totals, 0, 0, 0);
}

static void files_are_a_part_of_the_descriptors(void **state)
{
    (void)state;
    assert_int_equal(body_files_max(7), 0);
    assert_int_equal(body_files_max(80), 10);
    assert_int_equal(body_files_max(1 << 20), 1024);
}

/* ---- on the way into it ---- */

static void only_a_body_above_the_threshold_is_put_into_a_file(void **state)
{
    struct fixture *f = *state;
    struct text small = request_of(SPILL_BYTES, "");
    struct text large = request_of(SPILL_BYTES + 1, "");

    start(f, "/tmp");
    connect_client(f);
    raw_send_bytes(f->loop, &f->client, text_slice(&small));
    fixture_await_gone(f, 1);
    assert_false(in_file);
    assert_body(f, body_in(&small, SPILL_BYTES));
    raw_send_bytes(f->loop, &f->client, text_slice(&large));
    fixture_await_gone(f, 2);
    assert_true(in_file);
    assert_body(f, body_in(&large, SPILL_BYTES + 1));
    text_fini(&small);
    text_fini(&large);
}

static void bytes_after_a_large_body_are_the_next_request(void **state)
{
    struct fixture *f = *state;
    struct text all = request_of(LARGE, "");
    struct text again = request_of(LARGE, "");

    start(f, "/tmp");
    connect_client(f);
    raw_send(f->loop, &f->client, "GET /first HTTP/1.1\r\nHost: a\r\n\r\n");
    raw_send_bytes(f->loop, &f->client, text_slice(&all));
    raw_send_bytes(f->loop, &f->client, text_slice(&again));
    raw_send(f->loop, &f->client, "GET /last HTTP/1.1\r\nHost: a\r\n\r\n");
    fixture_await_requests(f, 3);
    assert_true(in_file);
    assert_body(f, body_in(&again, LARGE));
    fixture_await_gone(f, 4);
    assert_false(in_file);
    assert_true(slice_is(text_slice(&f->path), "/last"));
    assert_int_equal(f->body.len, 0);
    text_fini(&all);
    text_fini(&again);
}

static void head_and_body_may_come_in_any_pieces(void **state)
{
    struct fixture *f = *state;
    struct text all = request_of(SPILL_BYTES + 5, "");
    struct slice rest = text_slice(&all);

    start(f, "/tmp");
    connect_client(f);
    for (size_t piece = 1; rest.len != 0; piece += 7) {
        size_t n = rest.len < piece ? rest.len : piece;
        raw_send_bytes(f->loop, &f->client, (struct slice){rest.p, n});
        fixture_turns(f, 2);
        rest = (struct slice){rest.p + n, rest.len - n};
    }
    fixture_await(f, "hello");
    assert_true(in_file);
    assert_body(f, body_in(&all, SPILL_BYTES + 5));
    text_fini(&all);
}

static void client_that_waits_for_continue_gets_it_first(void **state)
{
    struct fixture *f = *state;
    struct text all = request_of(LARGE, "Expect: 100-continue\r\n");
    struct slice body = body_in(&all, LARGE);

    start(f, "/tmp");
    connect_client(f);
    raw_send_bytes(f->loop, &f->client, (struct slice){all.p, all.len - LARGE});
    fixture_await(f, "HTTP/1.1 100 Continue\r\n\r\n");
    assert_int_equal(f->requests, 0);
    raw_send_bytes(f->loop, &f->client, body);
    fixture_await(f, "hello");
    assert_body(f, body);
    text_fini(&all);
}

static void client_that_does_not_wait_for_continue_is_served_as_well(void **state)
{
    struct fixture *f = *state;
    struct text all = request_of(SPILL_BYTES + 1, "Expect: 100-continue\r\n");

    start(f, "/tmp");
    connect_client(f);
    raw_send_bytes(f->loop, &f->client, text_slice(&all));
    fixture_await(f, "hello");
    assert_false(raw_has(&f->client, "100 Continue"));
    assert_body(f, body_in(&all, SPILL_BYTES + 1));
    text_fini(&all);
}

static void client_that_leaves_within_a_large_body_is_no_request(void **state)
{
    struct fixture *f = *state;
    struct text all = request_of(LARGE, "");

    start(f, "/tmp");
    connect_client(f);
    raw_send_bytes(f->loop, &f->client, (struct slice){all.p, all.len - 1});
    fixture_forget_client(f);
    raw_turn_until(f->loop, fixture_is_empty, f);
    assert_int_equal(f->requests, 0);
    text_fini(&all);
}

static void slow_large_body_is_rejected_in_time(void **state)
{
    struct fixture *f = *state;
    struct text all = request_of(LARGE, "");

    start(f, "/tmp");
    struct http_server_options o = fixture_options(f);
    o.max.body_bytes = (size_t)16 << 20;
    o.sinks.memory_bytes = SPILL_BYTES;
    o.sinks.directory = "/tmp";
    o.body_timeout_ms = 100;
    http_server_set(f->server, &o);
    connect_client(f);
    raw_send_bytes(f->loop, &f->client, (struct slice){all.p, all.len / 2});
    fixture_await(f, "HTTP/1.1 408 ");
    raw_await_end(f->loop, &f->client);
    assert_int_equal(f->requests, 0);
    assert_int_equal(fixture_rejected(f, FAULT_BODY_TIMEOUT), 1);
    text_fini(&all);
}

static void body_that_cannot_be_kept_is_rejected(void **state)
{
    struct fixture *f = *state;
    struct text all = request_of(LARGE, "");

    start(f, "/nowhere/at/all");
    connect_client(f);
    raw_send_bytes(f->loop, &f->client, (struct slice){all.p, all.len - LARGE});
    fixture_await(f, "HTTP/1.1 503 ");
    raw_await_end(f->loop, &f->client);
    assert_int_equal(f->requests, 0);
    assert_int_equal(fixture_rejected(f, FAULT_BODY_NO_ROOM), 1);
    text_fini(&all);
}

#define SINK(name) cmocka_unit_test_setup_teardown(name, sink_setup, sink_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SINK(empty_body_is_not_null),
        SINK(body_moves_to_a_file_with_the_first_byte_over_the_limit),
        SINK(body_that_will_be_large_is_in_a_file_from_the_start),
        SINK(body_stays_in_memory_without_a_directory),
        SINK(body_that_can_be_put_nowhere_is_an_error),
        SINK(small_body_goes_to_a_file_when_all_together_have_too_much_memory),
        SINK(body_is_an_error_when_all_together_have_too_much_in_files),
        SINK(body_is_an_error_when_there_are_too_many_files),
        SINK(file_that_another_got_before_the_end_is_no_body_and_is_not_reported_again),
        cmocka_unit_test(files_are_a_part_of_the_descriptors),
        TEST(only_a_body_above_the_threshold_is_put_into_a_file),
        TEST(bytes_after_a_large_body_are_the_next_request),
        TEST(head_and_body_may_come_in_any_pieces),
        TEST(client_that_waits_for_continue_gets_it_first),
        TEST(client_that_does_not_wait_for_continue_is_served_as_well),
        TEST(client_that_leaves_within_a_large_body_is_no_request),
        TEST(slow_large_body_is_rejected_in_time),
        TEST(body_that_cannot_be_kept_is_rejected),
    };

    return cmocka_run_group_tests_name("body_sink", tests, NULL, NULL);
}
