/* SPDX-License-Identifier: Apache-2.0
 *
 * The experiment with the project's pool: requesters on loops, which do not block for a connection
 * or a response.
 */
#include "bench/conn_pool_experiment.h"
#include "common/base/clock.h"
#include "common/upstream/conn_pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { KEY_ROOM = 16, RECYCLE_MS = 10 };

struct loop_run;

struct requester {
    struct conn_waiter waiter; /* first member: ready() gets only this */
    struct loop_run *home;
    struct experiment_requester *own;
    unsigned backend;
    uint64_t began_us;
};

struct looped_conn {
    struct pooled_conn pooled;
    int fd;
    struct watch *watch;
    struct requester *user; /* NULL: idle */
};

struct shared {
    struct experiment_run *run;
    struct loop **loops;
    struct conn_pool *pool;
    struct conn_backend *backends[EXPERIMENT_BACKENDS];
    pthread_barrier_t barrier;
    _Atomic unsigned live; /* requesters that continue */
};

struct loop_run {
    pthread_t thread;
    struct shared *shared;
    struct loop *loop;
    unsigned index, nrequesters;
    struct requester *requesters;
    struct timer go, recycle;
};

static void start_request(struct requester *r);

/* ---- connections ---- */

static void on_readable(void *context)
{
    struct looped_conn *c = context;
    struct requester *r = c->user;
    struct loop_run *home;
    char bytes[REQUEST_BYTES];

    ASSERT(r != NULL);
    home = r->home;
    ssize_t n = recv(c->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    ASSERT(n == REQUEST_BYTES);
    struct pooled_conn *back = &c->pooled;
    c->user = NULL;
    conn_checkin(&back, home->loop);
    experiment_count(r->own, r->began_us, clock_mono_us());
    start_request(r);
}

static bool is_alive(struct pooled_conn *c)
{
    return c->backend != NULL; /* no check of the socket, as in the other designs */
}

static bool detach(struct pooled_conn *pc)
{
    struct looped_conn *c = container_of(pc, struct looped_conn, pooled);

    watch_stop(c->watch);
    c->watch = NULL;
    return true;
}

static bool attach(struct pooled_conn *pc, struct loop *l)
{
    struct looped_conn *c = container_of(pc, struct looped_conn, pooled);

    c->watch = watch_start_as_is(l, c->fd, on_readable, c);
    return true;
}

static void close_conn(struct pooled_conn *pc)
{
    struct looped_conn *c = container_of(pc, struct looped_conn, pooled);

    watch_stop(c->watch);
    close(c->fd);
    free(c);
}

static const struct conn_pool_ops ops = {
    .alive = is_alive, .close = close_conn, .detach = detach, .attach = attach};

/* ---- requests ---- */

static void send_request(struct requester *r, struct looped_conn *c)
{
    const char bytes[REQUEST_BYTES] = {0};

    c->user = r;
    ssize_t n = send(c->fd, bytes, sizeof(bytes), MSG_NOSIGNAL);
    ASSERT(n == REQUEST_BYTES);
}

static void open_and_send(struct requester *r)
{
    struct shared *s = r->home->shared;
    struct looped_conn *c = xcalloc(1, sizeof(*c));

    c->fd = experiment_connect(r->backend);
    atomic_fetch_add(&s->run->opened, 1);
    c->watch = watch_start_as_is(r->home->loop, c->fd, on_readable, c);
    conn_opened(s->backends[r->backend], &c->pooled, r->home->loop);
    send_request(r, c);
}

static void proceed(struct requester *r, enum conn_result result)
{
    switch (result) {
    case CONN_REUSED:
        send_request(r, container_of(r->waiter.conn, struct looped_conn, pooled));
        return;
    case CONN_OPEN:
        open_and_send(r);
        return;
    case CONN_WAIT:
        return;
    case CONN_REJECTED:
        break;
    }
    UNREACHABLE();
}

static void on_ready(struct conn_waiter *w)
{
    proceed(container_of(w, struct requester, waiter), w->result);
}

static void end_request(struct loop_run *home)
{
    struct shared *s = home->shared;

    if (atomic_fetch_sub(&s->live, 1) != 1)
        return;
    for (unsigned i = 0; i < s->run->e->loops; ++i)
        loop_stop(s->loops[i]);
}

static void start_request(struct requester *r)
{
    static const struct conn_checkout o = {.fresh = false};
    struct loop_run *home = r->home;

    if (atomic_load_explicit(&home->shared->run->stop, memory_order_relaxed)) {
        end_request(home);
        return;
    }
    r->backend = experiment_pick(r->own);
    r->began_us = clock_mono_us();
    r->waiter.ready = on_ready;
    proceed(r, conn_checkout(home->shared->backends[r->backend], home->loop, &o, &r->waiter));
}

static void on_go(struct timer *t)
{
    struct loop_run *home = container_of(t, struct loop_run, go);

    for (unsigned i = 0; i < home->nrequesters; ++i)
        start_request(&home->requesters[i]);
}

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void on_recycle(struct timer *t)
{
    struct loop_run *home = container_of(t, struct loop_run, recycle);
    double began = now_us();

    conn_pool_recycle(home->shared->pool, home->loop);
    if (home->index == 0)
        experiment_recycled(home->shared->run, now_us() - began);
    timer_start(home->loop, t, RECYCLE_MS * (uint64_t)home->shared->run->e->loops);
}

/* ---- threads ---- */

static void *run_loop(void *context)
{
    struct loop_run *home = context;
    struct shared *s = home->shared;
    struct loop *l = loop_create(home->index);

    home->loop = s->loops[home->index] = l;
    pthread_barrier_wait(&s->barrier); /* all loops exist */
    pthread_barrier_wait(&s->barrier); /* the pool exists */
    timer_init(&home->go, on_go);
    timer_init(&home->recycle, on_recycle);
    timer_start(l, &home->go, 0);
    timer_start(l, &home->recycle, RECYCLE_MS * (uint64_t)s->run->e->loops);
    loop_run(l); /* until all requests are over */
    timer_stop(&home->recycle);
    pthread_barrier_wait(&s->barrier); /* all requests are over */
    conn_pool_close_loop(s->pool, l);
    loop_turn(l, 0);
    pthread_barrier_wait(&s->barrier); /* all loops are closed in the pool */
    loop_destroy(l);
    atomic_fetch_add(&s->run->cpu_us, experiment_thread_cpu_us());
    return NULL;
}

static void make_backends(struct shared *s)
{
    const struct experiment *e = s->run->e;
    const struct conn_pool_settings settings = {.max_waiting = e->requesters,
                                                .idle_timeout_ms = 60000};
    char key[KEY_ROOM];

    s->pool = conn_pool_create(&ops, s->loops, e->loops);
    for (unsigned i = 0; i < EXPERIMENT_BACKENDS; ++i) {
        int n = snprintf(key, sizeof(key), "SPT%u", i);
        s->backends[i] = conn_pool_backend(s->pool, (struct slice){key, (size_t)n}, SLICE_LIT("0"),
                                           e->max_connections, &settings);
    }
}

static void start_loop(struct shared *s, struct loop_run *home, unsigned index)
{
    const struct experiment *e = s->run->e;
    unsigned first = e->requesters * index / e->loops;
    unsigned end = e->requesters * (index + 1) / e->loops;

    *home = (struct loop_run){.shared = s, .index = index, .nrequesters = end - first};
    home->requesters = xcalloc(home->nrequesters, sizeof(*home->requesters));
    for (unsigned i = 0; i < home->nrequesters; ++i) {
        home->requesters[i].home = home;
        home->requesters[i].own = &s->run->requesters[first + i];
    }
    int failed = pthread_create(&home->thread, NULL, run_loop, home);
    ASSERT(failed == 0);
}

void experiment_run_loops(struct experiment_run *run)
{
    unsigned n = run->e->loops;
    struct shared s = {.run = run, .live = run->e->requesters};
    struct loop_run *homes = xcalloc(n, sizeof(*homes));

    s.loops = xcalloc(n, sizeof(struct loop *));
    pthread_barrier_init(&s.barrier, NULL, n + 1);
    for (unsigned i = 0; i < n; ++i)
        start_loop(&s, &homes[i], i);
    pthread_barrier_wait(&s.barrier);
    make_backends(&s);
    pthread_barrier_wait(&s.barrier);
    usleep((useconds_t)(run->e->run_ms * 1000));
    atomic_store(&run->stop, 1);
    pthread_barrier_wait(&s.barrier);
    pthread_barrier_wait(&s.barrier);
    for (unsigned i = 0; i < n; ++i) {
        pthread_join(homes[i].thread, NULL);
        free(homes[i].requesters);
    }
    for (unsigned i = 0; i < EXPERIMENT_BACKENDS; ++i)
        conn_backend_release(s.backends[i]);
    conn_pool_destroy(s.pool);
    pthread_barrier_destroy(&s.barrier);
    free(s.loops);
    free(homes);
}
