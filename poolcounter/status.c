/* SPDX-License-Identifier: Apache-2.0 */
#include "poolcounter/status.h"

#include "assets.h"

/* ---- the table of pages ---- */

static void take_snapshot(struct server *s, void *context)
{
    server_snapshot(s, context);
}

static int page_json(void *context, struct slice query, struct text *body)
{
    const struct poolcounter *p = context;
    struct server_snapshot snapshot;

    (void)query;
    server_ask(p->server, take_snapshot, &snapshot);
    status_json(&snapshot, p->stats, body);
    server_snapshot_fini(&snapshot);
    return 200;
}

static void page_metrics(void *context, struct metrics *m)
{
    const struct poolcounter *p = context;
    struct server_snapshot snapshot;

    server_ask(p->server, take_snapshot, &snapshot);
    status_metrics(&snapshot, p->stats, m);
    server_snapshot_fini(&snapshot);
}

static int page_health(void *context, struct slice query, struct text *body)
{
    (void)context;
    (void)query;
    text_add(body, SLICE_LIT("ok\n"));
    return 200;
}

static int page_ready(void *context, struct slice query, struct text *body)
{
    const struct poolcounter *p = context;

    (void)query;
    text_add(body, p->handed_over ? SLICE_LIT("handed over\n") : SLICE_LIT("ready\n"));
    return p->handed_over ? 503 : 200;
}

void status_add(struct poolcounter *p)
{
    admin_add_status_page(
        p->admin, (struct slice){(const char *)asset_page_js, sizeof(asset_page_js)}, page_json, p);
    admin_add(p->admin, "/status.json", "application/json", page_json, p);
    admin_add_metrics(p->admin, page_metrics, p);
    admin_add(p->admin, "/healthz", "text/plain; charset=utf-8", page_health, p);
    admin_add(p->admin, "/readyz", "text/plain; charset=utf-8", page_ready, p);
}
