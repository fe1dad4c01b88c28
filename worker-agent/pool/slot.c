/* SPDX-License-Identifier: Apache-2.0
 *
 * The slot's life, its processes, and what it publishes: registration and resume.
 */
#include "worker-agent/pool/slot.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/log.h"
#include "common/program/daemon.h"
#include "common/program/inherited.h"
#include "worker-agent/pool/resume_store.h"

static void slot_describe(const struct log_subject *self, struct log_text *out)
{
    const struct slot *s = (const struct slot *)(const void *)self;

    log_put(out, "application=%s slot=%u address=%s", s->group->name, s->core.n, s->name);
}

static void apply_settings(struct slot *s)
{
    const struct agent_app_settings *a = s->group->s;
    const struct meter_settings ms = {.history = (uint64_t)a->history,
                                      .max_skill_age = (uint64_t)a->max_skill_age,
                                      .max_classes = (size_t)a->max_classes};

    slot_meters_set(&s->meters, &ms, (size_t)a->max_skills);
    warm_targets_resize(&s->targets, (size_t)a->warm_up);
}

/* ---- state ---- */

enum resume_state slot_state(const struct slot *s)
{
    const struct app_process *p = slot_process(s);

    if (s->group->pool->draining || !core_slot_enabled(&s->core))
        return RESUME_DRAINING;
    if (s->attached != NULL)
        return RESUME_READY;
    if (p == NULL)
        return list_linked(&s->core.need) ? RESUME_STARTING : RESUME_DORMANT;
    /*
     * Load balancers send nothing to a starting process while a warm one exists. A process that is
     * probed by its first request is therefore reported as ready, or it would never receive that
     * request. Exception: a slot in which the previous process failed before it was ready.
     */
    bool takes_probe = p->state == PROCESS_STARTING && p->core.probing && s->start_failures == 0;
    return p->core.state == CORE_READY || takes_probe ? RESUME_READY : RESUME_STARTING;
}

bool slot_is_retired(const struct slot *s)
{
    return !core_slot_enabled(&s->core) && s->nrunning == 0 && s->core.nwaiting == 0;
}

static const char *version_of(const struct slot *s)
{
    return slot_process(s) != NULL ? slot_process(s)->version : s->group->config->s.version;
}

/* ---- registration ---- */

/* The properties of its registration: a new object. */
static json_t *properties_of(const struct slot *s)
{
    const struct app_pool *pool = s->group->pool;
    const struct app_process *p = slot_process(s);
    const struct slot_meter *latest = slot_meters_find(&s->meters, SLICE_NULL);
    char admin[ADDR_TEXT_MAX];
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "application", s->group->name,
                          "version", version_of(s), "description", s->group->config->s.description,
                          "agent", pool->agent_name, "state", resume_state_text(slot_state(s)),
                          "instance", s->instance);

    ASSERT(o != NULL);
    if (pool->at_start->admin.n > 0)
        json_object_set_new(o, "admin",
                            json_string(addr_format(&pool->at_start->admin.addresses[0], admin)));
    /* The classifier with which its latest skills were measured. */
    if (latest != NULL)
        json_object_set_new(o, "classifier_fingerprint", json_string(latest->fingerprint));
    if (p != NULL && p->pid != 0)
        json_object_set_new(o, "pid", json_integer(p->pid));
    return o;
}

void slot_registered_name(const struct slot *s, char out[ADDR_TEXT_MAX])
{
    if (s->group->at_start->s.advertise == NULL || s->listens.addr.sa.sa_family == AF_UNIX)
        addr_format(&s->listens.addr, out);
    else
        snprintf(out, ADDR_TEXT_MAX, "%s:%u", s->group->at_start->s.advertise,
                 addr_port(&s->listens.addr));
}

void slot_unregister(struct slot *s)
{
    tree_unregister(s->registration);
    s->registration = NULL;
}

struct resume_line slot_line(const struct slot *s)
{
    struct resume_line line = {.state = slot_state(s), .concurrency = s->group->core.concurrency};

    snprintf(line.instance, sizeof(line.instance), "%s", s->instance);
    snprintf(line.application, sizeof(line.application), "%s", s->group->name);
    snprintf(line.version, sizeof(line.version), "%s", version_of(s));
    return line;
}

/* ---- the resume and its file ---- */

static void update_warmth(struct slot *s)
{
    const struct slot_meter *m = slot_meters_find(&s->meters, SLICE_NULL);

    s->warmth = 0;
    if (m != NULL) {
        for (size_t i = 0; i < m->resume.n; ++i)
            s->warmth += m->resume.rows[i].score;
    }
    if (s->core.process != NULL)
        s->core.process->warmth = s->warmth;
}

static char *resume_path(const struct slot *s)
{
    return xasprintf("%s/%s/slot-%u.json", s->group->pool->at_start->s.state_dir, s->group->name,
                     s->core.n);
}

