/* SPDX-License-Identifier: Apache-2.0
 *
 * Selects which workers without a process (dormant), or with a starting process, are in the pool.
 * They are not in the pool, so that new classes do not start every available process. One is
 * brought in if no warm worker exists (a starting one first), or when the backlog of every warm
 * worker stayed above spawn_backlog for spawn_after.
 *
 *   out, dormant -- overload --> in, to be woken -- its request --> out, starting --> in, warm
 *        ^                         |                                   |           (by its stream)
 *        '---- overload ended -----'------------ it failed ------------'
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
#include "common/base/log.h"
#include "lb/backends/membership_internal.h"
#include "lb/core/route_wait.h"

enum {
    /* Checks for overload: ten per spawn_after, within these bounds. With 1,000 workers, all of
     * them overloaded, a check takes 3 us (bench/RESULTS.md). */
    CHECKS = 10,
    CHECK_MIN_MS = 10,
    CHECK_MAX_MS = 100,
    /* Maximum time from the request to the report that the process is starting: its agent sends it
     * at once, unless it rejected the request. */
    WOKEN_PATIENCE_MS = 5000,
    /* How long a starting process prevents the activation of others: the default of an agent's
     * start_timeout, which ends it. */
    START_PATIENCE_MS = 60000,
};

static struct backend *first_of(const struct membership *ms, enum worker_kind kind)
{
    const struct list *head = &ms->kinds[kind];

    return list_empty(head) ? NULL : list_first(head, struct backend, in_kind);
}

/* ---- the activated one ---- */

static void log_activation(const struct backend *b, const char *why)
{
    log_info_folded(NULL, "dormant-slot-activated", "application=%s worker=%s state=%s reason=%s",
                    b->app->name, b->name, backend_state(b), why);
}

void activation_end(struct membership *ms)
{
    ms->activation.active = NULL;
    pool_overload_forget(ms->app->pool);
}

static void set_role(const struct backend *b, enum pool_activation role)
{
    struct list released;

    list_init(&released);
    pool_activate(b->app->pool, b->worker, role, &released);
    route_wait_wake(&released);
}

/* Its process has not even begun to start. */
static void activation_give_up(struct membership *ms, const char *why)
{
    struct backend *b = ms->activation.active;

    log_info_folded(NULL, "dormant-slot-not-started", "application=%s worker=%s reason=%s",
                    ms->app->name, b->name, why);
    activation_end(ms);
    backend_leave(b);
}

/* ---- the next one ---- */

