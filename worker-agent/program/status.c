/* SPDX-License-Identifier: Apache-2.0
 *
 * The pages of the admin address, generated on demand from the current state, and its actions.
 */
#include "worker-agent/program/agent.h"

#include <math.h>
#include <time.h>
#include <unistd.h>

#include "assets.h"
#include "common/base/file.h"
#include "common/base/json.h"
#include "common/program/admin.h"
#include "common/tree/tree.h"
#include "version.h"
#include "worker-agent/pool/slot.h"

/* ---- numbers of processes ---- */

void status_count(const struct app_group *g, struct process_counts *out)
{
    const struct app_process *p;

    *out = (struct process_counts){0};
    list_for_each_entry (p, &g->pool->processes, node) {
        if (p->group != g || p->slot == NULL)
            continue;
        if (p->state < PROCESS_READY)
            ++out->starting;
        else if (p->state > PROCESS_READY)
            ++out->leaving;
        else if (p->core.sessions > 0)
            ++out->busy;
        else
            ++out->idle;
    }
}

/* ---- /status.json and /resumes.json: docs/reference/protocols.md has the members ---- */

static void put_text(struct json_writer *w, const char *name, const char *v)
{
    json_put_text(w, name, slice_of(v));
}

static double agent_status_seconds(uint64_t from_ms, uint64_t to_ms)
{
    return to_ms > from_ms ? (double)(to_ms - from_ms) / 1000 : 0;
}

/* ---- processes ---- */

/* Why a process is ended or replaced; NULL: it is not. */
static const char *const reason_texts[] = {
    [CORE_IDLE] = "idle",         [CORE_GIVES_WAY] = "gives way", [CORE_OVER_MAX] = "over max",
    [CORE_OUTDATED] = "outdated", [CORE_SPENT] = "max requests",  [CORE_REPLACED] = "replaced",
};

static void put_process(struct json_writer *w, const char *name, const struct app_process *p,
                        bool replacement, uint64_t now_ms)
{
    const struct core_process *c = &p->core;
    const char *going = reason_texts[c->marked];
    const struct usage *u = &p->usage.usage;
    /* 0: not spawned yet; the largest: ended before it was checked. */
    bool has_age = p->usage.start_ticks != 0 && p->usage.start_ticks != UINT64_MAX;
    struct timespec now;

    json_open_object(w, name);
    put_text(w, "id", p->id);
    json_put_int(w, "slot", p->slot != NULL ? (int64_t)p->slot->core.n : -1);
    json_put_int(w, "pid", p->pid);
    put_text(w, "state", process_state_texts[p->state]);
    json_put_real(w, "state_s", agent_status_seconds(p->since_ms, now_ms));
    json_put_bool(w, "successor", replacement);
    if (going != NULL)
        put_text(w, "going", going);
    else
        json_put_null(w, "going");
    put_text(w, "address", p->pid != 0 ? addr_text(&p->addr) : "");
    put_text(w, "version", p->version);
    json_put_int(w, "generation", (int64_t)c->generation);
    json_put_int(w, "sessions", c->sessions);
    json_put_int(w, "tunnels", c->sessions - c->places);
    json_put_int(w, "processed", (int64_t)(c->served - c->sessions));
    double last_used_s = c->sessions > 0 ? 0 : agent_status_seconds(c->last_used_ms, now_ms);
    json_put_real(w, "last_used_s", c->served > 0 ? last_used_s : (double)NAN);
    /* The kernel knows also when a process began that another agent started. */
    clock_gettime(CLOCK_BOOTTIME, &now);
    double age_s = (double)now.tv_sec + (double)now.tv_nsec / 1e9 -
                   (double)p->usage.start_ticks / (double)sysconf(_SC_CLK_TCK);
    json_put_real(w, "uptime_s", has_age ? fmax(age_s, 0) : (double)NAN);
    if (u->known) {
        json_put_real(w, "cpu_percent", u->cpu_share * 100);
        json_put_real(w, "cpu_s", (double)u->cpu_us / 1e6);
        json_put_int(w, "memory_bytes", (int64_t)(u->pss_bytes != 0 ? u->pss_bytes : u->rss_bytes));
        json_put_int(w, "rss_bytes", (int64_t)u->rss_bytes);
        if (u->pss_bytes != 0)
            json_put_int(w, "pss_bytes", (int64_t)u->pss_bytes);
        json_put_int(w, "host_processes", u->processes);
    }
    json_close_object(w);
}

