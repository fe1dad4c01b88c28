/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/clock.h"
#include "common/event/loop.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int set_up(void **state)
{
    *state = loop_create(7);
    return 0;
}

static int tear_down(void **state)
{
    loop_destroy(*state);
    return 0;
}

/* ---- timers ---- */

struct counted_timer {
    struct timer t;
    struct loop *loop;
    struct timer *victim; /* stopped, or started when it does not run */
    uint64_t again_ms;    /* not 0: start again until TIMES */
    int times;
    int *freed;
};

static void on_counted(struct timer *t)
{
    struct counted_timer *c = container_of(t, struct counted_timer, t);

    ++c->times;
    if (c->victim != NULL)
        timer_stop(c->victim);
    if (c->again_ms != 0 && c->times < 3)
        timer_start(c->loop, t, c->again_ms);
}

static void a_timer_expires_once_and_not_before_its_delay(void **state)
{
    struct loop *l = *state;
    struct counted_timer c = {.loop = l};

    timer_init(&c.t, on_counted);
    for (uint64_t delay_ms = 1; delay_ms <= 3; ++delay_ms) {
        c.times = 0;
        uint64_t started_us = clock_mono_us();
        timer_start(l, &c.t, delay_ms);
        assert_int_equal(c.times, 0);
        while (c.times == 0)
            loop_turn(l, 1000);
        assert_true(clock_mono_us() - started_us >= delay_ms * 1000);
        assert_false(timer_running(&c.t));
    }
    loop_turn(l, 0);
    assert_int_equal(c.times, 1);
}

static void a_timer_without_delay_expires_in_the_next_turn(void **state)
{
    struct loop *l = *state;
    struct counted_timer c = {.loop = l};

    timer_init(&c.t, on_counted);
    timer_start(l, &c.t, 0);
    assert_int_equal(c.times, 0);
    loop_turn(l, 1000);
    assert_int_equal(c.times, 1);
}

static void on_again(struct timer *t)
{
    struct counted_timer *c = container_of(t, struct counted_timer, t);

    ++c->times;
    timer_start(c->loop, t, 0);
}

static void a_timer_that_restarts_without_delay_lets_the_turn_end(void **state)
{
    struct loop *l = *state;
    struct counted_timer c = {.loop = l};

    timer_init(&c.t, on_again);
    timer_start(l, &c.t, 0);
    for (int turns = 1; turns <= 5; ++turns) {
        loop_turn(l, 1000);
        assert_int_equal(c.times, turns);
    }
    timer_stop(&c.t);
}

static void a_timer_may_restart_itself_and_stop_others_due_with_it(void **state)
{
    struct loop *l = *state;
    struct counted_timer victim = {.loop = l};
    struct counted_timer killer = {.loop = l, .victim = &victim.t, .again_ms = 1};

    timer_init(&killer.t, on_counted);
    timer_init(&victim.t, on_counted);
    timer_start(l, &killer.t, 0);
    timer_start(l, &victim.t, 0);
    while (killer.times < 3)
        loop_turn(l, 1000);
    assert_int_equal(victim.times, 0);
}

static void on_free(struct timer *t)
{
    struct counted_timer *c = container_of(t, struct counted_timer, t);

    ++*c->freed; /* the address sanitizer sees whether C is used after this */
    free(c);
}

static void a_timer_may_free_what_holds_it(void **state)
{
    struct loop *l = *state;
    int freed = 0;

    for (int i = 0; i < 3; ++i) {
        struct counted_timer *c = xcalloc(1, sizeof(*c));
        timer_init(&c->t, on_free);
        c->freed = &freed;
        timer_start(l, &c->t, 0);
    }
    loop_turn(l, 0);
    assert_int_equal(freed, 3);
}

static void far_timers_do_not_expire_or_keep_the_loop_busy(void **state)
{
    struct loop *l = *state;
    struct counted_timer c[3] = {{.loop = l}, {.loop = l}, {.loop = l}};
    const uint64_t delays_ms[] = {3600 * 1000, 400ull * 24 * 3600 * 1000, UINT64_MAX};

    for (int i = 0; i < 3; ++i) {
        timer_init(&c[i].t, on_counted);
        timer_start(l, &c[i].t, delays_ms[i]);
    }
    uint64_t before_us = clock_mono_us();
    loop_turn(l, 5);
    assert_true(clock_mono_us() - before_us >= 5000);
    for (int i = 0; i < 3; ++i) {
        assert_int_equal(c[i].times, 0);
        assert_true(timer_running(&c[i].t));
        timer_stop(&c[i].t);
    }
}

/* ---- time ---- */

