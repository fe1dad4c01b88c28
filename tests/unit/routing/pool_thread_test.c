/* SPDX-License-Identifier: Apache-2.0
 *
 * Many threads on one pool, as loops use it; worth most under the thread sanitizer. Five threads
 * serve requests and wait for their turn, two let workers come and go, one looks and changes
 * settings.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "tests/support/resume_find.h"
#include "tests/unit/routing/pool_fixture.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { STEPS = 2000 };
#else
enum { STEPS = 20000 };
#endif
enum { SERVERS = 5, CHURNERS = 2, WORKERS_EACH = 2, IN_FLIGHT = 4, CLASSES = 40 };

struct stage {
    struct pool *pool;
    atomic_uint workers_alive;
    atomic_ulong served;
    atomic_ulong waited;
    atomic_bool over; /* the serving threads are done */
};

/* One thread's own: its randomness, and what it shares. */
struct actor {
    struct stage *stage;
    uint64_t seed;
    pthread_t thread;
};

/* xorshift64* */
static uint32_t below(struct actor *a, uint32_t n)
{
    a->seed ^= a->seed >> 12;
    a->seed ^= a->seed << 25;
    a->seed ^= a->seed >> 27;
    return (uint32_t)((a->seed * 0x2545F4914F6CDD1DULL) >> 32) % n;
}