/* ---- slots ---- */

static void put_slot(struct json_writer *w, const struct slot *s, uint64_t now_ms)
{
    enum resume_state state = slot_state(s);
    /* "waiting" distinguishes a start that has not begun from those reported to load balancers. */
    bool waiting = state == RESUME_STARTING && slot_process(s) == NULL && s->attached == NULL;
    struct text failure = {0};

    json_open_object(w, NULL);
    json_put_int(w, "slot", s->core.n);
    put_text(w, "address", s->name);
    put_text(w, "state", waiting ? "waiting" : resume_state_text(state));
    put_text(w, "instance", s->instance);
    json_put_int(w, "waiting", (int64_t)s->core.nwaiting);
    json_put_int(w, "running", (int64_t)s->nrunning);
    json_put_int(w, "tunnels", (int64_t)s->ntunnels);
    json_put_int(w, "backlog", (int64_t)slot_in_flight(s));
    json_put_int(w, "served", (int64_t)s->served);
    json_put_int(w, "streams", (int64_t)list_length(&s->streams));
    json_put_int(w, "start_failures", s->start_failures);
    json_put_bool(w, "registered", s->registration != NULL && tree_registered(s->registration));
    /* In one line; the output of the process is included only for the newest failure. */
    if (s->failure != NULL) {
        failure_add_summary(s->failure, &failure);
        json_put_text(w, "last_failure", text_slice(&failure));
        text_fini(&failure);
    } else {
        json_put_null(w, "last_failure");
    }
    if (slot_process(s) != NULL)
        put_process(w, "process", slot_process(s), false, now_ms);
    if (slot_replacement(s) != NULL)
        put_process(w, "successor", slot_replacement(s), true, now_ms);
    json_open_array(w, "meters");
    for (size_t i = 0; i < SLOT_METERS; ++i) {
        const struct slot_meter *m = &s->meters.items[i];

        if (m->meter == NULL)
            continue;
        size_t classes = meter_class_count(m->meter);
        size_t max = s->meters.max_skills;
        json_open_object(w, NULL);
        put_text(w, "fingerprint", m->fingerprint);
        json_put_int(w, "generation", (int64_t)m->generation);
        json_put_int(w, "requests", (int64_t)meter_generation(m->meter));
        json_put_int(w, "classes", (int64_t)classes);
        /* As many as a resume made now would have. */
        json_put_int(w, "skills", (int64_t)(classes < max ? classes : max));
        json_close_object(w);
    }
    json_close_array(w);
    json_close_object(w);
}

/* ---- applications ---- */

static void put_group(struct json_writer *w, const struct app_group *g, uint64_t now_ms)
{
    const struct over_memory *o = &g->over_memory;
    const struct app_process *p;
    const struct slot *s;
    struct process_counts n;

    status_count(g, &n);
    json_open_object(w, g->name);
    put_text(w, "path", g->at_start->path);
    put_text(w, "version", g->config->s.version);
    json_put_int(w, "min_processes", g->core.min_processes);
    json_put_int(w, "max_processes", g->core.max_processes);
    json_put_bool(w, "attached", g->at_start->attach != NULL);
    json_put_int(w, "generation", (int64_t)g->core.generation);
    json_open_object(w, "counts");
    json_put_int(w, "processes", (int64_t)(n.starting + n.busy + n.idle + n.leaving));
    json_put_int(w, "starting", (int64_t)n.starting);
    json_put_int(w, "busy", (int64_t)n.busy);
    json_put_int(w, "idle", (int64_t)n.idle);
    json_put_int(w, "leaving", (int64_t)n.leaving);
    json_close_object(w);
    json_open_object(w, "queue");
    put_text(w, "policy", g->core.queue == CORE_QUEUE_GLOBAL ? "global" : "private");
    json_put_int(w, "waiting", stats_sum(g->stats, AGENT_STAT_requests_waiting));
    json_put_int(w, "waiting_any", (int64_t)g->core.nwaiting);
    json_put_int(w, "max", (int64_t)g->core.max_queue);
    json_close_object(w);
    /* How soon another process may be replaced for max_memory. */
    json_open_object(w, "over_memory");
    json_put_int(w, "max_bytes", (int64_t)g->max_memory_bytes);
    json_put_bool(w, "too_low", o->reported);
    json_put_real(w, "interval_s", (double)o->delay_ms / 1000);
    json_put_real(w, "next_s", agent_status_seconds(now_ms, o->not_before_ms));
    json_close_object(w);
    failure_describe(g->last_failure, "last_failure", now_ms, w);
    stats_describe(g->stats, "figures", w);
    live_settings_describe(g->live, w);
    tree_describe_broken_links(g->pool->tree, g->at_start->path, w);
    json_open_array(w, "slots");
    list_for_each_entry (s, &g->core.slots, core.node)
        put_slot(w, s, now_ms);
    json_close_array(w);
    json_open_array(w, "leaving");
    list_for_each_entry (p, &g->pool->processes, node) {
        /* Processes that have left their slot. */
        if (p->state >= PROCESS_LEAVING && p->group == g && p->slot != NULL &&
            p != slot_process(p->slot) && p != slot_replacement(p->slot))
            put_process(w, NULL, p, false, now_ms);
    }
    json_close_array(w);
    json_close_object(w);
}

