/* SPDX-License-Identifier: Apache-2.0
 *
 *   pause --timer--> fetch --(response read, failure, or health_check_timeout)--> pause
 *
 * The timer is started again when a check has ended, so that there is never a second one. The body
 * is read to its end, as a worker that cannot finish one does not pass, or until it is longer than
 * any check page.
 */
#include "lb/backends/active_check.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/upstream/http_fetch.h"
#include "lb/core/lb.h"

enum {
    BODY_MAX = 64 * 1024, /* bytes of a response that are read */
};

struct active_check {
    struct application *app;
    struct loop *loop;
    struct addr addr;
    struct tls_peer *peer; /* counted; NULL: plain */
    const char *name;
    void (*changed)(void *context);
    void *context;
    struct timer pause;
    struct http_fetch fetch;
    bool active;
    uint64_t interval_ms; /* that of the present pause */
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
    timer_stop(&c->pause);
    http_fetch_stop(&c->fetch);
}

static void rest(struct active_check *c)
{
    struct {
        const struct active_check *self;
        uint64_t checks;
    } key = {c, c->checks};
    uint64_t hash = map_hash(&key, sizeof(key));

    c->interval_ms = settings(c)->health_check_interval_ms;
    timer_start(c->loop, &c->pause, check_delay_ms(c->interval_ms, c->checks == 0, hash));
}

static void on_turned(struct active_check *c)
{
    count(c, APP_STAT_workers_unhealthy, c->record.failing ? 1 : -1);
    if (c->record.failing)
        log_warn(NULL, "worker-unhealthy", "application=%s worker=%s reason=\"%s\"", c->app->name,
                 c->name, c->why);
    else
        log_info_folded(NULL, "worker-healthy", "application=%s worker=%s", c->app->name, c->name);
    c->changed(c->context);
}

/* WHY: of a failure; NULL: it has passed. */
static void finish(struct active_check *c, const char *why)
{
    const struct app_settings *s = settings(c);

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

    if (check_status_passes(c->fetch.status, settings(c)->health_check_status)) {
        finish(c, NULL);
        return;
    }
    snprintf(why, sizeof(why), "status %d", c->fetch.status);
    finish(c, why);
}

static void on_done(struct http_fetch *f, enum err e)
{
    struct active_check *c = container_of(f, struct active_check, fetch);

    if (e == ERR_TLS_FAILED)
        count(c, APP_STAT_worker_tls_failures, 1);
    switch (e) {
    case ERR_OK:
    case ERR_TOO_LARGE:
        finish_by_status(c);
        break;
    case ERR_SYSTEM:
        /* Out of descriptors, which is not the worker's fault. */
        rest(c);
        break;
    case ERR_TIMEOUT:
    case ERR_CONNECT_TIMEOUT:
        finish(c, "no answer in time");
        break;
    default:
        finish(c, err_text(e));
        break;
    }
}

static const struct http_fetch_events events = {.done = on_done};

static void on_pause_over(struct timer *t)
{
    struct active_check *c = container_of(t, struct active_check, pause);
    struct http_fetch_request q = {.addr = &c->addr,
                                   .peer = c->peer,
                                   .timeout_ms = settings(c)->health_check_timeout_ms,
                                   .body_max = BODY_MAX,
                                   .events = &events};

    text_addf(&q.bytes,
              "GET %s HTTP/1.1\r\n"
              "Host: %s\r\n"
              "User-Agent: resumelb-health-check\r\n"
              "Connection: close\r\n\r\n",
              settings(c)->health_check_path,
              c->addr.sa.sa_family == AF_UNIX ? "localhost" : c->name);
    http_fetch_start(&c->fetch, c->loop, &q);
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
    timer_init(&c->pause, on_pause_over);
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
