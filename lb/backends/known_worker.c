/* SPDX-License-Identifier: Apache-2.0
 *
 * Cold and starting processes are not added to the pool here: that depends on the whole application
 * (cold_slots.c).
 */
#include "lb/backends/known_worker.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "lb/backends/self_measure.h"
#include "lb/backends/standby.h"
#include "lb/core/lb.h"

/* The configuration of K. */
static const struct worker_config *config_of(const struct known_worker *k)
{
    static const struct worker_config unlisted = {
        .max_connections = -1, .max_tunnels = -1, .concurrency = 1};

    return k->listed != NULL ? k->listed : &unlisted;
}

static const char *version_of(const struct known_worker *k)
{
    const char *listed = config_of(k)->version;

    return listed != NULL && listed[0] != '\0' ? listed : k->version;
}

/* ---- how it is spoken to ---- */

void known_worker_set_host(struct known_worker *k, const char *name)
{
    const char *colon = strrchr(name, ':');
    size_t n = colon != NULL ? (size_t)(colon - name) : strlen(name);

    if (n >= sizeof(k->host))
        n = 0; /* longer than any certificate's */
    memcpy(k->host, name, n);
    k->host[n] = '\0';
}

static bool wants_tls(const struct known_worker *k)
{
    int own = config_of(k)->tls;

    return own != WORKER_TLS_INHERIT ? own == WORKER_TLS_ON : k->app->worker_tls.on;
}

/* The name that its certificate must be for. */
static const char *server_name(const struct known_worker *k, char room[ADDR_TEXT_MAX])
{
    if (config_of(k)->server_name != NULL)
        return config_of(k)->server_name;
    if (k->app->worker_tls.server_name != NULL)
        return k->app->worker_tls.server_name;
    if (k->host[0] != '\0')
        return k->host;
    return k->addr.sa.sa_family == AF_UNIX ? "localhost" : addr_host(&k->addr, room);
}

/* A reference; NULL: plain. */
static struct tls_peer *make_peer(const struct known_worker *k)
{
    char room[ADDR_TEXT_MAX];

    if (!wants_tls(k))
        return NULL;
    return tls_peer_create(k->app->worker_tls.tls, server_name(k, room), k->app->name, k->name,
                           k->app->lb->nloops);
}

static bool same_peer(const struct known_worker *k)
{
    char room[ADDR_TEXT_MAX];

    if (k->peer == NULL || !wants_tls(k))
        return (k->peer == NULL) == !wants_tls(k);
    return tls_peer_is(k->peer, k->app->worker_tls.tls, server_name(k, room));
}

static const struct addr *address_of(const struct known_worker *k)
{
    return standby_in_use(k->standby) ? standby_addr(k->standby) : &k->addr;
}

/* Its next one, at each move. */
static const char *incarnation_of(const struct known_worker *k, char room[INCARNATION_MAX + 16])
{
    if (standby_moves(k->standby) == 0)
        return k->incarnation;
    snprintf(room, INCARNATION_MAX + 16, "%s~%u", k->incarnation, standby_moves(k->standby));
    return room;
}

/* ---- the worker that lives there ---- */

static void on_report(struct member *m, bool certain);

static void make_worker(struct known_worker *k, const char *incarnation, unsigned concurrency)
{
    struct member_options o = {.app = k->app,
                               .name = k->name,
                               .addr = address_of(k),
                               .tls = k->peer,
                               .reports = k->standby != NULL ? on_report : NULL,
                               .incarnation = incarnation,
                               .version = version_of(k),
                               .max_connections = config_of(k)->max_connections,
                               .max_tunnels = config_of(k)->max_tunnels,
                               .concurrency = concurrency,
                               .has_feed = k->streams};

    ASSERT(k->worker == NULL);
    k->worker = member_create(&o);
    if (k->drained)
        member_set_unavailable(member_of(k->worker), MEMBER_DRAINED, true);
}

/* It is W no more. */
static void retire(struct known_worker *k, struct worker *w, const char *why)
{
    struct member *m = member_of(w);

    log_info_folded(NULL, "worker-removed",
                    "application=%s worker=%s instance=%s reason=%s requests=%llu", k->app->name,
                    k->name, worker_incarnation(w), why,
                    (unsigned long long)atomic_load_explicit(&m->requests, memory_order_relaxed));
    if (!k->streams)
        self_measure_leave(k->app->lb->self_measure, m);
    member_retire(m);
    worker_unref(w);
}

static void end_worker(struct known_worker *k, const char *why)
{
    if (k->worker == NULL)
        return;
    retire(k, k->worker, why);
    k->worker = NULL;
    k->silent = false;
    resume_line_fini(&k->last);
    membership_sort(k);
}

