/* SPDX-License-Identifier: Apache-2.0
 *
 *   vanished ── 500 ms ──► more than discovery_max_drop of all? ── no ──► only an open stream
 * counts │ yes held ──► registered again; or refuted: its stream has an end line, its address
 * refuses; or no successful connection for providers_hold; or an operator confirms the removal
 */
#include "common/base/log.h"
#include "lb/backends/membership_internal.h"

enum {
    /* Registrations that end within this time count as ended at once: a lost session removes its
       nodes in several steps. */
    VANISH_WINDOW_MS = 500,
    /* How often held workers are checked. */
    HELD_LOOK_MS = 1000,
};

static const struct app_settings *settings(const struct missing_workers *m)
{
    return &m->membership->app->settings->s;
}

static struct loop *control(const struct missing_workers *m)
{
    return m->membership->app->lb->control;
}

static const char *app_name(const struct missing_workers *m)
{
    return m->membership->app->name;
}

void missing_workers_remove(struct missing_workers *m, struct known_worker *k)
{
    list_remove(&k->missing);
    m->nheld -= k->held;
    /* All are back: the next worker that vanishes starts a new window. */
    if (k->vanished && list_empty(&m->vanished))
        timer_stop(&m->window);
    k->vanished = k->held = false;
}

void missing_workers_add(struct missing_workers *m, struct known_worker *k, size_t before)
{
    log_info_folded(NULL, "registration-ended", "application=%s worker=%s", app_name(m), k->name);
    k->vanished = true;
    k->failures_then = known_worker_failures(k);
    list_push_back(&m->vanished, &k->missing);
    if (timer_running(&m->window))
        return;
    m->window_base = before;
    timer_start(control(m), &m->window, VANISH_WINDOW_MS);
}

static void hold(struct missing_workers *m, struct known_worker *k)
{
    k->held = true;
    k->sign_ms = loop_now_ms(control(m));
    ++m->nheld;
    list_push_back(&m->held, &k->missing);
    if (!timer_running(&m->look))
        timer_start(control(m), &m->look, HELD_LOOK_MS);
}

/* Decides whether the vanished workers are held. */
static void on_window_over(struct timer *t)
{
    struct missing_workers *m = container_of(t, struct missing_workers, window);
    struct list *node;
    struct list *it;
    size_t n = 0;

    list_for_each (it, &m->vanished)
        ++n;
    bool all = (double)n > settings(m)->discovery_max_drop * (double)m->window_base;
    if (all) {
        log_warn(
            NULL, "registrations-held",
            "application=%s count=%zu total=%zu reason=\"more than discovery_max_drop ended at "
            "once\" action=\"keep them until their removal is confirmed\" hint=\"if they were "
            "removed on "
            "purpose, run: " MISSING_WORKERS_CONFIRM "\"",
            app_name(m), n, m->window_base, app_name(m));
    }
    while ((node = list_pop_front(&m->vanished)) != NULL) {
        struct known_worker *k = list_entry(node, struct known_worker, missing);

        k->vanished = false;
        if (all)
            hold(m, k);
        membership_touch(k);
    }
    membership_settle(m->membership);
}

static void give_up(struct missing_workers *m, struct known_worker *k, const char *why)
{
    log_info_folded(NULL, "registration-dropped", "application=%s worker=%s reason=\"%s\"",
                    app_name(m), k->name, why);
    missing_workers_remove(m, k);
    membership_touch(k);
}

/* Look for signs of life, and for the opposite. */
static void look_at(struct missing_workers *m, struct known_worker *k, uint64_t now_ms)
{
    if (known_worker_alive(k)) {
        k->sign_ms = now_ms;
        return;
    }
    if (k->feed == NULL && known_worker_failures(k) > k->failures_then)
        k->refuted = true;
    else if (now_ms - k->sign_ms < settings(m)->providers_hold_ms)
        return;
    give_up(m, k,
            k->refuted ? "refuses connections" : "no successful connection for providers_hold");
}

size_t missing_workers_confirm(struct missing_workers *m, struct slice worker)
{
    struct list *it = NULL;
    struct list *tmp = NULL;
    size_t n = 0;

    list_for_each_safe (it, tmp, &m->held) {
        struct known_worker *k = list_entry(it, struct known_worker, missing);

        if (worker.len != 0 && !slice_is(worker, k->name))
            continue;
        give_up(m, k, "removal confirmed");
        ++n;
    }
    return n;
}

static void on_look(struct timer *t)
{
    struct missing_workers *m = container_of(t, struct missing_workers, look);
    uint64_t now_ms = loop_now_ms(control(m));
    struct list *it = NULL;
    struct list *tmp = NULL;

    list_for_each_safe (it, tmp, &m->held)
        look_at(m, list_entry(it, struct known_worker, missing), now_ms);
    if (!list_empty(&m->held))
        timer_start(control(m), t, HELD_LOOK_MS);
    membership_settle(m->membership);
}

void missing_workers_init(struct missing_workers *m, struct membership *ms)
{
    *m = (struct missing_workers){.membership = ms};
    list_init(&m->vanished);
    list_init(&m->held);
    timer_init(&m->window, on_window_over);
    timer_init(&m->look, on_look);
}

void missing_workers_fini(struct missing_workers *m)
{
    ASSERT(list_empty(&m->vanished));
    ASSERT(list_empty(&m->held));
    timer_stop(&m->window);
    timer_stop(&m->look);
}

bool missing_workers_settled(const struct missing_workers *m)
{
    return !timer_running(&m->window);
}
