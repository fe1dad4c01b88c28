/* SPDX-License-Identifier: Apache-2.0
 *
 * The queues of held heads, tested alone: responses are only entries in them. The test controls the
 * clock and the flush (both are wrapped by the linker).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/http/http_server_internal.h"

enum { START_MS = 1000, HOLD_MS = 5000, HEADS = 3 };

struct fixture {
    struct loop *loop;
    struct http_server *server;
    struct http_conn conn;
    struct http_response heads[HEADS];
    struct http_response *flushed[HEADS + 1]; /* in that order */
    size_t nflushed;
    void (*at_flush)(struct fixture *f, struct http_response *r); /* NULL: nothing */
};

/* The fixture of the running test, for the wrapped functions. */
static struct fixture *running;
static uint64_t now_ms;

uint64_t __wrap_clock_mono_us(void);
uint64_t __wrap_clock_mono_us(void)
{
    return now_ms * 1000;
}

void __wrap_http_response_flush(struct http_response *r);
void __wrap_http_response_flush(struct http_response *r)
{
    struct fixture *f = running;

    assert_true(f->nflushed < HEADS);
    assert_false(list_linked(&r->held_node));
    f->flushed[f->nflushed++] = r;
    if (f->at_flush != NULL)
        f->at_flush(f, r);
}

static int setup(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    now_ms = START_MS;
    running = f;
    f->loop = loop_create(0);
    f->server = http_server_create(f->loop, &(struct http_server_options){0});
    f->conn.server = f->server;
    for (size_t i = 0; i < HEADS; ++i)
        f->heads[i].conn = &f->conn;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    http_server_destroy(f->server);
    loop_destroy(f->loop);
    running = NULL;
    free(f);
    return 0;
}

/* A turn of the loop at a time of MS. */
static void turn_at(struct fixture *f, uint64_t ms)
{
    now_ms = ms;
    loop_turn(f->loop, 0);
}

/* Of all so far, the latest is HEADS[WHICH], and there are COUNT. */
static void expect_flushed(const struct fixture *f, size_t count, size_t which)
{
    assert_int_equal(f->nflushed, count);
    assert_ptr_equal(f->flushed[count - 1], &f->heads[which]);
}

static void a_head_that_is_held_goes_when_its_time_has_come_and_one_begun_in_the_turn(void **state)
{
    struct fixture *f = *state;

    http_schedule_flush(&f->heads[0], HOLD_MS);
    http_schedule_flush(&f->heads[1], 0);
    assert_int_equal(f->nflushed, 0);
    turn_at(f, START_MS);
    expect_flushed(f, 1, 1);
    turn_at(f, START_MS + HOLD_MS - 1);
    assert_int_equal(f->nflushed, 1);
    turn_at(f, START_MS + HOLD_MS);
    expect_flushed(f, 2, 0);
}

static void a_head_held_for_less_is_flushed_before_one_that_came_first(void **state)
{
    struct fixture *f = *state;

    http_schedule_flush(&f->heads[0], HOLD_MS);
    http_schedule_flush(&f->heads[1], HOLD_MS / 2);
    http_schedule_flush(&f->heads[2], HOLD_MS);
    turn_at(f, START_MS + HOLD_MS / 2);
    expect_flushed(f, 1, 1);
    turn_at(f, START_MS + HOLD_MS);
    expect_flushed(f, 3, 2);
    assert_ptr_equal(f->flushed[1], &f->heads[0]);
}

static void a_released_head_is_not_flushed_and_delays_no_other(void **state)
{
    struct fixture *f = *state;

    http_schedule_flush(&f->heads[0], HOLD_MS);
    http_schedule_flush(&f->heads[1], 2 * HOLD_MS);
    list_remove(&f->heads[0].held_node);
    turn_at(f, START_MS + HOLD_MS);
    assert_int_equal(f->nflushed, 0);
    turn_at(f, START_MS + 2 * HOLD_MS);
    expect_flushed(f, 1, 1);
}

/* Where HEADS[1] is flushed, the response of HEADS[2] begins. */
static void begin_another(struct fixture *f, struct http_response *r)
{
    if (r == &f->heads[1])
        http_schedule_flush(&f->heads[2], 0);
}

static void a_head_begun_while_others_are_flushed_does_not_wait_for_those_held(void **state)
{
    struct fixture *f = *state;

    f->at_flush = begin_another;
    http_schedule_flush(&f->heads[0], HOLD_MS);
    http_schedule_flush(&f->heads[1], 0);
    turn_at(f, START_MS);
    turn_at(f, START_MS);
    expect_flushed(f, 2, 2);
    turn_at(f, START_MS + HOLD_MS);
    expect_flushed(f, 3, 0);
}

/* Each response that is flushed is held again. */
static void begin_again(struct fixture *f, struct http_response *r)
{
    (void)f;
    http_schedule_flush(r, 0);
}

static void a_head_that_is_held_again_at_each_flush_has_one_flush_per_turn(void **state)
{
    struct fixture *f = *state;

    f->at_flush = begin_again;
    http_schedule_flush(&f->heads[0], 0);
    for (size_t turn = 1; turn <= HEADS; ++turn) {
        turn_at(f, START_MS);
        expect_flushed(f, turn, 0);
    }
    list_remove(&f->heads[0].held_node);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_head_that_is_held_goes_when_its_time_has_come_and_one_begun_in_the_turn),
        TEST(a_head_held_for_less_is_flushed_before_one_that_came_first),
        TEST(a_released_head_is_not_flushed_and_delays_no_other),
        TEST(a_head_begun_while_others_are_flushed_does_not_wait_for_those_held),
        TEST(a_head_that_is_held_again_at_each_flush_has_one_flush_per_turn),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
