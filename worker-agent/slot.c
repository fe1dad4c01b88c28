/* SPDX-License-Identifier: Apache-2.0
 *
 * The slot's life, its process and what it tells of itself. Requests are in slot_queue.c.
 */
#include "worker-agent/slot.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/file.h"
#include "common/base/log.h"
#include "common/net/daemon.h"
#include "worker-agent/app_group.h"
#include "worker-agent/app_pool.h"
#include "worker-agent/front.h"
#include "worker-agent/resume_stream.h"
#include "worker-agent/slot_queue.h"

static void describe(const struct log_subject *self, char *out, size_t room)
{
    const struct slot *s = (const struct slot *)(const void *)self;

    snprintf(out, room, "application=%s slot=%u address=%s", s->group->name, s->n, s->name);
}

static struct meter_settings meter_settings_of(const struct slot *s)
{
    const struct app_settings *a = s->group->s;

    return (struct meter_settings){.history = (uint64_t)a->history,
                                   .max_skill_age = (uint64_t)a->max_skill_age,
                                   .max_classes = (size_t)a->max_classes};
}

/* ---- state ---- */

static bool always_there(const struct slot *s)
{
    return s->n < s->group->nmin;
}

/*
 * Load balancers send nothing to a starting process while there is a warm one. So one whose first
 * request is its probe has to be called ready, or it would never get that; but for a slot whose
 * last process did not even come to that.
 */
static bool process_serves(const struct slot *s)
{
    return s->process->state == PROCESS_READY ||
           (s->process->state == PROCESS_STARTING && s->process->open && s->start_failures == 0);
}

enum resume_state slot_state(const struct slot *s)
{
    if (s->group->pool->draining)
        return RESUME_DRAINING;
    if (s->attached != NULL)
        return RESUME_READY;
    if (s->process != NULL)
        return process_serves(s) ? RESUME_READY : RESUME_STARTING;
    return always_there(s) || timer_running(&s->spawn) || list_linked(&s->starved_node)
               ? RESUME_STARTING
               : RESUME_COLD;
}

static const char *version_of(const struct slot *s)
{
    return s->process != NULL ? s->process->version : s->group->config->s.version;
}

void slot_publish(struct slot *s)
{
    struct app_pool *pool = s->group->pool;
    const struct registration_facts facts = {
        .application = s->group->name,
        .version = version_of(s),
        .description = s->group->config->s.description,
        .agent = pool->agent_name,
        .admin = pool->admin,
        .state = resume_state_text(slot_state(s)),
        .incarnation = s->incarnation,
        .pid = s->process != NULL ? (long)s->process->pid : 0,
    };

    char name[ADDR_TEXT_MAX];

    if (s->listener == NULL || pool->leaving)
        return;
    registration_name(s->group->advertise, &s->addr, name);
    registration_set(&s->registration, pool->tree, s->group->path, name, &facts);
    resume_streams_changed(s);
}

/* What stands in each line of the slot's, whatever the meter. */
struct resume_line slot_line(const struct slot *s)
{
    struct resume_line line = {.state = slot_state(s),
                               .concurrency = (unsigned)s->group->s->concurrency};

    snprintf(line.incarnation, sizeof(line.incarnation), "%s", s->incarnation);
    snprintf(line.application, sizeof(line.application), "%s", s->group->name);
    snprintf(line.version, sizeof(line.version), "%s", version_of(s));
    return line;
}

/* ---- the resume file ---- */

static char *resume_path(const struct slot *s)
{
    return xasprintf("%s/%s/slot-%u.json", s->group->pool->state_dir, s->group->name, s->n);
}