bool known_worker_in_pool(const struct known_worker *k)
{
    return k->worker != NULL && member_of(k->worker)->joined;
}

void known_worker_join(struct known_worker *k)
{
    /* A stream that knows no fingerprint has skills of one classifier only: ours. */
    const char *fingerprint = k->last.fingerprint[0] != '\0'
                                  ? k->last.fingerprint
                                  : classifier_fingerprint(k->app->classifier);

    if (!known_worker_in_pool(k))
        log_info_folded(NULL, "worker-joined",
                        "application=%s worker=%s instance=%s state=%s skills=%zu", k->app->name,
                        k->name, k->last.incarnation, resume_state_text(k->last.state),
                        k->last.skills.n);
    member_resume(member_of(k->worker), &k->last.skills, k->last.version, fingerprint);
    membership_sort(k);
}

void known_worker_leave(struct known_worker *k)
{
    log_info_folded(NULL, "worker-leaving", "application=%s worker=%s state=%s", k->app->name,
                    k->name, resume_state_text(k->last.state));
    member_leave(member_of(k->worker));
    membership_sort(k);
}

enum worker_kind known_worker_kind(const struct known_worker *k)
{
    bool in = known_worker_in_pool(k);

    if (k->worker == NULL || k->silent || k->drained)
        return WORKER_OTHER;
    if (active_check_view(k->check).failing)
        return WORKER_OTHER;
    if (!k->streams || k->last.state == RESUME_READY)
        return in ? WORKER_WARM : WORKER_OTHER;
    if (k->last.state == RESUME_STARTING)
        return in ? WORKER_STARTING_IN : WORKER_STARTING_OUT;
    if (k->last.state == RESUME_COLD)
        return in ? WORKER_COLD_IN : WORKER_COLD_OUT;
    return WORKER_OTHER;
}

/* Whether K is picked has changed, and so perhaps which others are in the pool. */
static void state_changed(struct known_worker *k)
{
    membership_sort(k);
    health_check(k->app);
    membership_reserve(k->membership);
}

/* ---- its stream ---- */

static void keep_line(struct known_worker *k, const struct resume_line *line)
{
    struct resume skills = k->last.skills;

    resume_copy(&skills, &line->skills);
    k->last = *line;
    k->last.skills = skills;
    if (line->state != RESUME_STARTING)
        k->starting_ms = 0;
    else if (k->starting_ms == 0)
        k->starting_ms = loop_now_ms(k->app->lb->control);
}

static void on_resume(void *context, const struct resume_line *line)
{
    struct known_worker *k = context;
    struct worker *before = NULL;

    if (k->worker != NULL && strcmp(worker_incarnation(k->worker), line->incarnation) != 0) {
        before = k->worker;
        k->worker = NULL;
    }
    keep_line(k, line);
    if (k->worker == NULL)
        make_worker(k, line->incarnation, line->concurrency);
    struct member *m = member_of(k->worker);
    member_set_concurrency(m, line->concurrency);
    k->silent = false;
    /* In the order that never shows the pool a worker which is not to be picked. */
    bool leaves =
        line->state == RESUME_DRAINING && member_set_unavailable(m, MEMBER_DRAINING, true);
    if (known_worker_in_pool(k) || line->state == RESUME_READY)
        known_worker_join(k);
    /* When K's worker is in the pool already, classes stay where they are: the agent had it ready
     * before the old one left. */
    if (before != NULL && known_worker_in_pool(k))
        pool_hand_over(k->app->pool, before, k->worker);
    if (before != NULL)
        retire(k, before, "another-incarnation");
    if (leaves)
        pool_hand_over(k->app->pool, k->worker, NULL);
    if (line->state != RESUME_DRAINING)
        member_set_unavailable(m, MEMBER_DRAINING, false);
    member_set_unavailable(m, MEMBER_SILENT, false);
    k->refuted = false;
    state_changed(k);
}

