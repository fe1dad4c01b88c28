/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of a connection's check-out and check-in, by number of loops, in three designs:
 *   handle     the pool as it is used: a mutex and a stack per loop in each backend's handle
 *   look-up    the same, with a look-up of the backend by key each time (read-write lock and map)
 *   one mutex  one lock over one map of stacks, as in MariaDB's Spider before its redesign
 * Then a short form of the measurement of the pool at its limit (bench/conn_pool_experiment.h).
 *   conn_pool_bench [BACKENDS [PAIRS]]
 *   conn_pool_bench experiment [MS]    the complete measurement, MS for each figure
 *   conn_pool_bench one mutex-map|mutex-stacks|loops REQUESTERS MAX_CONNECTIONS LOOPS MS
 *                                      one figure, for perf
 */
#include "bench/conn_pool_experiment.h"
#include "common/base/clock.h"
#include "common/base/map.h"
#include "common/base/text.h"
#include "common/upstream/conn_pool.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOPS_TRIED_MAX = 8, KEY_ROOM = 32 };

static const struct conn_pool_settings settings = {.max_waiting = 1000};

/* ---- the design for comparison ---- */

struct plain_stack {
    struct map_node in_map;
    char key[KEY_ROOM];
    struct list stack;
};

struct plain_pool {
    pthread_mutex_t mutex;
    struct map map;
};

static struct plain_stack *find_or_add_locked(struct plain_pool *p, const char *key)
{
    struct plain_stack *s;

    s = map_entry(map_find(&p->map, key, strlen(key)), struct plain_stack, in_map);
    if (s != NULL)
        return s;
    s = xcalloc(1, sizeof(*s));
    snprintf(s->key, sizeof(s->key), "%s", key);
    list_init(&s->stack);
    map_add(&p->map, &s->in_map, s->key, strlen(s->key));
    return s;
}

static struct pooled_conn *plain_checkout(struct plain_pool *p, const char *key)
{
    pthread_mutex_lock(&p->mutex);
    struct list *node = list_pop_front(&find_or_add_locked(p, key)->stack);
    pthread_mutex_unlock(&p->mutex);
    return node != NULL ? list_entry(node, struct pooled_conn, stack_node) : NULL;
}

static void plain_checkin(struct plain_pool *p, const char *key, struct pooled_conn *c)
{
    pthread_mutex_lock(&p->mutex);
    list_push_front(&find_or_add_locked(p, key)->stack, &c->stack_node);
    pthread_mutex_unlock(&p->mutex);
}

static void plain_fini(struct plain_pool *p)
{
    struct list *node;

    map_for_each_safe (struct plain_stack, s, &p->map, in_map) {
        map_remove(&p->map, &s->in_map);
        while ((node = list_pop_front(&s->stack)) != NULL)
            free(list_entry(node, struct pooled_conn, stack_node));
        free(s);
    }
    pthread_mutex_destroy(&p->mutex);
}

/* ---- simulated connections ---- */

static bool always_alive(struct pooled_conn *c)
{
    return c->backend != NULL;
}

static void free_conn(struct pooled_conn *c)
{
    free(c);
}

static bool always_detach(struct pooled_conn *c)
{
    return c != NULL;
}

static bool always_attach(struct pooled_conn *c, struct loop *l)
{
    return c != NULL && l != NULL;
}

static const struct conn_pool_ops ops = {
    .alive = always_alive, .close = free_conn, .detach = always_detach, .attach = always_attach};

/* ---- runs ---- */

enum design { DESIGN_HANDLE, DESIGN_LOOK_UP, DESIGN_ONE_MUTEX, DESIGN_COUNT };

struct bench {
    enum design design;
    unsigned nloops, nbackends;
    uint64_t pairs; /* of each loop */
    char (*keys)[KEY_ROOM];
    struct conn_pool *pool;
    struct conn_backend **backends;
    struct plain_pool plain;
    struct loop *loops[LOOPS_TRIED_MAX];
    pthread_barrier_t barrier;
    uint64_t began_us, ended_us; /* by loop 0, between barriers */
};

struct runner {
    pthread_t thread;
    struct bench *bench;
    struct timer go;
    unsigned index;
    uint64_t seed;
};

/* xorshift: its cost is negligible in the measurement. */
static unsigned next_random(uint64_t *state, unsigned n)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (unsigned)(*state >> 32) % n;
}

