/* SPDX-License-Identifier: Apache-2.0
 *
 * libh2o's scheduler calls back for each stream, and a stream must not be closed inside. So it is
 * run for one stream at a time, and its callback only notes which stream that is.
 *
 * It cannot be notified that a stream has become inactive, except in the callback. So an entry has
 * a flag of its own: when the next entry is one that is inactive, the scheduler is notified
 * then, and continues with the next.
 */
#include "common/h2o/priority_tree.h"

#include "common/base/list.h"

#include <stdlib.h>

#include <h2o/http2_scheduler.h>

const bool priority_tree_has_effect = true;

struct priority_entry {
    h2o_http2_scheduler_openref_t ref;
    struct list node; /* in its tree's entries */
    uint32_t id;
    bool active;
    void *stream; /* NULL: reserved for an idle stream */
};

struct priority_tree {
    h2o_http2_scheduler_node_t root;
    struct list entries; /* the newest first */
    unsigned streams, idle;
};

struct priority_tree *priority_tree_create(void)
{
    struct priority_tree *t = xcalloc(1, sizeof(*t));

    h2o_http2_scheduler_init(&t->root);
    list_init(&t->entries);
    return t;
}

static void remove_entry(struct priority_entry *e)
{
    h2o_http2_scheduler_close(&e->ref);
    list_remove(&e->node);
    free(e);
}

void priority_tree_destroy(struct priority_tree *t)
{
    if (t == NULL)
        return;
    ASSERT(t->streams == 0);
    while (!list_empty(&t->entries))
        remove_entry(list_first(&t->entries, struct priority_entry, node));
    h2o_http2_scheduler_dispose(&t->root);
    free(t);
}

static struct priority_entry *priority_find(const struct priority_tree *t, uint32_t id)
{
    struct priority_entry *e;

    list_for_each_entry (e, &t->entries, node) {
        if (e->id == id)
            return e;
    }
    return NULL;
}

/* Replace P by the default if its dependency has no entry. Returns the node to depend on. */
static h2o_http2_scheduler_node_t *parent_of(struct priority_tree *t, uint32_t id,
                                             struct priority *p)
{
    ASSERT(p->weight >= 1);
    ASSERT(p->weight <= PRIORITY_WEIGHT_MAX);
    ASSERT(p->dependency != id);
    if (p->dependency == 0)
        return &t->root;
    struct priority_entry *on = priority_find(t, p->dependency);
    if (on != NULL)
        return &on->ref.node;
    *p = PRIORITY_DEFAULT;
    return &t->root;
}

static struct priority_entry *priority_add(struct priority_tree *t, uint32_t id, struct priority p,
                                           void *stream)
{
    h2o_http2_scheduler_node_t *parent = parent_of(t, id, &p);
    struct priority_entry *e = xcalloc(1, sizeof(*e));

    e->id = id;
    e->stream = stream;
    h2o_http2_scheduler_open(&e->ref, parent, p.weight, p.exclusive);
    list_push_front(&t->entries, &e->node);
    return e;
}

static void rebind_entry(struct priority_tree *t, struct priority_entry *e, struct priority p)
{
    h2o_http2_scheduler_node_t *parent = parent_of(t, e->id, &p);

    h2o_http2_scheduler_rebind(&e->ref, parent, p.weight, p.exclusive);
}

struct priority_entry *priority_tree_open(struct priority_tree *t, uint32_t id,
                                          const struct priority *p, void *stream)
{
    struct priority_entry *e = t->idle != 0 ? priority_find(t, id) : NULL;

    ASSERT(stream != NULL);
    ASSERT(t->streams < PRIORITY_STREAMS_MAX);
    ++t->streams;
    if (e == NULL)
        return priority_add(t, id, p != NULL ? *p : PRIORITY_DEFAULT, stream);
    ASSERT(e->stream == NULL);
    --t->idle;
    e->stream = stream;
    if (p != NULL)
        rebind_entry(t, e, *p);
    return e;
}

void priority_tree_close(struct priority_tree *t, struct priority_entry *e)
{
    ASSERT(e->stream != NULL);
    --t->streams;
    remove_entry(e);
}

bool priority_tree_change(struct priority_tree *t, uint32_t id, const struct priority *p, bool idle)
{
    struct priority_entry *e = priority_find(t, id);

    if (e != NULL) {
        rebind_entry(t, e, *p);
    } else if (idle && t->idle != PRIORITY_IDLE_MAX) {
        ++t->idle;
        e = priority_add(t, id, *p, NULL);
    }
    return e != NULL;
}

void priority_tree_activate(struct priority_entry *e)
{
    e->active = true;
    h2o_http2_scheduler_activate(&e->ref);
}

void priority_tree_deactivate(struct priority_entry *e)
{
    e->active = false;
}

/* Returns non-zero to end the run. */
static int on_next_stream(h2o_http2_scheduler_openref_t *ref, int *still_active, void *found)
{
    struct priority_entry *e = container_of(ref, struct priority_entry, ref);

    *still_active = e->active;
    if (e->active)
        *(void **)found = e->stream;
    return e->active;
}

void *priority_tree_next(struct priority_tree *t)
{
    void *stream = NULL;

    (void)h2o_http2_scheduler_run(&t->root, on_next_stream, &stream);
    return stream;
}

void priority_tree_trim(struct priority_tree *t)
{
    if (list_empty(&t->entries))
        h2o_http2_scheduler_dispose(&t->root);
}
