/* SPDX-License-Identifier: Apache-2.0 */
#include "common/http/http2_urgency.h"

#include <stdlib.h>

struct http2_urgency *http2_urgency_create(void)
{
    struct http2_urgency *q = xcalloc(1, sizeof(*q));

    for (unsigned i = 0; i < URGENCY_LEVELS; ++i) {
        list_init(&q->levels[i].sequential);
        list_init(&q->levels[i].incremental);
    }
    return q;
}

void http2_urgency_destroy(struct http2_urgency *q)
{
    free(q);
}

void http2_urgency_activate(struct http2_urgency *q, struct urgency_entry *e)
{
    struct urgency_level *level = &q->levels[e->urgency.level];
    struct list *at = &level->sequential;

    if (list_linked(&e->node))
        return;
    if (e->urgency.incremental) {
        list_push_back(&level->incremental, &e->node);
        return;
    }
    /* From the end: requests come in the order of their numbers. */
    while (at->prev != &level->sequential &&
           list_entry(at->prev, struct urgency_entry, node)->id > e->id)
        at = at->prev;
    list_insert_before(at, &e->node);
}

void http2_urgency_change(struct http2_urgency *q, struct urgency_entry *e, struct urgency u)
{
    bool active = list_linked(&e->node);

    list_remove(&e->node);
    e->urgency = u;
    if (active)
        http2_urgency_activate(q, e);
}

struct urgency_entry *http2_urgency_next(struct http2_urgency *q)
{
    struct urgency_level *level = q->levels;
    struct urgency_entry *e;

    while (list_empty(&level->sequential) && list_empty(&level->incremental)) {
        if (++level == q->levels + URGENCY_LEVELS)
            return NULL;
    }
    level->shared =
        list_empty(&level->sequential) || (!level->shared && !list_empty(&level->incremental));
    if (!level->shared)
        return list_first(&level->sequential, struct urgency_entry, node);
    e = list_first(&level->incremental, struct urgency_entry, node);
    list_move_back(&level->incremental, &e->node);
    return e;
}

static struct urgency_early *find_early(struct http2_urgency *q, uint32_t id)
{
    for (unsigned i = 0; i < URGENCY_EARLY_MAX; ++i) {
        if (q->early[i].id == id)
            return &q->early[i];
    }
    return NULL;
}

void http2_urgency_announce(struct http2_urgency *q, uint32_t id, struct urgency u)
{
    struct urgency_early *e = find_early(q, id);

    if (e == NULL) {
        e = &q->early[q->next_early];
        q->next_early = (q->next_early + 1) % URGENCY_EARLY_MAX;
    }
    *e = (struct urgency_early){.id = id, .urgency = u};
}

bool http2_urgency_announced(struct http2_urgency *q, uint32_t id, struct urgency *u)
{
    struct urgency_early *e = find_early(q, id);

    if (e == NULL)
        return false;
    *u = e->urgency;
    e->id = 0;
    return true;
}
