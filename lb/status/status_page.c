/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of pages, the small ones among them, and the state that the status page shows
 * (lb/status/assets/page.js).
 */
#include "lb/backends/peers.h"
#include "lb/status/status.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "assets.h"
#include "common/base/clock.h"
#include "lb/backends/membership.h"
#include "lb/core/limits_live.h"
#include "lb/status/observer.h"

enum { STATUS_WORKERS_MAX = 200 /* rows of workers; the search finds the others */ };

/* ---- shared responses ---- */

struct shared_response {
    struct text response;
    uint64_t until_us; /* 0: nothing is stored */
};

struct shared_responses {
    struct shared_response pages[SHARED_PAGES];
};

struct shared_responses *shared_responses_create(void)
{
    return xcalloc(1, sizeof(struct shared_responses));
}

void shared_responses_clear(struct shared_responses *s)
{
    for (size_t i = 0; i < SHARED_PAGES; ++i) {
        text_fini(&s->pages[i].response);
        s->pages[i].until_us = 0;
    }
}

void shared_responses_destroy(struct shared_responses *s)
{
    if (s == NULL)
        return;
    shared_responses_clear(s);
    free(s);
}

bool shared_responses_take(const struct shared_responses *s, enum shared_page page, uint64_t now_us,
                           struct text *out)
{
    const struct shared_response *k = &s->pages[page];

    if (now_us >= k->until_us)
        return false;
    text_add(out, text_slice(&k->response));
    return true;
}

void shared_responses_store(struct shared_responses *s, enum shared_page page, uint64_t now_us,
                            uint64_t cost_us, struct slice response)
{
    struct shared_response *k = &s->pages[page];
    uint64_t age = cost_us < SHARED_RESPONSE_MAX_US / SHARED_RESPONSE_TIMES
                       ? cost_us * SHARED_RESPONSE_TIMES
                       : SHARED_RESPONSE_MAX_US;

    if (cost_us < SHARED_RESPONSE_FROM_US) {
        if (now_us >= k->until_us)
            text_fini(&k->response);
        return;
    }
    text_clear(&k->response);
    text_add(&k->response, response);
    k->until_us = now_us + age;
}

/* ---- what may be large ---- */

static uint64_t thread_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

/* Appends the stored response, or a new one. */
static int lb_status_respond(struct lb *lb, enum shared_page page, struct text *body)
{
    if (shared_responses_take(lb->responses, page, clock_mono_us(), body))
        return 200;
    uint64_t from_us = thread_us();

    if (page == SHARED_STATUS)
        status_json(lb, &(struct status_choice){.workers_max = 0}, body);
    else if (page == SHARED_RESUMES)
        status_resumes(lb, body);
    else
        status_metrics(lb, &(struct metrics){.out = body, .open = page == SHARED_OPEN_METRICS});
    shared_responses_store(lb->responses, page, clock_mono_us(), thread_us() - from_us,
                           text_slice(body));
    return 200;
}

static int page_status(void *context, unused_ struct slice query, struct text *body)
{
    return lb_status_respond(context, SHARED_STATUS, body);
}

static int page_resumes(void *context, unused_ struct slice query, struct text *body)
{
    return lb_status_respond(context, SHARED_RESUMES, body);
}

static void page_metrics(void *context, struct metrics *m)
{
    (void)lb_status_respond(context, m->open ? SHARED_OPEN_METRICS : SHARED_METRICS, m->out);
}

/*
 * ---- /settings.json ----
 *
 * Each effective setting with the source of its value, and rejected settings with the reason.
 * Secrets are not shown (settings_print).
 */

static int page_settings(void *context, unused_ struct slice query, struct text *body)
{
    const struct lb *lb = context;
    struct json_writer w = {.out = body};
    struct text value = {0};

    json_open_object(&w, NULL);
    json_open_object(&w, "program");
    json_put_text(&w, "file", slice_of(lb->file));
    json_open_object(&w, "settings");
    for (size_t i = 0; i < program_table.n; ++i) {
        const struct setting_row *row = &program_table.rows[i];

        if (row->type == SETTING_NODE)
            continue;
        text_clear(&value);
        settings_print(row, &lb->settings, &value);
        json_open_object(&w, row->name);
        json_put_text(&w, "value", text_slice(&value));
        json_put_text(&w, "origin", slice_of(setting_origin_text(lb->origins[i])));
        json_put_text(&w, "when", slice_of(setting_when_text(row->when)));
        json_close_object(&w);
    }
    json_close_object(&w);
    json_close_object(&w);
    text_fini(&value);
    json_open_object(&w, "applications");
    for (size_t i = 0; i < lb->napplications; ++i) {
        const struct application *a = lb->applications[i];

        json_open_object(&w, a->name);
        if (a->live != NULL)
            live_settings_describe(a->live, &w);
        if (a->limits != NULL)
            limits_live_describe(a->limits, &w);
        if (a->membership != NULL)
            membership_describe(a->membership, &w);
        json_close_object(&w);
    }
    json_close_object(&w);
    json_close_object(&w);
    text_add_char(body, '\n');
    return 200;
}

