/* SPDX-License-Identifier: Apache-2.0
 *
 * ACCOUNT: each exchange comes here once, with one outcome. libh2o's request is still there, but
 * for tunnels, which keep the text of it that the access line needs.
 */
#include "lb/access_log.h"
#include "lb/exchange.h"
#include "lb/headers.h"
#include "lb/traffic.h"

#include <stdlib.h>
#include <time.h>

enum {
    /* As nginx counts it: the client left before there was a status. */
    STATUS_CLIENT_GONE = 499,
    /* Shorter is not waiting, but the way through. */
    WAIT_US_MIN = 1000,
};

static struct exchange_text text_of(const struct exchange *x)
{
    const h2o_req_t *req = x->req;

    struct exchange_text t = {
        .method = slice_of_iovec(req->method),
        .target = slice_of_iovec(req->path),
        .host = x->authority,
        .request_id = x->request_id,
    };

    /* libh2o names fields that it knows by its own tokens. */
    for (size_t i = 0; i < req->headers.size; ++i) {
        const h2o_header_t *h = &req->headers.entries[i];

        if (h->name == &H2O_TOKEN_REFERER->buf && t.referer.p == NULL)
            t.referer = slice_of_iovec(h->value);
        else if (h->name == &H2O_TOKEN_USER_AGENT->buf && t.agent.p == NULL)
            t.agent = slice_of_iovec(h->value);
    }
    return t;
}

static void move(struct slice *s, char **at)
{
    if (s->len != 0)
        memcpy(*at, s->p, s->len);
    s->p = *at;
    *at += s->len;
}

void account_keep_text(struct exchange *x)
{
    struct exchange_text *t = xmalloc(sizeof(*t));

    *t = text_of(x);
    t->bytes = xmalloc(t->method.len + t->target.len + t->referer.len + t->agent.len + t->host.len +
                       t->request_id.len);
    char *at = t->bytes;

    move(&t->method, &at);
    move(&t->target, &at);
    move(&t->referer, &at);
    move(&t->agent, &at);
    move(&t->host, &at);
    move(&t->request_id, &at);
    x->text = t;
}

static struct slice protocol_text(int version)
{
    if (version == 0)
        return SLICE_NULL;
    if (version >= 0x200)
        return SLICE_LIT("HTTP/2.0");
    return version == 0x100 ? SLICE_LIT("HTTP/1.0") : SLICE_LIT("HTTP/1.1");
}

static uint64_t between(uint64_t from_us, uint64_t to_us)
{
    return from_us != 0 && to_us > from_us ? to_us - from_us : 0;
}

/* What access_log_keep_errors is about: nobody but us or a worker is to blame, or nobody knows. */
static bool is_error(const struct exchange *x)
{
    return x->status >= 500 || x->status == 0 || x->outcome == OUTCOME_CLIENT_GONE ||
           x->outcome == OUTCOME_CUT_SHORT || x->outcome == OUTCOME_RESPONSE_TIMEOUT;
}

static void write_line(const struct exchange *x, uint64_t total_us)
{
    if (!access_log_wants(x->home->lb->access_log, x->home->index, is_error(x)))
        return;

    struct exchange_text now = {0};
    const struct exchange_text *t = x->text;

    if (t == NULL) {
        now = text_of(x);
        t = &now;
    }
    struct access_entry e = {
        .wall_ms = x->start_wall_ms,
        .client = x->client,
        .method = t->method,
        .target = t->target,
        .protocol = protocol_text(x->version),
        .status = x->status != 0 ? (uint64_t)x->status : STATUS_CLIENT_GONE,
        .sent_bytes = x->sent_bytes,
        .referer = t->referer,
        .agent = t->agent,
        .host = t->host,
        .application = x->app != NULL ? slice_of(x->app->name) : SLICE_NULL,
        .cls = x->cls,
        .worker = x->last != NULL ? slice_of(worker_name(x->last)) : SLICE_NULL,
        .reason = x->last != NULL ? slice_of(pick_reason_text(x->reason)) : SLICE_NULL,
        .backlog = x->pick.backlog,
        .tries = x->picks,
        .received_bytes = x->received_bytes,
        .limit_wait_us = x->step_us[STEP_LIMIT],
        .worker_wait_us = x->step_us[STEP_ROUTE],
        .connection_wait_us = x->step_us[STEP_CONNECT],
        .first_byte_us = between(x->times.written_us, x->times.first_byte_us),
        .service_us = x->service_us,
        .deliver_us = x->step_us[STEP_DELIVER],
        .total_us = total_us,
        .outcome = slice_of(outcome_text(x->outcome)),
        .request_id = t->request_id,
        .trace_id = x->trace_id,
        .span_id = x->span_id,
    };

    access_log_add(x->home->lb->access_log, x->home->index, &e);
}

