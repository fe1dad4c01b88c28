/* SPDX-License-Identifier: Apache-2.0 */
#include "common/tree/settings_watch.h"

#include <stdlib.h>

#include "common/tree/tree_backend.h"

struct settings_watch {
    struct live_settings *live;
    struct tree_memory *memory;
    char *part; /* of the memory */
    struct tree_watch *watch;
    struct timer wait;
    bool heard;
};

static void recall(const struct settings_watch *w)
{
    const json_t *old = tree_memory_part(w->memory, w->part);

    if (old != NULL)
        live_settings_remember(w->live, old, tree_memory_age_s(w->memory));
}

static void on_node(void *context, const struct tree_node *node)
{
    struct settings_watch *w = context;
    bool good = node->exists && node->parses;
    struct live_settings_counts now;

    timer_stop(&w->wait);
    /* A tree that was wiped meanwhile: what it said in another life is held, as in this one. */
    if (!w->heard && (!good || json_object_size(node->properties) == 0))
        recall(w);
    w->heard = true;
    live_settings_node(w->live, node);
    live_settings_counts(w->live, &now);
    if (good && !now.held)
        tree_memory_keep(w->memory, w->part, node->properties);
}

static void on_wait_over(struct timer *t)
{
    recall(container_of(t, struct settings_watch, wait));
}

struct settings_watch *settings_watch_start(struct tree *t, const char *path,
                                            struct live_settings *live, struct tree_memory *memory,
                                            const char *part, uint64_t wait_ms)
{
    struct settings_watch *w = xcalloc(1, sizeof(*w));

    w->live = live;
    w->memory = memory;
    w->part = xstrdup(part);
    timer_init(&w->wait, on_wait_over);
    timer_start(t->loop, &w->wait, wait_ms);
    w->watch = tree_watch(t, path, on_node, w);
    return w;
}

void settings_watch_recall(struct settings_watch *w)
{
    recall(w);
}

void settings_watch_stop(struct settings_watch *w)
{
    if (w == NULL)
        return;
    timer_stop(&w->wait);
    tree_unwatch(w->watch);
    free(w->part);
    free(w);
}
