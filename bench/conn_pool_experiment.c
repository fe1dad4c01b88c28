/* SPDX-License-Identifier: Apache-2.0
 *
 * Common parts of the designs: backends and figures of requesters; and the two designs that block.
 * The design with loops is in conn_pool_loops.c.
 */
#include "bench/conn_pool_experiment.h"

#include "common/base/clock.h"
#include "common/base/map.h"
#include "common/net/addr.h"

#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS_MAX = 256, RECYCLE_MS = 10, KEY_ROOM = 16, BUCKETS = 64 };

/* ---- backends ---- */

static struct {
    struct addr addr[EXPERIMENT_BACKENDS];
    int listeners[EXPERIMENT_BACKENDS];
    int epoll;
    pthread_t thread;
} backends;

enum { IS_LISTENER = 1 << 30 };

static void watch(int fd, int mark)
{
    struct epoll_event e = {.events = EPOLLIN, .data.fd = fd | mark};

    int failed = epoll_ctl(backends.epoll, EPOLL_CTL_ADD, fd, &e);
    ASSERT(failed == 0);
}

static void on_event(int fd)
{
    char bytes[REQUEST_BYTES];

    if ((fd & IS_LISTENER) != 0) {
        int client = accept4(fd & ~IS_LISTENER, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (client >= 0)
            watch(client, 0);
        return;
    }
    ssize_t n = recv(fd, bytes, sizeof(bytes), 0);
    if (n > 0)
        n = send(fd, bytes, (size_t)n, MSG_NOSIGNAL);
    if (n == 0)
        close(fd);
}

static void *echo(void *context)
{
    struct epoll_event events[EVENTS_MAX];

    for (;;) {
        int n = epoll_wait(backends.epoll, events, EVENTS_MAX, -1);

        for (int i = 0; i < n; ++i)
            on_event(events[i].data.fd);
    }
    return context;
}

static void start_backends(void)
{
    const struct addr_listen_options o = {.backlog = 4096};
    struct addr any;

    if (backends.epoll != 0)
        return;
    backends.epoll = epoll_create1(EPOLL_CLOEXEC);
    enum err e = addr_parse(SLICE_LIT("127.0.0.1:0"), &any);
    ASSERT(e == ERR_OK);
    for (unsigned i = 0; i < EXPERIMENT_BACKENDS; ++i) {
        e = addr_listen(&any, &o, &backends.listeners[i]);
        ASSERT(e == ERR_OK);
        e = addr_of_socket(backends.listeners[i], &backends.addr[i]);
        ASSERT(e == ERR_OK);
    }
    for (unsigned i = 0; i < EXPERIMENT_BACKENDS; ++i)
        watch(backends.listeners[i], IS_LISTENER);
    int failed = pthread_create(&backends.thread, NULL, echo, NULL);
    ASSERT(failed == 0);
}

int experiment_connect(unsigned backend)
{
    const struct addr *a = &backends.addr[backend];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;

    ASSERT(fd >= 0);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    int failed = connect(fd, &a->sa, a->len);
    ASSERT(failed == 0);
    return fd;
}

/* ---- figures ---- */

/* xorshift: its cost is negligible in the measurement. */
unsigned experiment_pick(struct experiment_requester *r)
{
    r->seed ^= r->seed << 13;
    r->seed ^= r->seed >> 7;
    r->seed ^= r->seed << 17;
    return (unsigned)(r->seed >> 32) % EXPERIMENT_BACKENDS;
}

void experiment_count(struct experiment_requester *r, uint64_t began_us, uint64_t now_us)
{
    uint64_t step = (now_us - began_us) / STEP_US;

    ++r->requests;
    ++r->histogram[step < HISTOGRAM_STEPS ? step : HISTOGRAM_STEPS - 1];
}

uint64_t experiment_thread_cpu_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

void experiment_recycled(struct experiment_run *run, double held_us)
{
    run->recycle_sum_us += held_us;
    ++run->recycles;
    if (held_us > run->recycle_max_us)
        run->recycle_max_us = held_us;
}

/* ---- the two designs ---- */

struct conn {
    struct conn *next;
    int fd;
    uint64_t since_us; /* idle */
};

/* A hash item of the original design: a key and one connection. */
struct item {
    struct item *next;
    char key[KEY_ROOM];
    struct conn *conn;
};

/* In the redesign, a stack with its mutex; in the original, only the figures of a backend. */
struct stack {
    struct map_node in_map;
    char key[KEY_ROOM];
    pthread_mutex_t mutex;
    pthread_cond_t put_back;
    struct conn *first;
    unsigned total, waiting;
};

struct blocking_pool {
    bool one_mutex;
    pthread_mutex_t mutex;
    struct item *buckets[BUCKETS];
    pthread_rwlock_t lock;
    struct map map;
    struct stack stacks[EXPERIMENT_BACKENDS];
};

static struct item **bucket_of(struct blocking_pool *p, const char *key)
{
    uint32_t hash = 2166136261u;

    for (; *key != '\0'; ++key)
        hash = (hash ^ (unsigned char)*key) * 16777619u;
    return &p->buckets[hash % BUCKETS];
}

static struct conn *take_item_locked(struct blocking_pool *p, const char *key)
{
    for (struct item **at = bucket_of(p, key); *at != NULL; at = &(*at)->next) {
        struct item *found = *at;

        if (strcmp(found->key, key) != 0)
            continue;
        struct conn *c = found->conn;
        *at = found->next;
        free(found);
        return c;
    }
    return NULL;
}

static void put_item_locked(struct blocking_pool *p, const char *key, struct conn *c)
{
    struct item **at = bucket_of(p, key);
    struct item *one = xcalloc(1, sizeof(*one));

    snprintf(one->key, sizeof(one->key), "%s", key);
    one->conn = c;
    one->next = *at;
    *at = one;
}

static struct conn *take_locked(struct blocking_pool *p, struct stack *s)
{
    if (p->one_mutex)
        return take_item_locked(p, s->key);
    struct conn *c = s->first;
    if (c != NULL)
        s->first = c->next;
    return c;
}

static struct stack *find(struct blocking_pool *p, const char *key)
{
    pthread_rwlock_rdlock(&p->lock);
    struct stack *s = map_entry(map_find(&p->map, key, strlen(key)), struct stack, in_map);
    pthread_rwlock_unlock(&p->lock);
    return s;
}

static pthread_mutex_t *mutex_of(struct blocking_pool *p, struct stack *s)
{
    return p->one_mutex ? &p->mutex : &s->mutex;
}

static struct conn *get_conn(struct experiment_run *run, struct blocking_pool *p, unsigned backend)
{
    struct stack *s = &p->stacks[backend];

    if (!p->one_mutex)
        s = find(p, s->key);
    pthread_mutex_t *mutex = mutex_of(p, s);
    struct conn *c;

    pthread_mutex_lock(mutex);
    while ((c = take_locked(p, s)) == NULL && s->total >= run->e->max_connections) {
        ++s->waiting;
        pthread_cond_wait(&s->put_back, mutex);
        --s->waiting;
    }
    s->total += c == NULL;
    pthread_mutex_unlock(mutex);
    if (c != NULL)
        return c;
    c = xcalloc(1, sizeof(*c));
    c->fd = experiment_connect(backend);
    atomic_fetch_add(&run->opened, 1);
    return c;
}

static void put_conn(struct blocking_pool *p, unsigned backend, struct conn *c, uint64_t us)
{
    struct stack *s = &p->stacks[backend];

    if (!p->one_mutex)
        s = find(p, s->key);
    pthread_mutex_t *mutex = mutex_of(p, s);

    c->since_us = us;
    pthread_mutex_lock(mutex);
    if (p->one_mutex) {
        put_item_locked(p, s->key, c);
    } else {
        c->next = s->first;
        s->first = c;
    }
    bool wake = s->waiting != 0;
    pthread_mutex_unlock(mutex);
    if (wake)
        pthread_cond_signal(&s->put_back);
}

/* No item is old enough in a run: only the scan is measured. */
static unsigned count_old_items(const struct blocking_pool *p, uint64_t before_us)
{
    unsigned n = 0;

    for (unsigned i = 0; i < BUCKETS; ++i) {
        for (const struct item *it = p->buckets[i]; it != NULL; it = it->next)
            n += it->conn->since_us < before_us;
    }
    return n;
}

static unsigned count_old(const struct stack *s, uint64_t before_us)
{
    unsigned n = 0;

    for (const struct conn *c = s->first; c != NULL; c = c->next)
        n += c->since_us < before_us;
    return n;
}

static void recycle(struct experiment_run *run, struct blocking_pool *p)
{
    uint64_t before_us = clock_mono_us() - 60000000;
    unsigned n = 0;

    if (p->one_mutex) {
        pthread_mutex_lock(&p->mutex);
        double began = now_us();
        n = count_old_items(p, before_us);
        experiment_recycled(run, now_us() - began);
        pthread_mutex_unlock(&p->mutex);
    }
    for (unsigned i = 0; !p->one_mutex && i < EXPERIMENT_BACKENDS; ++i) {
        pthread_mutex_lock(&p->stacks[i].mutex);
        double began = now_us();
        n += count_old(&p->stacks[i], before_us);
        experiment_recycled(run, now_us() - began);
        pthread_mutex_unlock(&p->stacks[i].mutex);
    }
    ASSERT(n == 0);
}

struct requester_thread {
    pthread_t thread;
    struct experiment_run *run;
    struct blocking_pool *pool;
    struct experiment_requester *own;
};

static void exchange_blocking(int fd)
{
    char bytes[REQUEST_BYTES] = {0};

    ssize_t n = send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL);
    ASSERT(n == REQUEST_BYTES);
    n = recv(fd, bytes, sizeof(bytes), MSG_WAITALL);
    ASSERT(n == REQUEST_BYTES);
}

