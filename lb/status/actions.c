/* SPDX-License-Identifier: Apache-2.0
 *
 * What an operator can do at the admin address: POST /actions/drain, undrain, confirm-removal,
 * forget, reload, PUT and DELETE /workers/ADDRESS (lb/backends/call_source.c), with the
 * actions_token. The request's body is a JSON object, the response too. Control thread.
 *
 *   drain, undrain   {"worker": NAME, "application": NAME}   no new requests to that address; the
 *                    response's "unsaved" is the reason if a restart would forget that
 *   confirm-removal  {"worker": NAME, "application": NAME}   of held workers; without a worker: all
 *   forget           {"worker": NAME, "class": CLASS, "application": NAME}   skills; each may be
 *                    left out: of all workers, of all classes
 *   reload           {}   as by SIGHUP
 *
 * Without an application: of the only one. Of several, forget means all, and the others require it.
 *
 * The body is read completely, and unknown members are rejected, before anything is done. Status:
 *   200 {"action": ..., what was done}   400 invalid body   404 no such application or worker
 *   409 invalid configuration, not serving, or no such worker is held
 */
#include "lb/status/status.h"

#include "lb/backends/membership.h"

/* ---- the worker concerned ---- */

struct action_search {
    struct admin_action order;
    int status; /* of the response if the action is rejected */
    struct application *app;
    size_t napps; /* number of matching applications */
    /* Of forget: workers searched, scores deleted; of confirm-removal: workers held. */
    size_t workers, scores;
};

static const char *set_problem(struct action_search *s, int status, const char *why)
{
    s->status = status;
    return why;
}

/* Reads an action; WITH_CLASS: why one with a class is invalid, or NULL. Returns NULL on success,
 * else the problem, as the functions below do. */
static const char *read_order(struct action_search *s, struct slice entity, const char *with_class)
{
    const char *why = admin_action_read(&s->order, entity);

    s->status = 400;
    return why == NULL && s->order.has_class ? with_class : why;
}

/* Finds the only application that is meant. */
static const char *find_application(const struct lb *lb, struct action_search *s)
{
    for (size_t i = 0; i < lb->napplications; ++i) {
        if (!admin_action_applies_to(&s->order, lb->applications[i]->name))
            continue;
        s->app = lb->applications[i];
        ++s->napps;
    }
    if (s->napps == 0)
        return set_problem(s, 404, "no such application");
    return s->napps > 1 ? set_problem(s, 400, "\"application\" is missing") : NULL;
}

static int actions_reject(struct action_search *s, struct text *body, const char *why)
{
    admin_action_fini(&s->order);
    return admin_action_reject(body, s->status, why);
}

static void begin_response(struct json_writer *w, const char *action, const struct action_search *s)
{
    json_open_object(w, NULL);
    json_put_text(w, "action", slice_of(action));
    json_put_text(w, "application", slice_of(s->app->name));
}

static int end_response(struct json_writer *w, struct lb *lb, struct action_search *s)
{
    json_close_object(w);
    text_add_char(w->out, '\n');
    admin_action_fini(&s->order);
    shared_responses_clear(lb->responses);
    return 200;
}

/* ---- drain, undrain ---- */

static int set_drained(struct lb *lb, struct slice entity, struct text *body, bool on)
{
    struct action_search s = {0};
    struct json_writer w = {.out = body};
    struct backend *k = NULL;
    const char *why = read_order(&s, entity, "a class cannot be drained");

    if (why == NULL && s.order.worker.len == 0)
        why = set_problem(&s, 400, "\"worker\" is missing");
    if (why == NULL)
        why = find_application(lb, &s);
    if (why == NULL)
        k = membership_find(s.app->membership, s.order.worker.p);
    if (why == NULL && k == NULL)
        why = set_problem(&s, 404, "no such worker");
    if (why != NULL)
        return actions_reject(&s, body, why);
    bool changed = k->drained != on;
    if (changed)
        backend_drain(k, on);
    else
        membership_store_drained(k);
    const char *unsaved = membership_drained_unsaved(s.app->membership);
    begin_response(&w, on ? "drain" : "undrain", &s);
    json_put_text(&w, "worker", slice_of(k->name));
    json_put_bool(&w, "changed", changed);
    json_put_text(&w, "state", slice_of(backend_state(k)));
    if (unsaved != NULL)
        json_put_text(&w, "unsaved", slice_of(unsaved));
    return end_response(&w, lb, &s);
}

static int actions_drain(void *context, struct slice entity, struct text *body)
{
    return set_drained(context, entity, body, true);
}

