/* SPDX-License-Identifier: Apache-2.0
 *
 *   pause --timer--> fetch --(response read, failure, or health_check_timeout)--> pause
 *
 * The timer is started again when a check has ended, so that there is never a second one. The body
 * is read to its end, as a worker that cannot finish one does not pass, or until it is longer than
 * any check page.
 */
#include "lb/backends/active_check.h"

#include "common/base/log.h"
#include "lb/core/lb.h"

enum {
    BODY_MAX = 64 * 1024, /* bytes of a response that are read */
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

bool check_status_passes(int status, int64_t expected)
{
    return expected == 0 ? status >= 200 && status < 400 : status == expected;
}

uint64_t check_delay_ms(uint64_t interval_ms, bool first, uint64_t hash)
{
    uint64_t spread_ms = first ? interval_ms : interval_ms / 5;

    return interval_ms - (first ? interval_ms : spread_ms / 2) + hash % (spread_ms + 1);
}

/* ---- one check ---- */

static void start_pause(struct active_check *c)
{
    struct {
        const struct active_check *self;
        uint64_t checks;
    } key = {c, c->checks};
    uint64_t hash = map_hash(&key, sizeof(key));

    c->interval_ms = c->app->settings->s.health_check_interval_ms;
    timer_start(c->app->lb->control, &c->pause,
                check_delay_ms(c->interval_ms, c->checks == 0, hash));
}

static void on_turned(struct active_check *c)
{
    stat_add(application_control_stats(c->app), APP_STAT_workers_unhealthy,
             c->record.failing ? 1 : -1);
    if (c->record.failing)
        log_warn(NULL, "worker-unhealthy", "application=%s worker=%s reason=\"%s\"", c->app->name,
                 c->name, c->why);
    else
        log_info_folded(NULL, "worker-healthy", "application=%s worker=%s", c->app->name, c->name);
    if (c->changed != NULL)
        c->changed(c->context);
}

/* WHY: of a failure, with STATUS or 0; NULL: it has passed. */
static void check_finish(struct active_check *c, const char *why, int status)
{
    const struct app_settings *s = &c->app->settings->s;

    ++c->checks;
    stat_add(application_control_stats(c->app), APP_STAT_health_checks, 1);
    if (why != NULL) {
        ++c->failures;
        stat_add(application_control_stats(c->app), APP_STAT_health_check_failures, 1);
        snprintf(c->why, sizeof(c->why), "%s", why);
        c->status = status;
    }
    start_pause(c);
    if (check_record_add(&c->record, why == NULL, (unsigned)s->health_check_unhealthy_after,
                         (unsigned)s->health_check_healthy_after))
        on_turned(c);
}

bool active_check_passes(const struct application *a, enum err e, int status)
{
    return (e == ERR_OK || e == ERR_TOO_LARGE) &&
           check_status_passes(status, a->settings->s.health_check_status);
}

static void on_active_check_done(struct http_fetch *f, enum err e)
{
    struct active_check *c = container_of(f, struct active_check, fetch);
    char why[CHECK_WHY_ROOM];

    if (e == ERR_TLS_FAILED)
        stat_add(application_control_stats(c->app), APP_STAT_worker_tls_failures, 1);
    switch (e) {
    case ERR_OK:
    case ERR_TOO_LARGE:
        snprintf(why, sizeof(why), "status %d", f->status);
        check_finish(c, active_check_passes(c->app, e, f->status) ? NULL : why, f->status);
        break;
    case ERR_SYSTEM:
        /* Out of descriptors, which is not the worker's fault. */
        start_pause(c);
        break;
    case ERR_TIMEOUT:
    case ERR_CONNECT_TIMEOUT:
        check_finish(c, "no response in time", 0);
        break;
    default:
        check_finish(c, err_text(e), 0);
        break;
    }
}

static const struct http_fetch_events events = {.done = on_active_check_done};

const char *active_check_host(const struct application *a)
{
    const struct app_settings *s = &a->settings->s;

    if (s->health_check_host != NULL)
        return s->health_check_host;
    for (size_t i = 0; i < s->hosts.n; ++i) {
        if (s->hosts.items[i][0] != '*')
            return s->hosts.items[i];
    }
    return NULL;
}

void active_check_request(const struct application *a, const char *name,
                          struct http_fetch_request *q)
{
    const char *host = active_check_host(a);

    if (host == NULL)
        host = q->addr->sa.sa_family == AF_UNIX ? "localhost" : name;
    q->timeout_ms = a->settings->s.health_check_timeout_ms;
    q->body_max = BODY_MAX;
    text_addf(&q->bytes,
              "GET %s HTTP/1.1\r\n"
              "Host: %s\r\n"
              "User-Agent: resumelb-health-check\r\n"
              "Connection: close\r\n\r\n",
              a->settings->s.health_check_path, host);
}

static void on_pause_over(struct timer *t)
{
    struct active_check *c = container_of(t, struct active_check, pause);
    struct http_fetch_request q = {.addr = c->addr, .peer = c->peer, .events = &events};

    active_check_request(c->app, c->name, &q);
    http_fetch_start(&c->fetch, c->app->lb->control, &q);
}

/* ---- the whole ---- */

void active_check_settings(struct active_check *c)
{
    bool was_failing = c->record.failing;
    bool was_active = c->active;

    if (c->app == NULL)
        return;
    c->active = c->app->settings->s.health_check_path != NULL;
    c->status = 0; /* it may be that of another request */
    /* A change of something else does not delay the next check. */
    if (was_active && c->active && c->interval_ms == c->app->settings->s.health_check_interval_ms)
        return;
    timer_stop(&c->pause);
    http_fetch_stop(&c->fetch);
    if (c->active) {
        start_pause(c);
        return;
    }
    c->record = (struct check_record){0};
    if (was_failing)
        on_turned(c);
}

void active_check_start(struct active_check *c, bool failing)
{
    timer_init(&c->pause, on_pause_over);
    active_check_settings(c);
    if (!failing || !c->active)
        return;
    c->record.failing = true;
    stat_add(application_control_stats(c->app), APP_STAT_workers_unhealthy, 1);
}

void active_check_stop(struct active_check *c)
{
    if (c->app == NULL)
        return;
    timer_stop(&c->pause);
    http_fetch_stop(&c->fetch);
    if (c->record.failing)
        stat_add(application_control_stats(c->app), APP_STAT_workers_unhealthy, -1);
    *c = (struct active_check){0};
}
