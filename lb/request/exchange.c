/* SPDX-License-Identifier: Apache-2.0
 *
 *   exchange_create -> CLASSIFY -> ROUTE -> CONNECT -> FORWARD -> RELEASE -> DELIVER -> ACCOUNT
 *                          |         |  ^                 |          |          ^
 *                          |         |  +--- try again ---+----------+          |
 *                          +---------+------------ answer of our own -----------+
 *
 * The request may end inside any call of http_reply_*: the client's side is then over
 * (on_gone), and perhaps the whole exchange accounted for. The exchange's own memory stays until
 * the turn has ended, so callers must check client_over before they continue.
 */
#include "lb/request/exchange.h"

#include "lb/request/answer.h"
#include "lb/request/headers.h"
#include "lb/rules/methods.h"

#include <stdlib.h>

enum {
    /* Maximum number of unused exchanges that a loop retains for reuse. */
    SPARE_MAX = 1024,
    /* Bytes that a response may queue even if response_buffers_total is used up. */
    BUFFER_FLOOR = 16 * 1024,
    /* Maximum number of buffered bytes that a loop has not added to the shared total, which is
     * written rarely. */
    BUFFER_SLACK = 16 * 1024,
};

/* ---- memory ---- */

static void put_hex(char *to, uint64_t v, unsigned digits)
{
    while (digits-- != 0) {
        to[digits] = "0123456789abcdef"[v & 15];
        v >>= 4;
    }
}

struct exchange_loop *exchange_loop_create(struct lb_loop *home)
{
    struct exchange_loop *l = xcalloc(1, sizeof(*l));

    l->home = home;
    /* The sequence of ids continues if the front of a loop is created again. */
    if (home->exchange_id[0] == '\0') {
        memcpy(home->exchange_id, home->lb->instance, 12);
        put_hex(home->exchange_id + 12, home->index, 4);
        put_hex(home->exchange_id + 16, 0, 16);
    }
    list_init(&l->spare);
    spill_loop_init(&l->spills, &home->lb->spill_space, home->loop);
    return l;
}

void exchange_loop_destroy(struct exchange_loop *l)
{
    struct exchange *x;

    if (l == NULL)
        return;
    ASSERT(l->live == 0);
    list_for_each_entry_safe (x, &l->spare, node)
        free(x);
    text_fini(&l->head);
    spill_loop_fini(&l->spills);
    free(l);
}

static void on_total_timeout(struct timer *t);

static struct exchange *make_memory(struct exchange_loop *l)
{
    struct exchange *x = xcalloc_lines(1, sizeof(*x));

    x->home = l->home;
    timer_init(&x->total_timer, on_total_timeout);
    exchange_make_waits(x);
    return x;
}

static struct exchange *take_memory(struct exchange_loop *l)
{
    struct list *node = list_pop_front(&l->spare);
    struct exchange *x = NULL;

    if (node != NULL) {
        x = list_entry(node, struct exchange, node);
        --l->nspare;
    } else {
        x = make_memory(l);
    }
    memset(x, 0, offsetof(struct exchange, sent_us));
    ++l->live;
    return x;
}

/* Called between turns, when nothing refers to X any more. */
static void free_exchange(struct loop_deferred *d)
{
    struct exchange *x = container_of(d, struct exchange, deferred);
    struct exchange_loop *l = x->shared;

    limit_fini(x);
    for (unsigned i = 0; i < x->ntried; ++i)
        worker_unref(x->tried[i]);
    if (x->last != NULL)
        worker_unref(x->last);
    if (x->text != NULL) {
        free(x->text->bytes);
        free(x->text);
    }
    if (x->has_waited)
        exchange_make_waits(x);
    if (l->nspare < SPARE_MAX) {
        list_push_front(&l->spare, &x->node);
        ++l->nspare;
    } else {
        free(x);
    }
    if (--l->live == 0 && l->idle != NULL)
        l->idle(l->idle_context);
}

void exchange_account(struct exchange *x)
{
    ASSERT(x->client_over);
    ASSERT(x->member == NULL);
    limit_give_back(x, false);
    exchange_end_retry(x);
    exchange_enter(x, STEP_ACCOUNT);
    timer_stop(&x->total_timer);
    if (x->has_waited)
        timer_stop(&x->waits.timer);
    account(x);
    list_remove(&x->node);
    x->deferred.run = free_exchange;
    /* A wake-up in flight still points to X; on_settled() continues when it has arrived. */
    if (!x->has_waited || !x->waits.route.owed)
        loop_defer(x->home->loop, &x->deferred);
}