static void nap(long us)
{
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

static const char *some_class(struct actor *a, char name[16])
{
    snprintf(name, 16, "c%u", below(a, CLASSES));
    return name;
}

/* As a loop does: take it off the list, then wake it; after that it is the sleeper's again. */
static void wake(struct list *released)
{
    struct list *node;

    while ((node = list_pop_front(released)) != NULL)
        sem_post(list_entry(node, struct pool_waiter, node)->context);
}

/* Whether the waiter was released; if not in time, the wait is over. */
static bool sleep_until_turn(struct actor *a, struct pool_waiter *w)
{
    struct list released = LIST_INIT(released);
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 2000000;
    if (until.tv_nsec >= 1000000000) {
        ++until.tv_sec;
        until.tv_nsec -= 1000000000;
    }
    int slept;
    while ((slept = sem_timedwait(w->context, &until)) != 0 && errno == EINTR)
        continue;
    if (slept == 0) {
        atomic_fetch_add(&a->stage->waited, 1);
        return true;
    }
    bool still_ours = pool_wait_cancel(a->stage->pool, w, &released);
    wake(&released);
    /* A wake-up is in flight, and W must be valid when it arrives. */
    while (!still_ours && sem_wait(w->context) != 0)
        continue;
    return false;
}

static bool serve_one(struct actor *a, struct pool_waiter *w, struct pool_pick *pick)
{
    struct list released = LIST_INIT(released);
    struct worker *excluded[1] = {NULL};
    char name[16];
    struct pool_request r = {
        .cls = slice_of(some_class(a, name)), .waiter = w, .released = &released};
    enum err e;

    do {
        e = pool_get(a->stage->pool, &r, 1, pick);
        wake(&released);
    } while (e == ERR_BUSY && sleep_until_turn(a, w));
    if (e != ERR_OK || below(a, 10) != 0)
        return e == ERR_OK;
    /* Now and then a request goes elsewhere. */
    excluded[0] = worker_ref(pick->worker);
    pool_put(a->stage->pool, pick, NULL, &released);
    r.excluded = excluded;
    r.nexcluded = 1;
    r.retry = true;
    r.waiter = NULL;
    e = pool_get(a->stage->pool, &r, 1, pick);
    wake(&released);
    worker_unref(excluded[0]);
    return e == ERR_OK;
}

static void *act_server(void *context)
{
    struct actor *a = context;
    struct list released = LIST_INIT(released);
    struct pool_pick in_flight[IN_FLIGHT] = {0};
    sem_t turn;
    struct pool_waiter w = {.context = &turn};

    sem_init(&turn, 0, 0);
    for (unsigned i = 0; i < STEPS; ++i) {
        struct pool_pick *pick = &in_flight[i % IN_FLIGHT];

        if (pick->worker != NULL) {
            worker_report(pick->worker, below(a, 10), below(a, 3));
            pool_put(a->stage->pool, pick, NULL, &released);
        }
        wake(&released);
        if (i % 8 == 0)
            nap(1);
        if (serve_one(a, &w, pick))
            atomic_fetch_add(&a->stage->served, 1);
    }
    for (unsigned i = 0; i < IN_FLIGHT; ++i) {
        if (in_flight[i].worker != NULL)
            pool_put(a->stage->pool, &in_flight[i], NULL, &released);
    }
    wake(&released);
    sem_destroy(&turn);
    return NULL;
}

static void on_worker_gone(void *context)
{
    atomic_fetch_sub((atomic_uint *)context, 1);
}

static void churn(struct actor *a, struct worker **w, struct list *released)
{
    struct resume r = {0};
    char name[16];

    if (*w == NULL) {
        struct worker_options o = {.name = SLICE_LIT("w"),
                                   .concurrency = 1 + below(a, 3),
                                   .context = &a->stage->workers_alive,
                                   .context_release = on_worker_gone};
        *w = worker_create(&o);
        atomic_fetch_add(&a->stage->workers_alive, 1);
    }
    switch (below(a, 8)) {
    case 0:
    case 1:
        pool_remove(a->stage->pool, *w, released);
        worker_unref(*w);
        *w = NULL;
        break;
    case 2:
    case 3:
    case 4:
        pool_set_available(a->stage->pool, *w, below(a, 2) != 0, released);
        break;
    default:
        for (unsigned i = below(a, 10); i-- != 0;) {
            some_class(a, name);
            if (resume_find(&r, slice_of(name)) == NULL)
                resume_push(&r, slice_of(name), below(a, 100));
        }
        pool_new_resume(a->stage->pool, *w, &r, below(a, 3) != 0 ? "1" : "2", "", released);
        resume_fini(&r);
    }
}

static void *act_churner(void *context)
{
    struct actor *a = context;
    struct list released = LIST_INIT(released);
    struct worker *workers[WORKERS_EACH] = {NULL};

    while (!atomic_load(&a->stage->over)) {
        churn(a, &workers[below(a, WORKERS_EACH)], &released);
        wake(&released);
        nap(20);
    }
    for (unsigned i = 0; i < WORKERS_EACH; ++i) {
        if (workers[i] == NULL)
            continue;
        pool_remove(a->stage->pool, workers[i], &released);
        worker_unref(workers[i]);
    }
    wake(&released);
    return NULL;
}

static void *act_onlooker(void *context)
{
    struct actor *a = context;

    while (!atomic_load(&a->stage->over)) {
        struct pool_settings s = fixture_settings;
        struct pool_view v;

        s.max_classes = 10 + below(a, 50);
        s.single_version = below(a, 2) != 0;
        s.backlog_shared = below(a, 4) != 0;
        s.backlog_max_age_ms = 1 + below(a, 2);
        s.policy = (enum pool_policy)below(a, POOL_POLICIES);
        s.shadowed = below(a, 2) != 0;
        s.shadow = (enum pool_policy)below(a, POOL_POLICIES);
        pool_set(a->stage->pool, &s);
        pool_check(a->stage->pool);
        pool_scan(a->stage->pool, below(a, 2) != 0, &v);
        pool_view_fini(&v);
        nap(100);
    }
    return NULL;
}

static void many_threads_leave_a_consistent_pool(void **state)
{
    struct stage stage = {.pool = pool_create(&fixture_settings, "")};
    struct actor actors[SERVERS + CHURNERS + 1];

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(actors); ++i) {
        void *(*act)(void *) = i < SERVERS              ? act_server
                               : i < SERVERS + CHURNERS ? act_churner
                                                        : act_onlooker;

        actors[i] = (struct actor){.stage = &stage, .seed = 4711 + i};
        assert_int_equal(pthread_create(&actors[i].thread, NULL, act, &actors[i]), 0);
    }
    for (unsigned i = 0; i < ARRAY_LEN(actors); ++i) {
        if (i == SERVERS)
            atomic_store(&stage.over, true);
        pthread_join(actors[i].thread, NULL);
    }
    pool_check(stage.pool);
    print_message("%lu served, %lu after a wait\n", atomic_load(&stage.served),
                  atomic_load(&stage.waited));
    assert_true(atomic_load(&stage.served) > STEPS);
    assert_int_equal(atomic_load(&stage.workers_alive), 0);
    pool_destroy(stage.pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_threads_leave_a_consistent_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