static void *request(void *context)
{
    struct requester_thread *t = context;
    uint64_t began_us = clock_mono_us();

    while (!atomic_load_explicit(&t->run->stop, memory_order_relaxed)) {
        unsigned backend = experiment_pick(t->own);
        struct conn *c = get_conn(t->run, t->pool, backend);

        exchange_blocking(c->fd);
        uint64_t us = clock_mono_us();
        put_conn(t->pool, backend, c, us);
        experiment_count(t->own, began_us, us);
        began_us = us;
    }
    atomic_fetch_add(&t->run->cpu_us, experiment_thread_cpu_us());
    return NULL;
}

static struct blocking_pool *create_pool(bool one_mutex)
{
    struct blocking_pool *p = xcalloc(1, sizeof(*p));

    p->one_mutex = one_mutex;
    pthread_mutex_init(&p->mutex, NULL);
    pthread_rwlock_init(&p->lock, NULL);
    for (unsigned i = 0; i < EXPERIMENT_BACKENDS; ++i) {
        struct stack *s = &p->stacks[i];

        snprintf(s->key, sizeof(s->key), "SPT%u#0", i);
        pthread_mutex_init(&s->mutex, NULL);
        pthread_cond_init(&s->put_back, NULL);
        map_add(&p->map, &s->in_map, s->key, strlen(s->key));
    }
    return p;
}

