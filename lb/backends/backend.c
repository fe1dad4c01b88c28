/* SPDX-License-Identifier: Apache-2.0
 *
 * Dormant and starting instances are not added to the pool here: that depends on the whole
 * application (activation.c).
 */
#include "lb/backends/backend.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "common/upstream/http1_client.h"
#include "lb/backends/self_measure.h"
#include "lb/core/lb.h"

/* Returns the configuration of B, or the default of workers that are not listed. */
static const struct worker_settings *config_of(const struct backend *b)
{
    static const struct worker_settings unlisted = {
        .max_connections = -1, .max_tunnels = -1, .concurrency = 1};

    return b->listed != NULL ? &b->listed->s : &unlisted;
}

static const char *version_of(const struct backend *b)
{
    const char *listed = config_of(b)->version;

    return listed != NULL && listed[0] != '\0' ? listed : b->version;
}

/* ---- its address and TLS ---- */

void backend_set_host(struct backend *b, const char *name)
{
    const char *colon = strrchr(name, ':');
    size_t n = colon != NULL ? (size_t)(colon - name) : strlen(name);

    /* None if it is longer than any name of a certificate. */
    snprintf(b->host, sizeof(b->host), "%.*s", n < sizeof(b->host) ? (int)n : 0, name);
}

static bool wants_tls(const struct backend *b)
{
    int own = config_of(b)->tls;

    return own != WORKER_TLS_INHERIT ? own == WORKER_TLS_ON : b->app->worker_tls.on;
}

/* Returns the name for which the certificate must be valid. */
static const char *server_name(const struct backend *b, char room[ADDR_TEXT_MAX])
{
    if (config_of(b)->server_name != NULL)
        return config_of(b)->server_name;
    if (b->app->worker_tls.server_name != NULL)
        return b->app->worker_tls.server_name;
    if (b->host[0] != '\0')
        return b->host;
    return b->addr.sa.sa_family == AF_UNIX ? "localhost" : addr_host(&b->addr, room);
}

static const struct addr *address_of(const struct backend *b)
{
    return b->standby.in_use ? &b->standby.addr : &b->addr;
}

/* Returns the identifier of B's instance. Each move to another address yields a new one. */
static const char *instance_of(const struct backend *b, char room[INSTANCE_MAX + 16])
{
    if (b->standby.moves == 0)
        return b->instance;
    snprintf(room, INSTANCE_MAX + 16, "%s~%u", b->instance, b->standby.moves);
    return room;
}

/* ---- its instance ---- */

static void make_instance(struct backend *b, const char *instance, unsigned concurrency)
{
    const struct worker_settings *c = config_of(b);

    ASSERT(b->worker == NULL);
    b->worker = member_create(b->name, instance, version_of(b),
                              &(struct member){.app = b->app,
                                               .addr = *address_of(b),
                                               .tls = b->peer,
                                               .has_feed = b->streams,
                                               .has_standby = b->standby.addr.len != 0,
                                               .max_connections = c->max_connections,
                                               .max_tunnels = c->max_tunnels,
                                               .priority = b->priority,
                                               .share = b->share,
                                               .concurrency = concurrency});
    if (b->drained)
        member_set_unavailable(member_of(b->worker), MEMBER_DRAINED, true);
}

static void make_measured(struct backend *b)
{
    char room[INSTANCE_MAX + 16];

    make_instance(b, instance_of(b, room), (unsigned)config_of(b)->concurrency);
}

/* Releases W, which was the instance of B. */
static void backend_drop(const struct backend *b, struct worker *w)
{
    if (!b->streams)
        self_measure_leave(b->app->lb->self_measure, member_of(w));
    member_leave(member_of(w));
    conn_backend_retire(member_of(w)->backend);
    worker_unref(w);
}

static void retire_worker(const struct backend *b, struct worker *w, const char *why)
{
    struct member *m = member_of(w);

    log_info_folded(NULL, "worker-removed",
                    "application=%s worker=%s instance=%s reason=%s requests=%llu", b->app->name,
                    b->name, worker_instance(w), why,
                    (unsigned long long)load_relaxed(&m->requests));
    backend_drop(b, w);
}

