/* SPDX-License-Identifier: Apache-2.0
 *
 * What an operator can order at the admin address, with the actions_token: POST /actions/forget
 * {"application": NAME, "worker": ADDRESS, "class": CLASS}, where each may be left out: of all
 * applications, of all slots, of all classes. It is read whole, what is unknown refused, before
 * anything is done. Answers, JSON: 200 what was done, 400 not such an object, 404 no such slot.
 * Control loop.
 */
#include "common/base/log.h"
#include "common/wire/json.h"
#include "worker-agent/agent_internal.h"
#include "worker-agent/slot.h"

enum { ORDER_BYTES_MAX = 4096 };

/* Empty: it does not say. */
struct order {
    json_t *root;
    struct slice application, worker, cls;
    bool has_class; /* "" is a class too */
    size_t groups, slots, scores;
};

static int refuse(struct text *body, int status, const char *why)
{
    struct json_writer w = {.out = body};

    json_open_object(&w, NULL);
    json_put_text(&w, "error", slice_of(why));
    json_close_object(&w);
    text_add_char(body, '\n');
    return status;
}

/* NULL: fine; else why not. */
static const char *read_member(struct order *o, const char *name, const json_t *v)
{
    struct slice text = {json_string_value(v), json_string_length(v)};

    if (!json_is_string(v))
        return "each member must be a string";
    if (strcmp(name, "application") == 0)
        o->application = text;
    else if (strcmp(name, "worker") == 0)
        o->worker = text;
    else if (strcmp(name, "class") == 0) {
        o->cls = text;
        o->has_class = true;
    } else
        return "unknown member; known are application, worker, class";
    return NULL;
}

/* NULL: fine; else why not. O->root is the caller's in any case. */
static const char *read_order(struct slice entity, struct order *o)
{
    const char *name;
    const char *why = NULL;
    json_t *v;

    *o = (struct order){0};
    if (slice_trim(entity).len == 0)
        return NULL;
    if (json_parse(entity, ORDER_BYTES_MAX, &o->root, NULL) != ERR_OK || !json_is_object(o->root))
        return "the body is not a JSON object";
    json_object_foreach(o->root, name, v)
    {
        if (why == NULL)
            why = read_member(o, name, v);
    }
    return why;
}

/* A slot is known by its own address, and by the one under which it is registered. */
static bool is_meant(const struct order *o, const struct slot *s)
{
    char name[ADDR_TEXT_MAX];

    if (o->worker.len == 0 || slice_is(o->worker, s->name))
        return true;
    registration_name(s->group->advertise, &s->addr, name);
    return slice_is(o->worker, name);
}

static void forget_in(struct order *o, const struct app_group *g)
{
    if (o->application.len != 0 && !slice_is(o->application, g->name))
        return;
    ++o->groups;
    for (unsigned n = 0; n < g->nslots; ++n) {
        if (!is_meant(o, g->slots[n]))
            continue;
        ++o->slots;
        o->scores += slot_forget(g->slots[n], o->has_class ? &o->cls : NULL);
    }
}

static int forget(void *context, struct slice entity, struct text *body)
{
    struct agent *a = context;
    struct order o;
    const char *why = read_order(entity, &o);
    int status = 400;

    for (size_t i = 0; why == NULL && i < a->pool.ngroups; ++i)
        forget_in(&o, a->pool.groups[i]);
    if (why == NULL && (o.groups == 0 || (o.worker.len != 0 && o.slots == 0))) {
        status = 404;
        why = o.groups == 0 ? "no such application" : "no such worker";
    }
    if (why == NULL) {
        struct json_writer w = {.out = body};

        log_info(NULL, "skills-forgotten", "slots=%zu scores=%zu", o.slots, o.scores);
        json_open_object(&w, NULL);
        json_put_text(&w, "action", SLICE_LIT("forget"));
        json_put_int(&w, "workers", (int64_t)o.slots);
        json_put_int(&w, "scores", (int64_t)o.scores);
        json_close_object(&w);
        text_add_char(body, '\n');
        status = 200;
    } else {
        status = refuse(body, status, why);
    }
    json_decref(o.root);
    return status;
}

void agent_actions_add(struct agent *a)
{
    admin_add_order(a->admin, "/actions/forget", forget, a);
}
