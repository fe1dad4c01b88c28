/* SPDX-License-Identifier: Apache-2.0
 *
 * A loop has two parts on separate cache lines: the number in flight, which its loop writes for
 * each request, and a box for connections from other loops, with the one message that makes the
 * loop check it. Connections in the box count as in flight immediately; otherwise all loops that
 * accept at the same time would choose the same loop.
 */
#include "common/http/http_balance.h"

#include <pthread.h>
#include <stdlib.h>

enum {
    /* Given and not yet taken; more stays where it was accepted. */
    BOX_MAX = 32,
    /* A loop that has not emptied its box for so long is blocked. */
    BUSY_MS = 5,
    /* Loops compared for each connection; if there are more, others the next time. */
    COMPARED_MAX = 8,
    /* Connections are not moved if the difference is less than this plus an eighth: moving one
       costs about as much as two system calls, and the load fluctuates. (A connection with a
       request counts as two.) */
    SLACK = 4,
    SLACK_PART = 8,
};

struct balance_loop {
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t in_flight;
    _Atomic uint64_t given;
    unsigned next_compared;
    _Alignas(CACHE_LINE_BYTES) _Atomic bool open;
    _Atomic uint64_t taken;
    /* The box. */
    pthread_mutex_t mutex; /* for all below, except reads of N */
    struct loop *loop;
    void (*take)(void *context, const struct http_accepted *a);
    void *context;
    struct loop_message message;
    bool posted;
    uint64_t since_ms; /* when the first of those in it was put there */
    _Atomic unsigned n;
    struct http_accepted items[BOX_MAX];
};

struct http_balance {
    unsigned n;
    struct balance_loop *loops;
};

static void on_balance_message(struct loop_message *m);

/* By its only writer. */
static void balance_count(_Atomic uint64_t *n)
{
    atomic_store_explicit(n, load_relaxed(n) + 1, memory_order_relaxed);
}

struct http_balance *http_balance_create(unsigned n)
{
    struct http_balance *b = xcalloc(1, sizeof(*b));

    ASSERT(n != 0);
    b->n = n;
    b->loops = xcalloc_lines(n, sizeof(*b->loops));
    for (unsigned i = 0; i < n; ++i) {
        struct balance_loop *p = &b->loops[i];

        pthread_mutex_init(&p->mutex, NULL);
        p->message.run = on_balance_message;
        p->next_compared = i + 1;
    }
    return b;
}

void http_balance_destroy(struct http_balance *b)
{
    if (b == NULL)
        return;
    for (unsigned i = 0; i < b->n; ++i) {
        ASSERT(!b->loops[i].open);
        ASSERT(b->loops[i].n == 0);
        pthread_mutex_destroy(&b->loops[i].mutex);
    }
    free(b->loops);
    free(b);
}

static struct balance_loop *balance_loop_of(struct http_balance *b, unsigned i)
{
    ASSERT(i < b->n);
    return &b->loops[i];
}

void http_balance_join(struct http_balance *b, unsigned i, struct loop *l,
                       void (*take)(void *context, const struct http_accepted *a), void *context)
{
    struct balance_loop *to = balance_loop_of(b, i);

    pthread_mutex_lock(&to->mutex);
    ASSERT(!to->open);
    to->loop = l;
    to->take = take;
    to->context = context;
    to->open = true;
    pthread_mutex_unlock(&to->mutex);
}

/* Takes the connections that are in the box now; later ones are left to another message. */
static void empty_box(struct balance_loop *p)
{
    struct http_accepted items[BOX_MAX];

    pthread_mutex_lock(&p->mutex);
    unsigned n = p->n;
    memcpy(items, p->items, n * sizeof(*items));
    p->n = 0;
    pthread_mutex_unlock(&p->mutex);
    for (unsigned i = 0; i < n; ++i) {
        balance_count(&p->taken);
        p->take(p->context, &items[i]);
    }
}

static void on_balance_message(struct loop_message *m)
{
    struct balance_loop *p = container_of(m, struct balance_loop, message);

    pthread_mutex_lock(&p->mutex);
    p->posted = false;
    pthread_mutex_unlock(&p->mutex);
    empty_box(p);
}

void http_balance_leave(struct http_balance *b, unsigned i)
{
    struct balance_loop *p = balance_loop_of(b, i);

    pthread_mutex_lock(&p->mutex);
    p->open = false;
    pthread_mutex_unlock(&p->mutex);
    empty_box(p);
}

void http_balance_set_load(struct http_balance *b, unsigned i, uint64_t in_flight)
{
    atomic_store_explicit(&balance_loop_of(b, i)->in_flight, in_flight, memory_order_relaxed);
}

/* Including connections that are being moved to it. */
static uint64_t load_of(const struct balance_loop *p)
{
    uint64_t in_flight = load_relaxed(&p->in_flight);
    unsigned coming = atomic_load_explicit(&p->n, memory_order_relaxed);

    return in_flight < UINT64_MAX - coming ? in_flight + coming : UINT64_MAX;
}

bool http_balance_pass_on(struct http_balance *b, unsigned i, const struct http_accepted *a,
                          uint64_t now_ms)
{
    struct balance_loop *own = balance_loop_of(b, i);
    struct balance_loop *to = NULL; /* the one with the least load */

    for (unsigned k = 0; k < b->n && k < COMPARED_MAX; ++k) {
        struct balance_loop *p = &b->loops[own->next_compared++ % b->n];

        if (p != own && atomic_load_explicit(&p->open, memory_order_relaxed) &&
            (to == NULL || load_of(p) < load_of(to)))
            to = p;
    }
    if (to == NULL)
        return false;
    uint64_t ours = load_of(own);
    uint64_t theirs = load_of(to);
    if (theirs >= ours || ours - theirs <= SLACK + theirs / SLACK_PART)
        return false;
    pthread_mutex_lock(&to->mutex);
    unsigned n = to->n;
    bool put = to->open && n != BOX_MAX && (n == 0 || now_ms < to->since_ms + BUSY_MS);
    if (put) {
        if (n == 0)
            to->since_ms = now_ms;
        to->items[n] = *a;
        atomic_store_explicit(&to->n, n + 1, memory_order_relaxed);
    }
    bool post = put && !to->posted;
    to->posted |= post;
    pthread_mutex_unlock(&to->mutex);
    if (put)
        balance_count(&own->given);
    if (post)
        loop_post(to->loop, &to->message);
    return put;
}

void http_balance_view(const struct http_balance *b, unsigned i, struct http_balance_view *out)
{
    ASSERT(i < b->n);
    const struct balance_loop *p = &b->loops[i];

    *out = (struct http_balance_view){.in_flight = load_relaxed(&p->in_flight),
                                      .given = load_relaxed(&p->given),
                                      .taken = load_relaxed(&p->taken)};
}
