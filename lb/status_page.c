/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of pages, the small ones among them, and the live page, whose files (lb/assets, and the
 * style that all programs share) the build turns into assets.h. The page is three files because its
 * Content-Security-Policy allows nothing inline.
 */
#include "lb/status.h"

#include "assets.h"
#include "lb/actions.h"
#include "lb/lb_parts.h"

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

static int page_explain(void *context, struct slice query, struct text *body)
{
    return status_explain(context, query, body);
}

static int page_metrics(void *context, struct slice query, struct text *body)
{
    (void)query;
    status_metrics(context, body);
    return 200;
}

static int page_health(void *context, struct slice query, struct text *body)
{
    (void)context;
    (void)query;
    text_add(body, SLICE_LIT("ok\n"));
    return 200;
}

static bool has_worker(struct application *a)
{
    pthread_mutex_lock(&a->members_lock);
    bool any = a->navailable > 0;
    pthread_mutex_unlock(&a->members_lock);
    return any;
}

/* Whether new requests should come here; each reason why not is a line. */
static int page_ready(void *context, struct slice query, struct text *body)
{
    struct lb *lb = context;

    (void)query;
    if (lb_phase(lb) == LB_STARTING)
        text_add(body, SLICE_LIT("starting\n"));
    if (lb_phase(lb) >= LB_DRAINING)
        text_add(body, SLICE_LIT("draining\n"));
    for (size_t i = 0; i < lb->napplications; ++i) {
        if (!has_worker(lb->applications[i]))
            text_addf(body, "application %s has no worker\n", lb->applications[i]->name);
    }
    if (body->len > 0)
        return 503;
    text_add(body, SLICE_LIT("ready\n"));
    return 200;
}

void status_add(struct lb *lb, struct admin *a)
{
    static const char json[] = "application/json";
    static const char plain[] = "text/plain; charset=utf-8";

    admin_add_bytes(a, "/", "text/html; charset=utf-8",
                    (struct slice){(const char *)asset_status_html, sizeof(asset_status_html)});
    admin_add_bytes(a, "/status.js", "text/javascript; charset=utf-8",
                    (struct slice){(const char *)asset_status_js, sizeof(asset_status_js)});
    admin_add_style(a);
    admin_add(a, "/status.json", json, page_status, lb);
    admin_add(a, "/resumes.json", json, page_resumes, lb);
    admin_add(a, "/explain", json, page_explain, lb);
    admin_add(a, "/metrics", "text/plain; version=0.0.4; charset=utf-8", page_metrics, lb);
    admin_add(a, "/healthz", plain, page_health, lb);
    actions_add(lb, a);
    admin_add(a, "/readyz", plain, page_ready, lb);
}