/* ---- buffered bytes ---- */

static void flush_count(struct exchange_loop *l)
{
    struct lb *lb = l->home->lb;

    /* Unsigned arithmetic wraps, which is correct for negative differences. */
    atomic_fetch_add_explicit(&lb->buffered_bytes, (size_t)l->uncounted_bytes,
                              memory_order_relaxed);
    l->uncounted_bytes = 0;
}

static void count_buffered(struct exchange *x, size_t now)
{
    struct exchange_loop *l = x->shared;
    int64_t change = (int64_t)now - (int64_t)x->buffered;

    if (change == 0)
        return;
    x->buffered = now;
    if (x->al != NULL)
        stat_add(x->al->stats, APP_STAT_buffered_bytes, change);
    l->uncounted_bytes += change;
    if (l->uncounted_bytes > BUFFER_SLACK || l->uncounted_bytes < -BUFFER_SLACK)
        flush_count(l);
}

void exchange_count_buffered(struct exchange *x)
{
    size_t beside = x->slow != NULL ? exchange_slow_bytes(x) : 0;

    count_buffered(x, x->client_over ? 0 : x->reply.queued_bytes + beside);
}

size_t exchange_buffer_limit(const struct exchange *x)
{
    struct lb *lb = x->home->lb;
    size_t limit = (size_t)exchange_settings(x)->response_buffer_bytes;
    int64_t all = (int64_t)atomic_load_explicit(&lb->buffered_bytes, memory_order_relaxed);

    /* The shared total lacks the uncounted bytes of each loop and may be negative for a moment. */
    if (all > 0 &&
        (uint64_t)all > atomic_load_explicit(&lb->response_buffers_total, memory_order_relaxed) &&
        limit > BUFFER_FLOOR)
        return BUFFER_FLOOR;
    return limit;
}

/* ---- the worker's side ---- */

void exchange_end_retry(struct exchange *x)
{
    if (!x->retrying)
        return;
    x->retrying = false;
    retry_budget_give(&x->app->retry_budget);
}

static void give_back_connection(struct exchange *x)
{
    if (x->http == NULL)
        return;
    struct pooled_conn *c = http1_pooled(x->http);

    if (x->active)
        http1_cancel(x->http);
    if (x->keep && !x->active) {
        conn_checkin(&c, x->home->loop);
    } else {
        conn_forget(c);
        http1_close(x->http);
    }
    x->http = NULL;
    x->active = x->keep = x->reused = x->paused = false;
}

void exchange_release_place(struct exchange *x)
{
    struct list released;

    if (x->member == NULL)
        return;
    list_init(&released);
    if (x->tunnel_place && !x->tunnel) {
        x->tunnel_place = false;
        tunnel_limit_give(&x->member->tunnels);
    }
    x->member = NULL;
    x->served.now_us = loop_now_us(x->home->loop);
    x->last = pool_put_kept(x->app->pool, &x->pick, &x->served, &released);
    route_wait_wake(&released);
}

void exchange_release_connection(struct exchange *x)
{
    exchange_enter(x, STEP_RELEASE);
    exchange_stop_waiting(x);
    give_back_connection(x);
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
    http_request_answer(x->req, "Allow", text_slice(&allow));
    text_fini(&allow);
}

static void answer(struct exchange *x, int status)
{
    const struct app_settings *s = x->app != NULL ? exchange_settings(x) : NULL;
    struct answer a = {
        .status = status,
        .page = x->app != NULL ? text_slice(&x->app->error_page) : SLICE_NULL,
        .request_id = x->request_id,
        .pass_request_id = s != NULL && s->request_id,
        .retry_after_ms = s != NULL ? s->retry_after_ms : 0,
    };

    limit_refusal(x, &a);
    if (x->rate_status != 0) {
        a.status = x->rate_status;
        a.retry_after_ms = x->rate_retry_ms;
    }
    exchange_change_response(x, true);
    if (status == 405)
        exchange_add_allow(x);
    x->started = true;
    x->status = a.status;
    answer_send(&a, &x->reply);
}

void exchange_take_back(struct exchange *x)
{
    if (!x->started || !http_reply_withdraw(&x->reply))
        return;
    x->started = false;
    x->status = 0;
    limit_copy_drop(x);
    exchange_count_buffered(x);
}