static void end_instance(struct backend *b, const char *why)
{
    if (b->worker == NULL)
        return;
    retire_worker(b, b->worker, why);
    b->worker = NULL;
    b->silent = false;
    resume_line_fini(&b->last);
    membership_sort(b);
}

bool backend_in_pool(const struct backend *b)
{
    return b->worker != NULL && member_of(b->worker)->joined;
}

void backend_join(struct backend *b)
{
    /* A stream that knows no fingerprint has skills of one classifier only: ours. */
    const char *fingerprint = b->last.fingerprint[0] != '\0'
                                  ? b->last.fingerprint
                                  : classifier_fingerprint(b->app->classifier);

    if (!backend_in_pool(b))
        log_info_folded(NULL, "worker-joined",
                        "application=%s worker=%s instance=%s state=%s skills=%zu", b->app->name,
                        b->name, b->last.instance, resume_state_text(b->last.state),
                        b->last.skills.n);
    member_resume(member_of(b->worker), &b->last.skills, b->last.version, fingerprint);
    membership_sort(b);
}

void backend_leave(struct backend *b)
{
    log_info_folded(NULL, "worker-leaving", "application=%s worker=%s state=%s", b->app->name,
                    b->name, resume_state_text(b->last.state));
    member_leave(member_of(b->worker));
    membership_sort(b);
}

/* Whether B is picked has changed, and so perhaps which others are in the pool. */
static void state_changed(struct backend *b)
{
    membership_sort(b);
    ejection_check(b->app);
    membership_reserve(b->app->membership);
}

/* ---- its stream ---- */

void backend_on_resume(struct backend *b, const struct resume_line *line)
{
    struct worker *before = NULL;

    if (b->worker != NULL && strcmp(worker_instance(b->worker), line->instance) != 0) {
        before = b->worker;
        b->worker = NULL;
    }
    struct resume skills = b->last.skills;
    resume_copy(&skills, &line->skills);
    b->last = *line;
    b->last.skills = skills;
    if (line->state != RESUME_STARTING)
        b->starting_ms = 0;
    else if (b->starting_ms == 0)
        b->starting_ms = loop_now_ms(b->app->lb->control);
    if (b->worker == NULL)
        make_instance(b, line->instance, line->concurrency);
    struct member *m = member_of(b->worker);
    m->concurrency = line->concurrency;
    member_settings_changed(m);
    b->silent = false;
    /* In this order, the pool never sees a worker that must not be picked as available. */
    bool leaves =
        line->state == RESUME_DRAINING && member_set_unavailable(m, MEMBER_DRAINING, true);
    if (backend_in_pool(b) || line->state == RESUME_READY)
        backend_join(b);
    /* The agent had the new instance ready before the old one left: its classes stay. */
    if (before != NULL && backend_in_pool(b))
        pool_hand_over(b->app->pool, before, b->worker);
    if (before != NULL)
        retire_worker(b, before, "another-instance");
    if (leaves)
        pool_hand_over(b->app->pool, b->worker, NULL);
    if (line->state != RESUME_DRAINING)
        member_set_unavailable(m, MEMBER_DRAINING, false);
    member_set_unavailable(m, MEMBER_SILENT, false);
    b->refuted = false;
    state_changed(b);
}

/* The line's ages are relative to the present. */
void backend_on_homes(struct backend *b, const struct home_line *line)
{
    uint64_t now_us = loop_now_us(b->app->lb->control);

    if (b->worker == NULL || line->n == 0)
        return;
    struct pool_home *homes = xcalloc(line->n, sizeof(homes[0]));
    for (size_t i = 0; i < line->n; ++i) {
        const struct home_row *r = &line->rows[i];
        uint64_t since_us = r->since_age_ms * 1000;
        uint64_t used_us = r->used_age_ms * 1000;
        char from[HOME_FROM_MAX + 1];

        snprintf(from, sizeof(from), "%.*s", (int)r->from.len, r->from.p);
        const struct backend *other =
            r->kind == HOME_REASSIGN ? membership_find(b->app->membership, from) : NULL;
        homes[i] = (struct pool_home){.cls = r->cls,
                                      .kind = r->kind,
                                      .from = other != NULL ? other->worker : NULL,
                                      .from_name = r->from,
                                      .since_us = now_us > since_us ? now_us - since_us : 1,
                                      .used_us = now_us > used_us ? now_us - used_us : 1,
                                      .rate = r->rate};
    }
    pool_new_homes(b->app->pool, b->worker, homes, line->n, now_us);
    free(homes);
}

