/* SPDX-License-Identifier: Apache-2.0
 *
 *   RESTING --timer--> connecting --> asked --(response read, failure, or timer)--> RESTING
 *
 * One timer: the pause while nothing is under way, else health_check_timeout. It is started again
 * only when a check has ended, so there is never a second one. The body is read to its end, for a
 * worker that cannot finish one does not pass, but for what is longer than anybody's check page.
 */
#include "lb/active_check.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/upstream/http1_client.h"
#include "lb/lb.h"

enum {
    BODY_MAX = 64 * 1024, /* bytes of a response that are read */
    PATH_MAX_BYTES = 1024,
};

struct active_check {
    struct application *app;
    struct loop *loop;
    struct addr addr;
    struct tls_peer *peer; /* counted; NULL: plain */
    const char *name;
    void (*changed)(void *context);
    void *context;
    struct timer timer;
    struct http1_connect *attempt;
    struct http1_conn *conn;
    bool answered; /* the request on CONN is over: nothing to cancel */
    int status;    /* of the response under way */
    size_t body_bytes;
    bool active;
    uint64_t interval_ms; /* that of the pause under way */
    struct check_record record;
    uint64_t checks, failures;
    char why[CHECK_WHY_ROOM];
};

/* ---- plain computation ---- */

bool check_record_add(struct check_record *r, bool passed, unsigned unhealthy_after,
                      unsigned healthy_after)
{
    if (passed == !r->failing) {
        r->other = 0;
        return false;
    }
    if (++r->other < (r->failing ? healthy_after : unhealthy_after))
        return false;
    r->failing = !r->failing;
    r->other = 0;
    return true;
}

bool check_status_passes(int status, int64_t wanted)
{
    return wanted == 0 ? status >= 200 && status < 400 : status == wanted;
}

uint64_t check_delay_ms(uint64_t interval_ms, bool first, uint64_t hash)
{
    uint64_t spread_ms = first ? interval_ms : interval_ms / 5;

    return interval_ms - (first ? interval_ms : spread_ms / 2) + hash % (spread_ms + 1);
}

bool check_path_is_valid(const char *path)
{
    size_t n = strnlen(path, PATH_MAX_BYTES + 1);

    if (n > PATH_MAX_BYTES || path[0] != '/')
        return false;
    for (size_t i = 0; i < n; ++i) {
        if (path[i] <= ' ' || path[i] > '~' || path[i] == '#')
            return false;
    }
    return true;
}

/* ---- one check ---- */

static const struct app_settings *settings(const struct active_check *c)
{
    return &c->app->settings->s;
}

static void count(const struct active_check *c, enum app_stat row, int64_t n)
{
    stat_add(application_control_stats(c->app), row, n);
}

static void close_up(struct active_check *c)
{
    timer_stop(&c->timer);
    if (c->attempt != NULL)
        http1_connect_cancel(c->attempt);
    if (c->conn != NULL) {
        if (!c->answered)
            http1_cancel(c->conn);
        http1_close(c->conn);
    }
    c->attempt = NULL;
    c->conn = NULL;
}

static void rest(struct active_check *c)
{
    struct {
        const struct active_check *self;
        uint64_t checks;
    } key = {c, c->checks};
    uint64_t hash = map_hash(&key, sizeof(key));

    c->interval_ms = settings(c)->health_check_interval_ms;
    timer_start(c->loop, &c->timer, check_delay_ms(c->interval_ms, c->checks == 0, hash));
}

static void on_turned(struct active_check *c)
{
    count(c, APP_STAT_workers_unhealthy, c->record.failing ? 1 : -1);
    if (c->record.failing)
        log_warn(NULL, "worker-unhealthy", "application=%s worker=%s why=\"%s\"", c->app->name,
                 c->name, c->why);
    else
        log_info_folded(NULL, "worker-healthy", "application=%s worker=%s", c->app->name, c->name);
    c->changed(c->context);
}

/* WHY: of a failure; NULL: it has passed. */
static void finish(struct active_check *c, const char *why)
{
    const struct app_settings *s = settings(c);

    close_up(c);
    ++c->checks;
    count(c, APP_STAT_health_checks, 1);
    if (why != NULL) {
        ++c->failures;
        count(c, APP_STAT_health_check_failures, 1);
        snprintf(c->why, sizeof(c->why), "%s", why);
    }
    rest(c);
    if (check_record_add(&c->record, why == NULL, (unsigned)s->health_check_unhealthy_after,
                         (unsigned)s->health_check_healthy_after))
        on_turned(c);
}

