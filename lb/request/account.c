/* SPDX-License-Identifier: Apache-2.0
 *
 * ACCOUNT: each exchange is accounted for once, with one outcome. The request still exists, except
 * for tunnels, which have copied the texts that the access line needs.
 */
#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "lb/access/access_log.h"
#include "lb/core/traffic.h"
#include "lb/request/exchange.h"

enum {
    /* Status in the log if the client closed before there was one, as in nginx. */
    STATUS_CLIENT_GONE = 499,
    /* Shorter times are not waiting, but processing. */
    WAIT_US_MIN = 1000,
};

/* The texts of the request. Of each field the first; empty if there is none. */
static void find_texts(const struct exchange *x, struct exchange_text *out)
{
    const struct message_field *f = x->req->fields.at;

    out->method = x->req->method;
    out->target = x->req->target;
    out->host = x->authority;
    out->request_id = x->request_id;
    out->referer = out->agent = SLICE_NULL;
    for (size_t n = x->req->fields.n; n != 0; --n, ++f) {
        if (f->kind == FIELD_REFERER && out->referer.p == NULL)
            out->referer = f->value;
        else if (f->kind == FIELD_USER_AGENT && out->agent.p == NULL)
            out->agent = f->value;
    }
}

void account_retain_text(struct exchange *x)
{
    struct exchange_text t;
    struct slice *const all[] = {&t.method, &t.target, &t.referer,
                                 &t.agent,  &t.host,   &t.request_id};
    size_t bytes = 0;

    find_texts(x, &t);
    for (size_t i = 0; i < ARRAY_LEN(all); ++i)
        bytes += all[i]->len;
    x->text = xmalloc(sizeof(t) + bytes);
    char *at = (char *)(x->text + 1);
    for (size_t i = 0; i < ARRAY_LEN(all); ++i) {
        char *end = put_slice(at, *all[i]);

        all[i]->p = at;
        at = end;
    }
    *x->text = t;
}

static const char *protocol_text(int version)
{
    if (version == 0)
        return NULL;
    if (version >= 0x200)
        return "HTTP/2.0";
    return version == 0x100 ? "HTTP/1.0" : "HTTP/1.1";
}

static void account_count(const struct exchange *x, uint64_t total_us)
{
    static const enum app_stat responses[] = {APP_STAT_responses_2xx, APP_STAT_responses_3xx,
                                              APP_STAT_responses_4xx, APP_STAT_responses_5xx};
    struct stats_cell *c = x->al->stats;

    stat_add(c, APP_STAT_requests_active, -1);
    stat_add(c, APP_STAT_client_sent_bytes, (int64_t)x->sent_bytes);
    if (x->status >= 200)
        stat_add(c, responses[x->status < 500 ? x->status / 100 - 2 : 3], 1);
    if (x->limits != NULL)
        stat_observe(c, APP_STAT_wait_limit_us, x->step_us[STEP_LIMIT]);
    stat_observe(c, APP_STAT_wait_worker_us, x->step_us[STEP_ROUTE]);
    if (x->picks != 0)
        stat_observe(c, APP_STAT_wait_connection_us, x->step_us[STEP_CONNECT]);
    stat_observe(c, APP_STAT_deliver_us, x->step_us[STEP_DELIVER]);
    /* The time until the head of the response, or the total time of the load balancer's own. */
    uint64_t first_us = x->times.first_byte_us;
    stat_observe(c, APP_STAT_response_us,
                 first_us > x->start_us ? first_us - x->start_us : total_us);
    if (!x->tunnel)
        stat_observe(c, APP_STAT_total_us, total_us);
    exchange_count(&x->al->outcomes[x->outcome]);
}

