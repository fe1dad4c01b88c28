/* SPDX-License-Identifier: Apache-2.0
 *
 * FORWARD: the request goes out, the response comes back; or it does not, and then this decides
 * whether to try again. The rules, before the first byte of a response was passed on:
 *
 *   what happened                                    GET, HEAD            other methods
 *   an idle connection is dead, no response byte     retried once, new    if no byte arrived
 *   it has bytes left over from the response before  once, new connection, 502
 *                                                    another worker if
 *                                                    possible
 *   it has a 408, with which the worker closes it    retried once, new    passed on
 *   the worker failed, no byte arrived there         another worker       another worker
 *   the worker, or its process, failed               another, `retries`,  502
 *                                                    `retry_budget`
 *   no first byte in time                            504                  504
 *   the same, when an ejected worker is probed       another worker       -
 *   Resumelb-Unprocessed (from an agent)             another worker       another worker; when all
 *                                                    have rejected it: again, worker_wait_timeout
 *
 * A time-out is not retried: a request that is slow everywhere would be executed several times. A
 * response that fails later is passed on truncated, never as complete.
 */
#include "lb/request/exchange.h"

#include "common/base/log.h"
#include "common/tls/tls_server.h"
#include "lb/limits/response_store.h"
#include "lb/rules/poison.h"

#include <errno.h>

enum {
    /* Maximum size of a body that is copied behind its head, so that both are sent as one piece. */
    JOIN_MAX = 4096,
};

/* ---- the worker's side has ended ---- */

/* Records the service time: from the request written to the last byte read, without the time in
 * which nothing was read because the client was slow. */
static void record_service(struct exchange *x, bool failed)
{
    exchange_end_pause(x);
    uint64_t end_us =
        x->times.last_byte_us != 0 ? x->times.last_byte_us : loop_now_us(x->lb_loop->loop);
    uint64_t start_us = x->times.written_us != 0 ? x->times.written_us : x->sent_us;
    uint64_t took_us = end_us - start_us;

    x->service_us = took_us > x->paused_us ? took_us - x->paused_us : 0;
    x->served = (struct pool_served){.service_us = x->service_us, .failed = failed};
    member_served(x->member, x->cls, x->cls_hash, x->service_us, failed, x->pick.passing);
    stat_observe(x->al->stats, APP_STAT_service_us, x->service_us);
}

/* The last byte was received: releases the worker before the client has received everything. */
static void forward_complete(struct exchange *x, int status)
{
    x->times = http1_client_times(x->http);
    record_service(x, status >= 500);
    exchange_release(x);
    limit_store_end(x);
    limit_release(x, status < 500);
    exchange_end_retry(x);
    timer_stop(&x->total_timer);
    x->outcome = OUTCOME_RESPONDED;
    exchange_enter(x, STEP_DELIVER);
    exchange_drop_body(x);
}

/* ---- requests that kill workers (poison.h decides) ---- */

static struct poison_rule rule_of(const struct exchange *x)
{
    const struct app_settings *s = exchange_settings(x);

    return (struct poison_rule){.deaths = (unsigned)s->poison_deaths,
                                .window_ms = s->poison_window_ms,
                                .hold_ms = s->poison_hold_ms};
}

/* ---- trying again ---- */

/* Records that the worker of X, or its process, died with it. Returns the outcome: rejected, if
 * class and path are now and X is safe; of other requests it is unknown how far they got. */
static enum outcome record_death(struct exchange *x)
{
    const struct poison_rule rule = rule_of(x);
    const struct poison_key key = exchange_poison_key(x);
    char cls[LOG_CUT_ROOM];
    char path[LOG_CUT_ROOM];
    enum poison_verdict v =
        poison_death(x->app->poison, &rule, &key, x->member->worker, loop_now_ms(x->lb_loop->loop));

    if (v == POISON_TOO_MANY) {
        log_error(NULL, "poison-table-full", "application=%s limit=%d action=\"not blocking\"",
                  x->app->name, POISON_HELD_MAX);
    } else if (v != POISON_NOTHING) {
        stat_add(x->al->stats, APP_STAT_poison_holds, 1);
        log_error(NULL, "poison-blocked",
                  "application=%s class=\"%s\" path=\"%s\" deaths=%u for_ms=%llu", x->app->name,
                  log_cut(key.cls, cls), log_cut(key.path, path), rule.deaths,
                  (unsigned long long)rule.hold_ms);
    }
    return x->safe && exchange_is_poisoned(x) ? OUTCOME_POISONED : OUTCOME_WORKER_FAILED;
}