/* ---- small ones ---- */

/* With after=SERIAL, only later events. */
static int page_events(void *context, struct slice query, struct text *body)
{
    const struct lb *lb = context;
    struct slice prefix = SLICE_LIT("after=");
    uint64_t after = 0;

    if (slice_starts(query, prefix) &&
        !parse_u64((struct slice){query.p + prefix.len, query.len - prefix.len}, INT64_MAX, &after))
        after = 0;
    events_json(observer_events(lb->observer), after, clock_mono_us() / 1000, body);
    return 200;
}

/* ---- the page ---- */

/* Writes {"status": as in /status.json, "settings": ..., "events": ...} for the search text q=TEXT
 * of QUERY, which is form-encoded; it is truncated if too long. */
static int page_live(void *context, struct slice query, struct text *body)
{
    enum { SEARCH_BYTES_MAX = 300 };
    struct lb *lb = context;
    struct slice prefix = SLICE_LIT("q=");
    struct slice raw = SLICE_NULL;
    char q[SEARCH_BYTES_MAX];

    if (slice_starts(query, prefix)) {
        struct slice rest = {query.p + prefix.len, query.len - prefix.len};

        raw = slice_cut(&rest, '&');
    }
    char *form = xslicedup(raw);
    for (char *plus = form; (plus = strchr(plus, '+')) != NULL;)
        *plus = ' ';
    struct status_choice choice = {{q, percent_decode(slice_of(form), q, sizeof(q))},
                                   STATUS_WORKERS_MAX};
    free(form);
    text_add(body, SLICE_LIT("{\"status\":"));
    status_json(lb, &choice, body);
    --body->len; /* each document ends in a line break */
    text_add(body, SLICE_LIT(",\"settings\":"));
    (void)page_settings(lb, SLICE_NULL, body);
    --body->len;
    text_add(body, SLICE_LIT(",\"events\":"));
    events_json(observer_events(lb->observer), 0, clock_mono_us() / 1000, body);
    --body->len;
    text_add_char(body, '}');
    return 200;
}

/* Reports whether new requests should be sent here. Each reason against it is a line. */
static int lb_status_page_ready(void *context, unused_ struct slice query, struct text *body)
{
    struct lb *lb = context;

    if (lb->phase == LB_STARTING)
        text_add(body, SLICE_LIT("starting\n"));
    if (lb->phase >= LB_DRAINING)
        text_add(body, SLICE_LIT("draining\n"));
    for (size_t i = 0; i < lb->napplications; ++i) {
        struct application *a = lb->applications[i];

        pthread_mutex_lock(&a->members_lock);
        bool any = a->navailable > 0;
        pthread_mutex_unlock(&a->members_lock);
        if (!any)
            text_addf(body, "application %s has no worker\n", a->name);
    }
    if (body->len > 0)
        return 503;
    text_add(body, SLICE_LIT("ready\n"));
    return 200;
}

void status_add(struct lb *lb, struct admin *a)
{
    static const char json[] = "application/json";

    admin_add_status_page(a, (struct slice){(const char *)asset_page_js, sizeof(asset_page_js)},
                          page_live, lb);
    admin_add(a, "/settings.json", json, page_settings, lb);
    admin_add(a, "/events", json, page_events, lb);
    admin_add_stream(a, "/peers/stream", peers_serve, lb);
    admin_add(a, "/status.json", json, page_status, lb);
    admin_add(a, "/resumes.json", json, page_resumes, lb);
    admin_add(a, "/explain", json, status_explain, lb);
    admin_add_metrics(a, page_metrics, lb);
    admin_add_health(a, lb_status_page_ready, lb);
    actions_add(lb, a);
}