void backend_on_broken(struct backend *b)
{
    if (b->worker == NULL)
        return;
    b->silent = true;
    member_set_unavailable(member_of(b->worker), MEMBER_SILENT, true);
    state_changed(b);
}

void backend_on_absent(struct backend *b, enum resume_end how)
{
    static const char *const texts[] = {"no-stream", "drain", "upgrade", "stop"};
    struct membership *ms = b->app->membership;

    end_instance(b, texts[how]);
    b->refuted = how != RESUME_END_NONE || b->feed.refused;
    if (!backend_update(b))
        membership_forget(ms, b);
    membership_reserve(ms);
}

/* ---- its source, and its checks ---- */

static bool wants_stream(const struct backend *b)
{
    int source = b->listed != NULL ? b->listed->s.resume : b->app->settings->s.resume;

    if (source == RESUME_FROM_AUTO)
        return b->providers[SOURCE_TREE] > 0 ||
               (b->listed == NULL && b->providers[SOURCE_CALL] == 0);
    return source == RESUME_FROM_STREAM;
}

static void standby_report(struct backend *b, bool certain);

static void on_check_changed(void *context)
{
    struct backend *b = context;

    member_set_unavailable(member_of(b->worker), MEMBER_UNHEALTHY, b->check.record.failing);
    state_changed(b);
    if (!b->check.record.failing)
        return;
    standby_report(b, true);
    membership_check_failed(b);
}

static void start_check(struct backend *b)
{
    b->check = (struct active_check){.app = b->app,
                                     .addr = address_of(b),
                                     .peer = b->peer,
                                     .name = b->name,
                                     .changed = on_check_changed,
                                     .context = b};
    active_check_start(&b->check, false);
}

/*
 * ---- its standby address ----
 *
 * There is one attempt to reach the worker's own address at a time, or a timer until the next one,
 * or neither while the address works. The move is deferred to the end of the turn, as the report
 * may come from the worker's own check, which the move restarts.
 */

static uint64_t least_pause_ms(const struct backend *b)
{
    enum { PAUSE_MS = 1000 }; /* if ejection is switched off */
    uint64_t ms = b->app->settings->s.eject_time_ms;

    return ms != 0 ? ms : PAUSE_MS;
}

static void start_pause(struct backend *b)
{
    struct standby *s = &b->standby;
    uint64_t most_ms = b->app->settings->s.eject_time_max_ms;

    timer_start(b->app->lb->control, &s->timer, s->pause_ms);
    if (s->pause_ms < most_ms)
        s->pause_ms = s->pause_ms * 2 < most_ms ? s->pause_ms * 2 : most_ms;
}

static void run_switch(struct loop_deferred *d)
{
    struct backend *b = container_of(d, struct backend, standby.leave);
    struct standby *s = &b->standby;
    uint64_t now_ms = loop_now_ms(b->app->lb->control);
    const char *standby = addr_text(&s->addr);

    s->in_use = !s->in_use;
    ++s->moves;
    active_check_stop(&s->check);
    if (s->in_use) {
        log_warn(NULL, "standby-activated", "application=%s worker=%s standby=%s", b->app->name,
                 b->name, standby);
        /* After each return that does not last, its own address is tried later. */
        if (s->back_ms == 0 || now_ms - s->back_ms > b->app->settings->s.eject_time_max_ms)
            s->pause_ms = least_pause_ms(b);
        s->check = (struct active_check){
            .app = b->app, .addr = &b->addr, .peer = b->peer, .name = b->name};
        active_check_start(&s->check, true);
        start_pause(b);
    } else {
        log_info_folded(NULL, "standby-deactivated", "application=%s worker=%s standby=%s",
                        b->app->name, b->name, standby);
        s->back_ms = now_ms;
    }
    stat_add(application_control_stats(b->app), APP_STAT_workers_on_standby, s->in_use ? 1 : -1);
    /* The old instance is replaced in one step, so that its classes always have a worker. */
    struct worker *old = b->worker;
    active_check_stop(&b->check);
    b->worker = NULL;
    make_measured(b);
    self_measure_join(b->app->lb->self_measure, member_of(b->worker), member_of(old));
    pool_hand_over(b->app->pool, old, b->worker);
    backend_drop(b, old);
    start_check(b);
    state_changed(b);
}