static void count_status(struct stats_cell *c, int status)
{
    if (status >= 500)
        stat_add(c, APP_STAT_responses_5xx, 1);
    else if (status >= 400)
        stat_add(c, APP_STAT_responses_4xx, 1);
    else if (status >= 300)
        stat_add(c, APP_STAT_responses_3xx, 1);
    else if (status >= 200)
        stat_add(c, APP_STAT_responses_2xx, 1);
}

static void count(const struct exchange *x, uint64_t total_us)
{
    struct stats_cell *c = x->al->stats;

    stat_add(c, APP_STAT_requests_active, -1);
    stat_add(c, APP_STAT_client_sent_bytes, (int64_t)x->sent_bytes);
    count_status(c, x->status);
    if (x->limits != NULL)
        stat_observe(c, APP_STAT_wait_limit_us, x->step_us[STEP_LIMIT]);
    stat_observe(c, APP_STAT_wait_worker_us, x->step_us[STEP_ROUTE]);
    if (x->picks != 0)
        stat_observe(c, APP_STAT_wait_connection_us, x->step_us[STEP_CONNECT]);
    stat_observe(c, APP_STAT_deliver_us, x->step_us[STEP_DELIVER]);
    stat_observe(c, APP_STAT_total_us, total_us);
    atomic_fetch_add_explicit(&x->al->outcomes[x->outcome], 1, memory_order_relaxed);
}

void account_refused(const struct lb_loop *home, const struct http_refusal *r)
{
    char client[ADDR_TEXT_MAX];

    atomic_fetch_add_explicit(&home->lb->unrouted[OUTCOME_REFUSED], 1, memory_order_relaxed);
    if (home->lb->access_log == NULL ||
        !access_log_wants(home->lb->access_log, home->index, r->status >= 500))
        return;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct access_entry e = {
        .wall_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000,
        .client = slice_of(addr_host(http_conn_peer(r->conn), client)),
        .method = r->method,
        .target = r->target,
        .protocol = protocol_text(r->version),
        .status = (uint64_t)r->status,
        .host = r->host,
        .reason = slice_of(request_fault_text(r->fault)),
        .outcome = slice_of(outcome_text(OUTCOME_REFUSED)),
    };

    access_log_add(home->lb->access_log, home->index, &e);
}

static bool is_limited(const struct exchange *x)
{
    static const enum outcome ends[] = {OUTCOME_RATE_LIMITED,  OUTCOME_LIMIT_FULL,
                                        OUTCOME_LIMIT_TIMEOUT, OUTCOME_LIMIT_UNREACHABLE,
                                        OUTCOME_STALE,         OUTCOME_COALESCED};

    for (size_t i = 0; i < ARRAY_LEN(ends); ++i) {
        if (x->outcome == ends[i])
            return true;
    }
    return x->step_us[STEP_LIMIT] >= WAIT_US_MIN;
}

static bool is_skilled(enum pick_reason r)
{
    return r == PICK_SKILLED || r == PICK_HOME || r == PICK_WARM;
}

static bool is_spill(enum pick_reason r)
{
    return r == PICK_SPILL || r == PICK_DRAW || r == PICK_DETOUR || r == PICK_COPY;
}

/* For the status page. */
static void note(const struct exchange *x, uint64_t total_us)
{
    bool failed = x->status >= 500 || (x->status == 0 && x->outcome != OUTCOME_CLIENT_GONE);
    bool placed = x->last != NULL;
    unsigned flags = (placed && is_skilled(x->reason) ? TRAFFIC_SKILLED : 0) |
                     (placed && is_spill(x->reason) ? TRAFFIC_SPILLED : 0) |
                     (failed ? TRAFFIC_FAILED : 0) | (is_limited(x) ? TRAFFIC_LIMITED : 0) |
                     (x->step_us[STEP_ROUTE] >= WAIT_US_MIN ? TRAFFIC_WAITED : 0);
    struct traffic_note n = {
        .application = x->app->number,
        .flags = flags,
        .cls = x->cls,
        .worker = placed ? slice_of(worker_name(x->last)) : SLICE_NULL,
        .total_us = total_us,
        .wait_us = x->step_us[STEP_ROUTE] + x->step_us[STEP_CONNECT],
    };

    traffic_add(x->home->traffic, &n);
}

void account(const struct exchange *x)
{
    uint64_t total_us = loop_now_us(x->home->loop) - x->start_us;

    if (x->al != NULL) {
        count(x, total_us);
        note(x, total_us);
    } else {
        atomic_fetch_add_explicit(&x->home->lb->unrouted[x->outcome], 1, memory_order_relaxed);
    }
    if (x->home->lb->access_log != NULL)
        write_line(x, total_us);
}
