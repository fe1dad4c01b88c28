/* SPDX-License-Identifier: Apache-2.0 */
#include "common/tree/tree_figures.h"

static uint64_t connected(const struct tree_status *s)
{
    return s->connected ? 1 : 0;
}

static uint64_t sessions(const struct tree_status *s)
{
    return s->sessions;
}

static uint64_t connections(const struct tree_status *s)
{
    return s->connections;
}

static uint64_t expired(const struct tree_status *s)
{
    return s->expired;
}

static uint64_t reads(const struct tree_status *s)
{
    return s->reads;
}

static uint64_t quarantined(const struct tree_status *s)
{
    return s->quarantined;
}

/* clang-format off */
const struct tree_figure tree_figures[TREE_FIGURES] = {
    {"connected", "tree_connected", "gauge", "yes or no", "1: the tree can be reached.", connected},
    {"sessions", "tree_sessions_total", "counter", "sessions", "Sessions begun with ZooKeeper.", sessions},
    {"connections", "tree_connections_total", "counter", "connections", "Connections to ZooKeeper, made or made again.", connections},
    {"expired", "tree_expired_total", "counter", "sessions", "Sessions that ZooKeeper gave up; what was registered in them was registered anew.", expired},
    {"reads", "tree_reads_total", "counter", "reads", "Nodes, child lists and providers read.", reads},
    {"quarantined", "tree_quarantined", "gauge", "nodes", "Nodes not read at present, because reading them broke the connection.", quarantined},
};
/* clang-format on */

void tree_figures_describe(const char *prefix, const char *label, FILE *out)
{
    for (size_t i = 0; i < TREE_FIGURES; ++i) {
        const struct tree_figure *f = &tree_figures[i];

        fprintf(out, "| `%s_%s` | %s | %s | %s | %s |\n", prefix, f->metric, f->kind, f->unit,
                label, f->doc);
    }
}

void tree_status_describe(const struct tree_status *s, struct json_writer *w)
{
    json_put_bool(w, tree_figures[0].name, s->connected);
    for (size_t i = 1; i < TREE_FIGURES; ++i)
        json_put_int(w, tree_figures[i].name, (int64_t)tree_figures[i].of(s));
}