static void destroy_pool(struct blocking_pool *p)
{
    struct conn *c;

    for (unsigned i = 0; i < EXPERIMENT_BACKENDS; ++i) {
        struct stack *s = &p->stacks[i];

        while ((c = take_locked(p, s)) != NULL) {
            close(c->fd);
            free(c);
        }
        map_remove(&p->map, &s->in_map);
        pthread_cond_destroy(&s->put_back);
        pthread_mutex_destroy(&s->mutex);
    }
    pthread_rwlock_destroy(&p->lock);
    pthread_mutex_destroy(&p->mutex);
    free(p);
}

void experiment_run_threads(struct experiment_run *run)
{
    unsigned n = run->e->requesters;
    struct blocking_pool *p = create_pool(run->e->design == DESIGN_MUTEX_MAP);
    struct requester_thread *threads = xcalloc(n, sizeof(*threads));

    for (unsigned i = 0; i < n; ++i) {
        threads[i] = (struct requester_thread){.run = run, .pool = p, .own = &run->requesters[i]};
        int failed = pthread_create(&threads[i].thread, NULL, request, &threads[i]);
        ASSERT(failed == 0);
    }
    for (uint64_t ms = 0; ms < run->e->run_ms; ms += RECYCLE_MS) {
        usleep(RECYCLE_MS * 1000);
        recycle(run, p);
    }
    atomic_store(&run->stop, 1);
    for (unsigned i = 0; i < n; ++i)
        pthread_join(threads[i].thread, NULL);
    destroy_pool(p);
    free(threads);
}

/* ---- runs ---- */

static double quantile_us(const struct experiment_run *run, uint64_t all, double q)
{
    uint64_t left = (uint64_t)((double)all * q);

    for (unsigned step = 0; step < HISTOGRAM_STEPS; ++step) {
        for (unsigned i = 0; i < run->e->requesters; ++i) {
            uint64_t here = run->requesters[i].histogram[step];

            if (here > left)
                return (double)step * STEP_US;
            left -= here;
        }
    }
    return (double)HISTOGRAM_STEPS * STEP_US;
}

void experiment_run(const struct experiment *e, struct experiment_result *out)
{
    struct experiment_run run = {.e = e};
    uint64_t all = 0;

    start_backends();
    run.requesters = xcalloc(e->requesters, sizeof(*run.requesters));
    for (unsigned i = 0; i < e->requesters; ++i)
        run.requesters[i].seed = 88172645463325252u + UINT64_C(7919) * i;
    uint64_t began_us = clock_mono_us();
    if (e->design == DESIGN_OURS)
        experiment_run_loops(&run);
    else
        experiment_run_threads(&run);
    uint64_t ended_us = clock_mono_us();
    for (unsigned i = 0; i < e->requesters; ++i)
        all += run.requesters[i].requests;
    *out = (struct experiment_result){
        .requests_per_s = (double)all * 1e6 / (double)(ended_us - began_us),
        .p99_us = quantile_us(&run, all, 0.99),
        .cpu_us = (double)run.cpu_us / (double)(all != 0 ? all : 1),
        .recycle_max_us = run.recycle_max_us,
        .recycle_mean_us = run.recycles != 0 ? run.recycle_sum_us / (double)run.recycles : 0,
        .opened = run.opened,
    };
    free(run.requesters);
}
