/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections that are none, with everything the pool does to them counted. Shared by the tests of
 * conn_pool.
 */
#pragma once

#include "tests/unit/upstream/conn_check.h"

#include <stdatomic.h>
#include <stdlib.h>

struct fake_counts {
    atomic_int live; /* opened and not closed */
    atomic_int closed, detached, attached;
};

struct fake_conn {
    struct pooled_conn pooled;
    struct fake_counts *counts;
    struct loop *loop; /* NULL while detached */
    atomic_bool taken; /* a user has it */
    bool dead;
    bool stuck;         /* cannot be detached */
    bool unwelcome;     /* cannot be attached */
    struct list member; /* the maker's, until closed */
};

static inline struct fake_conn *fake_of(struct pooled_conn *c)
{
    return container_of(c, struct fake_conn, pooled);
}

static bool fake_alive(struct pooled_conn *c)
{
    return !fake_of(c)->dead;
}

static void fake_close(struct pooled_conn *c)
{
    struct fake_conn *f = fake_of(c);

    ASSERT(c->backend == NULL);
    ASSERT(!atomic_load(&f->taken));
    atomic_fetch_sub(&f->counts->live, 1);
    atomic_fetch_add(&f->counts->closed, 1);
    list_remove(&f->member);
    free(f);
}

static bool fake_detach(struct pooled_conn *c)
{
    struct fake_conn *f = fake_of(c);

    ASSERT(f->loop != NULL);
    if (f->stuck)
        return false;
    f->loop = NULL;
    atomic_fetch_add(&f->counts->detached, 1);
    return true;
}

static bool fake_attach(struct pooled_conn *c, struct loop *l)
{
    struct fake_conn *f = fake_of(c);

    ASSERT(f->loop == NULL);
    if (f->unwelcome)
        return false;
    f->loop = l;
    atomic_fetch_add(&f->counts->attached, 1);
    return true;
}

static const struct conn_pool_ops fake_ops = {
    .alive = fake_alive, .close = fake_close, .detach = fake_detach, .attach = fake_attach};

/* With permission: open one on L, in use. */
static inline struct fake_conn *fake_open(struct conn_backend *b, struct loop *l,
                                          struct fake_counts *counts)
{
    struct fake_conn *f = xcalloc(1, sizeof(*f));

    f->counts = counts;
    f->loop = l;
    atomic_init(&f->taken, true);
    atomic_fetch_add(&counts->live, 1);
    conn_opened(b, &f->pooled, l);
    return f;
}