static void load_resume(struct slot *s)
{
    char *path = resume_path(s);
    struct text text = {0};
    char why[160] = "";
    enum err e = ERR_NOT_FOUND;

    /* The old agent's measurements are newer than the file, and exist without `persistent` too. */
    if (inherited_take_text(s->group->pool->inherited, "resume", s->group->name, (int)s->core.n,
                            &text))
        e = ERR_OK;
    else if (s->group->s->persistent)
        e = file_read_state(path, (size_t)SLOT_METERS * RESUME_LINE_MAX, &text);
    if (e == ERR_OK && !slot_meters_load(&s->meters, text_slice(&text), why))
        e = ERR_SYNTAX;
    if (e != ERR_OK && e != ERR_NOT_FOUND) {
        bool aside = e != ERR_SYSTEM && file_set_aside(path) == ERR_OK;

        log_warn(s, "resume-file-invalid", "file=%s reason=\"%s\" action=\"%s\"", path,
                 why[0] != '\0' ? why : err_text(e),
                 aside ? "renamed to .bad, started without skills" : "started without skills");
        group_count(s->group, AGENT_STAT_resume_file_errors);
    }
    update_warmth(s);
    text_fini(&text);
    free(path);
}

/* Stores the resumes, or deletes the file if there are none. */
static void save_resume(const struct slot *s)
{
    char *path = resume_path(s);
    struct resume_line sender = slot_line(s);
    struct text text = {0};

    slot_meters_print(&s->meters, &sender, &text);
    if (!s->group->pool->handed_over)
        resume_store_put(s->group->pool->store, path, text_slice(&text));
    text_fini(&text);
    free(path);
}

void slot_print_resume(struct slot *s, struct text *out)
{
    struct resume_line sender = slot_line(s);

    slot_meters_renew(&s->meters);
    slot_meters_print(&s->meters, &sender, out);
}

/* Updates the slot's instance to that of its current process. */
static void update_instance(struct slot *s)
{
    const struct app_process *p = slot_process(s);
    bool same = p != NULL ? strcmp(p->id, s->instance) == 0 : !s->instance_used;

    if (!same && s->instance_used) {
        ++s->life;
        slot_meters_drop_homes(&s->meters);
        if (!s->group->s->persistent) {
            slot_meters_fini(&s->meters);
            update_warmth(s);
            save_resume(s);
        }
    }
    if (!same && p == NULL)
        daemon_random_id(s->instance);
    if (!same && p != NULL)
        snprintf(s->instance, sizeof(s->instance), "%s", p->id);
    s->instance_used = p != NULL;
    if (p != NULL)
        s->core.process->warmth = s->warmth;
}

void slot_publish(struct slot *s)
{
    const struct app_pool *pool = s->group->pool;
    char name[ADDR_TEXT_MAX];

    if (s->attached == NULL)
        update_instance(s);
    if (s->listens.listener == NULL || pool->leaving || pool->handed_over)
        return;
    if (slot_is_retired(s)) {
        resume_streams_end(s, RESUME_END_STOP);
        slot_unregister(s);
        return;
    }
    if (pool->tree != NULL) {
        json_t *properties = properties_of(s);

        if (s->registration != NULL) {
            tree_registration_set(s->registration, properties);
        } else {
            slot_registered_name(s, name);
            s->registration = tree_register(pool->tree, s->group->at_start->path, name, properties);
        }
        json_decref(properties);
    }
    resume_streams_changed(s);
}

void slot_served(const struct slot_request *r, struct slice fingerprint, struct slice cls,
                 uint64_t service_us, bool failed)
{
    struct slot *s = r->slot;

    ++s->served;
    stat_observe(s->group->cell, AGENT_STAT_service_us, service_us);
    if (cls.len != 0)
        slot_homes_served(r, fingerprint, cls, service_us);
    /* Skills of the previous process do not count, except those that this process inherits. */
    if (cls.p == NULL || (r->life != s->life && !s->group->s->persistent))
        return;
    if (!slot_meters_add(&s->meters, fingerprint, cls, (double)service_us / 1e6, failed))
        return;
    group_count(s->group, AGENT_STAT_resumes);
    update_warmth(s);
    if (s->group->s->persistent)
        save_resume(s);
    slot_publish(s);
}

size_t slot_forget(struct slot *s, const struct slice *cls)
{
    size_t scores = slot_meters_forget(&s->meters, cls);

    update_warmth(s);
    if (s->group->s->persistent)
        save_resume(s);
    slot_publish(s);
    return scores;
}

/* ---- its processes ---- */

void slot_changed(struct slot *s)
{
    struct core_process *p;

    slot_publish(s);
    list_for_each_entry_safe (p, &s->core.leaving, leaving)
        app_process_begin_leaving(app_process_of(p));
    if (!core_slot_enabled(&s->core))
        slot_reject_waiting(s->group, s, OUTCOME_NOT_STARTED);
}

/* Time of the next attempt. *DELAY_MS is doubled each time; reset if the process lived long. */
static uint64_t next_try_ms(const struct app_group *g, uint64_t *delay_ms, uint64_t lived_ms)
{
    const struct agent_app_settings *a = g->s;
    uint64_t now_ms = loop_now_ms(g->pool->loop);

    if (lived_ms >= a->respawn_delay_max_ms || *delay_ms == 0)
        *delay_ms = a->respawn_delay_ms;
    else
        *delay_ms *= 2;
    if (*delay_ms > a->respawn_delay_max_ms)
        *delay_ms = a->respawn_delay_max_ms;
    /* From half of the delay to all of it: slots that failed together do not restart together. */
    uint64_t half = *delay_ms / 2;
    return now_ms + half + (uint64_t)random() % (half + 1);
}

