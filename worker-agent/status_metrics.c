/* SPDX-License-Identifier: Apache-2.0
 *
 * /metrics: the figures of stats.def by application, those of the tree, and those beside them that
 * are read from the pool: `families`. A label is an application, a slot or a state, so that their
 * number is bounded by the configuration: no pid, no id.
 */
#include "worker-agent/status.h"

#include <stdlib.h>
#include <time.h>

#include "common/tree/tree_figures.h"
#include "worker-agent/agent_internal.h"
#include "worker-agent/slot.h"

/* Series of one family for slots; an application with more has its first ones shown. */
enum { SLOT_SERIES_MAX = 1000 };

struct family {
    const char *name, *kind, *unit;
    const char *label; /* beside "application"; NULL: none */
    const char *doc;
    /* One of these: of the pool, of an application, of a slot (false: it has none now), and how
     * many processes of an application are in each state. */
    double (*of_pool)(const struct agent *a);
    double (*of_group)(const struct app_group *g);
    bool (*of_slot)(const struct slot *s, double *out);
    bool by_state;
};

/* ---- the pool ---- */

static double pool_processes(const struct agent *a)
{
    return (double)(a->pool.core.count + a->pool.core.strays);
}

static double pool_busy(const struct agent *a)
{
    return a->pool.core.active;
}

static double pool_max(const struct agent *a)
{
    return a->pool.core.max;
}

static struct live_settings_counts host_counts(const struct agent *a)
{
    struct live_settings_counts counts;

    host_settings_counts(a->pool.host, &counts);
    return counts;
}

static double host_changes(const struct agent *a)
{
    return (double)host_counts(a).changes;
}

static double host_refused(const struct agent *a)
{
    return (double)host_counts(a).refused;
}

static double host_held(const struct agent *a)
{
    return host_counts(a).held;
}

static double tls_finished(const struct agent *a)
{
    uint64_t finished;
    uint64_t failed;

    front_handshakes(a->front, &finished, &failed);
    return (double)finished;
}

static double tls_failed(const struct agent *a)
{
    uint64_t finished;
    uint64_t failed;

    front_handshakes(a->front, &finished, &failed);
    return (double)failed;
}

static double trace_written(const struct agent *a)
{
    uint64_t written;
    uint64_t dropped;

    trace_log_count(a->trace, &written, &dropped);
    return (double)written;
}

static double trace_dropped(const struct agent *a)
{
    uint64_t written;
    uint64_t dropped;

    trace_log_count(a->trace, &written, &dropped);
    return (double)dropped;
}

/* ---- applications ---- */

static double group_min(const struct app_group *g)
{
    return g->core.min_processes;
}

static double group_max(const struct app_group *g)
{
    return g->core.max_processes != 0 ? g->core.max_processes : g->nslots;
}

static double group_waiting_any(const struct app_group *g)
{
    return (double)g->core.nwaiting;
}

static double group_generation(const struct app_group *g)
{
    return (double)g->core.generation;
}

static double group_failed_at(const struct app_group *g)
{
    const struct failure *f = g->failures.newest;

    if (f == NULL)
        return 0;
    return (double)time(NULL) - (double)(loop_now_ms(g->pool->loop) - f->at_ms) / 1000;
}

/* ---- slots ---- */

static bool slot_sessions(const struct slot *s, double *out)
{
    *out = (double)s->nrunning;
    return true;
}

static bool slot_tunnels(const struct slot *s, double *out)
{
    *out = (double)s->ntunnels;
    return true;
}

static bool slot_waiting(const struct slot *s, double *out)
{
    *out = (double)s->core.nwaiting;
    return true;
}

static bool slot_served_requests(const struct slot *s, double *out)
{
    *out = (double)s->served;
    return true;
}

static bool slot_failed_starts(const struct slot *s, double *out)
{
    *out = s->start_failures;
    return true;
}

static const struct usage *usage_of(const struct slot *s)
{
    const struct app_process *p = slot_process(s);

    return p != NULL && p->usage.usage.known ? &p->usage.usage : NULL;
}