/* Its ages are of this moment. */
static void on_homes(void *context, const struct home_line *line)
{
    struct known_worker *k = context;
    uint64_t now_us = loop_now_us(k->app->lb->control);

    if (k->worker == NULL || line->n == 0)
        return;
    struct pool_home *homes = xcalloc(line->n, sizeof(homes[0]));
    for (size_t i = 0; i < line->n; ++i) {
        const struct home_row *r = &line->rows[i];
        uint64_t since_us = r->since_age_ms * 1000;
        uint64_t used_us = r->used_age_ms * 1000;
        char from[HOME_FROM_MAX + 1];

        snprintf(from, sizeof(from), "%.*s", (int)r->from.len, r->from.p);
        const struct known_worker *other =
            r->kind == HOME_MOVE ? membership_find(k->membership, from) : NULL;
        homes[i] = (struct pool_home){.cls = r->cls,
                                      .kind = r->kind,
                                      .from = other != NULL ? other->worker : NULL,
                                      .from_name = r->from,
                                      .since_us = now_us > since_us ? now_us - since_us : 1,
                                      .used_us = now_us > used_us ? now_us - used_us : 1,
                                      .rate = r->rate};
    }
    pool_new_homes(k->app->pool, k->worker, homes, line->n, now_us);
    free(homes);
}

static void on_broken(void *context)
{
    struct known_worker *k = context;

    if (k->worker == NULL)
        return;
    k->silent = true;
    member_set_unavailable(member_of(k->worker), MEMBER_SILENT, true);
    state_changed(k);
}

static void on_gone(void *context, enum resume_end how)
{
    static const char *const texts[] = {"no-stream", "drain", "upgrade", "stop"};
    struct known_worker *k = context;
    struct membership *ms = k->membership;

    end_worker(k, texts[how]);
    k->refuted = how != RESUME_END_NONE || k->feed->refused;
    if (!known_worker_update(k))
        membership_forget(ms, k);
    membership_reserve(ms);
}

static const struct resume_feed_events feed_events = {
    .resume = on_resume, .homes = on_homes, .broken = on_broken, .gone = on_gone};

/* ---- start and stop ---- */

static bool wants_stream(const struct known_worker *k)
{
    int source = k->listed != NULL ? k->listed->source : k->app->settings->s.resume;

    if (source == RESUME_FROM_AUTO)
        return k->registrations > 0 || k->listed == NULL;
    return source == RESUME_FROM_STREAM;
}

static void on_check_changed(void *context)
{
    struct known_worker *k = context;

    member_set_unavailable(member_of(k->worker), MEMBER_UNHEALTHY,
                           active_check_view(k->check).failing);
    state_changed(k);
    if (active_check_view(k->check).failing)
        standby_report(k->standby, true);
}

static void start_check(struct known_worker *k)
{
    k->check = active_check_create(k->app, address_of(k), k->peer, k->name, on_check_changed, k);
}

/*
 * Moves K to its other address. The old worker is replaced in one step, so that its classes always
 * have a worker.
 */
static void move(void *context)
{
    struct known_worker *k = context;
    char room[INCARNATION_MAX + 16];
    struct worker *old = k->worker;
    struct self_measure *sm = k->app->lb->self_measure;

    active_check_destroy(k->check);
    k->worker = NULL;
    make_worker(k, incarnation_of(k, room), config_of(k)->concurrency);
    self_measure_inherit(sm, member_of(k->worker), member_of(old));
    pool_hand_over(k->app->pool, old, k->worker);
    self_measure_leave(sm, member_of(old));
    member_retire(member_of(old));
    worker_unref(old);
    start_check(k);
    state_changed(k);
}

/* Of a worker's address: it may not be known any more, or have moved since. */
static void on_report(struct member *m, bool certain)
{
    struct known_worker *k = membership_find(m->app->membership, worker_name(m->worker));

    if (k != NULL && k->worker == m->worker)
        standby_report(k->standby, certain);
}

static void start(struct known_worker *k)
{
    char room[INCARNATION_MAX + 16];

    k->started = true;
    k->streams = wants_stream(k);
    k->peer = make_peer(k);
    if (k->streams) {
        k->feed = resume_feed_create(k->app, &k->addr, k->peer, k->name, &feed_events, k);
        return;
    }
    if (config_of(k)->standby.len != 0) {
        k->standby = standby_create(&(struct standby_options){.app = k->app,
                                                              .worker = k->name,
                                                              .own = &k->addr,
                                                              .addr = &config_of(k)->standby,
                                                              .peer = k->peer,
                                                              .move = move,
                                                              .context = k});
    }
    make_worker(k, incarnation_of(k, room), config_of(k)->concurrency);
    log_info_folded(NULL, "worker-joined", "application=%s worker=%s measured=true", k->app->name,
                    k->name);
    self_measure_join(k->app->lb->self_measure, member_of(k->worker));
    start_check(k);
    membership_sort(k);
}

static void stop(struct known_worker *k, const char *why)
{
    resume_feed_destroy(k->feed);
    k->feed = NULL;
    active_check_destroy(k->check);
    k->check = NULL;
    end_worker(k, why);
    standby_destroy(k->standby);
    k->standby = NULL;
    tls_peer_unref(k->peer);
    k->peer = NULL;
    k->started = false;
}