struct time_seen {
    struct timer t;
    struct loop *loop;
    uint64_t first_us, second_us;
};

static void on_time(struct timer *t)
{
    struct time_seen *s = container_of(t, struct time_seen, t);

    s->first_us = loop_now_us(s->loop);
    while (clock_mono_us() < s->first_us + 200)
        continue;
    s->second_us = loop_now_us(s->loop);
}

static void time_stands_still_within_a_turn_and_is_fresh_after_the_wait(void **state)
{
    struct loop *l = *state;
    struct time_seen s = {.loop = l};

    timer_init(&s.t, on_time);
    uint64_t before_us = loop_now_us(l);
    timer_start(l, &s.t, 2);
    while (s.second_us == 0)
        loop_turn(l, 1000);
    assert_true(s.first_us == s.second_us);
    assert_true(s.first_us >= before_us + 2000);
    assert_true(loop_now_us(l) > s.second_us);
    assert_true(loop_now_ms(l) >= s.second_us / 1000);
}

/* ---- mailbox ---- */

enum { POSTERS = 4, POSTS = 500 };

struct mail {
    struct loop_message m;
    struct mailbox_test *test;
    int poster, number;
};

struct mailbox_test {
    struct loop *loop;
    int next[POSTERS];
    int received;
    struct mail mails[POSTERS][POSTS];
};

static void on_mail(struct loop_message *m)
{
    struct mail *mail = container_of(m, struct mail, m);
    struct mailbox_test *test = mail->test;

    assert_int_equal(mail->number, test->next[mail->poster]);
    ++test->next[mail->poster];
    if (++test->received == POSTERS * POSTS)
        loop_stop(test->loop);
}

static void *post_all(void *context)
{
    struct mail *mails = context;

    for (int i = 0; i < POSTS; ++i)
        loop_post(mails->test->loop, &mails[i].m);
    return NULL;
}

static void messages_of_each_poster_arrive_once_and_in_order(void **state)
{
    struct loop *l = *state;
    struct mailbox_test *test = xcalloc(1, sizeof(*test));
    pthread_t threads[POSTERS];

    test->loop = l;
    for (int i = 0; i < POSTERS * POSTS; ++i)
        test->mails[i / POSTS][i % POSTS] =
            (struct mail){.m.run = on_mail, .test = test, .poster = i / POSTS, .number = i % POSTS};
    for (int i = 0; i < POSTERS; ++i)
        assert_int_equal(pthread_create(&threads[i], NULL, post_all, test->mails[i]), 0);
    loop_run(l);
    for (int i = 0; i < POSTERS; ++i)
        pthread_join(threads[i], NULL);
    assert_int_equal(test->received, POSTERS * POSTS);
    free(test);
}

struct ball {
    struct loop_message m;
    struct loop *loop;
    int bounces;
};

static void on_bounce(struct loop_message *m)
{
    struct ball *b = container_of(m, struct ball, m);

    if (++b->bounces < 3)
        loop_post(b->loop, m);
}

static void the_loop_may_post_to_itself(void **state)
{
    struct loop *l = *state;
    struct ball b = {.m.run = on_bounce, .loop = l};

    loop_post(l, &b.m);
    assert_int_equal(b.bounces, 0);
    while (b.bounces < 3)
        loop_turn(l, 10000); /* would sleep for long if its own post did not keep it awake */
    assert_int_equal(b.bounces, 3);
}

static void messages_posted_before_the_end_still_run(void **state)
{
    struct loop *l = loop_create(1);
    struct ball b = {.m.run = on_bounce, .loop = l};

    (void)state;
    loop_post(l, &b.m);
    loop_destroy(l);
    assert_int_equal(b.bounces, 3);
}

static void *stop_it(void *loop)
{
    loop_stop(loop);
    return NULL;
}

static void a_sleeping_loop_is_stopped_from_another_thread(void **state)
{
    struct loop *l = *state;
    pthread_t thread;

    for (int i = 0; i < 20; ++i) {
        assert_int_equal(pthread_create(&thread, NULL, stop_it, l), 0);
        loop_run(l); /* or the test times out */
        pthread_join(thread, NULL);
    }
    assert_int_equal(loop_index(l), 7);
}

/* ---- descriptors ---- */

struct reader {
    struct watch *w;
    int fd;
    int calls;
    bool stop;
};

static void on_readable(void *context)
{
    struct reader *r = context;
    char byte;

    ++r->calls;
    assert_int_equal(read(r->fd, &byte, 1), 1);
    if (r->stop)
        watch_stop(r->w);
}