/* FNV-1a, mixed: a small change of the name changes its place in the order completely. */
static uint64_t activation_rank_of(const char *name)
{
    uint64_t h = hash_fixed(slice_of(name));

    h = (h ^ (h >> 33)) * UINT64_C(0xff51afd7ed558ccd);
    h = (h ^ (h >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
    return h ^ (h >> 33);
}

static struct backend *best_dormant(const struct membership *ms)
{
    struct backend *best = NULL;
    struct backend *b;

    list_for_each_entry (b, &ms->kinds[WORKER_DORMANT_OUT], in_kind) {
        if (best == NULL || b->failed_activations < best->failed_activations ||
            (b->failed_activations == best->failed_activations &&
             activation_rank_of(b->name) < activation_rank_of(best->name)))
            best = b;
    }
    return best;
}

/* ---- checks for overload ---- */

static bool some_will_be_ready(const struct membership *ms, uint64_t now_ms)
{
    const struct backend *b;

    list_for_each_entry (b, &ms->kinds[WORKER_STARTING_OUT], in_kind) {
        if (now_ms - b->starting_ms < START_PATIENCE_MS)
            return true;
    }
    return false;
}

static void schedule_check(struct membership *ms)
{
    struct activation *a = &ms->activation;
    uint64_t delay_ms = ms->app->settings->s.spawn_after_ms / CHECKS;

    if (delay_ms < CHECK_MIN_MS)
        delay_ms = CHECK_MIN_MS;
    if (delay_ms > CHECK_MAX_MS)
        delay_ms = CHECK_MAX_MS;
    /* Whether a check can change anything. */
    bool useful = !ms->stopping && ms->app->settings->s.spawn_backlog != 0 &&
                  first_of(ms, WORKER_WARM) != NULL &&
                  (first_of(ms, WORKER_DORMANT_OUT) != NULL ||
                   first_of(ms, WORKER_STARTING_OUT) != NULL || a->active != NULL);
    if (!useful) {
        timer_stop(&a->check);
        a->overloaded = false;
        pool_overload_forget(ms->app->pool);
    } else if (!timer_running(&a->check)) {
        timer_start(ms->app->lb->control, &a->check, delay_ms);
    }
}

void activation_check(struct timer *t)
{
    struct membership *ms = container_of(t, struct membership, activation.check);
    struct activation *a = &ms->activation;
    uint64_t now_ms = loop_now_ms(ms->app->lb->control);
    uint64_t for_ms = 0;

    stat_add(application_control_stats(ms->app), APP_STAT_dormant_checks, 1);
    a->overloaded = pool_overloaded(ms->app->pool, now_ms, &for_ms);
    if (a->active != NULL && a->active->kind != WORKER_DORMANT_IN) {
        if (now_ms - a->activated_ms >= START_PATIENCE_MS)
            activation_end(ms);
    } else if (a->active != NULL) {
        if (a->woken_ms == 0 && pool_woke(ms->app->pool, a->active->worker))
            a->woken_ms = now_ms;
        if (a->woken_ms == 0 && !a->overloaded) {
            activation_give_up(ms, "overload-ended");
        } else if (a->woken_ms != 0 && now_ms - a->woken_ms >= WOKEN_PATIENCE_MS) {
            ++a->active->failed_activations;
            activation_give_up(ms, "rejected");
        }
    } else if (some_will_be_ready(ms, now_ms)) {
        pool_overload_forget(ms->app->pool);
    } else if (a->overloaded && for_ms >= ms->app->settings->s.spawn_after_ms) {
        struct backend *b = best_dormant(ms);

        if (b != NULL) {
            log_activation(b, "overload");
            a->active = b;
            a->activated_ms = now_ms;
            a->woken_ms = 0;
            backend_join(b);
            set_role(b, POOL_ACTIVATION_WAKE);
        }
    }
    schedule_check(ms);
}

/* ---- changes ---- */

static enum worker_kind kind_of(const struct backend *b)
{
    bool in = backend_in_pool(b);

    if (b->worker == NULL || b->silent || b->drained || b->check.record.failing)
        return WORKER_OTHER;
    if (!b->streams || b->last.state == RESUME_READY)
        return in ? WORKER_WARM : WORKER_OTHER;
    if (b->last.state == RESUME_STARTING)
        return in ? WORKER_STARTING_IN : WORKER_STARTING_OUT;
    if (b->last.state == RESUME_DORMANT)
        return in ? WORKER_DORMANT_IN : WORKER_DORMANT_OUT;
    return WORKER_OTHER;
}

void membership_sort(struct backend *b)
{
    struct membership *ms = b->app->membership;
    enum worker_kind from = b->kind;
    bool was_active = b == ms->activation.active;

    b->kind = kind_of(b);
    if (list_linked(&b->in_kind) && from == b->kind)
        return;
    list_remove(&b->in_kind);
    list_push_back(&ms->kinds[b->kind], &b->in_kind);
    if (from == WORKER_DORMANT_IN && (b->kind == WORKER_STARTING_IN || b->kind == WORKER_WARM))
        stat_add(application_control_stats(ms->app), APP_STAT_dormant_spawns, 1);
    if (b->kind == WORKER_WARM)
        b->failed_activations = 0;
    if (was_active && (b->kind < WORKER_NO_PROCESS || b->kind == WORKER_DORMANT_OUT)) {
        b->failed_activations += b->kind != WORKER_WARM;
        activation_end(ms);
    }
    /* It became warm during an overload, whatever activated it: it relieves the other workers. */
    if (b->kind == WORKER_WARM && from >= WORKER_NO_PROCESS)
        set_role(b, was_active || ms->activation.overloaded ? POOL_ACTIVATION_RELIEVE
                                                            : POOL_ACTIVATION_NONE);
}

static void add_one(struct membership *ms)
{
    struct backend *b = ms->activation.active;

    /* It is in the pool for overload only, but no other worker is left. */
    if (b != NULL && b->kind == WORKER_DORMANT_IN) {
        set_role(b, POOL_ACTIVATION_NONE);
        activation_end(ms);
    }
    if (first_of(ms, WORKER_STARTING_IN) != NULL || first_of(ms, WORKER_DORMANT_IN) != NULL)
        return;
    b = first_of(ms, WORKER_STARTING_OUT);
    if (b == NULL)
        b = best_dormant(ms);
    if (b == NULL)
        return;
    log_activation(b, "no-warm-worker");
    backend_join(b);
}

void membership_reserve(struct membership *ms)
{
    struct backend *active = ms->activation.active;
    struct backend *b;

    if (ms->stopping)
        return;
    if (first_of(ms, WORKER_WARM) == NULL) {
        add_one(ms);
        schedule_check(ms);
        return;
    }
    /* All but the one that is to be woken. */
    list_for_each_entry_safe (b, &ms->kinds[WORKER_DORMANT_IN], in_kind) {
        if (b != active)
            backend_leave(b);
    }
    /* Requests need not wait for it any more: it joins again when it is ready. */
    if (active != NULL && active->kind == WORKER_STARTING_IN)
        backend_leave(active);
    else if (active != NULL && active->kind == WORKER_DORMANT_IN &&
             ms->app->settings->s.spawn_backlog == 0)
        activation_give_up(ms, "switched-off");
    schedule_check(ms);
}