static bool slot_cpu(const struct slot *s, double *out)
{
    const struct usage *u = usage_of(s);

    if (u != NULL)
        *out = (double)u->cpu_us / 1e6;
    return u != NULL;
}

static bool slot_memory(const struct slot *s, double *out)
{
    const struct usage *u = usage_of(s);

    if (u != NULL)
        *out = (double)(u->pss_bytes != 0 ? u->pss_bytes : u->rss_bytes);
    return u != NULL;
}

/* clang-format off */
#define POOL(name_, kind_, unit_, of_, doc_) {.name = (name_), .kind = (kind_), .unit = (unit_), .doc = (doc_), .of_pool = (of_)}
#define GROUP(name_, unit_, of_, doc_) {.name = (name_), .kind = "gauge", .unit = (unit_), .doc = (doc_), .of_group = (of_)}
#define SLOT(name_, kind_, unit_, of_, doc_) {.name = (name_), .kind = (kind_), .unit = (unit_), .label = "slot", .doc = (doc_), .of_slot = (of_)}

static const struct family families[] = {
    POOL("pool_processes", "gauge", "processes", pool_processes, "Processes of all applications, in any state."),
    POOL("pool_processes_busy", "gauge", "processes", pool_busy, "Of them, those that have requests."),
    POOL("pool_processes_max", "gauge", "processes", pool_max, "How many there may be (max_processes of the host); 0: no limit."),
    POOL("tls_handshakes_total", "counter", "handshakes", tls_finished, "TLS handshakes of slots and own addresses that were finished."),
    POOL("tls_failures_total", "counter", "handshakes", tls_failed, "Those that were not: no TLS, no certificate that is good, or left."),
    POOL("trace_log_records_total", "counter", "records", trace_written, "Records written to the trace log."),
    POOL("trace_log_dropped_total", "counter", "records", trace_dropped, "Records that it lacks, because the file was too slow or took none."),
    POOL("host_settings_changes_total", "counter", "changes", host_changes, "Settings of the host changed by the tree, or by the file read anew."),
    POOL("host_refused_settings", "gauge", "settings", host_refused, "Settings in the host's node of the tree that are refused at present: the status page says which and why."),
    POOL("host_settings_held", "gauge", "nodes", host_held, "1 while the host's settings are held, because their node vanished or cannot be read."),
    {.name = "processes_by_state", .kind = "gauge", .unit = "processes", .label = "state", .doc = "Processes that start (successors among them), are busy, idle, or on their way out.", .by_state = true},
    GROUP("processes_min", "processes", group_min, "min_processes in force."),
    GROUP("processes_max", "processes", group_max, "The most there may be."),
    GROUP("waiting_any", "requests", group_waiting_any, "Requests that wait for whichever process."),
    GROUP("generation", "restarts", group_generation, "How many times all processes were to be replaced."),
    GROUP("last_failure_timestamp_seconds", "seconds", group_failed_at, "When a process failed last, since 1970; 0: never."),
    SLOT("slot_sessions", "gauge", "requests", slot_sessions, "Requests that the slot's processes have."),
    SLOT("slot_tunnels", "gauge", "tunnels", slot_tunnels, "Of these, upgraded connections (WebSocket)."),
    SLOT("slot_waiting", "gauge", "requests", slot_waiting, "Requests that wait at the slot."),
    SLOT("slot_served_total", "counter", "requests", slot_served_requests, "Requests served and measured."),
    SLOT("slot_start_failures", "gauge", "processes", slot_failed_starts, "Processes in a row that failed before they were ready."),
    SLOT("slot_cpu_seconds_total", "counter", "seconds", slot_cpu, "Processor time of its process and that one's children; from 0 with each process."),
    SLOT("slot_memory_bytes", "gauge", "bytes", slot_memory, "Memory of its process and that one's children."),
};
/* clang-format on */