void account_rejected(void *front, const struct http_rejection *r)
{
    const struct lb_loop *lb_loop = ((const struct lb_front *)front)->lb_loop;
    char client[ADDR_TEXT_MAX];

    exchange_count(&lb_loop->lb->unrouted[OUTCOME_REJECTED]);
    if (lb_loop->lb->access_log == NULL ||
        !access_log_wants(lb_loop->lb->access_log, lb_loop->index, r->status >= 500))
        return;
    struct access_entry e = {
        .fixed.wall_ms = clock_wall_us() / 1000,
        .client = addr_host_slice(http_conn_peer(r->conn), client),
        .method = r->method,
        .target = r->target,
        .fixed.protocol = protocol_text(r->version),
        /* Without a response (closed, GOAWAY), the status that corresponds to the fault. */
        .fixed.status = (uint64_t)(r->status != 0 ? r->status : request_fault_status(r->fault)),
        .host = r->host,
        .fixed.reason = request_fault_text(r->fault),
        .fixed.outcome = outcome_text(OUTCOME_REJECTED),
    };

    access_log_add(lb_loop->lb->access_log, lb_loop->index, &e);
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

/* Records the request for the status page. */
static void note_traffic(const struct exchange *x, uint64_t total_us, bool failed)
{
    enum pick_reason r = x->last != NULL ? x->pick.reason : PICK_REASONS;
    bool skilled = r == PICK_SKILLED || r == PICK_HOME || r == PICK_WARM;
    bool overflow = r == PICK_OVERFLOW || r == PICK_REBALANCE || r == PICK_REPLICATE;
    unsigned flags = (skilled ? TRAFFIC_SKILLED : 0) | (overflow ? TRAFFIC_OVERFLOW : 0) |
                     (failed ? TRAFFIC_FAILED : 0) | (is_limited(x) ? TRAFFIC_LIMITED : 0) |
                     (x->step_us[STEP_ROUTE] >= WAIT_US_MIN ? TRAFFIC_WAITED : 0);
    struct traffic_note n = {
        .application = x->app->number,
        .flags = flags,
        .cls = x->cls,
        .worker = x->last != NULL ? worker_name_slice(x->last) : SLICE_NULL,
        .total_us = total_us,
        .wait_us = x->step_us[STEP_ROUTE] + x->step_us[STEP_CONNECT],
    };

    traffic_add(x->lb_loop->traffic, &n);
}

void account_exchange(const struct exchange *x)
{
    uint64_t total_us = loop_now_us(x->lb_loop->loop) - x->start_us;
    struct access_log *log = x->lb_loop->lb->access_log;
    bool failed = x->status >= 500 || x->outcome == OUTCOME_CUT_SHORT ||
                  x->outcome == OUTCOME_RESPONSE_TIMEOUT ||
                  (x->status == 0 && x->outcome != OUTCOME_CLIENT_GONE);
    /* For access_log_keep_errors: the load balancer or a worker caused it, or that is unknown. */
    bool error = failed || x->outcome == OUTCOME_CLIENT_GONE;

    if (x->al != NULL) {
        account_count(x, total_us);
        note_traffic(x, total_us, failed);
    } else {
        exchange_count(&x->lb_loop->lb->unrouted[x->outcome]);
    }
    if (log == NULL || !access_log_wants(log, x->lb_loop->index, error))
        return;
    struct text *records = access_log_begin(log, x->lb_loop->index);
    if (records == NULL)
        return;
    struct access_pen p = access_record_begin(records);
    struct access_fixed *f = &p.record->fixed;
    const struct exchange_text *t = x->text;
    struct exchange_text texts;

    /* Assigned one by one: an initializer would be built elsewhere and copied. */
    f->wall_ms = x->start_wall_ms;
    f->status = x->status != 0 ? (uint64_t)x->status : STATUS_CLIENT_GONE;
    f->sent_bytes = x->sent_bytes;
    f->backlog = x->last != NULL ? x->pick.backlog : 0;
    f->tries = x->picks;
    f->received_bytes = x->received_bytes;
    f->limit_wait_us = x->step_us[STEP_LIMIT];
    f->worker_wait_us = x->step_us[STEP_ROUTE];
    f->connection_wait_us = x->step_us[STEP_CONNECT];
    f->first_byte_us = x->times.written_us != 0 && x->times.first_byte_us > x->times.written_us
                           ? x->times.first_byte_us - x->times.written_us
                           : 0;
    f->service_us = x->service_us;
    f->deliver_us = x->step_us[STEP_DELIVER];
    f->total_us = total_us;
    f->protocol = protocol_text(x->version);
    f->application = x->app != NULL ? x->app->name : NULL;
    f->reason = x->last != NULL ? pick_reason_text(x->pick.reason) : NULL;
    f->outcome = outcome_text(x->outcome);
    if (t == NULL) {
        find_texts(x, &texts);
        t = &texts;
    }
    /* In the order of access_field.def. */
    access_record_put(&p, ACCESS_TEXT_client, x->client);
    access_record_put(&p, ACCESS_TEXT_method, t->method);
    access_record_put(&p, ACCESS_TEXT_target, t->target);
    access_record_put(&p, ACCESS_TEXT_referer, t->referer);
    access_record_put(&p, ACCESS_TEXT_agent, t->agent);
    access_record_put(&p, ACCESS_TEXT_host, t->host);
    access_record_put(&p, ACCESS_TEXT_cls, x->cls);
    access_record_put(&p, ACCESS_TEXT_worker,
                      x->last != NULL ? worker_name_slice(x->last) : SLICE_NULL);
    access_record_put(&p, ACCESS_TEXT_request_id, t->request_id);
    access_record_put(&p, ACCESS_TEXT_trace_id, x->trace_id);
    access_record_put(&p, ACCESS_TEXT_span_id, x->span_id);
    access_record_end(&p, records);
    access_log_end(log, x->lb_loop->index);
}