static const bool may_retry[] = {
#define OUTCOME(name, text, status, retry, doc) retry,
#include "lb/core/outcome.def"
};

/* Returns true if the request may be sent to another worker. */
static bool is_retry_allowed(struct exchange *x, enum outcome o, bool written)
{
    if (!may_retry[o] && !(o == OUTCOME_FIRST_BYTE_TIMEOUT && x->pick.reason == PICK_PROBE))
        return false;
    if (!written)
        return true;
    const struct app_settings *s = exchange_settings(x);
    if (!x->safe || x->retries >= (unsigned)s->retries)
        return false;
    /* X counts in the retry budget once, however often it is retried. */
    if (!x->retrying) {
        /* Idle tunnels do not increase the retry budget. */
        int64_t active = stats_sum(x->app->stats, APP_STAT_requests_active) -
                         stats_sum(x->app->stats, APP_STAT_tunnels);

        x->retrying = retry_budget_acquire(&x->app->retry_budget, active > 0 ? (size_t)active : 0,
                                           s->retry_budget, (size_t)s->retry_budget_min);
    }
    if (!x->retrying) {
        stat_add(x->al->stats, APP_STAT_retries_over_budget, 1);
        return false;
    }
    ++x->retries;
    return true;
}

/* Sends X again, on a new connection to the same worker: the idle one was unusable. */
static cold_ void retry_fresh(struct exchange *x)
{
    stat_add(x->al->stats, APP_STAT_retries_fresh, 1);
    x->fresh = true;
    exchange_release_connection(x);
    exchange_connect(x);
}

/* Retries with another worker; fails with O if that must not be, or none is available. */
static cold_ void retry_or_fail(struct exchange *x, enum outcome o, bool written)
{
    if (x->started || !is_retry_allowed(x, o, written)) {
        exchange_release(x);
        exchange_fail(x, o);
        return;
    }
    x->retry_due = true;
    x->may_return = x->may_return || member_may_return(x->member);
    exchange_reroute(x, o);
}

static void log_failure(const struct exchange *x, const struct http1_client_failure *failure)
{
    char cls[LOG_CUT_ROOM];

    if (failure->error == ERR_TIMEOUT)
        log_warn(NULL, "worker-failed",
                 "application=%s worker=%s class=\"%s\" reason=\"%s\" response=%s setting=%s",
                 x->app->name, worker_name(x->member->worker), log_cut(x->cls, cls),
                 failure->reason, x->started ? "begun" : "none", failure->setting);
    else
        log_warn(NULL, "worker-failed",
                 "application=%s worker=%s class=\"%s\" reason=\"%s\" response=%s", x->app->name,
                 worker_name(x->member->worker), log_cut(x->cls, cls), failure->reason,
                 x->started ? "begun" : "none");
}

/* As retry_or_fail: what a reused connection has received instead of a response may be left over
 * from the response before. Without another worker, the same one gets X on a new connection. */
static cold_ void retry_left_over(struct exchange *x)
{
    if (!is_retry_allowed(x, OUTCOME_BAD_RESPONSE, true)) {
        retry_fresh(x);
        return;
    }
    x->retry_due = true;
    x->left_over = x->may_repeat = true;
    exchange_reroute_rejected(x, OUTCOME_BAD_RESPONSE);
}