static void add_states(const struct app_group *g, const struct family *f, struct text *out)
{
    struct process_counts n;

    status_count(g, &n);
    const struct {
        const char *state;
        size_t n;
    } rows[] = {
        {"starting", n.starting}, {"busy", n.busy}, {"idle", n.idle}, {"leaving", n.leaving}};
    for (size_t i = 0; i < ARRAY_LEN(rows); ++i)
        text_addf(out, "%s_%s{application=\"%s\",state=\"%s\"} %zu\n", AGENT_STATS_PREFIX, f->name,
                  g->name, rows[i].state, rows[i].n);
}

/* Names of applications have no letter that would have to be escaped. */
static void add_group(const struct app_group *g, const struct family *f, struct text *out)
{
    if (f->by_state)
        add_states(g, f, out);
    if (f->of_group != NULL)
        text_addf(out, "%s_%s{application=\"%s\"} %.15g\n", AGENT_STATS_PREFIX, f->name, g->name,
                  f->of_group(g));
    for (unsigned n = 0; f->of_slot != NULL && n < g->nslots && n < SLOT_SERIES_MAX; ++n) {
        double v = 0;

        if (f->of_slot(g->slots[n], &v))
            text_addf(out, "%s_%s{application=\"%s\",slot=\"%u\"} %.15g\n", AGENT_STATS_PREFIX,
                      f->name, g->name, n, v);
    }
}

static void add_families(const struct agent *a, struct text *out)
{
    for (size_t i = 0; i < ARRAY_LEN(families); ++i) {
        const struct family *f = &families[i];

        text_addf(out, "# HELP %s_%s %s\n# TYPE %s_%s %s\n", AGENT_STATS_PREFIX, f->name, f->doc,
                  AGENT_STATS_PREFIX, f->name, f->kind);
        if (f->of_pool != NULL)
            text_addf(out, "%s_%s %.15g\n", AGENT_STATS_PREFIX, f->name, f->of_pool(a));
        for (size_t k = 0; k < a->pool.ngroups; ++k)
            add_group(a->pool.groups[k], f, out);
    }
}

static void add_tree(const struct agent *a, struct text *out)
{
    struct tree_status tree;

    if (a->tree == NULL)
        return;
    tree_status(a->tree, &tree);
    for (size_t i = 0; i < TREE_FIGURES; ++i) {
        const struct tree_figure *f = &tree_figures[i];

        text_addf(out, "# HELP %s_%s %s\n# TYPE %s_%s %s\n%s_%s %llu\n", AGENT_STATS_PREFIX,
                  f->metric, f->doc, AGENT_STATS_PREFIX, f->metric, f->kind, AGENT_STATS_PREFIX,
                  f->metric, (unsigned long long)f->of(&tree));
    }
}

void status_metrics(const struct agent *a, struct text *out)
{
    struct stats_set *sets = xcalloc(a->pool.ngroups + 1, sizeof(*sets));
    char **labels = xcalloc(a->pool.ngroups + 1, sizeof(char *));

    for (size_t i = 0; i < a->pool.ngroups; ++i) {
        labels[i] = xasprintf("application=\"%s\"", a->pool.groups[i]->name);
        sets[i] = (struct stats_set){a->pool.groups[i]->stats, labels[i]};
    }
    stats_prometheus(AGENT_STATS_PREFIX, sets, a->pool.ngroups, out);
    add_families(a, out);
    add_tree(a, out);
    for (size_t i = 0; i < a->pool.ngroups; ++i)
        free(labels[i]);
    free(labels);
    free(sets);
}

void status_metrics_describe(FILE *out)
{
    fprintf(out,
            "\nThose of the pool, and with a label of their own; of slots, the first %d of an "
            "application.\n\n"
            "| metric | kind | unit | label | meaning |\n| --- | --- | --- | --- | --- |\n",
            SLOT_SERIES_MAX);
    for (size_t i = 0; i < ARRAY_LEN(families); ++i) {
        const struct family *f = &families[i];

        fprintf(out, "| `%s_%s` | %s | %s | %s | %s |\n", AGENT_STATS_PREFIX, f->name, f->kind,
                f->unit, f->label != NULL ? f->label : "", f->doc);
    }
}
