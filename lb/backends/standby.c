/* SPDX-License-Identifier: Apache-2.0
 *
 * There is one attempt to reach the worker's own address at a time, or a timer until the next one,
 * or neither while the address works. The move is deferred to the end of the turn, as the report
 * may come from the worker's own check, which the move destroys.
 */
#include "lb/backends/standby.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "common/upstream/http1_client.h"
#include "lb/core/lb.h"

struct standby {
    struct standby_options o;
    struct addr addr;
    char name[ADDR_TEXT_MAX];
    bool in_use;
    unsigned moves;
    struct http1_connect *attempt;
    struct timer rest;
    uint64_t rest_ms;
    uint64_t back_ms;           /* when it last came back; 0: never */
    struct active_check *check; /* of its own address, while at the standby */
    struct loop_deferred leave; /* the address in use */
};

static struct loop *loop_of(const struct standby *s)
{
    return s->o.app->lb->control;
}

static const struct app_settings *settings(const struct standby *s)
{
    return &s->o.app->settings->s;
}

static uint64_t least_rest_ms(const struct standby *s)
{
    enum { REST_MS = 1000 }; /* if ejection is switched off */
    uint64_t ms = settings(s)->eject_time_ms;

    return ms != 0 ? ms : REST_MS;
}

static void rest(struct standby *s)
{
    uint64_t most_ms = settings(s)->eject_time_max_ms;

    timer_start(loop_of(s), &s->rest, s->rest_ms);
    if (s->rest_ms < most_ms)
        s->rest_ms = s->rest_ms * 2 < most_ms ? s->rest_ms * 2 : most_ms;
}

/* The checks of its own address are consulted when that answers. */
static void on_check_changed(void *context)
{
    (void)context;
}

static void go(struct standby *s)
{
    uint64_t now_ms = loop_now_ms(loop_of(s));

    s->in_use = !s->in_use;
    ++s->moves;
    active_check_destroy(s->check);
    s->check = NULL;
    if (s->in_use) {
        log_warn(NULL, "standby-activated", "application=%s worker=%s standby=%s", s->o.app->name,
                 s->o.worker, s->name);
        /* One that comes back again and again is left alone for longer and longer. */
        if (s->back_ms == 0 || now_ms - s->back_ms > settings(s)->eject_time_max_ms)
            s->rest_ms = least_rest_ms(s);
        s->check =
            active_check_create(s->o.app, s->o.own, s->o.peer, s->o.worker, on_check_changed, s);
        active_check_doubt(s->check);
        rest(s);
    } else {
        log_info_folded(NULL, "standby-deactivated", "application=%s worker=%s standby=%s",
                        s->o.app->name, s->o.worker, s->name);
        s->back_ms = now_ms;
    }
    stat_add(application_control_stats(s->o.app), APP_STAT_workers_on_standby, s->in_use ? 1 : -1);
    s->o.move(s->o.context);
}

static void run_leave(struct loop_deferred *d)
{
    go(container_of(d, struct standby, leave));
}

static void leave(struct standby *s)
{
    timer_stop(&s->rest);
    if (!list_linked(&s->leave.node))
        loop_defer(loop_of(s), &s->leave);
}

/* ---- tries of its own address ---- */

static void on_connected(void *context, struct http1_conn *c, enum err e)
{
    struct standby *s = context;
    bool answers = c != NULL;

    s->attempt = NULL;
    if (c != NULL)
        http1_close(c);
    if (list_linked(&s->leave.node))
        return;
    if (s->in_use && !(answers && !active_check_view(s->check).failing))
        rest(s);
    else if (s->in_use || (!answers && e != ERR_SYSTEM))
        leave(s);
}

static void try_own(struct standby *s)
{
    timer_stop(&s->rest);
    if (s->attempt == NULL)
        s->attempt = http1_connect_tls(loop_of(s), s->o.own, s->o.peer,
                                       settings(s)->connect_timeout_ms, on_connected, s);
}

static void on_rest(struct timer *t)
{
    try_own(container_of(t, struct standby, rest));
}

void standby_report(struct standby *s, bool certain)
{
    if (s == NULL || list_linked(&s->leave.node))
        return;
    if (certain && !s->in_use)
        leave(s);
    else
        try_own(s);
}

/* ---- the whole ---- */

struct standby *standby_create(const struct standby_options *o)
{
    struct standby *s = xcalloc(1, sizeof(*s));

    s->o = *o;
    s->addr = *o->addr;
    addr_format(&s->addr, s->name);
    if (s->o.peer != NULL)
        tls_peer_ref(s->o.peer);
    s->rest_ms = least_rest_ms(s);
    s->leave.run = run_leave;
    timer_init(&s->rest, on_rest);
    return s;
}

void standby_destroy(struct standby *s)
{
    if (s == NULL)
        return;
    if (s->in_use)
        stat_add(application_control_stats(s->o.app), APP_STAT_workers_on_standby, -1);
    active_check_destroy(s->check);
    if (s->attempt != NULL)
        http1_connect_cancel(s->attempt);
    timer_stop(&s->rest);
    list_remove(&s->leave.node);
    tls_peer_unref(s->o.peer);
    free(s);
}

bool standby_in_use(const struct standby *s)
{
    return s != NULL && s->in_use;
}

unsigned standby_moves(const struct standby *s)
{
    return s != NULL ? s->moves : 0;
}

const struct addr *standby_addr(const struct standby *s)
{
    return &s->addr;
}

void standby_settings(struct standby *s)
{
    if (s != NULL && s->check != NULL)
        active_check_settings(s->check);
}