static void on_forward_error(void *context, const struct http1_client_failure *failure)
{
    struct exchange *x = context;
    enum err e = failure->error;
    bool written = failure->written;
    bool dead = failure->closed_idle;

    exchange_take_back(x);
    enum outcome o = x->started ? OUTCOME_CUT_SHORT : OUTCOME_WORKER_FAILED;

    if (e == ERR_TIMEOUT)
        o = x->started ? OUTCOME_RESPONSE_TIMEOUT : OUTCOME_FIRST_BYTE_TIMEOUT;
    else if (!x->started && (e == ERR_BAD_RESPONSE || e == ERR_TOO_LARGE))
        o = OUTCOME_BAD_RESPONSE;
    if ((dead && written) || failure->left_over)
        conn_restrict(x->member->backend, loop_now_ms(x->lb_loop->loop));
    if (!x->started && dead && (x->safe || !written)) {
        retry_fresh(x);
        return;
    }
    log_failure(x, failure);
    stat_add(x->al->stats, APP_STAT_worker_tls_failures, e == ERR_TLS_FAILED);
    x->times = http1_client_times(x->http);
    record_service(x, true);
    if (!x->started && e == ERR_TIMEOUT)
        member_failed(x->member, FAULT_FIRST_BYTE_TIMEOUT, loop_now_ms(x->lb_loop->loop));
    else if (!x->started && e == ERR_TLS_FAILED)
        member_failed(x->member, FAULT_TLS, loop_now_ms(x->lb_loop->loop));
    else if (o == OUTCOME_WORKER_FAILED && !dead)
        member_failed(x->member, FAULT_RESET, loop_now_ms(x->lb_loop->loop));
    if (failure->left_over && x->safe)
        retry_left_over(x);
    else
        retry_or_fail(x, o == OUTCOME_WORKER_FAILED && written && !dead ? record_death(x) : o,
                      written);
}

/* ---- the response ---- */

static void forward_take_head(struct exchange *x, const struct http1_head *head)
{
    const struct headers_response r = exchange_response(x);

    if (x->version < 0x200 && !x->tunnel && !exchange_changes_response(x)) {
        char *room = http_response_room(&x->response, headers_response_room(&r, head));
        ASSERT(room != NULL);
        http_response_lines(&x->response, headers_response_lines(&r, head, room));
    } else {
        headers_take_response(&r, head);
        exchange_change_response(x, false);
    }
    x->started = true;
    x->status = head->status;
    /* An event stream has no end whatever length it announces. Small responses are not checked. */
    const struct slice stream = SLICE_LIT("text/event-stream");
    const struct message_field *type = NULL;
    if (head->content_length > RESPONSE_ROOM_MIN)
        type = headers_find(head, SLICE_LIT("Content-Type"), NULL);
    x->event_stream = type != NULL && type->value.len >= stream.len &&
                      slice_eq_nocase((struct slice){type->value.p, stream.len}, stream);
    if (poison_any_suspects(x->app->poison)) {
        const struct poison_rule rule = rule_of(x);
        const struct poison_key key = exchange_poison_key(x);

        poison_responded(x->app->poison, &rule, &key, loop_now_ms(x->lb_loop->loop));
    }
    limit_store_head(x, head);
    if (x->times.first_byte_us > x->times.written_us && x->times.written_us != 0)
        stat_observe(x->al->stats, APP_STAT_first_byte_us,
                     x->times.first_byte_us - x->times.written_us);
}

/* The worker responds. Takes the number of requests in flight that an agent reports, while ours
 * still counts. */
static void note_response(struct exchange *x, const struct http1_head *head)
{
    uint64_t total = 0;
    enum err e = ERR_NOT_FOUND;

    x->times = http1_client_times(x->http);
    member_responded(x->member);
    if (x->member->has_feed && exchange_settings(x)->backlog_shared)
        e = headers_backlog(head, &total);
    if (e == ERR_OK)
        worker_report(x->member->worker, total, loop_now_ms(x->lb_loop->loop));
    else if (e != ERR_NOT_FOUND)
        stat_add(x->al->stats, APP_STAT_backlog_reports_bad, 1);
}

