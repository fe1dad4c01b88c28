/* SPDX-License-Identifier: Apache-2.0
 *
 * /explain?application=NAME&class=CLASS, or url=URL: the worker that a request of the class, or a
 * GET of the URL, would be routed to now, and why; and what shadow_policy would do. The class is in
 * the form of the access log and the status page (encoded); percent signs are escaped as in any
 * query. A query that is not understood is rejected, with a reason as JSON; so is a duplicate
 * parameter.
 */
#include "lb/status/status.h"

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/program/admin.h"
#include "common/wire/url_line.h"
#include "lb/core/application.h"
#include "lb/core/lb.h"
#include "lb/rules/classify.h"
#include "routing/pool.h"

/* ---- the query ---- */

/* Sets OUT to a decoded value of the query; '+' is unchanged. Returns false if it is invalid. */
static bool unescape_value(struct explain_query *q, struct slice s, struct slice *out)
{
    char *at = q->text + q->used;

    for (size_t i = 0; i < s.len; ++i) {
        if (s.p[i] == '%' &&
            (s.len - i < 3 || ascii_hex_digit(s.p[i + 1]) < 0 || ascii_hex_digit(s.p[i + 2]) < 0))
            return false;
    }
    ASSERT(s.len <= sizeof(q->text) - q->used); /* no longer than the query */
    *out = (struct slice){at, percent_decode(s, at, s.len)};
    q->used += out->len;
    return true;
}

const char *explain_query_parse(struct slice query, struct explain_query *out)
{
    struct url_line u;

    out->application = out->cls = out->url = SLICE_NULL;
    out->used = 0;
    if (query.len > EXPLAIN_QUERY_MAX)
        return "the query is too long";
    while (query.len != 0) {
        struct slice value = slice_cut(&query, '&');
        struct slice name = slice_cut(&value, '=');

        if (slice_is(name, "class")) {
            if (out->cls.p != NULL)
                return "duplicate class";
            if (!unescape_value(out, value, &out->cls) || !resume_is_class(out->cls))
                return "class: expected up to 255 visible ASCII characters, percent-encoded";
        } else if (slice_is(name, "url")) {
            if (out->url.p != NULL)
                return "duplicate url";
            if (!unescape_value(out, value, &out->url))
                return "url is not percent-encoded";
            if (url_line_parse(out->url, &u) != NULL)
                return "url: expected http://HOST/PATH or /PATH";
        } else if (slice_is(name, "application")) {
            if (out->application.p != NULL)
                return "duplicate application";
            if (!unescape_value(out, value, &out->application) ||
                out->application.len > EXPLAIN_APPLICATION_MAX)
                return "application is not a name";
        } else {
            return "unknown parameter: class, url and application are known";
        }
    }
    if (out->cls.p != NULL && out->url.p != NULL)
        return "class or url, not both";
    return out->cls.p != NULL || out->url.p != NULL ? NULL : "class or url is missing";
}

/* ---- the response ---- */

static bool no_header(unused_ const void *context, unused_ size_t i, unused_ struct slice *name,
                      unused_ struct slice *value)
{
    return false;
}

/* Writes the class of a GET of U, with Host as its only field, to OUT; returns its length. */
static size_t class_of_url(const struct application *app, const struct url_line *u,
                           char out[CLASS_BYTES_MAX])
{
    static const struct addr nobody;
    bool stripped =
        app->path.len != 0 && app->settings->s.strip_prefix && slice_starts(u->path, app->path);
    struct text path = {0};
    struct slice rest = u->path;

    if (stripped)
        rest = (struct slice){rest.p + app->path.len, rest.len - app->path.len};
    if (rest.len == 0 || rest.p[0] != '/')
        text_add_char(&path, '/');
    text_add(&path, rest);
    struct classify_request r = {
        .method = SLICE_LIT("GET"),
        .script_name = stripped ? app->path : SLICE_NULL,
        .path = text_slice(&path),
        .query = u->query,
        .host = u->host,
        .protocol = SLICE_LIT("HTTP/1.1"),
        .tls = u->tls,
        .peer = &nobody,
        .local = &nobody,
        .content_length = UINT64_MAX,
        .header = no_header,
    };
    size_t len = classify_run(app->classifier, &r, out);
    text_fini(&path);
    return len;
}

static void put_choice(struct json_writer *w, const struct pool_explain *e)
{
    json_put_text(w, "policy", slice_of(e->policy));
    json_put_int(w, "workers", (int64_t)e->workers);
    json_put_text(w, "worker", e->worker != NULL ? slice_of(worker_name(e->worker)) : SLICE_NULL);
    json_put_text(w, "reason",
                  e->worker != NULL ? slice_of(pick_reason_text(e->reason)) : SLICE_NULL);
    json_put_text(w, "because",
                  e->worker != NULL ? slice_of(pick_reason_doc(e->reason)) : SLICE_NULL);
    json_put_int(w, "considered", (int64_t)e->considered);
    json_open_array(w, "candidates");
    for (size_t i = 0; i < e->ncandidates; ++i) {
        const struct explain_candidate *c = &e->candidates[i];

        json_open_object(w, NULL);
        json_put_text(w, "worker", slice_of(worker_name(c->worker)));
        json_put_real(w, "criterion", c->criterion);
        json_put_int(w, "backlog", (int64_t)c->backlog);
        json_put_real(w, "work_s", c->work_s);
        json_put_bool(w, "chosen", c->why == NULL);
        if (c->why != NULL)
            json_put_text(w, "passed_over", slice_of(c->why));
        json_close_object(w);
    }
    json_close_array(w);
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

int status_explain(void *context, struct slice query, struct text *body)
{
    struct lb *lb = context;
    struct explain_query a;
    struct json_writer w = {.out = body};
    struct pool_explain e, shadow;

    const char *why = explain_query_parse(query, &a);
    if (why != NULL)
        return admin_action_reject(body, 400, why);
    struct url_line u;
    bool has_url = a.url.p != NULL;
    if (has_url)
        why = url_line_parse(a.url, &u);
    ASSERT(why == NULL);
    struct application *app = NULL;
    if (a.application.p != NULL) {
        why = "no such application";
        for (size_t i = 0; i < lb->napplications && app == NULL; ++i) {
            if (slice_is(a.application, lb->applications[i]->name))
                app = lb->applications[i];
        }
    } else if (has_url) {
        why = "no application for this host and path";
        app = application_find(lb, u.host, u.path);
    } else if (lb->napplications == 1) {
        app = lb->applications[0];
    } else {
        why = "application is missing, and there are several";
    }
    if (app == NULL)
        return admin_action_reject(body, a.application.p != NULL || has_url ? 404 : 400, why);
    char room[CLASS_BYTES_MAX];
    if (has_url)
        a.cls = (struct slice){room, class_of_url(app, &u, room)};
    struct pool_request r = {.cls = a.cls};
    pool_explain(app->pool, &r, clock_mono_us(), &e);
    bool shadowed = pool_explain_shadow(app->pool, &r, clock_mono_us(), &shadow);
    json_open_object(&w, NULL);
    json_put_text(&w, "application", slice_of(app->name));
    json_put_text(&w, "class", a.cls);
    put_choice(&w, &e);
    if (shadowed) {
        json_open_object(&w, "shadow");
        put_choice(&w, &shadow);
        json_close_object(&w);
    }
    json_close_object(&w);
    text_add_char(body, '\n');
    pool_explain_fini(&e);
    pool_explain_fini(&shadow);
    return 200;
}
