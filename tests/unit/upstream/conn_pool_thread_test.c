/* SPDX-License-Identifier: Apache-2.0
 *
 * The connection pool under threads: loops full of clients that take, wait, give up, give back and
 * break connections at random, while another thread changes the limits and retires the backend
 * under them. For the thread and address sanitizers, and for the counts at the end.
 */
#include "tests/unit/upstream/conn_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { LOOPS_MAX_HERE = 8, CLIENTS_PER_LOOP = 6 };

struct story {
    unsigned nloops;
    unsigned limit;
    unsigned rounds; /* of each client */
    size_t max_waiting;
    bool changing; /* limits change and the backend is retired meanwhile */
};

struct world {
    const struct story *story;
    struct conn_pool *pool;
    struct loop *loops[LOOPS_MAX_HERE];
    pthread_barrier_t barrier;
    struct fake_counts counts;
    atomic_int held; /* connections and permissions that clients have */
    atomic_int most_held;
    atomic_int rejected, cancelled, reported;
    atomic_int loops_done;
};

/* One client: a chain of rounds, each on a waiter of its own that is freed as soon as it may be. */
struct client {
    struct thread_worker *worker;
    struct timer timer;
    unsigned rounds_left;
    struct conn_backend *b;
    struct ask *ask;        /* waiting */
    struct fake_conn *conn; /* has */
    bool permitted;         /* has */
};

struct ask {
    struct conn_waiter w;
    struct client *client;
};

struct thread_worker {
    struct world *world;
    unsigned index;
    struct loop *loop;
    uint64_t seed;
    unsigned clients_left;
    struct client clients[CLIENTS_PER_LOOP];
};

static unsigned draw(struct thread_worker *w, unsigned n)
{
    w->seed = w->seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(w->seed >> 33) % n;
}

static struct conn_backend *find_backend(struct world *world)
{
    const struct conn_pool_settings s = {.max_waiting = world->story->max_waiting};

    return conn_pool_backend(world->pool, SLICE_LIT("10.0.0.1:80"), SLICE_LIT("life"),
                             world->story->limit, &s);
}

static void count_held(struct world *world)
{
    int now = atomic_fetch_add(&world->held, 1) + 1;
    int most = atomic_load(&world->most_held);

    while (now > most && !atomic_compare_exchange_weak(&world->most_held, &most, now))
        continue;
}

/* The client has what it asked for; use it for some turns. */
static void got(struct client *c, enum conn_result r, struct conn_waiter *w)
{
    struct thread_worker *k = c->worker;

    if (r == CONN_REUSED) {
        c->conn = fake_of(w->conn);
        ASSERT(c->conn->loop == k->loop);
        ASSERT(!atomic_exchange(&c->conn->taken, true));
        count_held(k->world);
    } else if (r == CONN_OPEN) {
        c->permitted = true;
        count_held(k->world);
    } else {
        ASSERT(r == CONN_REJECTED);
        ASSERT(w->error == ERR_NO_WORKER || w->error == ERR_QUEUE_FULL);
        atomic_fetch_add(&k->world->rejected, 1);
    }
    timer_start(k->loop, &c->timer, draw(k, 4) == 0);
}

static void on_ready(struct conn_waiter *w)
{
    struct ask *ask = container_of(w, struct ask, w);
    struct client *c = ask->client;

    ASSERT(c->ask == ask);
    c->ask = NULL;
    timer_stop(&c->timer);
    atomic_fetch_add(&c->worker->world->reported, 1);
    got(c, w->result, w);
    memset(ask, 0xee, sizeof(*ask));
    free(ask);
}

static void begin_round(struct client *c)
{
    struct thread_worker *k = c->worker;
    const struct conn_checkout o = {.fresh = draw(k, 6) == 0, .max_idle_ms = draw(k, 6) == 0};
    struct ask *ask = xcalloc(1, sizeof(*ask));

    --c->rounds_left;
    if (c->b == NULL || draw(k, 8) == 0) {
        conn_backend_release(c->b);
        c->b = find_backend(k->world);
    }
    ask->client = c;
    ask->w.ready = on_ready;
    enum conn_result r = conn_checkout(c->b, k->loop, &o, &ask->w);
    if (r == CONN_WAIT) {
        c->ask = ask;
        /* Mostly patient; some give up at once, or in the middle of a hand-over. */
        timer_start(k->loop, &c->timer, draw(k, 3) == 0 ? draw(k, 2) : 60000);
        return;
    }
    got(c, r, &ask->w);
    if (r == CONN_REJECTED) { /* on a backend that has been retired: find its next instance */
        conn_backend_release(c->b);
        c->b = NULL;
    }
    free(ask);
}

static void give_up(struct client *c)
{
    conn_cancel(&c->ask->w);
    memset(c->ask, 0xee, sizeof(*c->ask));
    free(c->ask);
    c->ask = NULL;
    atomic_fetch_add(&c->worker->world->cancelled, 1);
}

static void use_permission(struct client *c)
{
    struct thread_worker *k = c->worker;

    c->permitted = false;
    if (draw(k, 4) == 0) {
        atomic_fetch_sub(&k->world->held, 1);
        conn_not_opened(c->b);
        return;
    }
    c->conn = fake_open(c->b, k->loop, &k->world->counts);
    c->conn->stuck = draw(k, 10) == 0;
    c->conn->unwelcome = draw(k, 10) == 0;
}

static void end_use(struct client *c)
{
    struct fake_conn *f = c->conn;
    struct pooled_conn *p = &f->pooled;

    c->conn = NULL;
    f->dead = draw(c->worker, 10) == 0;
    atomic_fetch_sub(&c->worker->world->held, 1);
    atomic_store(&f->taken, false);
    if (draw(c->worker, 8) != 0) {
        conn_checkin(&p, c->worker->loop);
        return;
    }
    conn_withdraw(p);
    fake_close(p);
}

