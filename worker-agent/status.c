/* SPDX-License-Identifier: Apache-2.0
 *
 * The agent's admin pages, made on demand from what is there.
 */
#include <stdlib.h>
#include <unistd.h>

#include "common/tree/tree_figures.h"
#include "common/wire/json.h"
#include "version.h"
#include "worker-agent/agent_internal.h"
#include "worker-agent/slot.h"

static void put_text(struct json_writer *w, const char *name, const char *v)
{
    json_put_text(w, name, slice_of(v));
}

/* ---- /status.json ---- */

static void put_meters(struct json_writer *w, const struct slot *s)
{
    json_open_array(w, "meters");
    for (size_t i = 0; i < SLOT_METERS; ++i) {
        const struct slot_meter *m = &s->meters.items[i];

        if (m->meter == NULL)
            continue;
        json_open_object(w, NULL);
        put_text(w, "fingerprint", m->fingerprint);
        json_put_int(w, "generation", (int64_t)m->generation);
        json_put_int(w, "requests", (int64_t)meter_generation(m->meter));
        json_put_int(w, "classes", (int64_t)meter_class_count(m->meter));
        json_put_int(w, "skills", (int64_t)m->resume.n);
        json_close_object(w);
    }
    json_close_array(w);
}

static void put_process(struct json_writer *w, const struct slot *s, uint64_t now_ms)
{
    const struct app_process *p = slot_process(s);
    char address[ADDR_TEXT_MAX];

    if (p == NULL)
        return;
    json_open_object(w, "process");
    json_put_int(w, "pid", p->pid);
    put_text(w, "state", process_state_text(p->state));
    json_put_real(w, "state_s", (double)(now_ms - p->since_ms) / 1000);
    put_text(w, "address", p->pid != 0 ? addr_format(&p->addr, address) : "");
    put_text(w, "version", p->version);
    json_put_int(w, "requests", (int64_t)p->requests);
    json_close_object(w);
}

static void put_slot(struct json_writer *w, const struct slot *s, uint64_t now_ms)
{
    size_t streams = 0;
    struct list *it;

    list_for_each (it, &s->streams)
        ++streams;
    json_open_object(w, NULL);
    json_put_int(w, "slot", s->n);
    put_text(w, "address", s->name);
    put_text(w, "state", resume_state_text(slot_state(s)));
    put_text(w, "incarnation", s->incarnation);
    json_put_int(w, "waiting", (int64_t)s->core.nwaiting);
    json_put_int(w, "running", (int64_t)s->nrunning);
    json_put_int(w, "backlog", (int64_t)(s->core.nwaiting + s->nrunning));
    json_put_int(w, "served", (int64_t)s->served);
    json_put_int(w, "streams", (int64_t)streams);
    json_put_int(w, "start_failures", s->start_failures);
    json_put_bool(w, "registered",
                  s->registration.entry != NULL && tree_registered(s->registration.entry));
    put_process(w, s, now_ms);
    put_meters(w, s);
    json_close_object(w);
}

static void put_figures(struct json_writer *w, const struct app_group *g)
{
    json_open_object(w, "figures");
    for (size_t i = 0; i < agent_stats_table.n; ++i) {
        const struct stat_row *row = &agent_stats_table.rows[i];

        if (row->kind != STAT_HISTOGRAM) {
            json_put_int(w, row->name, stats_sum(g->stats, i));
            continue;
        }
        struct stat_histogram h;
        stats_histogram(g->stats, i, &h);
        json_open_object(w, row->name);
        json_put_int(w, "count", (int64_t)h.count);
        json_put_int(w, "sum", (int64_t)h.sum_us);
        json_put_int(w, "p50", (int64_t)stats_quantile(&h, 0.5));
        json_put_int(w, "p99", (int64_t)stats_quantile(&h, 0.99));
        json_close_object(w);
    }
    json_close_object(w);
}

static void put_group(struct json_writer *w, const struct app_group *g, uint64_t now_ms)
{
    json_open_object(w, g->name);
    put_text(w, "path", g->path);
    put_text(w, "version", g->config->s.version);
    json_put_int(w, "min_processes", g->core.min_processes);
    json_put_int(w, "max_processes", g->attach != NULL ? g->nslots : g->core.max_processes);
    json_put_bool(w, "attached", g->attach != NULL);
    put_figures(w, g);
    live_settings_describe(g->live, w);
    json_open_array(w, "slots");
    for (unsigned n = 0; n < g->nslots; ++n)
        put_slot(w, g->slots[n], now_ms);
    json_close_array(w);
    json_close_object(w);
}