static void a_watch_is_level_triggered_and_leaves_the_descriptor_open(void **state)
{
    struct loop *l = *state;
    struct reader r = {.stop = false};
    int fds[2];

    assert_int_equal(pipe(fds), 0);
    r.fd = fds[0];
    r.w = watch_start(l, r.fd, on_readable, &r);
    assert_int_equal(write(fds[1], "abc", 3), 3);
    while (r.calls < 2)
        loop_turn(l, 1000);
    r.stop = true;
    loop_turn(l, 1000);
    assert_int_equal(r.calls, 3);
    assert_int_equal(write(fds[1], "d", 1), 1);
    loop_turn(l, 0);
    assert_int_equal(r.calls, 3);
    on_readable(&(struct reader){.fd = fds[0]}); /* still open, and the byte is there */
    r.w = watch_start(l, r.fd, on_readable, &r);
    watch_stop(r.w); /* before the loop has ever seen it */
    watch_stop(NULL);
    loop_turn(l, 0);
    close(fds[0]);
    close(fds[1]);
}

/* ---- order ---- */

struct ordered {
    struct loop *loop;
    struct watch *w;
    struct timer t;
    struct loop_message m;
    struct loop_deferred each, end;
    char order[8]; /* of callbacks, a letter each */
};

static void note(struct ordered *o, char letter)
{
    size_t n = strlen(o->order);

    assert_true(n + 1 < sizeof(o->order));
    o->order[n] = letter;
}

static void on_ordered_readable(void *context)
{
    struct ordered *o = context;

    note(o, 'w');
    watch_stop(o->w);
    loop_post(o->loop, &o->m);
    loop_defer(o->loop, &o->end);
}

static void on_ordered_timer(struct timer *t)
{
    note(container_of(t, struct ordered, t), 't');
}

static void on_ordered_message(struct loop_message *m)
{
    note(container_of(m, struct ordered, m), 'm');
}

static void on_ordered_turn(struct loop_deferred *d)
{
    struct ordered *o = container_of(d, struct ordered, each);

    note(o, 'e');
    list_remove(&d->node);
}

static void on_ordered_end(struct loop_deferred *d)
{
    note(container_of(d, struct ordered, end), 'd');
}

static void a_turn_runs_watches_timers_messages_and_then_what_comes_at_its_end(void **state)
{
    struct ordered o = {.loop = *state,
                        .m.run = on_ordered_message,
                        .each.run = on_ordered_turn,
                        .end.run = on_ordered_end};
    int fds[2];

    assert_int_equal(pipe(fds), 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    loop_each_turn(o.loop, &o.each);
    timer_init(&o.t, on_ordered_timer);
    timer_start(o.loop, &o.t, 0);
    o.w = watch_start(o.loop, fds[0], on_ordered_readable, &o);
    loop_turn(o.loop, 60000); /* does not wait: the test would time out */
    assert_string_equal(o.order, "wtmed");
    close(fds[0]);
    close(fds[1]);
}

/* ---- blocks ---- */

static void a_block_that_was_given_back_is_the_next_one_taken(void **state)
{
    enum { MANY = 100 };
    struct loop *l = *state;
    void *blocks[MANY];

    for (int i = 0; i < MANY; ++i) {
        blocks[i] = loop_alloc_block(l);
        memset(blocks[i], i, LOOP_BLOCK_BYTES);
    }
    loop_free_block(l, blocks[0]);
    assert_ptr_equal(loop_alloc_block(l), blocks[0]);
    free(blocks[0]);
    /* Not all of them are kept, and what is kept goes with the loop: the leak checker looks. */
    for (int i = 1; i < MANY; ++i)
        loop_free_block(l, blocks[i]);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_timer_expires_once_and_not_before_its_delay),
        TEST(a_timer_without_delay_expires_in_the_next_turn),
        TEST(a_timer_that_restarts_without_delay_lets_the_turn_end),
        TEST(a_timer_may_restart_itself_and_stop_others_due_with_it),
        TEST(a_timer_may_free_what_holds_it),
        TEST(far_timers_do_not_expire_or_keep_the_loop_busy),
        TEST(time_stands_still_within_a_turn_and_is_fresh_after_the_wait),
        TEST(messages_of_each_poster_arrive_once_and_in_order),
        TEST(the_loop_may_post_to_itself),
        TEST(messages_posted_before_the_end_still_run),
        TEST(a_sleeping_loop_is_stopped_from_another_thread),
        TEST(a_watch_is_level_triggered_and_leaves_the_descriptor_open),
        TEST(a_turn_runs_watches_timers_messages_and_then_what_comes_at_its_end),
        TEST(a_block_that_was_given_back_is_the_next_one_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
