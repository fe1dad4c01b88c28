/* SPDX-License-Identifier: Apache-2.0
 *
 *   CLASSIFY -> LIMIT -> ROUTE -> CONNECT -> FORWARD -> RELEASE -> DELIVER -> ACCOUNT
 *      |          |       | ^                              |          ^
 *      |          |       | +--------- try again ----------+          |
 *      +----------+-------+------ response of the load balancer ------+
 *
 * The request may end inside any call of http_response_*: the client's side is then over
 * (on_gone), and perhaps the whole exchange accounted for. The exchange's own memory stays until
 * the turn has ended, so callers must check client_over before they continue.
 */
#include "lb/request/exchange.h"

#include "common/base/log.h"
#include "common/wire/http1_bytes.h"
#include "lb/rules/methods.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* Maximum number of unused exchanges that a loop retains for reuse. */
    SPARE_MAX = 1024,
    /* Maximum number of buffered bytes that a loop has not added to the shared total. */
    BUFFER_SLACK = 16 * 1024,
};

/* ---- memory ---- */

/* Called between turns, when nothing refers to X any more. */
static void free_exchange(struct loop_deferred *d)
{
    struct exchange *x = container_of(d, struct exchange, deferred);
    struct lb_front *f = x->front;

    ASSERT(x->limits == NULL || list_empty(&x->leases));
    limit_store_drop(x);
    if (x->limits != NULL)
        limit_set_unref(x->limits);
    for (unsigned i = 0; i < x->ntried; ++i)
        worker_unref(x->tried[i]);
    if (x->last != NULL)
        worker_unref(x->last);
    free(x->text);
    if (x->has_waited)
        exchange_make_waits(x);
    if (f->nspare < SPARE_MAX) {
        list_push_front(&f->spare, &x->node);
        ++f->nspare;
    } else {
        free(x);
    }
    if (--f->live == 0 && f->server_done)
        front_check_done(f);
}

void exchange_account(struct exchange *x)
{
    ASSERT(x->client_over);
    ASSERT(x->member == NULL);
    limit_release(x, false);
    exchange_end_retry(x);
    exchange_enter(x, STEP_ACCOUNT);
    timer_stop(&x->total_timer);
    if (x->has_waited)
        timer_stop(&x->waits.timer);
    account_exchange(x);
    list_remove(&x->node);
    x->deferred.run = free_exchange;
    /* A wake-up in flight still points to X; on_settled() continues when it has arrived.
     * Not linked: STEP_ACCOUNT has no successor, and only one of the two defers. */
    if (!x->has_waited || !x->waits.route.owed)
        loop_defer(x->lb_loop->loop, &x->deferred);
}

/* ---- buffered bytes ---- */

void exchange_count_buffered(struct exchange *x)
{
    struct lb_front *f = x->front;
    size_t now = x->slow != NULL ? exchange_slow_bytes(x) : 0;

    now = x->client_over ? 0 : now + x->response.queued_bytes;
    int64_t change = (int64_t)now - (int64_t)x->buffered;
    if (change == 0)
        return;
    x->buffered = now;
    if (x->al != NULL)
        stat_add(x->al->stats, APP_STAT_buffered_bytes, change);
    f->uncounted_bytes += change;
    if (f->uncounted_bytes <= BUFFER_SLACK && f->uncounted_bytes >= -BUFFER_SLACK)
        return;
    /* Unsigned arithmetic wraps, which is correct for negative differences. */
    atomic_fetch_add_explicit(&f->lb_loop->lb->buffered_bytes, (size_t)f->uncounted_bytes,
                              memory_order_relaxed);
    f->uncounted_bytes = 0;
}

size_t exchange_buffer_limit(const struct exchange *x)
{
    struct lb *lb = x->lb_loop->lb;
    size_t limit = (size_t)exchange_settings(x)->response_buffer_bytes;
    int64_t all = (int64_t)atomic_load_explicit(&lb->buffered_bytes, memory_order_relaxed);

    /* The shared total lacks the uncounted bytes of each loop and may be negative for a moment. */
    if (all > 0 &&
        (uint64_t)all > atomic_load_explicit(&lb->response_buffers_total, memory_order_relaxed) &&
        limit > RESPONSE_BUFFER_FLOOR)
        return RESPONSE_BUFFER_FLOOR;
    return limit;
}