bool known_worker_alive(const struct known_worker *k)
{
    struct conn_backend_view v;

    if (k->feed != NULL)
        return k->worker != NULL && (k->silent || k->feed->open);
    if (k->worker == NULL)
        return false;
    conn_backend_view(member_of(k->worker)->backend, &v);
    return v.in_use + v.idle > 0;
}

uint64_t known_worker_failures(const struct known_worker *k)
{
    return k->worker == NULL ? 0
                             : atomic_load_explicit(&member_of(k->worker)->connect_failures,
                                                    memory_order_relaxed);
}

/*
 * To be called for a worker that is neither listed nor registered any more. Returns true if it is
 * still retained: its stream is open, or its deletion from the tree is not confirmed and the worker
 * itself has not confirmed it either.
 */
static bool outlives_registration(struct known_worker *k)
{
    if (k->feed != NULL && known_worker_alive(k))
        return true;
    if (k->refuted || !(k->vanished || k->held))
        return false;
    /* Cached by a previous run, and not tried in this one yet. */
    if (k->held && !k->started)
        start(k);
    return true;
}

static bool same_standby(const struct known_worker *k)
{
    const struct addr *wanted = &config_of(k)->standby;

    if (k->standby == NULL || wanted->len == 0)
        return k->standby == NULL && wanted->len == 0;
    return addr_equal(standby_addr(k->standby), wanted);
}

/* The reason why what is started must be restarted; NULL if it need not. */
static const char *outdated(const struct known_worker *k)
{
    char room[INCARNATION_MAX + 16];

    if (k->streams != wants_stream(k))
        return "another-source";
    if (!same_peer(k))
        return "another-tls";
    if (k->streams)
        return NULL; /* the stream itself reports incarnation and version */
    if (!same_standby(k))
        return "another-standby";
    if (strcmp(worker_incarnation(k->worker), incarnation_of(k, room)) != 0)
        return "another-incarnation";
    return strcmp(member_of(k->worker)->version, version_of(k)) != 0 ? "another-version" : NULL;
}

bool known_worker_update(struct known_worker *k)
{
    if (k->listed == NULL && k->registrations == 0)
        return outlives_registration(k);
    const char *why = k->started ? outdated(k) : NULL;
    if (why != NULL)
        stop(k, why);
    if (!k->started)
        start(k);
    if (k->worker != NULL)
        member_set_limits(member_of(k->worker), config_of(k)->max_connections,
                          config_of(k)->max_tunnels);
    return true;
}

void known_worker_drain(struct known_worker *k, bool on)
{
    if (k->drained == on)
        return;
    k->drained = on;
    log_info_folded(NULL, on ? "worker-drained" : "worker-undrained", "application=%s worker=%s",
                    k->app->name, k->name);
    membership_keep_drained(k);
    if (k->worker == NULL)
        return;
    member_set_unavailable(member_of(k->worker), MEMBER_DRAINED, on);
    if (on)
        pool_hand_over(k->app->pool, k->worker, NULL);
    state_changed(k);
}

size_t known_worker_forget(struct known_worker *k, const struct slice *cls)
{
    (void)resume_forget(&k->last.skills, cls);
    if (k->worker == NULL)
        return 0;
    self_measure_forget(k->app->lb->self_measure, member_of(k->worker), cls);
    return pool_forget(k->app->pool, k->worker, cls);
}

const char *known_worker_state(const struct known_worker *k)
{
    if (k->worker == NULL)
        return "absent";
    if (k->silent)
        return "silent";
    if (active_check_view(k->check).failing)
        return "unhealthy";
    if (k->drained)
        return "drained";
    return k->streams ? resume_state_text(k->last.state) : "ready";
}

struct known_worker *known_worker_create(struct membership *ms, struct application *app,
                                         const char *name, const struct addr *addr)
{
    struct known_worker *k = xcalloc(1, sizeof(*k));

    k->membership = ms;
    k->app = app;
    k->name = xstrdup(name);
    k->addr = *addr;
    list_init(&k->missing);
    list_init(&k->touched);
    list_init(&k->in_kind);
    membership_sort(k);
    return k;
}

static void free_now(struct loop_deferred *d)
{
    struct known_worker *k = container_of(d, struct known_worker, deferred);

    resume_line_fini(&k->last);
    free(k->name);
    free(k);
}

void known_worker_destroy(struct known_worker *k)
{
    stop(k, "not-listed");
    k->deferred.run = free_now;
    loop_defer(k->app->lb->control, &k->deferred);
}
