/* SPDX-License-Identifier: Apache-2.0
 *
 * The same interface without libh2o: active streams are served in rotation, whatever dependencies
 * and weights a client states. RFC 9113 section 5.3.2 permits a server to ignore them.
 */
#include "common/h2o/priority_tree.h"

#include "common/base/list.h"

#include <stdlib.h>

const bool priority_tree_has_effect = false;

struct priority_entry {
    struct priority_tree *tree;
    struct list node; /* in its tree's active entries, or in none */
    void *stream;
};

struct priority_tree {
    struct list active; /* the first is served next */
    unsigned streams;
};

struct priority_tree *priority_tree_create(void)
{
    struct priority_tree *t = xcalloc(1, sizeof(*t));

    list_init(&t->active);
    return t;
}

void priority_tree_destroy(struct priority_tree *t)
{
    if (t != NULL)
        ASSERT(t->streams == 0);
    free(t);
}

struct priority_entry *priority_tree_open(struct priority_tree *t, unused_ uint32_t id,
                                          unused_ const struct priority *p, void *stream)
{
    struct priority_entry *e = xcalloc(1, sizeof(*e));

    ASSERT(stream != NULL);
    ASSERT(t->streams < PRIORITY_STREAMS_MAX);
    ++t->streams;
    e->tree = t;
    e->stream = stream;
    list_init(&e->node);
    return e;
}

void priority_tree_close(struct priority_tree *t, struct priority_entry *e)
{
    --t->streams;
    list_remove(&e->node);
    free(e);
}

bool priority_tree_change(unused_ struct priority_tree *t, unused_ uint32_t id,
                          unused_ const struct priority *p, unused_ bool idle)
{
    return false;
}

void priority_tree_activate(struct priority_entry *e)
{
    if (!list_linked(&e->node))
        list_push_back(&e->tree->active, &e->node);
}

void priority_tree_deactivate(struct priority_entry *e)
{
    list_remove(&e->node);
}

void *priority_tree_next(struct priority_tree *t)
{
    struct priority_entry *e;

    if (list_empty(&t->active))
        return NULL;
    e = list_first(&t->active, struct priority_entry, node);
    list_remove(&e->node);
    list_push_back(&t->active, &e->node);
    return e->stream;
}

void priority_tree_trim(unused_ struct priority_tree *t)
{
}