/* ---- the worker's side ---- */

void exchange_end_retry(struct exchange *x)
{
    if (!x->retrying)
        return;
    x->retrying = false;
    retry_budget_release(&x->app->retry_budget);
}

void exchange_release_place(struct exchange *x)
{
    struct list released;

    if (x->member == NULL)
        return;
    list_init(&released);
    if (x->tunnel_counted && !x->tunnel) {
        x->tunnel_counted = false;
        tunnel_limit_release(&x->member->tunnels);
    }
    if (x->pick.reason == PICK_PROBE &&
        !atomic_load_explicit(&x->pick.responded, memory_order_relaxed))
        member_probed(x->member, false);
    x->member = NULL;
    x->served.now_us = loop_now_us(x->lb_loop->loop);
    x->last = pool_put_worker(x->app->pool, &x->pick, &x->served, &released);
    route_wait_wake(&released);
}

void exchange_release_connection(struct exchange *x)
{
    exchange_enter(x, STEP_RELEASE);
    exchange_stop_waiting(x);
    http1_client_give_back(&x->http);
    x->paused = false;
}

void exchange_release(struct exchange *x)
{
    exchange_release_connection(x);
    exchange_release_place(x);
}

void exchange_exclude(struct exchange *x, enum outcome o, bool barred)
{
    struct worker *w = worker_ref(x->member->worker);

    ASSERT(x->nbarred < TRIED_MAX);
    exchange_release(x);
    if (x->ntried == TRIED_MAX)
        worker_unref(x->tried[--x->ntried]);
    x->tried[x->ntried++] = w;
    if (barred) {
        x->tried[x->ntried - 1] = x->tried[x->nbarred];
        x->tried[x->nbarred++] = w;
    }
    x->failure = o;
}

/* Ends the worker's side in any state. */
static void end_worker_side(struct exchange *x)
{
    if (x->step == STEP_ROUTE)
        exchange_stop_waiting(x);
    else if (x->step == STEP_CONNECT || x->step == STEP_FORWARD)
        exchange_release(x);
}

/* ---- the client's side ---- */

void exchange_add_allow(struct exchange *x)
{
    struct text allow = {0};

    methods_put(&exchange_settings(x)->methods, &allow);
    http_request_add_response(x->req, "Allow", text_slice(&allow));
    text_fini(&allow);
}

void exchange_drop_body(struct exchange *x)
{
    if (x->received_bytes == 0 || x->client_over)
        return;
    x->body_file = NULL;
    http_response_drop_body(&x->response);
}

void exchange_take_back(struct exchange *x)
{
    if (!x->started || !http_response_withdraw(&x->response))
        return;
    x->started = false;
    x->status = 0;
    limit_store_drop(x);
    exchange_count_buffered(x);
}

static const char built_in_page[] = "<!DOCTYPE html>\n"
                                    "<html><head><title>${status} ${reason}</title></head>\n"
                                    "<body><h1>${status} ${reason}</h1>\n"
                                    "<p>Request ${request_id}</p></body></html>\n";

void exchange_error_page(struct slice page, const char *type, int status, struct slice request_id,
                         struct text *out)
{
    bool markup = strstr(type, "html") != NULL || strstr(type, "xml") != NULL;
    struct slice rest = page.len != 0 ? page : slice_of(built_in_page);
    char digits[12];
    int ndigits = snprintf(digits, sizeof(digits), "%d", status);
    const struct {
        struct slice name, value;
    } variables[] = {{SLICE_LIT("${status}"), {digits, (size_t)ndigits}},
                     {SLICE_LIT("${reason}"), slice_of(http_status_reason(status))},
                     {SLICE_LIT("${request_id}"), request_id}};