static void standby_switch(struct backend *b)
{
    timer_stop(&b->standby.timer);
    loop_defer_once(b->app->lb->control, &b->standby.leave);
}

static void on_backend_connected(void *context, struct http1_client_conn *c, enum err e)
{
    struct backend *b = context;
    struct standby *s = &b->standby;
    bool responds = c != NULL;

    s->attempt = NULL;
    http1_client_close(&c);
    if (list_linked(&s->leave.node))
        return;
    if (s->in_use && !(responds && !s->check.record.failing))
        start_pause(b);
    else if (s->in_use || (!responds && e != ERR_SYSTEM))
        standby_switch(b);
}

static void try_own(struct timer *t)
{
    struct backend *b = container_of(t, struct backend, standby.timer);

    timer_stop(t);
    if (b->standby.attempt == NULL)
        b->standby.attempt = http1_client_connect_tls(b->app->lb->control, &b->addr, b->peer, NULL,
                                                      b->app->settings->s.connect_timeout_ms,
                                                      on_backend_connected, b);
}

/* The address that is in use has failed. CERTAIN: no attempt is needed before leaving it. */
static void standby_report(struct backend *b, bool certain)
{
    if (b->standby.addr.len == 0 || list_linked(&b->standby.leave.node))
        return;
    if (certain && !b->standby.in_use)
        standby_switch(b);
    else
        try_own(&b->standby.timer);
}

void member_report(struct member *m, bool certain)
{
    struct backend *b = membership_find(m->app->membership, worker_name(m->worker));

    /* B may have been removed, or have moved, since. */
    if (b != NULL && b->worker == m->worker)
        standby_report(b, certain);
}

/* ---- start and stop ---- */

static void backend_start(struct backend *b)
{
    char room[ADDR_TEXT_MAX];

    b->started = true;
    b->streams = wants_stream(b);
    b->peer = wants_tls(b) ? tls_peer_create(b->app->worker_tls.tls, server_name(b, room),
                                             b->app->name, b->name, b->app->lb->nloops)
                           : NULL;
    if (b->streams) {
        resume_feed_start(b);
        return;
    }
    b->standby = (struct standby){.pause_ms = least_pause_ms(b), .leave.run = run_switch};
    if (b->listed != NULL)
        b->standby.addr = b->listed->standby;
    timer_init(&b->standby.timer, try_own);
    make_measured(b);
    log_info_folded(NULL, "worker-joined", "application=%s worker=%s measured=true", b->app->name,
                    b->name);
    self_measure_join(b->app->lb->self_measure, member_of(b->worker), NULL);
    start_check(b);
    membership_sort(b);
}

static void backend_stop(struct backend *b, const char *why)
{
    struct standby *s = &b->standby;

    resume_feed_stop(b);
    active_check_stop(&b->check);
    end_instance(b, why);
    if (s->in_use)
        stat_add(application_control_stats(b->app), APP_STAT_workers_on_standby, -1);
    active_check_stop(&s->check);
    http1_client_connect_cancel(&s->attempt);
    timer_stop(&s->timer);
    list_remove(&s->leave.node);
    *s = (struct standby){0};
    tls_peer_unref(b->peer);
    b->peer = NULL;
    b->started = false;
}

bool backend_alive(const struct backend *b)
{
    struct conn_backend_view v;

    if (b->worker == NULL)
        return false;
    if (b->streams)
        return b->silent || b->feed.open;
    conn_backend_view(member_of(b->worker)->backend, &v);
    return v.in_use + v.idle > 0;
}

uint64_t backend_failures(const struct backend *b)
{
    return b->worker != NULL ? load_relaxed(&member_of(b->worker)->connect_failures) : 0;
}

