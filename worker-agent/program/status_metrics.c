/* SPDX-License-Identifier: Apache-2.0
 *
 * /metrics: the metrics of stats.def by application, those of the tree, and further ones read from
 * the pool. A label is an application, a slot or a state, never a pid or an id, so that the number
 * of series is bounded by the configuration.
 */
#include "worker-agent/program/agent.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "common/tree/tree.h"
#include "worker-agent/pool/slot.h"

/* Maximum slots of an application that have series of their own; further ones are not shown. */
enum { SLOT_SERIES_MAX = 1000 };

/* ---- the agent and its host ---- */

struct agent_figures {
    uint64_t processes, tls_finished, tls_failed;
    uint64_t body_memory, body_file_bytes, body_files, trace_written, trace_dropped;
    unsigned active, max; /* processes */
    struct live_settings_counts host;
};

static void each_agent(struct metrics *m, const void *context)
{
    const struct agent *a = context;
    const struct core *c = &a->pool.core;
    const struct body_totals *bodies = &a->front->body_totals;
    struct http_server_counts counts;
    struct agent_figures f = {.processes = c->count + c->strays,
                              .active = c->active,
                              .max = c->max,
                              .body_memory = bodies->memory_bytes,
                              .body_file_bytes = bodies->file_bytes.used,
                              .body_files = bodies->files.used};

    http_server_read_counts(a->front->server, &counts);
    f.tls_finished = counts.tls12 + counts.tls13;
    for (size_t i = 0; i < ARRAY_LEN(counts.tls_failed); ++i)
        f.tls_failed += counts.tls_failed[i];
    trace_log_count(a->trace, &f.trace_written, &f.trace_dropped);
    live_settings_counts(a->pool.live, &f.host);
    metrics_put(m, &f, SLICE_NULL, SLICE_NULL);
}

/* ---- applications: of struct app_group ---- */

enum { LABELS_ROOM = APP_NAME_MAX + 16 };

/* Names of applications have no letter that would have to be escaped. */
static struct slice labels_of(const struct app_group *g, char out[LABELS_ROOM])
{
    int n = snprintf(out, LABELS_ROOM, "application=\"%s\"", g->name);

    return (struct slice){out, (size_t)n};
}

static void each_group(struct metrics *m, const void *context)
{
    const struct agent *a = context;
    char labels[LABELS_ROOM];

    for (size_t i = 0; i < a->pool.ngroups; ++i)
        metrics_put(m, a->pool.groups[i], labels_of(a->pool.groups[i], labels), SLICE_NULL);
}

static void each_state(struct metrics *m, const void *context)
{
    const struct agent *a = context;
    char room[LABELS_ROOM];

    for (size_t i = 0; i < a->pool.ngroups; ++i) {
        struct slice labels = labels_of(a->pool.groups[i], room);
        struct process_counts n;

        status_count(a->pool.groups[i], &n);
        metrics_put_number(m, n.starting, labels, SLICE_LIT("starting"));
        metrics_put_number(m, n.busy, labels, SLICE_LIT("busy"));
        metrics_put_number(m, n.idle, labels, SLICE_LIT("idle"));
        metrics_put_number(m, n.leaving, labels, SLICE_LIT("leaving"));
    }
}

static double group_failed_at(const void *object)
{
    const struct app_group *g = object;
    const struct failure *f = g->last_failure;

    if (f == NULL)
        return 0;
    return (double)time(NULL) - (double)(loop_now_ms(g->pool->loop) - f->at_ms) / 1000;
}

/* ---- slots: of struct slot ---- */

static void each_slot(struct metrics *m, const void *context)
{
    const struct agent *a = context;
    char room[LABELS_ROOM];

    for (size_t i = 0; i < a->pool.ngroups; ++i) {
        const struct app_group *g = a->pool.groups[i];
        struct slice labels = labels_of(g, room);
        const struct slot *s;

        list_for_each_entry (s, &g->core.slots, core.node) {
            char number[16];

            if (s->core.n == SLOT_SERIES_MAX)
                break;
            snprintf(number, sizeof(number), "%u", s->core.n);
            metrics_put(m, s, labels, slice_of(number));
        }
    }
}

static const struct usage *usage_of(const void *object)
{
    const struct app_process *p = slot_process(object);

    return p != NULL && p->usage.usage.known ? &p->usage.usage : NULL;
}

static double slot_cpu(const void *object)
{
    const struct usage *u = usage_of(object);

    return u != NULL ? (double)u->cpu_us / 1e6 : (double)NAN;
}

static double slot_memory(const void *object)
{
    const struct usage *u = usage_of(object);

    if (u == NULL)
        return (double)NAN;
    return (double)(u->pss_bytes != 0 ? u->pss_bytes : u->rss_bytes);
}

/* ---- the table ---- */

/* clang-format off */
#define AGENT(name, kind, unit, member, doc) {name, STAT_##kind, unit, NULL, doc, each_agent, METRIC_MEMBER(COUNT, struct agent_figures, member)}
#define GROUP(name, unit, member, doc) {name, STAT_GAUGE, unit, NULL, doc, each_group, METRIC_MEMBER(COUNT, struct app_group, core.member)}
#define SLOT(name, kind, unit, member, doc) {name, STAT_##kind, unit, "slot", doc, each_slot, METRIC_MEMBER(COUNT, struct slot, member)}
#define SLOT_GET(name, kind, unit, get, doc) {name, STAT_##kind, unit, "slot", doc, each_slot, METRIC_GET, 0, 0, get}

