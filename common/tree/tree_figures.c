/* SPDX-License-Identifier: Apache-2.0 */
#include "common/tree/tree_figures.h"

/* clang-format off */
#define TREE(name, kind, unit, member, doc) {name, STAT_##kind, unit, NULL, doc, NULL, METRIC_MEMBER(COUNT, struct tree_status, member)}

const struct metric tree_metrics[TREE_METRICS] = {
    TREE("tree_connected", GAUGE, "yes or no", connected, "1: the tree can be reached."),
    TREE("tree_sessions_total", COUNTER, "sessions", sessions, "Sessions with ZooKeeper that were opened."),
    TREE("tree_connections_total", COUNTER, "connections", connections, "Connections to ZooKeeper that were opened."),
    TREE("tree_expired_total", COUNTER, "sessions", expired, "Sessions that ZooKeeper ended; what was registered in them was registered again."),
    TREE("tree_reads_total", COUNTER, "reads", reads, "Nodes, child lists and registrations read."),
    TREE("tree_quarantined", GAUGE, "nodes", quarantined, "Nodes not read at present, because reading them broke the connection."),
};
/* clang-format on */

void tree_status_describe(const struct tree_status *s, struct json_writer *w)
{
    json_put_bool(w, "connected", s->connected);
    json_put_int(w, "sessions", (int64_t)s->sessions);
    json_put_int(w, "connections", (int64_t)s->connections);
    json_put_int(w, "expired", (int64_t)s->expired);
    json_put_int(w, "reads", (int64_t)s->reads);
    json_put_int(w, "quarantined", (int64_t)s->quarantined);
}