    while (rest.len != 0) {
        size_t i = 0;

        text_add(out, slice_take(&rest, slice_find(rest, '$')));
        while (i < ARRAY_LEN(variables) && !slice_starts(rest, variables[i].name))
            ++i;
        if (i < ARRAY_LEN(variables)) {
            if (markup)
                text_add_html(out, variables[i].value);
            else
                text_add(out, variables[i].value); /* has no quotes: headers_request_id() */
            (void)slice_take(&rest, variables[i].name.len);
        } else {
            text_add(out, slice_take(&rest, 1)); /* the '$' of an unknown variable */
        }
    }
}

/* The template for the error response of X, or none, and its type. */
static struct slice page_of(const struct exchange *x, const char **type)
{
    const struct error_pages *pages = x->app != NULL ? &x->app->error_pages : NULL;

    *type = error_page_type(NULL);
    if (x->rejection != NULL && x->rejection->page.len != 0) {
        *type = error_page_type(x->rejection->s.page);
        return text_slice(&x->rejection->page);
    }
    if (pages == NULL || pages->n == 0)
        return SLICE_NULL;
    size_t at = error_pages_choose(pages, &x->req->fields);
    *type = pages->items[at].type;
    return text_slice(&pages->items[at].text);
}

void exchange_fail(struct exchange *x, enum outcome o)
{
    const struct app_settings *s = x->app != NULL ? exchange_settings(x) : NULL;
    uint64_t retry_after_ms = s != NULL ? s->retry_after_ms : 0;
    struct text text = {0};

    ASSERT(!x->client_over);
    ASSERT(x->http == NULL);
    timer_stop(&x->total_timer);
    limit_store_drop(x);
    limit_release(x, false);
    exchange_end_retry(x);
    x->outcome = o;
    exchange_enter(x, STEP_DELIVER);
    if (x->slow != NULL) {
        exchange_drop_body(x);
        exchange_slow_abort(x);
        return;
    }
    if (x->started) {
        exchange_drop_body(x);
        http_response_abort(&x->response);
        return;
    }
    x->status = outcome_status(o);
    bool allow = x->status == 405;
    if (x->rejection != NULL) {
        x->status = (int)x->rejection->s.status;
        retry_after_ms = x->rejection->s.retry_after_ms;
    }
    if (x->rate_status != 0) {
        x->status = x->rate_status;
        retry_after_ms = x->rate_retry_ms;
    }
    exchange_change_response(x, true);
    if (allow)
        exchange_add_allow(x);
    x->started = true;
    /* Intermediate caches must not store error pages. */
    http_request_add_response(x->req, "Cache-Control", SLICE_LIT("no-store"));
    if ((x->status == 503 || x->status == 429) && retry_after_ms != 0) {
        text_add_u64(&text, (retry_after_ms + 999) / 1000);
        http_request_add_response(x->req, "Retry-After", text_slice(&text));
        text_clear(&text);
    }
    if (s != NULL && s->request_id)
        http_request_add_response(x->req, "X-Request-ID", x->request_id);
    const char *type = NULL;
    struct slice page = page_of(x, &type);
    exchange_error_page(page, type, x->status, x->request_id, &text);
    /* Header rules have read its length. */
    exchange_drop_body(x);
    http_response_simple(&x->response, x->status, type, text_slice(&text));
    text_fini(&text);
}

static void on_exchange_drained(void *context)
{
    struct exchange *x = context;

    if (x->slow != NULL)
        exchange_slow_drained(x);
    else
        exchange_count_buffered(x);
}

static void on_exchange_gone(void *context, bool done)
{
    struct exchange *x = context;

    ASSERT(!x->client_over);
    x->client_over = true;
    x->sent_bytes = x->response.sent_bytes;
    exchange_count_buffered(x);
    if (x->slow != NULL)
        exchange_slow_end(x);
    if (x->tunnel) {
        /* The request has ended, and the tunnel continues: see on_tunnel_ended() in forward.c. */
        x->req = NULL;
        return;
    }
    /* The reason of a failed response is more specific than "client gone". */
    if (!done && (x->outcome == OUTCOME_RESPONDED || !x->started))
        x->outcome = OUTCOME_CLIENT_GONE;
    end_worker_side(x);
    exchange_account(x);
    x->req = NULL;
}

static const struct http_response_events response_events = {.drained = on_exchange_drained,
                                                            .gone = on_exchange_gone};