static void finish_by_status(struct active_check *c)
{
    char why[CHECK_WHY_ROOM];

    if (check_status_passes(c->status, settings(c)->health_check_status)) {
        finish(c, NULL);
        return;
    }
    snprintf(why, sizeof(why), "status %d", c->status);
    finish(c, why);
}

static void on_head(void *context, const struct http1_head *head, bool final)
{
    struct active_check *c = context;

    c->status = head->status;
    c->answered = final;
    if (final)
        finish_by_status(c);
}

static void on_body(void *context, struct http1_body *body, bool last)
{
    struct active_check *c = context;

    c->answered = last;
    c->body_bytes += body->bytes;
    http1_body_release(body);
    if (last || c->body_bytes > BODY_MAX)
        finish_by_status(c);
}

static void on_error(void *context, enum err e)
{
    struct active_check *c = context;

    c->answered = true;
    finish(c, err_text(e));
}

static const struct http1_events events = {
    .on_head = on_head, .on_body = on_body, .on_error = on_error};

static void ask(struct active_check *c)
{
    char *head = xasprintf("GET %s HTTP/1.1\r\n"
                           "Host: %s\r\n"
                           "User-Agent: resumelb-health-check\r\n"
                           "Connection: close\r\n\r\n",
                           settings(c)->health_check_path,
                           c->addr.sa.sa_family == AF_UNIX ? "localhost" : c->name);
    struct http1_request r = {.head = slice_of(head), .events = &events, .context = c};

    c->answered = false;
    c->body_bytes = 0;
    http1_request(c->conn, &r);
    free(head);
}

static void on_connected(void *context, struct http1_conn *conn, enum err e)
{
    struct active_check *c = context;

    c->attempt = NULL;
    c->conn = conn;
    if (e == ERR_TLS_FAILED)
        count(c, APP_STAT_worker_tls_failures, 1);
    if (conn != NULL) {
        ask(c);
    } else if (e == ERR_SYSTEM) {
        /* Out of descriptors: our fault, which says nothing of the worker. */
        close_up(c);
        rest(c);
    } else {
        finish(c, err_text(e));
    }
}

static void on_timer(struct timer *t)
{
    struct active_check *c = container_of(t, struct active_check, timer);
    uint64_t timeout_ms = settings(c)->health_check_timeout_ms;

    if (c->attempt != NULL || c->conn != NULL) {
        finish(c, "no answer in time");
        return;
    }
    timer_start(c->loop, &c->timer, timeout_ms);
    /* Ours is the one timer that counts. */
    c->attempt = http1_connect_tls(c->loop, &c->addr, c->peer, timeout_ms + 1000, on_connected, c);
}

/* ---- the whole ---- */

void active_check_settings(struct active_check *c)
{
    bool was_failing = c->record.failing;
    bool was_active = c->active;

    c->active = settings(c)->health_check_path != NULL;
    /* A change of something else does not put off what is due. */
    if (was_active && c->active && c->interval_ms == settings(c)->health_check_interval_ms)
        return;
    close_up(c);
    if (c->active) {
        rest(c);
        return;
    }
    c->record = (struct check_record){0};
    if (was_failing)
        on_turned(c);
}

void active_check_doubt(struct active_check *c)
{
    if (!c->active || c->record.failing)
        return;
    c->record.failing = true;
    count(c, APP_STAT_workers_unhealthy, 1);
}

struct active_check *active_check_create(struct application *app, const struct addr *addr,
                                         struct tls_peer *peer, const char *name,
                                         void (*changed)(void *context), void *context)
{
    struct active_check *c = xcalloc(1, sizeof(*c));

    c->app = app;
    c->loop = app->lb->control;
    c->addr = *addr;
    c->peer = peer != NULL ? tls_peer_ref(peer) : NULL;
    c->name = name;
    c->changed = changed;
    c->context = context;
    timer_init(&c->timer, on_timer);
    active_check_settings(c);
    return c;
}

void active_check_destroy(struct active_check *c)
{
    if (c == NULL)
        return;
    close_up(c);
    if (c->record.failing)
        count(c, APP_STAT_workers_unhealthy, -1);
    tls_peer_unref(c->peer);
    free(c);
}

struct active_check_view active_check_view(const struct active_check *c)
{
    if (c == NULL)
        return (struct active_check_view){.why = ""};
    return (struct active_check_view){.active = c->active,
                                      .failing = c->record.failing,
                                      .checks = c->checks,
                                      .failures = c->failures,
                                      .why = c->why};
}