/* ---- the pages ---- */

static int page_status(void *context, unused_ struct slice query, struct text *out)
{
    const struct agent *a = context;
    struct json_writer w = {.out = out};
    uint64_t now_ms = loop_now_ms(a->loop);
    const struct core *c = &a->pool.core;
    const char *host_path = a->first->host_path;
    int64_t waiting = 0;

    for (size_t i = 0; i < a->pool.ngroups; ++i)
        waiting += stats_sum(a->pool.groups[i]->stats, AGENT_STAT_requests_waiting);
    json_open_object(&w, NULL);
    put_text(&w, "program", "resumelb-agent");
    put_text(&w, "version", RLB_VERSION);
    json_put_int(&w, "pid", getpid());
    json_put_int(&w, "supervisor_pid", supervisor_link_pid(a->pool.supervisor));
    put_text(&w, "phase", agent_phase_texts[a->phase]);
    json_put_real(&w, "uptime_s", agent_status_seconds(a->started_ms, now_ms));
    json_put_int(&w, "connections", (int64_t)http_server_connections(a->front->server));
    json_put_int(&w, "processes", c->count + c->strays);
    json_put_int(&w, "active_processes", c->active);
    json_put_int(&w, "max_processes", c->max);
    json_put_int(&w, "waiting", waiting);
    state_files_describe(&w);
    if (a->pool.tree != NULL) {
        struct tree_status tree;

        json_open_object(&w, "tree");
        put_text(&w, "url", a->config->s.tree);
        tree_status(a->pool.tree, &tree);
        tree_status_describe(&tree, &w);
        json_close_object(&w);
    }
    json_open_object(&w, "host");
    if (host_path != NULL)
        put_text(&w, "path", host_path);
    else
        json_put_null(&w, "path");
    live_settings_describe(a->pool.live, &w);
    tree_describe_broken_links(host_path != NULL ? a->pool.tree : NULL, host_path, &w);
    json_close_object(&w);
    json_open_object(&w, "applications");
    for (size_t i = 0; i < a->pool.ngroups; ++i)
        put_group(&w, a->pool.groups[i], now_ms);
    json_close_object(&w);
    json_close_object(&w);
    text_add_char(out, '\n');
    return 200;
}

/* The present line, as a load balancer that connects now would get it. */
static void put_resume(struct json_writer *w, const struct slot *s, const struct slot_meter *m)
{
    struct resume now = {0};

    meter_resume(m->meter, s->meters.max_skills, &now);
    json_open_object(w, NULL);
    put_text(w, "application", s->group->name);
    json_put_int(w, "slot", s->core.n);
    put_text(w, "address", s->name);
    put_text(w, "instance", s->instance);
    put_text(w, "fingerprint", m->fingerprint);
    json_put_int(w, "generation", (int64_t)m->generation);
    json_open_object(w, "skills");
    for (size_t n = 0; n < now.n; ++n)
        json_put_real_named(w, now.rows[n].cls, now.rows[n].score);
    json_close_object(w);
    json_close_object(w);
    resume_fini(&now);
}

static int page_resumes(void *context, unused_ struct slice query, struct text *out)
{
    const struct agent *a = context;
    struct json_writer w = {.out = out};
    const struct slot *s;

    json_open_array(&w, NULL);
    for (size_t i = 0; i < a->pool.ngroups; ++i) {
        list_for_each_entry (s, &a->pool.groups[i]->core.slots, core.node) {
            for (size_t k = 0; k < SLOT_METERS; ++k) {
                if (s->meters.items[k].meter != NULL)
                    put_resume(&w, s, &s->meters.items[k]);
            }
        }
    }
    json_close_array(&w);
    text_add_char(out, '\n');
    return 200;
}