bool backend_unreachable(const struct backend *b)
{
    const struct member *m = b->worker != NULL ? member_of(b->worker) : NULL;

    return m != NULL && load_relaxed(&m->ejected_until_ms) != 0 &&
           worker_fault_connects(
               (enum worker_fault)atomic_load_explicit(&m->ejected_why, memory_order_relaxed));
}

/* The reason why what is started must be restarted; NULL if it need not. */
static const char *restart_reason(const struct backend *b)
{
    char room[INSTANCE_MAX + 16];
    char name[ADDR_TEXT_MAX];
    bool tls = wants_tls(b);
    const struct addr *standby = &b->standby.addr;
    struct addr configured = b->listed != NULL ? b->listed->standby : (struct addr){0};

    if (b->streams != wants_stream(b))
        return "another-source";
    if (tls != (b->peer != NULL) ||
        (tls && !tls_peer_is(b->peer, b->app->worker_tls.tls, server_name(b, name))))
        return "another-tls";
    if (b->streams)
        return NULL; /* the stream itself reports instance and version */
    if (standby->len == 0 || configured.len == 0 ? standby->len != configured.len
                                                 : !addr_equal(standby, &configured))
        return "another-standby";
    if (strcmp(worker_instance(b->worker), instance_of(b, room)) != 0)
        return "another-instance";
    return strcmp(member_of(b->worker)->version, version_of(b)) != 0 ? "another-version" : NULL;
}

bool backend_update(struct backend *b)
{
    /*
     * Neither listed nor registered any more: it is retained if its stream is open, or if its
     * deletion from the tree is not confirmed and the worker itself has not confirmed it either.
     */
    if (b->literal == NULL && !backend_registered(b)) {
        if (b->started && b->streams && backend_alive(b))
            return true;
        if (b->refuted || !(b->vanished || b->held))
            return false;
        /* Cached by a previous run, and not tried in this one yet. */
        if (b->held && !b->started)
            backend_start(b);
        return true;
    }
    const char *why = b->started ? restart_reason(b) : NULL;
    if (why != NULL)
        backend_stop(b, why);
    if (!b->started)
        backend_start(b);
    if (b->worker != NULL) {
        struct member *m = member_of(b->worker);

        m->max_connections = config_of(b)->max_connections;
        m->max_tunnels = config_of(b)->max_tunnels;
        m->share = b->share;
        member_set_priority(m, b->priority);
        member_settings_changed(m);
    }
    return true;
}

void backend_drain(struct backend *b, bool on)
{
    if (b->drained == on)
        return;
    b->drained = on;
    log_info_folded(NULL, on ? "worker-drained" : "worker-undrained", "application=%s worker=%s",
                    b->app->name, b->name);
    membership_store_drained(b);
    if (b->worker == NULL)
        return;
    member_set_unavailable(member_of(b->worker), MEMBER_DRAINED, on);
    if (on)
        pool_hand_over(b->app->pool, b->worker, NULL);
    state_changed(b);
}

size_t backend_forget(struct backend *b, const struct slice *cls)
{
    (void)resume_forget(&b->last.skills, cls);
    if (b->worker == NULL)
        return 0;
    self_measure_forget(b->app->lb->self_measure, member_of(b->worker), cls);
    return pool_forget(b->app->pool, b->worker, cls);
}

const char *backend_state(const struct backend *b)
{
    if (b->worker == NULL)
        return "absent";
    if (b->silent)
        return "silent";
    if (b->check.record.failing)
        return "unhealthy";
    if (b->drained)
        return "drained";
    if (member_in_reserve(member_of(b->worker)))
        return "reserve";
    return b->streams ? resume_state_text(b->last.state) : "ready";
}

static void backend_free_now(struct loop_deferred *d)
{
    struct backend *b = container_of(d, struct backend, deferred);

    resume_line_fini(&b->last);
    free(b->name);
    free(b);
}

void backend_destroy(struct backend *b)
{
    backend_stop(b, "not-listed");
    b->deferred.run = backend_free_now;
    /* Not linked: the backend leaves the table of its membership here, and only once. */
    loop_defer(b->app->lb->control, &b->deferred);
}
