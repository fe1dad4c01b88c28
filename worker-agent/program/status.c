/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of the admin address's pages and actions, and the small pages.
 */
#include "worker-agent/program/agent.h"

#include "assets.h"
#include "common/program/admin.h"
#include "worker-agent/pool/slot.h"

static int page_status(void *context, struct slice query, struct text *body)
{
    (void)query;
    status_json(context, body);
    return 200;
}

static int page_resumes(void *context, struct slice query, struct text *body)
{
    (void)query;
    status_resumes(context, body);
    return 200;
}

static void page_metrics(void *context, struct metrics *m)
{
    status_metrics(context, m);
}

static int page_health(void *context, struct slice query, struct text *body)
{
    (void)context;
    (void)query;
    text_add(body, SLICE_LIT("ok\n"));
    return 200;
}

/* ---- what is ready ---- */

/* A process without a ready_probe waits for its first request, which is only sent to a process
 * reported as ready. */
static bool serves(const struct app_process *p)
{
    return p != NULL && (p->state == PROCESS_READY || p->open);
}

/* Number of the permanently required processes that do not exist or do not serve. */
static size_t count_unready(const struct agent *a)
{
    size_t unready = 0;

    for (size_t i = 0; i < a->pool.ngroups; ++i) {
        const struct app_group *g = a->pool.groups[i];
        size_t serving = 0;

        for (unsigned n = 0; n < g->nslots; ++n)
            serving += serves(slot_process(g->slots[n])) ? 1 : 0;
        /* With one_shot processes are started by requests only. */
        if (g->attach == NULL && !g->core.one_shot && serving < g->core.min_processes)
            unready += g->core.min_processes - serving;
    }
    return unready;
}

static int page_ready(void *context, struct slice query, struct text *body)
{
    const struct agent *a = context;
    size_t unready = count_unready(a);

    (void)query;
    if (a->phase != AGENT_RUNNING) {
        text_addf(body, "%s\n", agent_phase_text(a->phase));
        return 503;
    }
    if (unready > 0) {
        text_addf(body, "%zu processes are not ready\n", unready);
        return 503;
    }
    text_add(body, SLICE_LIT("ready\n"));
    return 200;
}

/* ---- processes ---- */

/* Counts process P of a slot; P may be NULL. */
static void count_one(const struct app_process *p, struct process_counts *out)
{
    if (p == NULL)
        return;
    if (p->state < PROCESS_READY)
        ++out->starting;
    else if (p->state > PROCESS_READY)
        ++out->leaving;
    else if (p->core.sessions > 0)
        ++out->busy;
    else
        ++out->idle;
}

void status_count(const struct app_group *g, struct process_counts *out)
{
    *out = (struct process_counts){0};
    for (unsigned n = 0; n < g->nslots; ++n) {
        count_one(slot_process(g->slots[n]), out);
        count_one(slot_replacement(g->slots[n]), out);
    }
    for (size_t state = PROCESS_LEAVING; state < PROCESS_ENDED; ++state) {
        struct list *it;

        list_for_each (it, &g->pool->by_state[state]) {
            if (status_has_left(list_entry(it, struct app_process, state_node), g))
                ++out->leaving;
        }
    }
}

bool status_has_left(const struct app_process *p, const struct app_group *g)
{
    return p->group == g && p->slot != NULL && p != slot_process(p->slot) &&
           p != slot_replacement(p->slot);
}

static int act_detach(void *context, struct slice id, struct text *body)
{
    const struct agent *a = context;
    struct app_process *p = app_pool_process(&a->pool, id);

    if (p == NULL) {
        text_add(body, SLICE_LIT("no such process\n"));
        return 404;
    }
    if (p->slot == NULL || p->state > PROCESS_READY) {
        text_addf(body, "process %s is already leaving\n", p->id);
        return 200;
    }
    text_addf(body, "process %s (%s, slot %u, pid %ld) is detached; it has %u requests\n", p->id,
              p->group->name, p->slot->n, (long)p->pid, p->core.sessions);
    app_process_detach(p, "requested by an operator");
    return 200;
}

/* ---- actions ---- */

/*
 * What an operator can order at the admin address, with the actions_token: POST /actions/forget
 * {"application": NAME, "worker": ADDRESS, "class": CLASS}, where each may be left out: of all
 * applications, of all slots, of all classes. It is read whole, what is unknown refused, before
 * anything is done. Answers, JSON: 200 what was done, 400 not such an object, 404 no such slot.
 * Control loop.
 */

struct search {
    struct admin_order order;
    size_t groups, slots, scores;
};

/* A slot is known by its own address, and by the one under which it is registered. */
static bool is_meant(const struct admin_order *o, const struct slot *s)
{
    char name[ADDR_TEXT_MAX];

    if (o->worker.len == 0 || slice_is(o->worker, s->name))
        return true;
    slot_registered_name(s, name);
    return slice_is(o->worker, name);
}

static void forget_in(struct search *x, const struct app_group *g)
{
    if (!admin_order_means(&x->order, g->name))
        return;
    ++x->groups;
    for (unsigned n = 0; n < g->nslots; ++n) {
        if (!is_meant(&x->order, g->slots[n]))
            continue;
        ++x->slots;
        x->scores += slot_forget(g->slots[n], x->order.has_class ? &x->order.cls : NULL);
    }
}

static int forget(void *context, struct slice entity, struct text *body)
{
    struct agent *a = context;
    struct search x = {0};
    const char *why = admin_order_read(&x.order, entity);
    int status = 200;

    for (size_t i = 0; why == NULL && i < a->pool.ngroups; ++i)
        forget_in(&x, a->pool.groups[i]);
    if (why != NULL)
        status = admin_order_refuse(body, 400, why);
    else if (x.groups == 0)
        status = admin_order_refuse(body, 404, "no such application");
    else if (x.order.worker.len != 0 && x.slots == 0)
        status = admin_order_refuse(body, 404, "no such worker");
    else
        admin_order_forgotten(body, x.slots, x.scores);
    admin_order_fini(&x.order);
    return status;
}

void agent_status_add(struct agent *a)
{
    static const char json[] = "application/json";
    static const char plain[] = "text/plain; charset=utf-8";

    admin_add_status_page(a->admin,
                          (struct slice){(const char *)asset_page_js, sizeof(asset_page_js)},
                          page_status, a);
    admin_add(a->admin, "/status.json", json, page_status, a);
    admin_add(a->admin, "/resumes.json", json, page_resumes, a);
    admin_add_metrics(a->admin, page_metrics, a);
    admin_add(a->admin, "/healthz", plain, page_health, a);
    admin_add(a->admin, "/readyz", plain, page_ready, a);
    admin_add_action(a->admin, "/processes/", "/detach", act_detach, a);
    admin_add_order(a->admin, "/actions/forget", forget, a);
}