/* ---- what is ready ---- */

static int agent_status_page_ready(void *context, unused_ struct slice query, struct text *body)
{
    const struct agent *a = context;
    size_t unready = 0;

    if (a->phase != AGENT_RUNNING) {
        text_addf(body, "%s\n", agent_phase_texts[a->phase]);
        return 503;
    }
    for (size_t i = 0; i < a->pool.ngroups; ++i) {
        const struct app_group *g = a->pool.groups[i];
        const struct slot *s;
        size_t serving = 0;

        /* Without ready_probe a process waits for its first request: it must count as ready. */
        list_for_each_entry (s, &g->core.slots, core.node) {
            const struct app_process *p = slot_process(s);

            serving += p != NULL && (p->state == PROCESS_READY || p->core.probing);
        }
        /* With one_shot processes are started by requests only. */
        if (g->at_start->attach == NULL && !g->core.one_shot && serving < g->core.min_processes)
            unready += g->core.min_processes - serving;
    }
    if (unready > 0) {
        text_addf(body, "%zu processes are not ready\n", unready);
        return 503;
    }
    text_add(body, SLICE_LIT("ready\n"));
    return 200;
}

static int act_detach(void *context, struct slice id, struct text *body)
{
    const struct agent *a = context;
    struct app_process *p = app_pool_process(&a->pool, id);

    if (p == NULL) {
        text_add(body, SLICE_LIT("no such process\n"));
        return 404;
    }
    if (p->slot == NULL || p->state > PROCESS_READY) {
        text_addf(body, "process %s is already leaving\n", p->id);
        return 200;
    }
    text_addf(body, "process %s (%s, slot %u, pid %ld) is detached; it has %u requests\n", p->id,
              p->group->name, p->slot->core.n, (long)p->pid, p->core.sessions);
    app_process_detach(p);
    return 200;
}

/* ---- actions ---- */

/*
 * Actions at the admin address that require the actions_token: POST /actions/forget {"application":
 * NAME, "worker": ADDRESS, "class": CLASS}. An omitted member means all applications, slots or
 * classes. The whole object is checked, and unknown members are rejected, before anything is done.
 * Responses (JSON): 200 what was done, 400 invalid object, 404 no such slot. Control loop.
 */

static int forget_skills(void *context, struct slice entity, struct text *body)
{
    struct agent *a = context;
    struct admin_action order = {0};
    const char *why = admin_action_read(&order, entity);
    size_t groups = 0;
    size_t slots = 0;
    size_t scores = 0;
    int status = 200;

    for (size_t i = 0; i < a->pool.ngroups; ++i) {
        const struct app_group *g = a->pool.groups[i];
        struct slot *s;

        if (why != NULL || !admin_action_applies_to(&order, g->name))
            continue;
        ++groups;
        list_for_each_entry (s, &g->core.slots, core.node) {
            char name[ADDR_TEXT_MAX];

            /* A slot is known by its own address, and by the one under which it is registered. */
            if (order.worker.len != 0 && !slice_is(order.worker, s->name)) {
                slot_registered_name(s, name);
                if (!slice_is(order.worker, name))
                    continue;
            }
            ++slots;
            scores += slot_forget(s, order.has_class ? &order.cls : NULL);
        }
    }
    if (why != NULL)
        status = admin_action_reject(body, 400, why);
    else if (groups == 0)
        status = admin_action_reject(body, 404, "no such application");
    else if (order.worker.len != 0 && slots == 0)
        status = admin_action_reject(body, 404, "no such worker");
    else
        admin_action_forgotten(body, slots, scores);
    admin_action_fini(&order);
    return status;
}

void agent_status_add(struct agent *a)
{
    static const char json[] = "application/json";

    admin_add_status_page(a->admin,
                          (struct slice){(const char *)asset_page_js, sizeof(asset_page_js)},
                          page_status, a);
    admin_add(a->admin, "/status.json", json, page_status, a);
    admin_add(a->admin, "/resumes.json", json, page_resumes, a);
    admin_add_metrics(a->admin, status_metrics, a);
    admin_add_health(a->admin, agent_status_page_ready, a);
    admin_add_action(a->admin, "/processes/", "/detach", act_detach, a);
    admin_add_body_action(a->admin, "/actions/forget", forget_skills, a);
}