static void pooled_pair(struct bench *b, struct loop *l, unsigned i)
{
    const struct conn_checkout o = {.fresh = false};
    struct conn_waiter w = {.ready = NULL};
    struct conn_backend *backend = b->backends[i];
    bool look_up = b->design == DESIGN_LOOK_UP;

    if (look_up)
        backend = conn_pool_backend(b->pool, slice_of(b->keys[i]), SLICE_NULL, 0, &settings);
    enum conn_result r = conn_checkout(backend, l, &o, &w);
    if (r == CONN_OPEN) {
        w.conn = xcalloc(1, sizeof(*w.conn));
        conn_opened(backend, w.conn, l);
    }
    conn_checkin(&w.conn, l);
    if (look_up)
        conn_backend_release(backend);
}

static void plain_pair(struct bench *b, unsigned i)
{
    struct pooled_conn *c = plain_checkout(&b->plain, b->keys[i]);

    if (c == NULL)
        c = xcalloc(1, sizeof(*c));
    plain_checkin(&b->plain, b->keys[i], c);
}

/* Runs within one turn of the loop, in which it reads the time once. */
static void on_go(struct timer *t)
{
    struct runner *r = container_of(t, struct runner, go);
    struct bench *b = r->bench;
    struct loop *l = b->loops[r->index];

    for (uint64_t n = 0; n < b->pairs; ++n) {
        unsigned i = next_random(&r->seed, b->nbackends);
        if (b->design == DESIGN_ONE_MUTEX)
            plain_pair(b, i);
        else
            pooled_pair(b, l, i);
    }
    loop_stop(l);
}

static void *run(void *arg)
{
    struct runner *r = arg;
    struct bench *b = r->bench;
    struct loop *l = loop_create(r->index);

    b->loops[r->index] = l;
    pthread_barrier_wait(&b->barrier); /* all loops exist */
    pthread_barrier_wait(&b->barrier); /* the pool exists */
    if (r->index == 0)
        b->began_us = clock_mono_us();
    timer_init(&r->go, on_go);
    timer_start(l, &r->go, 0);
    loop_run(l);
    pthread_barrier_wait(&b->barrier); /* all pairs are done */
    if (r->index == 0)
        b->ended_us = clock_mono_us();
    conn_pool_close_loop(b->pool, l);
    pthread_barrier_wait(&b->barrier); /* all loops are closed in the pool */
    loop_destroy(l);
    return NULL;
}

/* Pairs per microsecond, of all loops. */
static double rate(struct bench *b)
{
    struct runner runners[LOOPS_TRIED_MAX] = {0};

    pthread_barrier_init(&b->barrier, NULL, b->nloops + 1);
    pthread_mutex_init(&b->plain.mutex, NULL);
    for (unsigned i = 0; i < b->nloops; ++i) {
        runners[i] = (struct runner){.bench = b, .index = i, .seed = 88172645463325252u + i};
        if (pthread_create(&runners[i].thread, NULL, run, &runners[i]) != 0)
            abort();
    }
    pthread_barrier_wait(&b->barrier);
    b->pool = conn_pool_create(&ops, b->loops, b->nloops);
    for (unsigned i = 0; i < b->nbackends; ++i)
        b->backends[i] = conn_pool_backend(b->pool, slice_of(b->keys[i]), SLICE_NULL, 0, &settings);
    pthread_barrier_wait(&b->barrier);
    pthread_barrier_wait(&b->barrier);
    pthread_barrier_wait(&b->barrier);
    for (unsigned i = 0; i < b->nloops; ++i)
        pthread_join(runners[i].thread, NULL);
    for (unsigned i = 0; i < b->nbackends; ++i)
        conn_backend_release(b->backends[i]);
    conn_pool_destroy(b->pool);
    plain_fini(&b->plain);
    pthread_barrier_destroy(&b->barrier);
    b->plain = (struct plain_pool){0};
    return (double)(b->pairs * b->nloops) / (double)(b->ended_us - b->began_us);
}

static unsigned long argument(int argc, char **argv, int i, unsigned long deflt)
{
    uint64_t n = 0;

    if (argc <= i)
        return deflt;
    if (!parse_u64(slice_of(argv[i]), 1000000000, &n) || n == 0) {
        fprintf(stderr, "usage: conn_pool_bench [BACKENDS [PAIRS]] | experiment [MS] | one ...\n");
        exit(2);
    }
    return (unsigned long)n;
}

/* ---- at the limit ---- */

