/* SPDX-License-Identifier: Apache-2.0
 *
 * What an operator can order at the admin address, with the actions_token: POST /actions/forget
 * {"application": NAME, "worker": ADDRESS, "class": CLASS}, where each may be left out: of all
 * applications, of all slots, of all classes. It is read whole, what is unknown refused, before
 * anything is done. Answers, JSON: 200 what was done, 400 not such an object, 404 no such slot.
 * Control loop.
 */
#include "common/program/admin_order.h"
#include "worker-agent/pool/slot.h"
#include "worker-agent/program/agent_internal.h"

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

void agent_actions_add(struct agent *a)
{
    admin_add_order(a->admin, "/actions/forget", forget, a);
}
