/* SPDX-License-Identifier: Apache-2.0
 *
 * ACCOUNT: each exchange comes here once, with one outcome. The request is still there, but
 * for tunnels, which keep the text of it that the access line needs.
 */
#include "lb/access/access_log.h"
#include "lb/core/traffic.h"
#include "lb/request/exchange.h"
#include "lb/request/headers.h"

#include <stdlib.h>
#include <time.h>

enum {
    /* Status in the log if the client closed before there was one, as in nginx. */
    STATUS_CLIENT_GONE = 499,
    /* Shorter times are not waiting, but processing. */
    WAIT_US_MIN = 1000,
};

/* Finds the first field of each name; empty if there is none. */
static void find_fields(const struct http_request *req, struct slice *referer, struct slice *agent)
{
    const struct message_field *f = req->fields.at;

    *referer = *agent = SLICE_NULL;
    for (size_t n = req->fields.n; n != 0; --n, ++f) {
        if (f->kind == FIELD_REFERER && referer->p == NULL)
            *referer = f->value;
        else if (f->kind == FIELD_USER_AGENT && agent->p == NULL)
            *agent = f->value;
    }
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

    *t = (struct exchange_text){
        .method = x->req->method,
        .target = x->req->target,
        .host = x->authority,
        .request_id = x->request_id,
    };
    find_fields(x->req, &t->referer, &t->agent);
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

static const char *protocol_text(int version)
{
    if (version == 0)
        return NULL;
    if (version >= 0x200)
        return "HTTP/2.0";
    return version == 0x100 ? "HTTP/1.0" : "HTTP/1.1";
}

static uint64_t between(uint64_t from_us, uint64_t to_us)
{
    return from_us != 0 && to_us > from_us ? to_us - from_us : 0;
}

/*
 * Whether access_log_keep_errors applies: the load balancer or a worker caused the error, or the
 * cause is unknown.
 */
static bool is_error(const struct exchange *x)
{
    return x->status >= 500 || x->status == 0 || x->outcome == OUTCOME_CLIENT_GONE ||
           x->outcome == OUTCOME_CUT_SHORT || x->outcome == OUTCOME_RESPONSE_TIMEOUT;
}

static struct slice worker_of(const struct exchange *x)
{
    return x->last != NULL ? worker_name_slice(x->last) : SLICE_NULL;
}

/* Assigned one by one: an initializer would be built elsewhere and copied. */
static void put_figures(const struct exchange *x, uint64_t total_us, struct access_fixed *out)
{
    out->wall_ms = x->start_wall_ms;
    out->status = x->status != 0 ? (uint64_t)x->status : STATUS_CLIENT_GONE;
    out->sent_bytes = x->sent_bytes;
    out->backlog = x->last != NULL ? x->pick.backlog : 0;
    out->tries = x->picks;
    out->received_bytes = x->received_bytes;
    out->limit_wait_us = x->step_us[STEP_LIMIT];
    out->worker_wait_us = x->step_us[STEP_ROUTE];
    out->connection_wait_us = x->step_us[STEP_CONNECT];
    out->first_byte_us = between(x->times.written_us, x->times.first_byte_us);
    out->service_us = x->service_us;
    out->deliver_us = x->step_us[STEP_DELIVER];
    out->total_us = total_us;
    out->protocol = protocol_text(x->version);
    out->application = x->app != NULL ? x->app->name : NULL;
    out->reason = x->last != NULL ? pick_reason_text(x->reason) : NULL;
    out->outcome = outcome_text(x->outcome);
}

/* Values of the request, or stored copies of them, in the order of access_field.def. */
static void put_texts(const struct exchange *x, struct access_pen *p)
{
    const struct exchange_text *t = x->text;
    struct slice referer = t != NULL ? t->referer : SLICE_NULL;
    struct slice agent = t != NULL ? t->agent : SLICE_NULL;

    if (t == NULL)
        find_fields(x->req, &referer, &agent);
    access_record_put(p, ACCESS_TEXT_client, x->client);
    access_record_put(p, ACCESS_TEXT_method, t != NULL ? t->method : x->req->method);
    access_record_put(p, ACCESS_TEXT_target, t != NULL ? t->target : x->req->target);
    access_record_put(p, ACCESS_TEXT_referer, referer);
    access_record_put(p, ACCESS_TEXT_agent, agent);
    access_record_put(p, ACCESS_TEXT_host, t != NULL ? t->host : x->authority);
    access_record_put(p, ACCESS_TEXT_cls, x->cls);
    access_record_put(p, ACCESS_TEXT_worker, worker_of(x));
    access_record_put(p, ACCESS_TEXT_request_id, t != NULL ? t->request_id : x->request_id);
    access_record_put(p, ACCESS_TEXT_trace_id, x->trace_id);
    access_record_put(p, ACCESS_TEXT_span_id, x->span_id);
}

static void write_line(const struct exchange *x, uint64_t total_us)
{
    struct access_log *log = x->home->lb->access_log;

    if (!access_log_wants(log, x->home->index, is_error(x)))
        return;
    struct text *records = access_log_begin(log, x->home->index);
    if (records == NULL)
        return;
    struct access_pen p = access_record_begin(records);
    put_figures(x, total_us, &p.record->fixed);
    put_texts(x, &p);
    access_record_end(&p, records);
    access_log_end(log, x->home->index);
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

/* Returns the time until the head of the response, or the total time of a response of the load
 * balancer. */
static uint64_t response_us(const struct exchange *x, uint64_t total_us)
{
    uint64_t first_us = x->times.first_byte_us;

    return first_us > x->start_us ? first_us - x->start_us : total_us;
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
    stat_observe(c, APP_STAT_response_us, response_us(x, total_us));
    if (!x->tunnel)
        stat_observe(c, APP_STAT_total_us, total_us);
    exchange_count(&x->al->outcomes[x->outcome]);
}

void account_refused(const struct lb_loop *home, const struct http_refusal *r)
{
    char client[ADDR_TEXT_MAX];

    exchange_count(&home->lb->unrouted[OUTCOME_REFUSED]);
    if (home->lb->access_log == NULL ||
        !access_log_wants(home->lb->access_log, home->index, r->status >= 500))
        return;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct access_entry e = {
        .fixed.wall_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000,
        .client = addr_host_slice(http_conn_peer(r->conn), client),
        .method = r->method,
        .target = r->target,
        .fixed.protocol = protocol_text(r->version),
        /* If the connection was closed, or ended by GOAWAY, the status that corresponds to the
         * fault. */
        .fixed.status = (uint64_t)(r->status != 0 ? r->status : request_fault_status(r->fault)),
        .host = r->host,
        .fixed.reason = request_fault_text(r->fault),
        .fixed.outcome = outcome_text(OUTCOME_REFUSED),
    };

    access_log_add(home->lb->access_log, home->index, &e);
}

static bool is_limited(const struct exchange *x)
{
    switch (x->outcome) {
    case OUTCOME_RATE_LIMITED:
    case OUTCOME_LIMIT_FULL:
    case OUTCOME_LIMIT_TIMEOUT:
    case OUTCOME_LIMIT_UNREACHABLE:
    case OUTCOME_LIMIT_CONNECTIONS:
    case OUTCOME_STALE:
    case OUTCOME_COALESCED:
        return true;
    default:
        return x->step_us[STEP_LIMIT] >= WAIT_US_MIN;
    }
}

static bool is_skilled(enum pick_reason r)
{
    return r == PICK_SKILLED || r == PICK_HOME || r == PICK_WARM;
}

static bool is_spill(enum pick_reason r)
{
    return r == PICK_SPILL || r == PICK_DRAW || r == PICK_DETOUR || r == PICK_COPY;
}

/* Records the request for the status page. */
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
        .worker = worker_of(x),
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
        exchange_count(&x->home->lb->unrouted[x->outcome]);
    }
    if (x->home->lb->access_log != NULL)
        write_line(x, total_us);
}