static void say(const char *name, const struct experiment *e, unsigned runs)
{
    struct experiment_result best = {0};

    for (unsigned i = 0; i < runs; ++i) {
        struct experiment_result r;

        experiment_run(e, &r);
        if (r.requests_per_s > best.requests_per_s)
            best = r;
    }
    printf("%10u %4u  %-14s %9.0f %9.0f %7.2f %8.1f %8.1f %7ju\n", e->requesters,
           e->max_connections, name, best.requests_per_s, best.p99_us, best.cpu_us,
           best.recycle_mean_us, best.recycle_max_us, (uintmax_t)best.opened);
    fflush(stdout);
}

static void compare(unsigned requesters, unsigned max_connections, uint64_t run_ms, bool all)
{
    static const unsigned loops[] = {2, 4, 8};
    struct experiment e = {
        .requesters = requesters, .max_connections = max_connections, .run_ms = run_ms};
    unsigned runs = all ? 2 : 1;
    char name[32];

    e.design = DESIGN_MUTEX_MAP;
    say("one mutex", &e, runs);
    e.design = DESIGN_MUTEX_STACKS;
    say("mutex stacks", &e, runs);
    e.design = DESIGN_OURS;
    for (size_t i = 0; i < ARRAY_LEN(loops) && (all || i == 0); ++i) {
        e.loops = loops[i];
        snprintf(name, sizeof(name), "%u loops", e.loops);
        say(name, &e, runs);
    }
    if (!all)
        return;
    e.loops = requesters;
    say("a loop each", &e, runs);
}

static void compare_all(uint64_t run_ms, bool all)
{
    static const unsigned limits[] = {100, 50, 20, 10, 5};
    static const unsigned requesters[] = {50, 100, 200};

    printf("\nconnections to %d backends at their limit; the better of %d runs\n"
           "requesters  max  design         requests/s    p99 us  CPU us  recycle mean, max us  "
           "opened\n",
           EXPERIMENT_BACKENDS, all ? 2 : 1);
    for (size_t i = 0; i < ARRAY_LEN(limits); ++i) {
        if (all || limits[i] == 100 || limits[i] == 5)
            compare(300, limits[i], run_ms, all);
    }
    for (size_t i = 0; i < ARRAY_LEN(requesters) && all; ++i)
        compare(requesters[i], 100, run_ms, all);
}

static int run_one(char **argv)
{
    uint64_t n[4];
    struct experiment_result r;

    for (unsigned i = 0; i < ARRAY_LEN(n); ++i) {
        if (!parse_u64(slice_of(argv[i + 1]), 1000000, &n[i]) || n[i] == 0)
            return 2;
    }
    struct experiment e = {.design = strcmp(argv[0], "mutex-map") == 0      ? DESIGN_MUTEX_MAP
                                     : strcmp(argv[0], "mutex-stacks") == 0 ? DESIGN_MUTEX_STACKS
                                                                            : DESIGN_OURS,
                           .requesters = (unsigned)n[0],
                           .max_connections = (unsigned)n[1],
                           .loops = (unsigned)n[2],
                           .run_ms = n[3]};
    experiment_run(&e, &r);
    printf("%.0f requests/s, p99 %.0f us, CPU %.2f us\n", r.requests_per_s, r.p99_us, r.cpu_us);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 7 && strcmp(argv[1], "one") == 0)
        return run_one(argv + 2);
    if (argc >= 2 && strcmp(argv[1], "experiment") == 0) {
        compare_all(argument(argc, argv, 2, 1000), true);
        return 0;
    }
    struct bench b = {.nbackends = (unsigned)argument(argc, argv, 1, 16)};

    b.pairs = argument(argc, argv, 2, 2000000);
    b.keys = xcalloc(b.nbackends, sizeof(*b.keys));
    b.backends = xcalloc(b.nbackends, sizeof(struct conn_backend *));
    for (unsigned i = 0; i < b.nbackends; ++i)
        snprintf(b.keys[i], KEY_ROOM, "10.0.%u.%u:8080", (i >> 8) & 255, i & 255);
    printf("check-outs with check-in, millions a second over all loops, %u backends\n",
           b.nbackends);
    printf("loops   handle  look-up  one mutex\n");
    for (b.nloops = 1; b.nloops <= LOOPS_TRIED_MAX; b.nloops *= 2) {
        double found[DESIGN_COUNT];
        for (b.design = DESIGN_HANDLE; b.design < DESIGN_COUNT; ++b.design)
            found[b.design] = rate(&b);
        printf("%5u %8.1f %8.1f %10.1f\n", b.nloops, found[DESIGN_HANDLE], found[DESIGN_LOOK_UP],
               found[DESIGN_ONE_MUTEX]);
    }
    free(b.backends);
    free(b.keys);
    compare_all(500, false);
    return 0;
}