void exchange_cut(struct exchange *x)
{
    if (x->client_over || x->step == STEP_DELIVER || x->tunnel)
        return;
    end_worker_side(x);
    exchange_take_back(x);
    exchange_fail(x, OUTCOME_SHUTTING_DOWN);
}

static void on_total_timeout(struct timer *t)
{
    struct exchange *x = container_of(t, struct exchange, total_timer);
    char cls[LOG_CUT_ROOM];

    log_warn(NULL, "total-timeout", "application=%s class=\"%s\" response=%s setting=total_timeout",
             x->app->name, log_cut(x->cls, cls), x->started ? "begun" : "none");
    end_worker_side(x);
    exchange_take_back(x);
    exchange_fail(x, x->started ? OUTCOME_RESPONSE_TIMEOUT : OUTCOME_TOTAL_TIMEOUT);
}

/* ---- the request for rules ---- */

static bool request_header(const void *context, size_t i, struct slice *name, struct slice *value)
{
    const struct message_fields *fields = context;

    if (i >= fields->n)
        return false;
    *name = fields->at[i].name;
    *value = fields->at[i].value;
    return true;
}

void exchange_describe(const struct exchange *x, struct classify_request *out)
{
    bool stripped = x->app->path.len != 0 && exchange_settings(x)->strip_prefix;
    struct slice query = x->target;
    struct slice path = slice_cut(&query, '?');
    struct slice http1 = x->version == 0x100 ? SLICE_LIT("HTTP/1.0") : SLICE_LIT("HTTP/1.1");
    *out = (struct classify_request){
        .method = x->req->method,
        .script_name = stripped ? x->app->path : SLICE_NULL,
        .path = path,
        .query = query,
        .host = x->authority,
        .protocol = x->version >= 0x200 ? SLICE_LIT("HTTP/2") : http1,
        .tls = x->tls,
        .peer = &x->client_addr,
        .local = http_conn_local(x->conn),
        .content_length = x->req->body.p != NULL ? x->req->body.len : UINT64_MAX,
        .header = request_header,
        .context = &x->req->fields,
    };
}

/* ---- creation ---- */

void exchange_create(void *front, struct http_request *req, struct http_conn *conn)
{
    struct lb_front *f = front;
    struct list *node = list_pop_front(&f->spare);
    struct exchange *x = node != NULL ? list_entry(node, struct exchange, node) : NULL;
    char *digit = f->lb_loop->exchange_id + EXCHANGE_ID_LEN;

    if (x != NULL) {
        --f->nspare;
    } else {
        x = xcalloc_lines(1, sizeof(*x));
        x->lb_loop = f->lb_loop;
        timer_init(&x->total_timer, on_total_timeout);
        exchange_make_waits(x);
    }
    memset(x, 0, offsetof(struct exchange, sent_us));
    ++f->live;
    /* The next of the ids that are unique among all load balancers: its last 16 digits count. */
    while (*--digit == 'f')
        *digit = '0';
    *digit = (char)(*digit == '9' ? 'a' : *digit + 1);
    memcpy(x->id, f->lb_loop->exchange_id, EXCHANGE_ID_LEN);
    x->request_id = (struct slice){x->id, EXCHANGE_ID_LEN};
    x->front = f;
    x->lb_loop = f->lb_loop;
    x->req = req;
    x->conn = conn;
    x->body_file = req->body_file;
    x->version = req->version;
    x->start_us = x->entered_us = loop_now_us(x->lb_loop->loop);
    x->start_wall_ms = req->received_ms;
    x->received_bytes = req->body.len;
    x->safe = slice_is(req->method, "GET") || slice_is(req->method, "HEAD");
    x->websocket = http_request_wants_websocket(req);
    x->outcome = OUTCOME_CLIENT_GONE;
    http_conn_copy_peer(conn, &x->client_addr);
    x->client = x->peer = addr_host_slice(&x->client_addr, x->texts);
    x->tls = http_conn_client_has_tls(conn);
    message_fields_drop(&req->fields, FIELD_BIT(FIELD_OURS));
    http_response_init(&x->response, req, conn, &response_events, x);
    exchange_receive(x);
}