static int undrain_workers(void *context, struct slice entity, struct text *body)
{
    return set_drained(context, entity, body, false);
}

/* ---- confirm-removal ---- */

static int confirm_removal(void *context, struct slice entity, struct text *body)
{
    struct lb *lb = context;
    struct action_search s = {0};
    struct json_writer w = {.out = body};
    const char *why = read_order(&s, entity, "a class cannot be removed");

    if (why == NULL)
        why = find_application(lb, &s);
    if (why == NULL && s.app->membership != NULL)
        s.workers = membership_confirm_removal(s.app->membership, s.order.worker);
    if (why == NULL && s.workers == 0)
        why = set_problem(
            &s, 409, s.order.worker.len != 0 ? "this worker is not held" : "no worker is held");
    if (why != NULL)
        return actions_reject(&s, body, why);
    begin_response(&w, "confirm-removal", &s);
    json_put_int(&w, "workers", (int64_t)s.workers);
    return end_response(&w, lb, &s);
}

/* ---- forget ---- */

static void forget_one(void *context, const struct backend *k)
{
    struct action_search *s = context;

    if (s->order.worker.len != 0 && !slice_is(s->order.worker, k->name))
        return;
    ++s->workers;
    s->scores += backend_forget(membership_find(k->app->membership, k->name),
                                s->order.has_class ? &s->order.cls : NULL);
}

static int forget_skills(void *context, struct slice entity, struct text *body)
{
    const struct lb *lb = context;
    struct action_search s = {0};
    const char *why = read_order(&s, entity, NULL);

    for (size_t i = 0; why == NULL && i < lb->napplications; ++i) {
        if (!admin_action_applies_to(&s.order, lb->applications[i]->name))
            continue;
        ++s.napps;
        if (lb->applications[i]->membership != NULL)
            membership_each(lb->applications[i]->membership, forget_one, &s);
    }
    if (why == NULL && (s.napps == 0 || (s.workers == 0 && s.order.worker.len != 0)))
        why = set_problem(&s, 404, s.napps == 0 ? "no such application" : "no such worker");
    if (why != NULL)
        return actions_reject(&s, body, why);
    shared_responses_clear(lb->responses);
    admin_action_forgotten(body, s.workers, s.scores);
    admin_action_fini(&s.order);
    return 200;
}

/* ---- reload ---- */

static int reload_configuration(void *context, struct slice entity, struct text *body)
{
    struct lb *lb = context;
    struct text problems = {0};
    int status = 200;

    if (slice_trim(entity).len != 0 && !slice_is(slice_trim(entity), "{}"))
        return admin_action_reject(body, 400, "reload takes no members");
    if (lb->phase != LB_SERVING)
        return admin_action_reject(body, 409, "not serving");
    if (lb->reload(lb, &problems)) {
        shared_responses_clear(lb->responses);
        text_add(body, SLICE_LIT("{\"action\":\"reload\"}\n"));
    } else {
        status = admin_action_reject(
            body, 409, problems.len != 0 ? text_cstr(&problems) : "rejected; see the log");
    }
    text_fini(&problems);
    return status;
}

/* ---- workers ---- */

static void call_worker(void *context, struct admin_item *i)
{
    struct lb *lb = context;
    struct action_search s = {.status = 400};
    struct worker_call call;
    const char *why = worker_call_read(&call, i->put, i->name, i->content);

    if (why == NULL && i->query.p != NULL)
        why = "a query is not accepted: application and ttl are members of the body";
    s.order.application = text_slice(&call.application);
    if (why == NULL)
        why = find_application(lb, &s);
    if (why == NULL && s.app->membership == NULL)
        why = set_problem(&s, 503, "the application is ending");
    if (why == NULL) {
        membership_call(s.app->membership, &call, i);
        shared_responses_clear(lb->responses);
    } else {
        i->status = admin_action_reject(&i->body, s.status, why);
        admin_item_respond(i);
    }
    worker_call_fini(&call);
}

void actions_add(struct lb *lb, struct admin *a)
{
    admin_add_body_action(a, "/actions/drain", actions_drain, lb);
    admin_add_body_action(a, "/actions/undrain", undrain_workers, lb);
    admin_add_body_action(a, "/actions/confirm-removal", confirm_removal, lb);
    admin_add_body_action(a, "/actions/forget", forget_skills, lb);
    admin_add_body_action(a, "/actions/reload", reload_configuration, lb);
    admin_add_items(a, "/workers/", call_worker, lb);
}