static void load_resume(struct slot *s)
{
    char *path = resume_path(s);
    struct text text = {0};
    struct meter_settings ms = meter_settings_of(s);
    char why[160] = "";
    enum err e = file_read(path, (size_t)SLOT_METERS * RESUME_LINE_MAX, &text);

    if (e == ERR_OK && !slot_meters_load(&s->meters, &ms, text_slice(&text), why))
        e = ERR_SYNTAX;
    if (e != ERR_OK && e != ERR_NOT_FOUND) {
        bool aside = e != ERR_SYSTEM && file_set_aside(path) == ERR_OK;

        log_warn(s, "resume-file-bad", "path=%s reason=\"%s\" action=\"%s\"", path,
                 why[0] != '\0' ? why : err_text(e),
                 aside ? "kept as .bad, started without skills" : "started without skills");
        group_count(s->group, AGENT_STAT_resume_file_errors);
    }
    text_fini(&text);
    free(path);
}

static void save_resume(const struct slot *s)
{
    char *path = resume_path(s);
    struct resume_line who = slot_line(s);
    struct text text = {0};

    slot_meters_print(&s->meters, &who, &text);
    resume_store_put(s->group->pool->store, path, text_slice(&text));
    text_fini(&text);
    free(path);
}

static void forget_resume(struct slot *s)
{
    char *path = resume_path(s);

    slot_meters_fini(&s->meters);
    resume_store_remove(s->group->pool->store, path);
    free(path);
}

void slot_served(struct slot *s, struct slice fingerprint, struct slice cls, uint64_t service_us,
                 bool failed)
{
    struct meter_settings ms = meter_settings_of(s);

    ++s->served;
    stat_observe(s->group->cell, AGENT_STAT_service_us, service_us);
    if (!slot_meters_add(&s->meters, &ms, fingerprint, cls, (double)service_us / 1e6, failed))
        return;
    group_count(s->group, AGENT_STAT_resumes);
    if (s->group->s->persistent)
        save_resume(s);
    resume_streams_changed(s);
}

/* ---- its process ---- */

static void new_incarnation(struct slot *s)
{
    char id[33];

    daemon_random_id(id);
    snprintf(s->incarnation, sizeof(s->incarnation), "%s", id);
}

void slot_want_process(struct slot *s)
{
    struct app_pool *pool = s->group->pool;
    uint64_t now_ms = loop_now_ms(pool->loop);

    if (s->attached != NULL || s->process != NULL || pool->draining || timer_running(&s->spawn))
        return;
    if (now_ms < s->not_before_ms) {
        timer_start(pool->loop, &s->spawn, s->not_before_ms - now_ms);
    } else if (app_pool_admit(pool, s)) {
        s->process = app_process_spawn(pool, s);
    }
    slot_publish(s);
}

/* A process that was wanted some time ago. */
static void want_still(struct slot *s)
{
    if (always_there(s) || s->nwaiting > 0)
        slot_want_process(s);
    else
        slot_publish(s);
}

static void on_spawn_time(struct timer *t)
{
    want_still(container_of(t, struct slot, spawn));
}

void slot_may_spawn(struct slot *s)
{
    want_still(s);
}

void slot_adopt(struct slot *s, struct kept_process *k)
{
    snprintf(s->incarnation, sizeof(s->incarnation), "%s", k->id);
    s->process = app_process_adopt(s->group->pool, s, k);
    if (app_process_ends(s->process)) {
        s->process = NULL;
        new_incarnation(s);
        return;
    }
    app_process_go_on(s->process, strcmp(k->note, "ready") == 0);
}

void slot_process_moved(struct slot *s)
{
    if (s->process == NULL)
        return;
    if (s->process->state == PROCESS_READY)
        s->start_failures = 0;
    slot_publish(s);
    slot_dispatch(s);
    /* Elsewhere they may be served before this one has ended and the next is ready. */
    if (s->process != NULL && app_process_ends(s->process))
        slot_refuse_waiting(s, SLOT_NOT_STARTED);
}

