/* SPDX-License-Identifier: Apache-2.0
 *
 * Several loops in threads of their own, each with its client, and one real daemon: what they count
 * together is never above its limit.
 */
#include "tests/support/poolcounterd.h"
#include "tests/unit/counters/pool_counter_client_fixture.h"

#include <pthread.h>
#include <stdatomic.h>

enum { LOOPS = 4, ASKERS = 8, ROUNDS = 25, WORKERS = 3 };

struct story {
    struct addr addr;
    struct pool_counter_health *health;
    atomic_uint holding, most, locked;
};

struct thread {
    pthread_t id;
    struct story *story;
    struct loop *loop;
    struct pool_counter_client *client;
    struct busy_asker {
        struct pool_counter_call call;
        struct thread *thread;
        struct loop_deferred work; /* lasts until the end of the turn */
        unsigned rounds;
    } askers[ASKERS];
    unsigned running;
};

static void go_on(struct busy_asker *a)
{
    const struct counter_request r = {
        .key = SLICE_LIT("shared"),
        .kind = COUNTER_ME,
        .workers = WORKERS,
        .maxqueue = LOOPS * ASKERS * 2, /* a requester may ask again before RELEASED arrives */
        .timeout_ms = UINT64_C(2) * RAW_DEADLINE_MS,
    };

    if (a->rounds++ == ROUNDS)
        --a->thread->running;
    else
        pool_counter_client_acquire(a->thread->client, &a->call, &r);
}

static void end_work(struct loop_deferred *d)
{
    struct busy_asker *a = container_of(d, struct busy_asker, work);

    atomic_fetch_sub(&a->thread->story->holding, 1);
    pool_counter_client_release(&a->call);
    go_on(a);
}

static void work(struct pool_counter_call *c, enum counter_result r)
{
    struct busy_asker *a = container_of(c, struct busy_asker, call);
    struct story *s = a->thread->story;

    ASSERT(r == COUNTER_LOCKED);
    atomic_fetch_add(&s->locked, 1);
    unsigned now = atomic_fetch_add(&s->holding, 1) + 1;
    unsigned most = atomic_load(&s->most);
    while (now > most && !atomic_compare_exchange_weak(&s->most, &most, now))
        continue;
    loop_defer(a->thread->loop, &a->work);
}

static void *run(void *context)
{
    struct thread *t = context;
    struct pool_counter_server_address server = {SLICE_LIT("one"), t->story->addr};
    const struct pool_counter_client_settings s = {
        .health = t->story->health,
        .connect_timeout_ms = RAW_DEADLINE_MS,
        .response_timeout_ms = RAW_DEADLINE_MS,
    };

    t->loop = loop_create(0);
    t->client = pool_counter_client_create(t->loop, &s);
    pool_counter_client_set_servers(t->client, &server, 1);
    t->running = ASKERS;
    for (unsigned i = 0; i < ASKERS; ++i) {
        struct busy_asker *a = &t->askers[i];
        a->thread = t;
        a->call.responded = work;
        a->work.run = end_work;
        go_on(a);
    }
    while (t->running != 0)
        loop_turn(t->loop, RAW_TURN_MS);
    pool_counter_client_destroy(t->client);
    loop_destroy(t->loop);
    return NULL;
}

static void loops_share_a_limit_at_a_daemon(void **state)
{
    struct poolcounterd daemon = {0};
    struct thread threads[LOOPS] = {0};
    struct story story = {0};

    (void)state;
    poolcounterd_start(&daemon);
    story.addr = daemon.addr;
    story.health = pool_counter_health_create("test");
    for (unsigned i = 0; i < LOOPS; ++i) {
        threads[i].story = &story;
        assert_int_equal(pthread_create(&threads[i].id, NULL, run, &threads[i]), 0);
    }
    for (unsigned i = 0; i < LOOPS; ++i)
        pthread_join(threads[i].id, NULL);
    pool_counter_health_destroy(story.health);
    poolcounterd_end(&daemon);
    assert_int_equal(atomic_load(&story.locked), LOOPS * ASKERS * ROUNDS);
    assert_int_equal(atomic_load(&story.holding), 0);
    assert_in_range(atomic_load(&story.most), 1, WORKERS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loops_share_a_limit_at_a_daemon),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