static void on_forward_head(void *context, const struct http1_head *head, bool final)
{
    struct exchange *x = context;
    /* No length is announced to the client with 204, whatever the worker sent. */
    uint64_t length = head->status == 204 ? UINT64_MAX : head->content_length;

    note_response(x, head);
    if (x->safe && http1_client_gave_up(x->http, head)) {
        conn_restrict(x->member->backend, loop_now_ms(x->lb_loop->loop));
        retry_fresh(x);
        return;
    }
    /* According to the agent no byte reached a process, so any other worker may get the request. */
    bool unprocessed = head->status == 503 && x->member->has_feed &&
                       headers_flag(head, SLICE_LIT("Resumelb-Unprocessed"));
    /* The process behind the agent died with the request, which is like a broken connection. */
    bool failed = head->status == 502 && x->member->has_feed &&
                  headers_flag(head, SLICE_LIT("Resumelb-Failed"));
    /* Both discard the response. If a body is to follow, the connection is closed. */
    if (unprocessed) {
        stat_add(x->al->stats, APP_STAT_unprocessed, 1);
        /* Too many tunnels (upgrade_concurrency) do not affect other requests to the worker. */
        if (!x->websocket)
            worker_declined(x->member->worker, loop_now_ms(x->lb_loop->loop));
        exchange_reroute_rejected(x, OUTCOME_WORKERS_BUSY);
        return;
    }
    worker_responded(x->member->worker);
    rejected_queue_served(&x->al->rejected);
    if (failed) {
        log_failure(x, &(struct http1_client_failure){.error = ERR_PEER_CLOSED,
                                                      .reason = err_text(ERR_PEER_CLOSED)});
        record_service(x, true);
        retry_or_fail(x, record_death(x), true);
        return;
    }
    atomic_store_explicit(&x->pick.responded, true, memory_order_relaxed);
    if (x->pick.reason == PICK_PROBE)
        member_probed(x->member, true);
    forward_take_head(x, head);
    if (!final) {
        http_response_hold(&x->response, length, RESPONSE_HOLD_MS);
        return;
    }
    forward_complete(x, head->status);
    http_response_start(&x->response, length);
    if (!x->client_over)
        http_response_send(&x->response, NULL, true);
}

/* Sets how many further bytes may be read, given those that are queued. */
static void make_room(struct exchange *x)
{
    size_t limit = exchange_buffer_limit(x);

    exchange_count_buffered(x);
    if (x->response.queued_bytes + RESPONSE_ROOM_MIN <= limit)
        http1_client_room(x->http, limit - x->response.queued_bytes);
    else
        exchange_slow(x);
}

/* Returns true if no other part of the load balancer needs the bytes of the response's body. */
static bool may_move(const struct exchange *x)
{
    return x->version < 0x200 && http_conn_ssl(x->conn) == NULL && x->stored_maker == NULL;
}

static ssize_t on_moving(void *context, struct transport *from, size_t max)
{
    struct exchange *x = context;

    if (!may_move(x) || x->spilling) {
        errno = ENOTSUP;
        return -1;
    }
    ssize_t n = http_response_move(&x->response, from, max);
    if (n > 0)
        make_room(x);
    return n;
}

static void on_forward_body(void *context, struct body_piece *body, bool last)
{
    struct exchange *x = context;

    if (x->stored_maker != NULL && body != NULL)
        stored_maker_body(x->stored_maker, body);
    if (last)
        forward_complete(x, x->status);
    if (x->slow != NULL && exchange_slow_body(x, body, last))
        return;
    http_response_send(&x->response, body, last);
    if (x->client_over)
        return;
    if (last)
        exchange_count_buffered(x);
    else
        make_room(x);
}

/* ---- WebSocket ---- */

static void on_tunnel_ended(void *context, uint64_t to_worker_bytes, uint64_t to_client_bytes)
{
    struct exchange *x = context;

    x->received_bytes += to_worker_bytes;
    x->sent_bytes = to_client_bytes;
    stat_add(x->al->stats, APP_STAT_tunnels, -1);
    stat_add(x->al->stats, APP_STAT_client_received_bytes, (int64_t)to_worker_bytes);
    tunnel_limit_closed(&member_of(x->last)->tunnels);
    if (x->tunnel_backend != NULL) {
        conn_not_opened(x->tunnel_backend);
        conn_backend_release(x->tunnel_backend);
        x->tunnel_backend = NULL;
    }
    exchange_release(x);
    exchange_account(x);
}

static void on_upgrade(void *context, const struct http1_head *head)
{
    struct exchange *x = context;
    struct http_tunnel_end end = {.ended = on_tunnel_ended, .context = x};

    x->tunnel = true;
    note_response(x, head);
    worker_responded(x->member->worker);
    rejected_queue_served(&x->al->rejected);
    forward_take_head(x, head);
    timer_stop(&x->total_timer);
    x->outcome = OUTCOME_TUNNELLED;
    exchange_end_retry(x);
    account_retain_text(x);
    stat_add(x->al->stats, APP_STAT_tunnels, 1);
    tunnel_limit_opened(&x->member->tunnels);
    /* It still counts against max_connections if it excludes all other requests from the worker. */
    if (member_serves_one(x->member)) {
        x->tunnel_backend = conn_backend_ref(x->member->backend);
        conn_retain_permission(http1_client_pooled(x->http));
    }
    limit_upgraded(x);
    /* Complete with the 101: the tunnel is in no backlog, and neither its duration nor that of the
     * handshake is measured, as in the agent. */
    exchange_release_place(x);
    const struct upgraded_transport upgraded = http1_client_take_upgraded(&x->http);
    http_response_tunnel(&x->response, &upgraded, exchange_settings(x)->tunnel_idle_timeout_ms,
                         &end);
}