static const struct metric metrics[] = {
    AGENT("pool_processes", GAUGE, "processes", processes, "Processes of all applications, in any state."),
    AGENT("pool_processes_busy", GAUGE, "processes", active, "Of them, those that have requests."),
    AGENT("pool_processes_max", GAUGE, "processes", max, "The maximum (max_processes of the host); 0: no limit."),
    AGENT("tls_handshakes_total", COUNTER, "handshakes", tls_finished, "Completed TLS handshakes of slots and of applications' own addresses."),
    AGENT("tls_failures_total", COUNTER, "handshakes", tls_failed, "Those that failed: no TLS, no valid certificate, or the client left."),
    AGENT("body_memory_bytes", GAUGE, "bytes", body_memory, "Memory of the bodies of requests in progress (request_buffers_total)."),
    AGENT("body_file_bytes", GAUGE, "bytes", body_file_bytes, "Bytes of request bodies in files (body_spill_total)."),
    AGENT("body_files", GAUGE, "files", body_files, "Files of request bodies, one descriptor each; at most 1,024, and an eighth of the descriptor limit."),
    AGENT("trace_log_records_total", COUNTER, "records", trace_written, "Records written to the trace log."),
    AGENT("trace_log_dropped_total", COUNTER, "records", trace_dropped, "Records that are missing in it, because the file was too slow or could not be written."),
    METRIC_LOG_DROPPED(each_agent),
    METRIC_STATE_UNSAVED(each_agent),
    AGENT("host_settings_changes_total", COUNTER, "changes", host.changes, "Settings of the host changed by the tree, or by a reload of the file."),
    AGENT("host_rejected_settings", GAUGE, "settings", host.rejected, "Settings in the host's node of the tree that are rejected at present: the status page shows which and why."),
    AGENT("host_settings_held", GAUGE, "nodes", host.held, "1 while the host's settings are held, because their node vanished or cannot be read."),
    {"processes_by_state", STAT_GAUGE, "processes", "state", "Processes that are starting (replacements too), busy, idle, or leaving.", each_state, METRIC_GET, 0, 0, NULL},
    GROUP("processes_min", "processes", min_processes, "The effective min_processes."),
    GROUP("processes_max", "processes", max_processes, "The effective maximum of processes."),
    GROUP("waiting_any", "requests", nwaiting, "Requests that wait for any process."),
    GROUP("generation", "restarts", generation, "How many times a restart of all processes was requested."),
    {"last_failure_timestamp_seconds", STAT_GAUGE, "seconds", NULL, "When a process failed last, since 1970; 0: never.", each_group, METRIC_GET, 0, 0, group_failed_at},
    SLOT("slot_sessions", GAUGE, "requests", nrunning, "Requests in progress at the slot's processes."),
    SLOT("slot_tunnels", GAUGE, "tunnels", ntunnels, "Of these, upgraded connections (WebSocket)."),
    SLOT("slot_waiting", GAUGE, "requests", core.nwaiting, "Requests that wait at the slot."),
    SLOT("slot_served_total", COUNTER, "requests", served, "Requests served and measured."),
    SLOT("slot_start_failures", GAUGE, "processes", start_failures, "Processes in a row that failed before they were ready."),
    SLOT_GET("slot_cpu_seconds_total", COUNTER, "seconds", slot_cpu, "Processor time of its process and the children of that; from 0 with each process."),
    SLOT_GET("slot_memory_bytes", GAUGE, "bytes", slot_memory, "Memory of its process and the children of that."),
};
/* clang-format on */

/* ---- the page ---- */

void status_metrics(void *agent, struct metrics *m)
{
    const struct agent *a = agent;
    struct stats_set *sets = xcalloc(a->pool.ngroups, sizeof(*sets));
    char(*labels)[LABELS_ROOM] = xcalloc(a->pool.ngroups, sizeof(*labels));
    struct tree_status tree;

    m->prefix = AGENT_STATS_PREFIX;
    for (size_t i = 0; i < a->pool.ngroups; ++i) {
        const struct app_group *g = a->pool.groups[i];

        sets[i] = (struct stats_set){g->stats, labels_of(g, labels[i])};
    }
    metrics_put_stats(m, sets, a->pool.ngroups);
    free(labels);
    free(sets);
    metrics_put_all(m, metrics, ARRAY_LEN(metrics), a);
    if (a->pool.tree == NULL)
        return;
    tree_status(a->pool.tree, &tree);
    for (size_t i = 0; i < TREE_METRICS; ++i) {
        metrics_begin(m, &tree_metrics[i]);
        metrics_put(m, &tree, SLICE_NULL, SLICE_NULL);
    }
}

void status_metrics_describe(FILE *out)
{
    metrics_describe_stats(AGENT_STATS_PREFIX, &agent_stats_table, out);
    fprintf(out,
            "\nMetrics of the pool, and those with their own label; of slots, the first %d of an "
            "application.\n\n",
            SLOT_SERIES_MAX);
    metrics_describe_head(out);
    metrics_describe(AGENT_STATS_PREFIX, metrics, ARRAY_LEN(metrics), out);
    fputs("\nMetrics of the tree, if there is one.\n\n", out);
    metrics_describe_head(out);
    metrics_describe(AGENT_STATS_PREFIX, tree_metrics, TREE_METRICS, out);
}
