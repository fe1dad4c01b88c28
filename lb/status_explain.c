/* SPDX-License-Identifier: Apache-2.0
 *
 * /explain?application=NAME&class=CLASS: who would get a request of the class now, and why. The
 * class is as it stands in the access log and on the status page (encoded); percent signs are
 * escaped as in any query. What is not understood is refused, with a reason as JSON; so is what is
 * said twice.
 */
#include "lb/status.h"

#include <string.h>

#include "common/base/clock.h"
#include "common/wire/explain_query.h"
#include "common/wire/json.h"
#include "lb/application.h"
#include "lb/lb.h"
#include "lb/pool.h"

static struct application *find(struct lb *lb, const struct explain_query *a, const char **why)
{
    if (!a->has_application) {
        *why = lb->napplications != 1 ? "application is missing, and there are several" : NULL;
        return lb->napplications == 1 ? lb->applications[0] : NULL;
    }
    for (size_t i = 0; i < lb->napplications; ++i) {
        struct application *app = lb->applications[i];

        if (strlen(app->name) == a->application_len &&
            memcmp(app->name, a->application, a->application_len) == 0)
            return app;
    }
    *why = "no such application";
    return NULL;
}

static void put_candidates(struct json_writer *w, const struct pool_explain *e)
{
    json_open_array(w, "candidates");
    for (size_t i = 0; i < e->ncandidates; ++i) {
        const struct explain_candidate *c = &e->candidates[i];

        json_open_object(w, NULL);
        json_put_text(w, "worker", slice_of(worker_name(c->worker)));
        json_put_real(w, "score", c->score);
        json_put_int(w, "backlog", (int64_t)c->backlog);
        json_put_real(w, "work_s", c->work_s);
        json_put_bool(w, "chosen", c->why == NULL);
        if (c->why != NULL)
            json_put_text(w, "passed_over", slice_of(c->why));
        json_close_object(w);
    }
    json_close_array(w);
}

static void put_steps(struct json_writer *w, const struct pool_explain *e)
{
    json_open_array(w, "steps");
    for (size_t i = 0; i < e->nsteps; ++i) {
        json_open_object(w, NULL);
        json_put_text(w, "step", slice_of(e->steps[i].name));
        json_put_int(w, "before", (int64_t)e->steps[i].before);
        json_put_int(w, "after", (int64_t)e->steps[i].after);
        json_close_object(w);
    }
    json_close_array(w);
    json_open_object(w, "values");
    for (size_t i = 0; i < e->nvalues; ++i)
        json_put_real(w, e->values[i].name, e->values[i].value);
    json_close_object(w);
}

static void put_explanation(struct json_writer *w, const struct application *app, struct slice cls,
                            const struct pool_explain *e)
{
    json_open_object(w, NULL);
    json_put_text(w, "application", slice_of(app->name));
    json_put_text(w, "class", cls);
    json_put_text(w, "policy", slice_of(e->policy));
    json_put_int(w, "workers", (int64_t)e->workers);
    json_put_text(w, "worker", e->worker != NULL ? slice_of(worker_name(e->worker)) : SLICE_NULL);
    json_put_text(w, "reason",
                  e->worker != NULL ? slice_of(pick_reason_text(e->reason)) : SLICE_NULL);
    json_put_int(w, "considered", (int64_t)e->considered);
    put_candidates(w, e);
    put_steps(w, e);
    json_close_object(w);
}

static int refuse(struct text *body, int status, const char *why)
{
    struct json_writer w = {.out = body};

    json_open_object(&w, NULL);
    json_put_text(&w, "error", slice_of(why));
    json_close_object(&w);
    text_add_char(body, '\n');
    return status;
}

int status_explain(struct lb *lb, struct slice query, struct text *body)
{
    struct explain_query a;
    struct json_writer w = {.out = body};
    struct pool_explain e;

    const char *why = explain_query_parse(query, &a);
    if (why != NULL)
        return refuse(body, 400, why);
    struct application *app = find(lb, &a, &why);
    if (app == NULL)
        return refuse(body, a.has_application ? 404 : 400, why);
    struct slice cls = {a.cls, a.cls_len};
    struct pool_request r = {.cls = cls};
    pool_explain(app->pool, &r, clock_mono_us(), &e);
    put_explanation(&w, app, cls, &e);
    text_add_char(body, '\n');
    pool_explain_fini(&e);
    return 200;
}