void slot_process_failed(struct app_process *p)
{
    struct slot *s = p->slot;
    struct app_group *g = p->group;
    bool was_ready = p->ready_since_ms != 0;
    uint64_t lived_ms = was_ready ? loop_now_ms(g->pool->loop) - p->ready_since_ms : 0;

    /* P is detached below, so that one failure counts once. */
    if (s == NULL || p->core.state == CORE_LEAVING)
        return;
    if (s->core.replacement == &p->core) {
        g->core.replace_not_before_ms = next_try_ms(g, &g->replace_delay_ms, 0);
        group_count(g, AGENT_STAT_replace_failures);
        log_warn(s, "process-replacement-failed", "next_in_ms=%llu action=\"keep the old one\"",
                 (unsigned long long)(g->core.replace_not_before_ms - loop_now_ms(g->pool->loop)));
        core_detach(&p->core, CORE_REPLACED);
        return;
    }
    s->start_failures += !was_ready;
    /* Only a process that fails before it has served causes a back-off. */
    if (p->has_served)
        s->delay_ms = 0;
    else
        s->core.not_before_ms = next_try_ms(g, &s->delay_ms, lived_ms);
    core_detach(&p->core, CORE_REPLACED);
    update_instance(s);
    if (s->core.process != NULL && s->core.process->state == CORE_READY)
        return;
    /* Another worker may serve waiting requests before the next process is ready. */
    slot_reject_waiting(g, s, OUTCOME_NOT_STARTED);
    if (!was_ready && g->core.nprocesses == 0)
        slot_reject_waiting(g, NULL, OUTCOME_NOT_STARTED);
}

/* ---- life ---- */

struct slot *slot_create(struct app_group *g)
{
    struct slot *s = xcalloc(1, sizeof(*s));

    s->subject.describe = slot_describe;
    s->group = g;
    core_slot_init(&g->core, &s->core);
    s->listens = (struct front_listener){.group = g, .slot = s};
    if (g->at_start->has_address) {
        slot_address_of(&g->at_start->address, s->core.n, &s->listens.addr);
        addr_format(&s->listens.addr, s->name);
    }
    list_init(&s->streams);
    apply_settings(s);
    daemon_random_id(s->instance);
    if (g->at_start->attach != NULL)
        s->attached = &g->at_start->attach[s->core.n];
    return s;
}

bool slot_listen(struct slot *s)
{
    struct app_group *g = s->group;
    struct app_pool *pool = g->pool;
    uint64_t now_ms = loop_now_ms(pool->loop);
    const struct conn_pool_settings cs = group_conn_settings(g);

    if (g->at_start->has_address) {
        if (!pool->listen(pool->front, &s->listens))
            return false;
        addr_format(&s->listens.addr, s->name);
    }
    load_resume(s);
    if (s->attached == NULL)
        return true;
    /* An externally managed process is regarded as always present and unchanged. */
    s->attached_backend = conn_pool_backend(pool->conn_pool, slice_of(addr_text(s->attached)),
                                            slice_of(s->instance), 0, &cs);
    core_enter(&s->core, &s->attached_process, now_ms);
    core_ready(&s->attached_process, now_ms);
    return true;
}

void slot_settings_changed(struct slot *s)
{
    const struct conn_pool_settings cs = group_conn_settings(s->group);

    apply_settings(s);
    if (s->attached_backend != NULL)
        conn_backend_set(s->attached_backend, 0, &cs);
    if (slot_process(s) != NULL)
        app_process_settings_changed(slot_process(s));
    if (slot_replacement(s) != NULL)
        app_process_settings_changed(slot_replacement(s));
    slot_publish(s);
}

void listener_close(struct front_listener *l)
{
    const struct addr *a = &l->addr;

    if (l->listener == NULL)
        return;
    http_listener_close(l->listener);
    l->listener = NULL;
    /* The next agent has the same socket, which clients reach by that file. */
    if (a->sa.sa_family == AF_UNIX && a->un.sun_path[0] == '/' && !l->group->pool->handed_over)
        unlink(a->un.sun_path);
}

void slot_destroy(struct slot *s)
{
    if (s == NULL)
        return;
    ASSERT(s->core.nwaiting == 0);
    ASSERT(s->nrunning == 0);
    listener_close(&s->listens);
    slot_unregister(s);
    if (s->attached != NULL && s->core.process != NULL)
        core_exited(&s->attached_process);
    core_slot_fini(&s->core);
    if (s->attached_backend != NULL) {
        conn_backend_retire(s->attached_backend);
        conn_backend_release(s->attached_backend);
    }
    slot_meters_fini(&s->meters);
    warm_targets_fini(&s->targets);
    failure_destroy(s->failure);
    free(s);
}