void exchange_fail(struct exchange *x, enum outcome o)
{
    ASSERT(!x->client_over);
    ASSERT(x->http == NULL);
    timer_stop(&x->total_timer);
    limit_copy_drop(x);
    limit_give_back(x, false);
    exchange_end_retry(x);
    x->outcome = o;
    exchange_enter(x, STEP_DELIVER);
    if (x->slow != NULL)
        exchange_slow_abort(x);
    else if (x->started)
        http_reply_abort(&x->reply);
    else
        answer(x, outcome_status(o));
}

void exchange_answer_here(struct exchange *x, int status, const char *type, struct slice body)
{
    timer_stop(&x->total_timer);
    x->outcome = OUTCOME_ANSWERED_HERE;
    exchange_enter(x, STEP_DELIVER);
    exchange_change_response(x, true);
    x->started = true;
    x->status = status;
    http_reply_simple(&x->reply, status, type, body);
}

static void on_drained(void *context)
{
    struct exchange *x = context;

    if (x->slow != NULL)
        exchange_slow_drained(x);
    else
        exchange_count_buffered(x);
}

static void on_gone(void *context, bool done)
{
    struct exchange *x = context;

    ASSERT(!x->client_over);
    x->client_over = true;
    x->sent_bytes = x->reply.sent_bytes;
    exchange_count_buffered(x);
    if (x->slow != NULL)
        exchange_slow_end(x);
    if (x->tunnel) {
        /* The request has ended, and the tunnel continues: see on_tunnel_ended() in forward.c. */
        x->req = NULL;
        return;
    }
    /* The reason of a failed response is more specific than "client gone". */
    if (!done && (x->outcome == OUTCOME_ANSWERED || !x->started))
        x->outcome = OUTCOME_CLIENT_GONE;
    end_worker_side(x);
    exchange_account(x);
    x->req = NULL;
}

static const struct http_reply_events reply_events = {.drained = on_drained, .gone = on_gone};

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

static struct slice protocol_text(int version)
{
    if (version >= 0x200)
        return SLICE_LIT("HTTP/2");
    return version == 0x100 ? SLICE_LIT("HTTP/1.0") : SLICE_LIT("HTTP/1.1");
}

void exchange_describe(const struct exchange *x, struct classify_request *out)
{
    bool stripped = x->app->path.len != 0 && exchange_settings(x)->strip_prefix;
    struct slice query = x->target;
    struct slice path = slice_cut(&query, '?');
    *out = (struct classify_request){
        .method = x->req->method,
        .script_name = stripped ? x->app->path : SLICE_NULL,
        .path = path,
        .query = query,
        .host = x->authority,
        .protocol = protocol_text(x->version),
        .tls = x->tls,
        .peer = &x->client_addr,
        .local = http_conn_local(x->conn),
        .content_length = x->req->body.p != NULL ? x->req->body.len : UINT64_MAX,
        .header = request_header,
        .context = &x->req->fields,
    };
}

/* ---- creation ---- */

/* Increments a number of N hexadecimal digits. */
static void count_up(char *digits, unsigned n)
{
    while (n-- != 0) {
        if (digits[n] == 'f') {
            digits[n] = '0';
            continue;
        }
        digits[n] = (char)(digits[n] == '9' ? 'a' : digits[n] + 1);
        return;
    }
}

/* Creates an id that is unique among all load balancers. */
static void make_id(struct exchange *x)
{
    count_up(x->home->exchange_id + 16, 16);
    memcpy(x->id, x->home->exchange_id, EXCHANGE_ID_LEN);
    x->request_id = (struct slice){x->id, EXCHANGE_ID_LEN};
}

void exchange_create(struct exchange_loop *l, struct http_request *req, struct http_conn *conn)
{
    struct exchange *x = take_memory(l);

    x->shared = l;
    x->home = l->home;
    x->req = req;
    x->conn = conn;
    x->body_file = req->body_file;
    x->version = req->version;
    x->start_us = x->entered_us = loop_now_us(x->home->loop);
    x->start_wall_ms = req->received_ms;
    x->received_bytes = req->body.len;
    x->safe = slice_is(req->method, "GET") || slice_is(req->method, "HEAD");
    x->websocket = http_request_wants_websocket(req);
    x->outcome = OUTCOME_CLIENT_GONE;
    make_id(x);
    http_conn_copy_peer(conn, &x->client_addr);
    x->client = x->peer = addr_host_slice(&x->client_addr, x->texts);
    x->tls = http_conn_client_has_tls(conn);
    message_fields_drop(&req->fields, FIELD_BIT(FIELD_OURS));
    http_reply_init(&x->reply, req, conn, &reply_events, x);
    exchange_receive(x);
}