/* The next one is not to come before; longer each time, anew when the last one lived long. */
static void back_off(struct slot *s, uint64_t lived_ms)
{
    const struct app_settings *a = s->group->s;
    uint64_t now_ms = loop_now_ms(s->group->pool->loop);

    if (lived_ms >= a->respawn_delay_max_ms || s->delay_ms == 0)
        s->delay_ms = a->respawn_delay_ms;
    else
        s->delay_ms *= 2;
    if (s->delay_ms > a->respawn_delay_max_ms)
        s->delay_ms = a->respawn_delay_max_ms;
    /* Between half of it and all: slots that died together do not come back together. */
    uint64_t half = s->delay_ms / 2;
    s->not_before_ms = now_ms + half + (uint64_t)random() % (half + 1);
}

void slot_process_ended(struct slot *s, bool was_ready, bool expected)
{
    struct app_pool *pool = s->group->pool;
    uint64_t lived_ms = was_ready ? loop_now_ms(pool->loop) - s->process->ready_since_ms : 0;

    s->process = NULL;
    new_incarnation(s);
    timer_stop(&s->held);
    if (!was_ready)
        ++s->start_failures;
    if (!expected || !was_ready)
        back_off(s, lived_ms);
    if (!s->group->s->persistent)
        forget_resume(s);
    slot_abandon_running(s);
    slot_refuse_waiting(s, SLOT_NOT_STARTED);
    if (always_there(s))
        slot_want_process(s);
    slot_publish(s);
}

/* ---- life ---- */

static void on_held_over(struct timer *t)
{
    slot_dispatch(container_of(t, struct slot, held));
}

struct slot *slot_create(struct app_group *g, unsigned n)
{
    struct slot *s = xcalloc(1, sizeof(*s));

    s->subject.describe = describe;
    s->group = g;
    s->n = n;
    slot_address_of(&g->config->address, n, &s->addr);
    addr_format(&s->addr, s->name);
    list_init(&s->waiting);
    list_init(&s->running);
    list_init(&s->streams);
    timer_init(&s->held, on_held_over);
    timer_init(&s->spawn, on_spawn_time);
    s->meters.max_skills = (size_t)g->s->max_skills;
    new_incarnation(s);
    if (g->attach != NULL)
        s->attached = &g->attach[n];
    return s;
}

static void make_attached_backend(struct slot *s)
{
    const struct conn_pool_settings cs = {
        .idle_timeout_ms = s->group->s->idle_connection_timeout_ms, .max_waiting = 1};
    char text[ADDR_TEXT_MAX];

    addr_format(s->attached, text);
    s->attached_backend = conn_pool_backend(s->group->pool->conn_pool, slice_of(text),
                                            slice_of(s->incarnation), 0, &cs);
}

bool slot_listen(struct slot *s)
{
    s->listener = front_listen(s->group->pool->front, s);
    if (s->listener == NULL)
        return false;
    if (s->group->s->persistent)
        load_resume(s);
    if (s->attached != NULL)
        make_attached_backend(s);
    return true;
}

void slot_start(struct slot *s)
{
    slot_publish(s);
    if (always_there(s))
        slot_want_process(s);
}

void slot_settings_changed(struct slot *s)
{
    struct meter_settings ms = meter_settings_of(s);

    s->meters.max_skills = (size_t)s->group->s->max_skills;
    slot_meters_set(&s->meters, &ms);
    if (s->process != NULL)
        app_process_settings_changed(s->process);
    slot_publish(s);
    slot_dispatch(s);
}

void slot_stop_listening(struct slot *s)
{
    timer_stop(&s->spawn);
    list_remove(&s->starved_node);
    if (s->listener != NULL)
        http_listener_close(s->listener);
    s->listener = NULL;
    if (s->addr.sa.sa_family == AF_UNIX)
        front_unlink(&s->addr);
}

void slot_destroy(struct slot *s)
{
    if (s == NULL)
        return;
    ASSERT(list_empty(&s->waiting));
    ASSERT(list_empty(&s->running));
    timer_stop(&s->held);
    slot_stop_listening(s);
    registration_end(&s->registration);
    if (s->attached_backend != NULL) {
        conn_backend_retire(s->attached_backend);
        conn_backend_release(s->attached_backend);
    }
    slot_meters_fini(&s->meters);
    free(s);
}
