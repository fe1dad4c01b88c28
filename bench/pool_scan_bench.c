/* SPDX-License-Identifier: Apache-2.0
 *
 * How long pool_scan, which copies a pool in pieces, holds its lock. The linker wraps
 * pthread_mutex_lock and _unlock (--wrap) with functions that read the thread's own CPU clock, so
 * that the results do not depend on other load of the machine.
 *
 * pool_scan_bench [WORKERS [CLASSES [ROUNDS]]]
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/base/text.h"
#include "routing/pool.h"

enum { NAME_ROOM = 64, HOLDS_MAX = 1 << 20, REQUESTS_PER_CLASS = 2 };

static struct {
    bool on;
    uint64_t since_ns;
    size_t n;
    uint32_t ns[HOLDS_MAX];
} holds;

int __real_pthread_mutex_lock(pthread_mutex_t *m);
int __real_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m);

static uint64_t thread_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* If two locks are held, the time counts from the inner one, the pool's: only scans wait for the
 * other. */
int __wrap_pthread_mutex_lock(pthread_mutex_t *m)
{
    int e = __real_pthread_mutex_lock(m);

    if (holds.on)
        holds.since_ns = thread_ns();
    return e;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *m)
{
    if (holds.on && holds.since_ns != 0) {
        uint64_t ns = thread_ns() - holds.since_ns;

        if (holds.n < HOLDS_MAX)
            holds.ns[holds.n++] = (uint32_t)(ns < UINT32_MAX ? ns : UINT32_MAX);
        holds.since_ns = 0;
    }
    return __real_pthread_mutex_unlock(m);
}

static int by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static double us(size_t rank)
{
    return (double)holds.ns[rank] / 1000;
}

static void measure(struct pool *p, bool skills, size_t rounds)
{
    uint64_t whole = 0;

    holds.n = 0;
    for (size_t i = 0; i < rounds; ++i) {
        struct pool_view v;
        uint64_t from = thread_ns();

        holds.on = true;
        pool_scan(p, skills, &v);
        holds.on = false;
        whole += thread_ns() - from;
        pool_view_fini(&v);
    }
    qsort(holds.ns, holds.n, sizeof(holds.ns[0]), by_size);
    printf("%-10s %-12s %8zu holds/scan   median %8.1f us   p99 %8.1f us   longest %8.1f us   "
           "scan %8.1f us\n",
           "pool_scan", skills ? "with skills" : "", holds.n / rounds, us(holds.n / 2),
           us(holds.n - 1 - holds.n / 100), us(holds.n - 1), (double)whole / 1000 / (double)rounds);
}

/* Requests each class, so that it has a score at a worker. */
static void teach(struct pool *p, size_t classes)
{
    struct list released;
    char name[NAME_ROOM];

    list_init(&released);
    for (size_t i = 0; i < classes * REQUESTS_PER_CLASS; ++i) {
        struct pool_request r = {.released = &released};
        struct pool_pick pick;

        snprintf(name, sizeof(name), "class-%zu.example", i % classes);
        r.cls = slice_of(name);
        if (pool_get(p, &r, i + 1, &pick) != ERR_OK)
            abort();
        pool_put(p, &pick, &(struct pool_served){.now_us = i + 1, .service_us = 1}, &released);
    }
}

int main(int argc, char **argv)
{
    size_t nworkers = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000;
    size_t classes = argc > 2 ? strtoul(argv[2], NULL, 10) : 10000;
    size_t rounds = argc > 3 ? strtoul(argv[3], NULL, 10) : 50;
    struct pool_settings s = {.variance = 4,
                              .backlog_history = 9,
                              .unskilled_score = 1,
                              .max_classes = 2 * classes,
                              .max_waiting = 1};
    static const struct resume no_skills = {0};
    struct worker **workers = xcalloc(nworkers + 1, sizeof(*workers));
    struct pool *p = pool_create(&s, "");
    struct list released;

    if (nworkers == 0 || classes == 0 || rounds == 0)
        return 2;
    list_init(&released);
    for (size_t i = 0; i < nworkers; ++i) {
        char name[NAME_ROOM];

        snprintf(name, sizeof(name), "127.1.%zu.%zu:9000", i / 250, i % 250 + 1);
        workers[i] =
            worker_create(&(struct worker_options){.name = slice_of(name), .concurrency = 1});
        pool_new_resume(p, workers[i], &no_skills, "1", "", &released);
    }
    teach(p, classes);
    for (int skills = 0; skills < 2; ++skills)
        measure(p, skills != 0, rounds);
    for (size_t i = 0; i < nworkers; ++i) {
        pool_remove(p, workers[i], &released);
        worker_unref(workers[i]);
    }
    pool_destroy(p);
    free(workers);
    return 0;
}
