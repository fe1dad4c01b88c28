/* SPDX-License-Identifier: Apache-2.0
 *
 * A call is one message per loop; the last loop that has run it posts the message back. Loops post
 * to each other as long as any of them runs, so none is destroyed before all have ended.
 */
#include "lb/program/lb_parts.h"

#include "common/base/log.h"
#include "lb/config/cpu_affinity.h"
#include "lb/core/application.h"
#include "lb/core/traffic.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

/* Interval at which a loop closes connections to workers that were idle for too long. */
enum {
    RECYCLE_MS = 1000,
    /* Several hundred connections; below MAPPED_BYTES of daemon.c. */
    MEMORY_AHEAD_BYTES = 1000 * 1024,
};

/* ---- threads ---- */

struct data_thread {
    struct lb_loop *ll;
    pthread_t thread;
    struct loop_deferred each_turn;
    struct timer recycle;
};

struct data_loops {
    /* Passed by the loops and the control thread: when all loops have been created; when none runs
     * any more; when everything that was posted until then has run. */
    pthread_barrier_t together;
    struct data_thread threads[]; /* one per loop */
};

static void on_each_turn(struct loop_deferred *d)
{
    const struct data_thread *t = container_of(d, struct data_thread, each_turn);
    const struct lb *lb = t->ll->lb;

    for (size_t i = 0; i < lb->napplications; ++i)
        application_take_settings(application_on(lb->applications[i], t->ll->index));
}

static void on_recycle(struct timer *timer)
{
    struct data_thread *t = container_of(timer, struct data_thread, recycle);
    const struct lb *lb = t->ll->lb;

    for (size_t i = 0; i < lb->napplications; ++i)
        conn_pool_recycle(lb->applications[i]->conn_pool, t->ll->loop);
    timer_start(t->ll->loop, &t->recycle, RECYCLE_MS);
}

/* Extends the memory that the allocator has for this thread at once. It would extend it page by
 * page, by a system call each, while the first connections wait. None of it is touched. */
static void reserve_memory(void)
{
    void *volatile memory = xmalloc(MEMORY_AHEAD_BYTES);

    free(memory);
}

static void *loops_run(void *context)
{
    struct data_thread *t = context;
    struct lb_loop *ll = t->ll;
    pthread_barrier_t *together = &ll->lb->data_loops->together;

    /* Before the loop is created, so that its memory is local to the CPU. */
    if (!cpu_affinity_enter(ll->cpu)) {
        log_warn(NULL, "cpu-affinity-failed", "loop=%u cpu=%d reason=\"%s\"", ll->index, ll->cpu,
                 strerror(errno));
        ll->cpu = -1;
    }
    reserve_memory();
    struct loop *l = loop_create(ll->index);

    ll->loop = l;
    pthread_barrier_wait(together);
    loop_run(l);
    list_remove(&t->each_turn.node);
    timer_stop(&t->recycle);
    for (size_t i = 0; i < ll->lb->napplications; ++i)
        application_loop_end(application_on(ll->lb->applications[i], ll->index));
    /* Frees objects that were deferred in the last turn. */
    loop_settle(l);
    pthread_barrier_wait(together);
    loop_settle(l);
    pthread_barrier_wait(together);
    loop_destroy(l);
    return NULL;
}

void data_loops_upkeep(struct lb_loop *ll)
{
    struct data_thread *t = &ll->lb->data_loops->threads[ll->index];

    t->each_turn.run = on_each_turn;
    loop_each_turn(ll->loop, &t->each_turn);
    timer_init(&t->recycle, on_recycle);
    timer_start(ll->loop, &t->recycle, RECYCLE_MS);
}

void data_loops_start(struct lb *lb, const struct cpu_affinity *affinity)
{
    struct data_loops *d = xcalloc(1, sizeof(*d) + lb->nloops * sizeof(*d->threads));

    lb->data_loops = d;
    lb->loops = xcalloc_lines(lb->nloops, sizeof(*lb->loops));
    pthread_barrier_init(&d->together, NULL, lb->nloops + 1);
    for (unsigned i = 0; i < lb->nloops; ++i) {
        struct data_thread *t = &d->threads[i];

        lb->loops[i] = (struct lb_loop){.lb = lb, .index = i, .cpu = cpu_affinity_of(affinity, i)};
        lb->loops[i].traffic = traffic_create();
        t->ll = &lb->loops[i];
        int failed = pthread_create(&t->thread, NULL, loops_run, t);
        ASSERT(failed == 0);
    }
    pthread_barrier_wait(&d->together);
}

void data_loops_stop(struct lb *lb)
{
    struct data_loops *d = lb->data_loops;

    if (d == NULL)
        return;
    for (unsigned i = 0; i < lb->nloops; ++i)
        loop_stop(lb->loops[i].loop);
    pthread_barrier_wait(&d->together);
    pthread_barrier_wait(&d->together);
    for (unsigned i = 0; i < lb->nloops; ++i)
        pthread_join(d->threads[i].thread, NULL);
    pthread_barrier_destroy(&d->together);
    free(d);
    lb->data_loops = NULL;
}

/* ---- calls ---- */

struct data_loops_call;

struct call_part {
    struct loop_message message;
    struct lb_loop *ll;
    struct data_loops_call *call;
};

struct data_loops_call {
    struct loop_message finished;
    void (*each)(struct lb_loop *ll, void *context);
    void (*done)(void *context);
    void *context;
    _Atomic unsigned left;
    struct call_part parts[];
};

/* On the control loop. */
static void on_finished(struct loop_message *m)
{
    struct data_loops_call *c = container_of(m, struct data_loops_call, finished);

    if (c->done != NULL)
        c->done(c->context);
    free(c);
}

/* On a data loop. */
static void on_part(struct loop_message *m)
{
    struct call_part *p = container_of(m, struct call_part, message);
    struct data_loops_call *c = p->call;

    if (c->each != NULL)
        c->each(p->ll, c->context);
    if (atomic_fetch_sub_explicit(&c->left, 1, memory_order_acq_rel) == 1)
        loop_post(p->ll->lb->control, &c->finished);
}

void data_loops_call(struct lb *lb, void (*each)(struct lb_loop *ll, void *context),
                     void (*done)(void *context), void *context)
{
    struct data_loops_call *c = xcalloc(1, sizeof(*c) + lb->nloops * sizeof(struct call_part));

    c->finished.run = on_finished;
    c->each = each;
    c->done = done;
    c->context = context;
    atomic_init(&c->left, lb->nloops);
    for (unsigned i = 0; i < lb->nloops; ++i) {
        struct call_part *p = &c->parts[i];

        p->message.run = on_part;
        p->ll = &lb->loops[i];
        p->call = c;
        loop_post(lb->loops[i].loop, &p->message);
    }
}
