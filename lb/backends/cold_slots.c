/* SPDX-License-Identifier: Apache-2.0
 *
 * Selects which workers without a process (cold), or with a starting process, are in the pool. They
 * are kept out of the pool, so that new classes do not start every available process. One is
 * brought in if no warm worker exists (a starting one first), or when the backlog of every warm
 * worker stayed above spawn_backlog for spawn_after.
 *
 *   out, cold -- overload --> in, to be woken -- its request --> out, starting --> in, warm
 *        ^                         |                                   |           (by its stream)
 *        '--- overload has gone ---'------------ it failed ------------'
 *
 * Slots are activated one at a time: the wait of spawn_after for the next one restarts after the
 * activated slot has become warm, has failed, or has taken too long. Every starting process counts
 * as an activated slot, whatever started it: if several load balancers are overloaded at the same
 * time, the process that the first one starts serves all of them.
 *
 * Overload is checked ten times per spawn_after, as long as there is a slot to activate. "Stayed
 * above" means at every check; a single check that finds a warm worker below the limit ends it.
 *
 * The slot to activate is, of those that have failed least since they were last warm, the first one
 * in a pseudo-random order of names that is the same at every load balancer. All load balancers
 * need another process at the same moment (when the last one has become ready): they activate the
 * same slot, so that one process starts, not one for each. Slots of one host, which are neighbors
 * by name, alternate with those of other hosts. The free capacity of a host is not known here: its
 * agent rejects the request if there is none, and then another slot is activated.
 */
#include "lb/backends/membership_internal.h"

#include "common/base/log.h"
#include "lb/core/lb.h"
#include "lb/core/route_wait.h"

enum {
    /* Checks for overload: ten per spawn_after, within these bounds. With 1,000 workers, all of
       them overloaded, a check takes 3 us (bench/RESULTS.md). */
    LOOKS = 10,
    LOOK_MIN_MS = 10,
    LOOK_MAX_MS = 100,
    /* How long one with a request may take to report that it is starting: its agent reports it at
     * once, unless it refused the request. */
    WOKEN_PATIENCE_MS = 5000,
    /* How long one that is starting keeps others from being called: an agent's start_timeout as it
     * is by default, when it is ended there. */
    START_PATIENCE_MS = 60000,
};

static const struct app_settings *settings_of(const struct cold_slots *c)
{
    return &c->membership->app->settings->s;
}

static struct known_worker *known_at(struct list *node)
{
    return list_entry(node, struct known_worker, in_kind);
}

static struct known_worker *first_of(const struct cold_slots *c, enum worker_kind kind)
{
    const struct list *head = &c->membership->kinds[kind];

    return list_empty(head) ? NULL : known_at(head->next);
}

/* ---- the one that is called ---- */

static void log_call(const struct cold_slots *c, const struct known_worker *k, const char *why)
{
    log_info_folded(NULL, "dormant-slot-activated", "application=%s worker=%s state=%s reason=%s",
                    c->membership->app->name, k->name, known_worker_state(k), why);
}

/* Restarts the wait of spawn_after. */
static void end_call(struct cold_slots *c)
{
    c->called = NULL;
    pool_overload_forget(c->membership->app->pool);
}

static void call_in_pool(struct cold_slots *c, struct known_worker *k, enum pool_call how)
{
    struct list released;

    list_init(&released);
    pool_call(c->membership->app->pool, k->worker, how, &released);
    route_wait_wake(&released);
}

static void call(struct cold_slots *c, struct known_worker *k, uint64_t now_ms)
{
    log_call(c, k, "overload");
    c->called = k;
    c->called_ms = now_ms;
    c->woken_ms = 0;
    known_worker_join(k);
    call_in_pool(c, k, POOL_CALL_WAKE);
}

/* It has not even started. */
static void give_up(struct cold_slots *c, const char *why)
{
    struct known_worker *k = c->called;

    log_info_folded(NULL, "dormant-slot-not-started", "application=%s worker=%s reason=%s",
                    c->membership->app->name, k->name, why);
    end_call(c);
    known_worker_leave(k);
}

static void follow(struct cold_slots *c, uint64_t now_ms)
{
    if (c->called->kind != WORKER_COLD_IN) {
        if (now_ms - c->called_ms >= START_PATIENCE_MS)
            end_call(c);
        return;
    }
    if (c->woken_ms == 0 && pool_woke(c->membership->app->pool, c->called->worker))
        c->woken_ms = now_ms;
    if (c->woken_ms == 0) {
        if (!c->overloaded)
            give_up(c, "overload-ended");
    } else if (now_ms - c->woken_ms >= WOKEN_PATIENCE_MS) {
        ++c->called->calls_failed;
        give_up(c, "refused");
    }
}

/* ---- which one ---- */

