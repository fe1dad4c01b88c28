/* SPDX-License-Identifier: Apache-2.0
 *
 * The new process is played by hand, a connection after the other.
 */
#include "tests/support/raw_peer.h"
#include "worker-agent/process/warm_up.h"

/* More than any test takes. */
enum { PATIENCE_MS = 600 * 1000 };

struct fixture {
    struct loop *loop;
    int listener;
    struct addr addr;
    struct raw_peer process;
    struct warm_targets targets;
    struct warm_up warm_up;
    bool done;
    unsigned times_done;
};

static void on_done(struct warm_up *w)
{
    struct fixture *f = container_of(w, struct fixture, warm_up);

    assert_null(w->loop);
    f->done = true;
    ++f->times_done;
}

static int set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    raw_ignore_sigpipe();
    f->loop = loop_create(0);
    f->listener = raw_listen(&f->addr);
    raw_init(&f->process);
    f->warm_up.done = on_done;
    warm_targets_resize(&f->targets, 10);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    warm_up_stop(&f->warm_up);
    warm_targets_fini(&f->targets);
    raw_fini(&f->process);
    close(f->listener);
    loop_destroy(f->loop);
    free(f);
    return 0;
}

static void add(struct fixture *f, const char *cls, const char *target, unsigned times)
{
    while (times-- > 0)
        warm_targets_add(&f->targets, SLICE_LIT("shop.example"), slice_of(cls), slice_of(target));
}

static bool start_for(struct fixture *f, uint64_t limit_ms)
{
    bool started = warm_up_start(&f->warm_up, f->loop, &f->addr, &f->targets, limit_ms);

    assert_false(f->done);
    return started;
}

static bool start(struct fixture *f)
{
    return start_for(f, PATIENCE_MS);
}

/* Take the next request. */
static void take(struct fixture *f)
{
    raw_fini(&f->process);
    raw_accept(f->loop, f->listener, &f->process);
    raw_await(f->loop, &f->process, "\r\n\r\n");
}

static void response(struct fixture *f, const char *response)
{
    raw_send(f->loop, &f->process, response);
}

static void await_done(struct fixture *f)
{
    raw_turn_until_set(f->loop, &f->done);
    for (int i = 0; i < 3; ++i)
        loop_turn(f->loop, RAW_TURN_MS);
    assert_int_equal(f->times_done, 1);
}

static void the_frequent_are_replayed_as_they_came_and_marked(void **state)
{
    struct fixture *f = *state;

    add(f, "news", "/front?page=1", 5);
    add(f, "", "/about", 3);
    assert_true(start(f));
    take(f);
    assert_string_equal(text_cstr(&f->process.in),
                        "GET /front?page=1 HTTP/1.1\r\nHost: shop.example\r\n"
                        "Resumelb-Class: news\r\nResumelb-Warm-Up: 1\r\n"
                        "User-Agent: resumelb-agent\r\nConnection: close\r\n\r\n");
    response(f, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    take(f);
    assert_string_equal(text_cstr(&f->process.in),
                        "GET /about HTTP/1.1\r\nHost: shop.example\r\nResumelb-Warm-Up: 1\r\n"
                        "User-Agent: resumelb-agent\r\nConnection: close\r\n\r\n");
    assert_false(f->done);
    response(f, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    loop_turn(f->loop, RAW_TURN_MS);
    assert_false(f->done);
    response(f, "0\r\n\r\n");
    await_done(f);
    assert_int_equal(f->warm_up.responded, 2);
    assert_int_equal(f->warm_up.failed, 0);
}

static void without_anything_frequent_there_is_nothing_to_do(void **state)
{
    struct fixture *f = *state;

    add(f, "", "/once", 1);
    assert_false(start(f));
    assert_null(f->warm_up.loop);
}

static void a_failed_request_is_counted_and_the_next_one_follows(void **state)
{
    struct fixture *f = *state;

    add(f, "", "/1", 7);
    add(f, "", "/2", 6);
    add(f, "", "/3", 5);
    add(f, "", "/4", 4);
    add(f, "", "/5", 3);
    assert_true(start(f));
    take(f);
    response(f, "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n");
    take(f);
    raw_reset(&f->process);
    take(f);
    response(f, "nonsense\r\n\r\n");
    take(f);
    response(f, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe");
    raw_close(&f->process);
    take(f);
    assert_true(raw_has(&f->process, "GET /5 "));
    response(f, "HTTP/1.1 200 OK\r\n\r\nuntil the end");
    raw_close(&f->process);
    await_done(f);
    assert_int_equal(f->warm_up.responded, 1);
    assert_int_equal(f->warm_up.failed, 4);
}

static void a_process_that_is_gone_holds_no_other_up(void **state)
{
    struct fixture *f = *state;

    close(f->listener);
    int gone = raw_reserve(&f->addr);
    add(f, "", "/1", 7);
    add(f, "", "/2", 6);
    assert_true(start(f));
    await_done(f);
    assert_int_equal(f->warm_up.failed, 2);
    close(gone);
    f->listener = raw_listen(&f->addr);
}

static void the_requests_together_have_one_time_limit(void **state)
{
    struct fixture *f = *state;
    enum { LIMIT_MS = 3000 }; /* far more than one response takes */
    uint64_t began_us = clock_mono_us();

    add(f, "", "/1", 7);
    add(f, "", "/2", 6);
    add(f, "", "/3", 5);
    assert_true(start_for(f, LIMIT_MS));
    take(f);
    response(f, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    take(f);
    await_done(f);
    assert_true(clock_mono_us() - began_us >= LIMIT_MS * UINT64_C(1000));
    assert_int_equal(f->warm_up.responded, 1);
    assert_int_equal(f->warm_up.failed, 1);
    raw_await_end(f->loop, &f->process);
}

static void a_warm_up_may_be_stopped_and_started_again_at_any_time(void **state)
{
    struct fixture *f = *state;

    add(f, "", "/1", 7);
    warm_up_stop(&f->warm_up);
    for (int turns = 0; turns < 6; ++turns) {
        assert_true(start(f));
        for (int i = 0; i < turns; ++i)
            loop_turn(f->loop, 1);
        warm_up_stop(&f->warm_up);
        assert_null(f->warm_up.loop);
    }
    close(f->listener);
    f->listener = raw_listen(&f->addr);
    assert_true(start(f));
    take(f);
    response(f, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    await_done(f);
    assert_int_equal(f->warm_up.responded, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_frequent_are_replayed_as_they_came_and_marked),
        TEST(without_anything_frequent_there_is_nothing_to_do),
        TEST(a_failed_request_is_counted_and_the_next_one_follows),
        TEST(a_process_that_is_gone_holds_no_other_up),
        TEST(the_requests_together_have_one_time_limit),
        TEST(a_warm_up_may_be_stopped_and_started_again_at_any_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