/* ---- the request ---- */

static const struct http1_client_events events = {
    .on_head = on_forward_head,
    .on_body = on_forward_body,
    .on_moving = on_moving,
    .on_error = on_forward_error,
    .on_upgrade = on_upgrade,
};

struct slice exchange_head(struct exchange *x, const struct home_report *home)
{
    char subject[CLIENT_SUBJECT_MAX];
    struct client_certificate client = client_certificate_of(http_conn_ssl(x->conn), subject);
    const struct app_settings *s = exchange_settings(x);
    bool appends = s->forwarded_for == FORWARDED_APPEND;
    struct text reported = {0};
    struct forwarded_request r = {
        .req = x->req,
        .target = x->target,
        .authority = x->authority,
        .dropped = FIELD_BIT(FIELD_OURS),
        .forwards = s->forwarded_for != FORWARDED_OFF,
        .appends = appends,
        .client = appends ? x->peer : x->client,
        .tls = x->tls,
        .forwarded_host = x->forwarded_host,
        .client_verdict = client.verdict,
        .client_subject = client.subject,
        .via = s->via,
        .request_id = s->request_id ? x->request_id : SLICE_NULL,
        .cls = x->cls,
        .fingerprint = {classifier_fingerprint(x->app->classifier), FINGERPRINT_LEN},
        .websocket = x->websocket,
    };

    if (home != NULL) {
        text_add(&reported, SLICE_LIT("Resumelb-Home: "));
        home_report_print(home, &reported);
        text_add(&reported, SLICE_LIT("\r\n"));
        r.more = text_slice(&reported);
    }
    text_clear(&x->front->head);
    http_put_request(&r, &x->front->head);
    if (home != NULL)
        text_fini(&reported);
    return text_slice(&x->front->head);
}

void exchange_forward(struct exchange *x)
{
    const struct app_settings *s = exchange_settings(x);

    if (x->has_waited)
        timer_stop(&x->waits.timer);
    /* Similar requests may have killed workers while X waited. */
    if (exchange_is_poisoned(x)) {
        exchange_release(x);
        exchange_fail(x, OUTCOME_POISONED);
        return;
    }
    struct home_report home = {
        .passing = x->pick.passing,
        .kind = x->pick.home,
        .from = slice_of(x->pick.home_from != NULL ? worker_name(x->pick.home_from) : NULL),
    };
    bool decides = home.passing || home.kind != HOME_USED;
    bool reports = decides && x->member->has_feed;
    if (decides && !home.passing && x->member->homes != NULL)
        member_housed(x->member, x->cls, &home);
    struct slice body = x->req->body;
    struct slice head = exchange_head(x, reports ? &home : NULL);
    if (body.len != 0 && body.len <= JOIN_MAX && x->body_file == NULL) {
        text_add(&x->front->head, body);
        head = text_slice(&x->front->head);
        body = SLICE_NULL;
    }
    struct http1_client_request r = {
        .head = head,
        .body = body,
        .body_file = x->body_file,
        .is_head = slice_is(x->req->method, "HEAD"),
        .once = !x->safe,
        .moves = may_move(x),
        .upgrade = x->websocket ? SLICE_LIT("websocket") : SLICE_NULL,
        .first_byte_timeout_ms = s->first_byte_timeout_ms,
        .between_bytes_timeout_ms = s->between_bytes_timeout_ms,
        .events = &events,
        .context = x,
    };

    exchange_enter(x, STEP_FORWARD);
    x->times = (struct http1_client_times){0};
    x->paused_us = x->service_us = 0;
    x->sent_us = loop_now_us(x->lb_loop->loop);
    http1_client_request(x->http, &r);
    http1_client_room(x->http, exchange_buffer_limit(x));
}
