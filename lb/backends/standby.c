/* SPDX-License-Identifier: Apache-2.0
 *
 * There is one attempt to reach the worker's own address at a time, or a timer until the next one,
 * or neither while the address works. The move is deferred to the end of the turn, as the report
 * may come from the worker's own check, which the move restarts.
 */
#include "common/base/log.h"
#include "common/upstream/http1_client.h"
#include "lb/backends/backend.h"
#include "lb/core/lb.h"

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

static void run_leave(struct loop_deferred *d)
{
    struct backend *b = container_of(d, struct backend, standby.leave);
    struct standby *s = &b->standby;
    uint64_t now_ms = loop_now_ms(b->app->lb->control);
    char standby[ADDR_TEXT_MAX];

    addr_format(&s->addr, standby);
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
    backend_move(b);
}

static void leave(struct backend *b)
{
    timer_stop(&b->standby.timer);
    if (!list_linked(&b->standby.leave.node))
        loop_defer(b->app->lb->control, &b->standby.leave);
}

/* ---- attempts to reach its own address ---- */

static void on_connected(void *context, struct http1_conn *c, enum err e)
{
    struct backend *b = context;
    struct standby *s = &b->standby;
    bool answers = c != NULL;

    s->attempt = NULL;
    if (c != NULL)
        http1_close(c);
    if (list_linked(&s->leave.node))
        return;
    if (s->in_use && !(answers && !s->check.record.failing))
        start_pause(b);
    else if (s->in_use || (!answers && e != ERR_SYSTEM))
        leave(b);
}

static void try_own(struct timer *t)
{
    struct backend *b = container_of(t, struct backend, standby.timer);

    timer_stop(t);
    if (b->standby.attempt == NULL)
        b->standby.attempt =
            http1_connect_tls(b->app->lb->control, &b->addr, b->peer,
                              b->app->settings->s.connect_timeout_ms, on_connected, b);
}

void standby_report(struct backend *b, bool certain)
{
    if (b->standby.addr.len == 0 || list_linked(&b->standby.leave.node))
        return;
    if (certain && !b->standby.in_use)
        leave(b);
    else
        try_own(&b->standby.timer);
}

void standby_start(struct backend *b)
{
    b->standby = (struct standby){.pause_ms = least_pause_ms(b), .leave.run = run_leave};
    if (b->listed != NULL)
        b->standby.addr = b->listed->standby;
    timer_init(&b->standby.timer, try_own);
}

void standby_stop(struct backend *b)
{
    struct standby *s = &b->standby;

    if (s->in_use)
        stat_add(application_control_stats(b->app), APP_STAT_workers_on_standby, -1);
    active_check_stop(&s->check);
    if (s->attempt != NULL)
        http1_connect_cancel(s->attempt);
    timer_stop(&s->timer);
    list_remove(&s->leave.node);
    *s = (struct standby){0};
}