/* FNV-1a, mixed: a small change of the name moves it anywhere. */
static uint64_t place_of(const char *name)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (; *name != '\0'; ++name)
        h = (h ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    h = (h ^ (h >> 33)) * UINT64_C(0xff51afd7ed558ccd);
    h = (h ^ (h >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
    return h ^ (h >> 33);
}

static struct known_worker *best_cold(const struct cold_slots *c)
{
    struct known_worker *best = NULL;
    uint64_t best_place = 0;
    struct list *it;

    list_for_each (it, &c->membership->kinds[WORKER_COLD_OUT]) {
        struct known_worker *k = known_at(it);
        uint64_t place = place_of(k->name);

        if (best != NULL && (k->calls_failed > best->calls_failed ||
                             (k->calls_failed == best->calls_failed && place >= best_place)))
            continue;
        best = k;
        best_place = place;
    }
    return best;
}

/* ---- looking ---- */

static bool some_will_be_ready(const struct cold_slots *c, uint64_t now_ms)
{
    struct list *head = &c->membership->kinds[WORKER_STARTING_OUT];
    struct list *it;

    list_for_each (it, head) {
        if (now_ms - known_at(it)->starting_ms < START_PATIENCE_MS)
            return true;
    }
    return false;
}

/* Whether there is any use in looking. */
static bool may_call(const struct cold_slots *c)
{
    if (c->membership->stopping || settings_of(c)->spawn_backlog == 0)
        return false;
    return first_of(c, WORKER_WARM) != NULL &&
           (first_of(c, WORKER_COLD_OUT) != NULL || first_of(c, WORKER_STARTING_OUT) != NULL ||
            c->called != NULL);
}

static uint64_t look_ms(const struct cold_slots *c)
{
    uint64_t ms = settings_of(c)->spawn_after_ms / LOOKS;

    if (ms < LOOK_MIN_MS)
        return LOOK_MIN_MS;
    return ms < LOOK_MAX_MS ? ms : LOOK_MAX_MS;
}

static void go_on_looking(struct cold_slots *c)
{
    if (!may_call(c)) {
        timer_stop(&c->look);
        c->overloaded = false;
        pool_overload_forget(c->membership->app->pool);
    } else if (!timer_running(&c->look)) {
        timer_start(c->membership->app->lb->control, &c->look, look_ms(c));
    }
}

static void on_look(struct timer *t)
{
    struct cold_slots *c = container_of(t, struct cold_slots, look);
    uint64_t now_ms = loop_now_ms(c->membership->app->lb->control);
    uint64_t for_ms = 0;

    stat_add(application_control_stats(c->membership->app), APP_STAT_cold_looks, 1);
    c->overloaded = pool_overloaded(c->membership->app->pool, now_ms, &for_ms);
    if (c->called != NULL) {
        follow(c, now_ms);
    } else if (some_will_be_ready(c, now_ms)) {
        pool_overload_forget(c->membership->app->pool);
    } else if (c->overloaded && for_ms >= settings_of(c)->spawn_after_ms) {
        struct known_worker *k = best_cold(c);

        if (k != NULL)
            call(c, k, now_ms);
    }
    go_on_looking(c);
}

/* ---- changes ---- */

static bool had_no_process(enum worker_kind kind)
{
    return kind == WORKER_COLD_IN || kind == WORKER_COLD_OUT || kind == WORKER_STARTING_IN ||
           kind == WORKER_STARTING_OUT;
}

/* K was of the kind FROM and is of K->kind now. */
static void moved(struct cold_slots *c, struct known_worker *k, enum worker_kind from)
{
    struct application *a = c->membership->app;
    bool was_called = k == c->called;

    if (from == WORKER_COLD_IN && (k->kind == WORKER_STARTING_IN || k->kind == WORKER_WARM))
        stat_add(application_control_stats(a), APP_STAT_cold_spawns, 1);
    if (k->kind == WORKER_WARM)
        k->calls_failed = 0;
    if (was_called && (!had_no_process(k->kind) || k->kind == WORKER_COLD_OUT)) {
        k->calls_failed += k->kind != WORKER_WARM;
        end_call(c);
    }
    /* It became warm during an overload, whatever activated it: it relieves the other workers. */
    if (k->kind == WORKER_WARM && had_no_process(from))
        call_in_pool(c, k, was_called || c->overloaded ? POOL_CALL_RELIEVE : POOL_CALL_NONE);
}

void membership_sort(struct known_worker *k)
{
    enum worker_kind from = k->kind;
    enum worker_kind kind = known_worker_kind(k);

    if (list_linked(&k->in_kind) && from == kind)
        return;
    list_remove(&k->in_kind);
    k->kind = kind;
    list_push_back(&k->membership->kinds[kind], &k->in_kind);
    moved(&k->membership->cold, k, from);
}

void cold_slots_forget(struct cold_slots *c, const struct known_worker *k)
{
    if (k == c->called)
        end_call(c);
}

/* All but the one that is to be woken. */
static void take_out(struct cold_slots *c)
{
    struct list *it = NULL;
    struct list *tmp = NULL;

    list_for_each_safe (it, tmp, &c->membership->kinds[WORKER_COLD_IN]) {
        if (known_at(it) != c->called)
            known_worker_leave(known_at(it));
    }
    if (c->called == NULL)
        return;
    /* Requests need not wait for it any more: it comes back when it is ready. */
    if (c->called->kind == WORKER_STARTING_IN)
        known_worker_leave(c->called);
    else if (c->called->kind == WORKER_COLD_IN && settings_of(c)->spawn_backlog == 0)
        give_up(c, "switched-off");
}

static void bring_in(struct cold_slots *c)
{
    struct known_worker *k;

    /* It is in the pool for overload only, but no other worker is left. */
    if (c->called != NULL && c->called->kind == WORKER_COLD_IN) {
        call_in_pool(c, c->called, POOL_CALL_NONE);
        end_call(c);
    }
    if (first_of(c, WORKER_STARTING_IN) != NULL || first_of(c, WORKER_COLD_IN) != NULL)
        return;
    k = first_of(c, WORKER_STARTING_OUT);
    if (k == NULL)
        k = best_cold(c);
    if (k == NULL)
        return;
    log_call(c, k, "no-warm-worker");
    known_worker_join(k);
}

void membership_reserve(struct membership *ms)
{
    struct cold_slots *c = &ms->cold;

    if (ms->stopping)
        return;
    if (first_of(c, WORKER_WARM) != NULL)
        take_out(c);
    else
        bring_in(c);
    go_on_looking(c);
}

void cold_slots_init(struct cold_slots *c, struct membership *ms)
{
    *c = (struct cold_slots){.membership = ms};
    timer_init(&c->look, on_look);
}