static void on_timer(struct timer *t)
{
    struct client *c = container_of(t, struct client, timer);
    struct thread_worker *k = c->worker;

    if (c->ask != NULL) {
        give_up(c);
    } else if (c->permitted) {
        use_permission(c);
    } else if (c->conn != NULL) {
        end_use(c);
    } else if (c->rounds_left != 0) {
        if (draw(k, 50) == 0)
            conn_pool_recycle(k->world->pool, k->loop);
        begin_round(c);
        return;
    } else {
        conn_backend_release(c->b);
        if (--k->clients_left == 0)
            loop_stop(k->loop);
        return;
    }
    timer_start(k->loop, &c->timer, 0);
}

static void *work(void *context)
{
    struct thread_worker *k = context;
    struct world *world = k->world;

    k->loop = loop_create(k->index);
    world->loops[k->index] = k->loop;
    pthread_barrier_wait(&world->barrier); /* all loops exist */
    pthread_barrier_wait(&world->barrier); /* the pool exists */
    for (unsigned i = 0; i < CLIENTS_PER_LOOP; ++i) {
        struct client *c = &k->clients[i];
        *c = (struct client){.worker = k, .rounds_left = world->story->rounds};
        timer_init(&c->timer, on_timer);
        timer_start(k->loop, &c->timer, 0);
    }
    k->clients_left = CLIENTS_PER_LOOP;
    loop_run(k->loop);
    atomic_fetch_add(&world->loops_done, 1);
    /* A loop continues to serve the others when its own clients are done. */
    while (atomic_load(&world->loops_done) < (int)world->story->nloops)
        loop_turn(k->loop, 1);
    pthread_barrier_wait(&world->barrier); /* no thread changes anything any more */
    conn_pool_close_loop(world->pool, k->loop);
    pthread_barrier_wait(&world->barrier); /* all loops are closed in the pool */
    loop_destroy(k->loop);
    return NULL;
}

/* What the control thread does while the loops run. */
static void change_things(struct world *world)
{
    const struct conn_pool_settings s = {.max_waiting = world->story->max_waiting,
                                         .idle_timeout_ms = 1};
    unsigned turn = 0;

    while (atomic_load(&world->loops_done) < (int)world->story->nloops) {
        conn_pool_check(world->pool);
        if (!world->story->changing) {
            sched_yield();
            continue;
        }
        struct conn_backend *b = find_backend(world);
        struct conn_backend_view v;
        conn_backend_set(b, turn % 6, &s);
        conn_backend_view(b, &v);
        ASSERT(v.max_connections <= 5 || v.max_connections == world->story->limit);
        if (++turn % 16 == 0)
            conn_backend_retire(b);
        conn_backend_release(b);
        sched_yield();
    }
}

static void run_story(const struct story *story)
{
    struct world *world = xcalloc(1, sizeof(*world));
    struct thread_worker *workers = xcalloc(story->nloops, sizeof(*workers));
    pthread_t threads[LOOPS_MAX_HERE];

    world->story = story;
    pthread_barrier_init(&world->barrier, NULL, story->nloops + 1);
    for (unsigned i = 0; i < story->nloops; ++i) {
        workers[i] =
            (struct thread_worker){.world = world, .index = i, .seed = 1000 * story->limit + i};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    pthread_barrier_wait(&world->barrier);
    world->pool = conn_pool_create(&fake_ops, world->loops, story->nloops);
    pthread_barrier_wait(&world->barrier);
    change_things(world);
    pthread_barrier_wait(&world->barrier);
    conn_pool_check(world->pool);
    pthread_barrier_wait(&world->barrier);
    for (unsigned i = 0; i < story->nloops; ++i)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&world->counts.live), 0);
    assert_int_equal(atomic_load(&world->held), 0);
    assert_true(atomic_load(&world->reported) > 0);
    assert_true(atomic_load(&world->cancelled) > 0);
    if (!story->changing) {
        assert_in_range(atomic_load(&world->most_held), 1, story->limit);
        assert_true(atomic_load(&world->counts.attached) > 0);
    }
    conn_pool_destroy(world->pool); /* asserts that no backend is left */
    pthread_barrier_destroy(&world->barrier);
    free(workers);
    free(world);
}

static void limits_hold_and_none_is_forgotten_with_few_loops(void **state)
{
    (void)state;
    for (unsigned limit = 1; limit <= 3; ++limit)
        run_story(&(struct story){.nloops = 2, .limit = limit, .rounds = 200, .max_waiting = 100});
}

static void limits_hold_and_none_is_forgotten_with_many_loops(void **state)
{
    (void)state;
    run_story(&(struct story){.nloops = 8, .limit = 1, .rounds = 40, .max_waiting = 100});
    run_story(&(struct story){.nloops = 8, .limit = 5, .rounds = 60, .max_waiting = 10});
}

static void limits_may_change_and_backends_retire_at_any_time(void **state)
{
    (void)state;
    run_story(&(struct story){
        .nloops = 2, .limit = 2, .rounds = 200, .max_waiting = 100, .changing = true});
    run_story(&(struct story){
        .nloops = 4, .limit = 3, .rounds = 150, .max_waiting = 5, .changing = true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_hold_and_none_is_forgotten_with_few_loops),
        cmocka_unit_test(limits_hold_and_none_is_forgotten_with_many_loops),
        cmocka_unit_test(limits_may_change_and_backends_retire_at_any_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
