/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of a routing decision: pool_get + pool_put on a warm pool, by policy and number of
 * threads, and with a shadow policy; the memory of a class, with what is stored of its workers; and
 * the cost of a check for overload, with and without one.
 *
 * pool_bench [WORKERS [CLASSES [PAIRS [POLICY]]]], POLICY one of the policies, or shadow.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/text.h"
#include "routing/pool.h"

enum { THREADS_MAX = 8, NAME_ROOM = 64, LOOKS = 1000, ABOVE = 3, PAIR_US = 20 };

struct bench {
    struct pool *pool;
    char (*classes)[NAME_ROOM];
    size_t nclasses;
    uint64_t pairs;
    uint64_t begin_us; /* start time of a run: the pool's time must not decrease */
};

struct runner {
    pthread_t thread;
    const struct bench *bench;
    uint64_t seed;
};

/* xorshift: its cost is negligible in the measurement. */
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Allocated by all threads, large blocks included. */
static double allocated_bytes(void)
{
    struct mallinfo2 m = mallinfo2();

    return (double)(m.uordblks + m.hblkhd);
}

static void *run(void *arg)
{
    struct runner *r = arg;
    const struct bench *b = r->bench;
    struct list released;

    list_init(&released);
    for (uint64_t i = 0; i < b->pairs; ++i) {
        const char *cls = b->classes[next_random(&r->seed) % b->nclasses];
        struct pool_request request = {.cls = slice_of(cls), .released = &released};
        struct pool_pick pick;

        uint64_t now_us = b->begin_us + i * PAIR_US;
        if (pool_get(b->pool, &request, now_us, &pick) != ERR_OK)
            abort();
        struct pool_served how = {.now_us = now_us + PAIR_US / 2, .service_us = PAIR_US / 2};
        pool_put(b->pool, &pick, &how, &released);
    }
    return NULL;
}

static double pair_ns(struct bench *b, unsigned nthreads)
{
    struct runner runners[THREADS_MAX];
    uint64_t start = clock_mono_us();

    b->begin_us += b->pairs * PAIR_US;
    for (unsigned i = 0; i < nthreads; ++i) {
        runners[i] = (struct runner){.bench = b, .seed = 88172645463325252ULL + i};
        if (pthread_create(&runners[i].thread, NULL, run, &runners[i]) != 0)
            abort();
    }
    for (unsigned i = 0; i < nthreads; ++i)
        pthread_join(runners[i].thread, NULL);
    return (double)(clock_mono_us() - start) * 1000 / (double)(b->pairs * nthreads);
}

/* Measures the check for overload with IN_FLIGHT requests at each worker. */
static void bench_look(const struct bench *b, size_t nworkers, size_t in_flight, const char *what)
{
    struct pool_pick *picks = xcalloc(nworkers * in_flight + 1, sizeof(*picks));
    uint64_t for_ms = 0;
    bool above = false;

    for (size_t i = 0; i < nworkers * in_flight; ++i) {
        struct pool_request request = {.cls = slice_of(b->classes[i % b->nclasses])};

        if (pool_get(b->pool, &request, i, &picks[i]) != ERR_OK)
            abort();
    }
    uint64_t start = clock_mono_us();
    for (unsigned i = 0; i < LOOKS; ++i)
        above = pool_overloaded(b->pool, i, &for_ms);
    printf("overload   %zu workers, %s: %9.1f us per check\n", nworkers, what,
           (double)(clock_mono_us() - start) / LOOKS);
    if (above != (in_flight >= ABOVE))
        abort();
    for (size_t i = 0; i < nworkers * in_flight; ++i)
        pool_put(b->pool, &picks[i], NULL, NULL);
    free(picks);
}

static void bench_policy(enum pool_policy policy, bool shadowed, struct bench *b, size_t nworkers)
{
    struct pool_settings s = {.policy = policy,
                              .shadowed = shadowed,
                              .shadow = POOL_POLICY_HASH,
                              .hash_balance_percent = 200,
                              .variance = 4,
                              .backlog_history = 9,
                              .unskilled_score = 1,
                              .max_share = 0.375,
                              .max_classes =
                                  b->nclasses < 90000 ? 100000 : b->nclasses / 9 * 10 + 10,
                              .max_waiting = 1,
                              .backlog_shared = true,
                              .backlog_max_age_ms = 2000,
                              .spawn_backlog = ABOVE - 1};
    struct worker **workers = xcalloc(nworkers, sizeof(struct worker *));
    struct list released;

    list_init(&released);
    b->pool = pool_create(&s, "");
    for (size_t i = 0; i < nworkers; ++i) {
        char address[NAME_ROOM];
        struct resume none = {0};

        snprintf(address, sizeof(address), "10.0.0.%zu:8000", i);
        struct worker_options o = {.name = slice_of(address), .concurrency = 1};
        workers[i] = worker_create(&o);
        pool_new_resume(b->pool, workers[i], &none, "", "", &released);
    }
    double before = allocated_bytes();
    (void)pair_ns(b, 1); /* warm: every class has a worker */
    printf("%-14s%-12s %zu workers, %zu classes: %7.1f bytes per class\n", pool_policy_text(policy),
           shadowed ? "shadow hash" : "", nworkers, b->nclasses,
           (allocated_bytes() - before) / (double)b->nclasses);
    for (unsigned n = 1; n <= THREADS_MAX; n *= 2)
        printf("%-14s%-12s %zu workers, %zu classes, %u threads: %7.1f ns per get+put\n",
               pool_policy_text(policy), shadowed ? "shadow hash" : "", nworkers, b->nclasses, n,
               pair_ns(b, n));
    if (policy == POOL_POLICY_CLASSLESS) {
        bench_look(b, nworkers, 0, "idle");
        bench_look(b, nworkers, ABOVE, "all overloaded");
    }
    for (size_t i = 0; i < nworkers; ++i) {
        pool_remove(b->pool, workers[i], &released);
        worker_unref(workers[i]);
    }
    pool_destroy(b->pool);
    free(workers);
}

static size_t argument(int argc, char **argv, int i, size_t deflt)
{
    uint64_t v = deflt;

    if (i < argc && !parse_u64(slice_of(argv[i]), 100000000, &v)) {
        fprintf(stderr, "usage: pool_bench [WORKERS [CLASSES [PAIRS [POLICY]]]]\n");
        exit(2);
    }
    return v;
}

int main(int argc, char **argv)
{
    size_t nworkers = argument(argc, argv, 1, 16);
    struct bench b = {.nclasses = argument(argc, argv, 2, 500),
                      .pairs = argument(argc, argv, 3, 500000)};

    b.classes = xcalloc(b.nclasses, sizeof(*b.classes));
    for (size_t i = 0; i < b.nclasses; ++i)
        snprintf(b.classes[i], NAME_ROOM, "site-%zu.example", i);
    for (int policy = 0; policy < POOL_POLICIES; ++policy) {
        if (argc < 5 || strcmp(argv[4], pool_policy_text((enum pool_policy)policy)) == 0)
            bench_policy((enum pool_policy)policy, false, &b, nworkers);
    }
    if (argc < 5 || strcmp(argv[4], "shadow") == 0)
        bench_policy(POOL_POLICY_RESUME, true, &b, nworkers);
    free(b.classes);
    return 0;
}
