/* SPDX-License-Identifier: Apache-2.0
 *
 * An order is read whole, members unknown to it refused, before anything is done. Answers:
 *   200 {"action": ..., what was done}     400 not such an object     404 no such application,
 * worker 409 the configuration was refused
 */
#include "lb/actions.h"

#include <string.h>

#include "common/base/log.h"
#include "common/wire/json.h"
#include "lb/lb_parts.h"
#include "lb/membership.h"

enum {
    ORDER_BYTES_MAX = 4096, /* the admin address takes no longer bodies */
    STATUS_DONE = 200,
    STATUS_BAD = 400,
    STATUS_UNKNOWN = 404,
    STATUS_REFUSED = 409,
};

/* What an order may say; empty: it does not. */
struct order {
    json_t *root;
    struct slice application, worker, cls;
    bool has_class; /* "" is a class too */
};

static int answer_error(struct text *body, int status, const char *why)
{
    struct json_writer w = {.out = body};

    json_open_object(&w, NULL);
    json_put_text(&w, "error", slice_of(why));
    json_close_object(&w);
    text_add_char(body, '\n');
    return status;
}

/* WHY: constant text. */
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

/* NULL: fine; else why not. Free o->root in any case. */
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

/* ---- whom it concerns ---- */

struct search {
    const struct order *order;
    struct application *app;
    size_t napps; /* that fit */
    struct known_worker *found;
    size_t workers, scores; /* forget: asked, forgotten */
};

static bool fits(const struct order *o, const struct application *a)
{
    return o->application.len == 0 || slice_is(o->application, a->name);
}

static void look_for(void *context, const struct known_worker *k)
{
    struct search *s = context;

    if (slice_is(s->order->worker, k->name))
        s->found = membership_find(k->app->membership, k->name);
}

/* The one worker that an order names. NULL: fine. */
static const char *find_worker(const struct lb *lb, struct search *s)
{
    if (s->order->worker.len == 0)
        return "which worker? \"worker\" is missing";
    for (size_t i = 0; i < lb->napplications; ++i) {
        if (!fits(s->order, lb->applications[i]))
            continue;
        s->app = lb->applications[i];
        ++s->napps;
    }
    if (s->napps == 0)
        return "no such application";
    if (s->napps > 1)
        return "of which application? \"application\" is missing";
    if (s->app->membership != NULL)
        membership_each(s->app->membership, look_for, s);
    return s->found != NULL ? NULL : "no such worker";
}

/* ---- drain, undrain ---- */

static int set_drained(struct lb *lb, struct slice entity, struct text *body, bool on)
{
    struct order o;
    struct search s = {.order = &o};
    const char *why = read_order(entity, &o);
    int status = STATUS_BAD;

    if (why == NULL && o.has_class)
        why = "a class cannot be drained";
    if (why == NULL) {
        status = o.worker.len == 0 ? STATUS_BAD : STATUS_UNKNOWN;
        why = find_worker(lb, &s);
        if (s.napps > 1)
            status = STATUS_BAD;
    }
    if (why != NULL) {
        json_decref(o.root);
        return answer_error(body, status, why);
    }
    bool changed = s.found->drained != on;
    known_worker_drain(s.found, on);
    struct json_writer w = {.out = body};

    json_open_object(&w, NULL);
    json_put_text(&w, "action", slice_of(on ? "drain" : "undrain"));
    json_put_text(&w, "application", slice_of(s.app->name));
    json_put_text(&w, "worker", slice_of(s.found->name));
    json_put_bool(&w, "changed", changed);
    json_put_text(&w, "state", slice_of(known_worker_state(s.found)));
    json_close_object(&w);
    text_add_char(body, '\n');
    json_decref(o.root);
    return STATUS_DONE;
}

static int drain(void *context, struct slice entity, struct text *body)
{
    return set_drained(context, entity, body, true);
}

static int undrain(void *context, struct slice entity, struct text *body)
{
    return set_drained(context, entity, body, false);
}

/* ---- forget ---- */

static void forget_one(void *context, const struct known_worker *k)
{
    struct search *s = context;

    if (s->order->worker.len != 0 && !slice_is(s->order->worker, k->name))
        return;
    ++s->workers;
    s->scores += known_worker_forget(membership_find(k->app->membership, k->name),
                                     s->order->has_class ? &s->order->cls : NULL);
}

static int forget(void *context, struct slice entity, struct text *body)
{
    const struct lb *lb = context;
    struct order o;
    struct search s = {.order = &o};
    const char *why = read_order(entity, &o);
    int status = STATUS_BAD;

    for (size_t i = 0; why == NULL && i < lb->napplications; ++i) {
        if (!fits(&o, lb->applications[i]))
            continue;
        ++s.napps;
        if (lb->applications[i]->membership != NULL)
            membership_each(lb->applications[i]->membership, forget_one, &s);
    }
    if (why == NULL && (s.napps == 0 || (s.workers == 0 && o.worker.len != 0))) {
        status = STATUS_UNKNOWN;
        why = s.napps == 0 ? "no such application" : "no such worker";
    }
    if (why != NULL) {
        json_decref(o.root);
        return answer_error(body, status, why);
    }
    log_info(NULL, "skills-forgotten", "workers=%zu scores=%zu", s.workers, s.scores);
    struct json_writer w = {.out = body};

    json_open_object(&w, NULL);
    json_put_text(&w, "action", SLICE_LIT("forget"));
    json_put_int(&w, "workers", (int64_t)s.workers);
    json_put_int(&w, "scores", (int64_t)s.scores);
    json_close_object(&w);
    text_add_char(body, '\n');
    json_decref(o.root);
    return STATUS_DONE;
}

/* ---- reload ---- */

static int reload(void *context, struct slice entity, struct text *body)
{
    struct lb *lb = context;
    struct text problems = {0};
    int status = STATUS_DONE;

    if (slice_trim(entity).len != 0 && !slice_is(slice_trim(entity), "{}"))
        return answer_error(body, STATUS_BAD, "reload takes no members");
    if (lb_phase(lb) != LB_SERVING)
        return answer_error(body, STATUS_REFUSED, "not serving");
    if (lb_reload(lb, &problems)) {
        text_add(body, SLICE_LIT("{\"action\":\"reload\"}\n"));
    } else {
        status = answer_error(body, STATUS_REFUSED,
                              problems.len != 0 ? text_cstr(&problems) : "refused; see the log");
    }
    text_fini(&problems);
    return status;
}

void actions_add(struct lb *lb, struct admin *a)
{
    admin_add_order(a, "/actions/drain", drain, lb);
    admin_add_order(a, "/actions/undrain", undrain, lb);
    admin_add_order(a, "/actions/forget", forget, lb);
    admin_add_order(a, "/actions/reload", reload, lb);
}