static int page_status(void *context, struct slice query, struct text *body)
{
    const struct agent *a = context;
    struct json_writer w = {.out = body};
    uint64_t now_ms = loop_now_ms(a->loop);

    (void)query;
    json_open_object(&w, NULL);
    put_text(&w, "program", "resumelb-agent");
    put_text(&w, "version", RLB_VERSION);
    json_put_int(&w, "pid", getpid());
    json_put_int(&w, "keeper_pid", keeper_link_pid(a->keeper));
    put_text(&w, "phase", agent_phase_text(a->phase));
    json_put_real(&w, "uptime_s", (double)(now_ms - a->started_ms) / 1000);
    json_put_int(&w, "connections", (int64_t)front_connections(a->front));
    json_put_int(&w, "processes", (int64_t)a->pool.count);
    json_put_int(&w, "max_processes", (int64_t)a->pool.core.max);
    if (a->tree != NULL) {
        json_open_object(&w, "tree");
        put_text(&w, "url", a->config->s.tree);
        struct tree_status tree;

        tree_status(a->tree, &tree);
        tree_status_describe(&tree, &w);
        json_close_object(&w);
    }
    json_open_object(&w, "applications");
    for (size_t i = 0; i < a->pool.ngroups; ++i)
        put_group(&w, a->pool.groups[i], now_ms);
    json_close_object(&w);
    json_close_object(&w);
    text_add_char(body, '\n');
    return 200;
}

/* ---- /resumes.json ---- */

static void put_resume(struct json_writer *w, const struct slot *s, const struct slot_meter *m)
{
    json_open_object(w, NULL);
    put_text(w, "application", s->group->name);
    json_put_int(w, "slot", s->n);
    put_text(w, "address", s->name);
    put_text(w, "incarnation", s->incarnation);
    put_text(w, "fingerprint", m->fingerprint);
    json_put_int(w, "generation", (int64_t)m->generation);
    json_open_object(w, "skills");
    for (size_t i = 0; i < m->resume.n; ++i)
        json_put_real_named(w, m->resume.rows[i].cls, m->resume.rows[i].score);
    json_close_object(w);
    json_close_object(w);
}

static int page_resumes(void *context, struct slice query, struct text *body)
{
    const struct agent *a = context;
    struct json_writer w = {.out = body};

    (void)query;
    json_open_array(&w, NULL);
    for (size_t i = 0; i < a->pool.ngroups; ++i) {
        const struct app_group *g = a->pool.groups[i];

        for (size_t k = 0; k < (size_t)g->nslots * SLOT_METERS; ++k) {
            const struct slot *s = g->slots[k / SLOT_METERS];

            if (s->meters.items[k % SLOT_METERS].meter != NULL)
                put_resume(&w, s, &s->meters.items[k % SLOT_METERS]);
        }
    }
    json_close_array(&w);
    text_add_char(body, '\n');
    return 200;
}

/* ---- the others ---- */

static void add_tree_metrics(const struct agent *a, struct text *out)
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

static int page_metrics(void *context, struct slice query, struct text *body)
{
    const struct agent *a = context;
    struct stats_set *sets = xcalloc(a->pool.ngroups + 1, sizeof(*sets));
    char **labels = xcalloc(a->pool.ngroups + 1, sizeof(char *));

    (void)query;
    for (size_t i = 0; i < a->pool.ngroups; ++i) {
        labels[i] = xasprintf("application=\"%s\"", a->pool.groups[i]->name);
        sets[i] = (struct stats_set){a->pool.groups[i]->stats, labels[i]};
    }
    stats_prometheus(AGENT_STATS_PREFIX, sets, a->pool.ngroups, body);
    add_tree_metrics(a, body);
    for (size_t i = 0; i < a->pool.ngroups; ++i)
        free(labels[i]);
    free(labels);
    free(sets);
    return 200;
}

static int page_health(void *context, struct slice query, struct text *body)
{
    (void)context;
    (void)query;
    text_add(body, SLICE_LIT("ok\n"));
    return 200;
}

/* How many processes of those that are always there do not serve yet. */
static size_t count_unready(const struct agent *a)
{
    size_t unready = 0;

    for (size_t i = 0; i < a->pool.ngroups; ++i) {
        const struct app_group *g = a->pool.groups[i];
        unsigned ready = 0;

        for (unsigned n = 0; n < g->nslots; ++n) {
            const struct app_process *p = slot_process(g->slots[n]);

            /* Without a ready_probe a process waits for its first request, which nobody sends to
             * who is not ready. */
            ready += p != NULL && (p->core.state == CORE_READY || p->open);
        }
        if (ready < g->core.min_processes)
            unready += g->core.min_processes - ready;
    }
    return unready;
}

static int page_ready(void *context, struct slice query, struct text *body)
{
    const struct agent *a = context;
    size_t unready = count_unready(a);

    (void)query;
    if (a->phase != AGENT_RUNNING) {
        text_addf(body, "%s\n", agent_phase_text(a->phase));
        return 503;
    }
    if (unready > 0) {
        text_addf(body, "%zu processes are not ready\n", unready);
        return 503;
    }
    text_add(body, SLICE_LIT("ready\n"));
    return 200;
}

void agent_status_add(struct agent *a)
{
    static const char json[] = "application/json";
    static const char plain[] = "text/plain; charset=utf-8";

    admin_add(a->admin, "/status.json", json, page_status, a);
    admin_add(a->admin, "/resumes.json", json, page_resumes, a);
    admin_add(a->admin, "/metrics", "text/plain; version=0.0.4; charset=utf-8", page_metrics, a);
    admin_add(a->admin, "/healthz", plain, page_health, a);
    admin_add(a->admin, "/readyz", plain, page_ready, a);
}
