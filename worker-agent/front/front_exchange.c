/* SPDX-License-Identifier: Apache-2.0
 *
 * One request from the client, usually a load balancer, to a process, and its response. Its two
 * sides end independently:
 *
 *   the process:  ask the slot -> (wait) -> connect -> send -> head -> body -> release the place
 *   the client:   response -> ... -> gone
 *
 * The place at the process is released when the last byte of the response was received, whether or
 * not the client has received it. If the client leaves early, the process continues to work on the
 * request. The place then stays occupied until the process has responded, within a time limit;
 * otherwise the next request would wait behind it unnoticed.
 *
 * A request that reached a process is not retried, except for a GET or HEAD on an idle connection
 * that proved closed, or useless. A request of which no byte reached a process gets 503 with
 * "Resumelb-Unprocessed: 1", or, if it was received at the application's own address, sent to
 * another process.
 */
#include "worker-agent/front/front.h"

#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/http/http_request.h"
#include "worker-agent/front/trace_log.h"

enum {
    /* How long a response is still read after its client has left. */
    ABANDONED_MS = 1000,
    /* Maximum processes that a request tries to connect to; if all fail, one is not the cause. */
    CONNECT_TRIES_MAX = 10,
};

enum note {
    NOTE_NONE,
    NOTE_UNPROCESSED, /* no byte reached a process: any request may be retried elsewhere */
    NOTE_FAILED,      /* a process received it and failed: only safe requests may be retried */
};

static const struct {
    int status;
    enum note note;
    enum agent_stat figure; /* that counts it; AGENT_STATS: none */
    struct slice text;
} outcomes[OUTCOMES] = {
#define AGENT_STAT_NONE AGENT_STATS
#define OUTCOME(name, status, note, figure, text, doc)                                             \
    [OUTCOME_##name] = {status, NOTE_##note, AGENT_STAT_##figure, {text "\n", sizeof(text)}},
#include "worker-agent/config/outcome.def"
#undef AGENT_STAT_NONE
};

struct front_exchange {
    struct list node; /* in front->exchanges */
    struct agent_front *front;
    const struct front_listener *listener;
    struct slot_request at_slot;
    struct http_response *response; /* NULL: the client has gone */
    size_t counted_bytes;           /* of the response's queue, in front->buffered_bytes */
    struct text head;
    struct slice body;                 /* the request's, while there is a response */
    const struct body_file *body_file; /* the same; NULL: it is in no file */
    struct request_class cls;
    struct trace_request trace;
    bool is_head, safe, upgrade;
    /* The process's end. */
    struct conn_waiter waiter;
    struct http1_client_connect *attempt;
    struct http1_client_conn *conn;
    struct timer abandoned; /* the client has disconnected, within the response */
    uint64_t started_us;    /* when the process got it */
    bool unready;   /* first request of a process: its time does not count as service time */
    bool retried;   /* this is the second attempt */
    unsigned tries; /* processes that could not be connected to */
    bool touched;   /* a byte of it may have reached a process */
    bool passed_on; /* sent to the new agent instead of a process, on a connection in no pool */
    bool has_head, tunnel, worker_done;
    int status;
    struct loop_deferred freeing;
};

static inline const struct agent_app_settings *settings_of(const struct front_exchange *x)
{
    return x->listener->group->s;
}

/* Whether the request came to the application's own address, not to a slot's. */
static inline bool is_direct(const struct front_exchange *x)
{
    return x->listener->slot == NULL;
}

static inline const void *subject_of(const struct front_exchange *x)
{
    return x->at_slot.slot != NULL ? (const void *)x->at_slot.slot : x->listener->group;
}

static inline void front_count(const struct front_exchange *x, enum agent_stat row)
{
    group_count(x->listener->group, row);
}

/* ---- ends ---- */

static void front_free_now(struct loop_deferred *d)
{
    struct front_exchange *x = container_of(d, struct front_exchange, freeing);

    text_fini(&x->head);
    free(x);
}

static void end_if_done(struct front_exchange *x)
{
    if (!x->worker_done || x->response != NULL || !list_linked(&x->node))
        return;
    ASSERT(x->conn == NULL);
    ASSERT(x->attempt == NULL);
    list_remove(&x->node);
    timer_stop(&x->abandoned);
    /* Not linked: the exchange has left the front's list just now, and does not join it again. */
    loop_defer(x->front->loop, &x->freeing);
}

/* Counts the present size of the response's queue against the total. */
static void count_buffered(struct front_exchange *x)
{
    size_t now = x->response != NULL ? x->response->queued_bytes : 0;

    x->front->buffered_bytes += now - x->counted_bytes;
    x->counted_bytes = now;
}

/* The process's end is over: connection and place go back. The response is not touched. */
static void leave_worker(struct front_exchange *x)
{
    timer_stop(&x->abandoned);
    http1_client_connect_cancel(&x->attempt);
    http1_client_give_back(&x->conn);
    x->worker_done = true;
    slot_leave(&x->at_slot);
}

/* Updates the meter. END_US: when the last byte arrived, or the request failed. */
static void account_request(struct front_exchange *x, uint64_t end_us, bool failed)
{
    if (!x->unready)
        slot_served(&x->at_slot, x->cls.fingerprint, is_direct(x) ? SLICE_NULL : x->cls.cls,
                    end_us > x->started_us ? end_us - x->started_us : 0, failed);
}

/* The last byte of the response was received. */
static void worker_finished(struct front_exchange *x)
{
    account_request(x, http1_client_times(x->conn).last_byte_us, x->status >= 500);
    if (x->status == 200 && x->at_slot.slot != NULL)
        warm_targets_add_head(&x->at_slot.slot->targets, text_slice(&x->head));
    leave_worker(x);
}

/* ---- show_errors: why a request was not served, in the body of its response ---- */

static void add_lines(const struct last_lines *lines, struct text *out)
{
    if (lines->n == 0)
        return;
    text_add(out, SLICE_LIT("\nWhat it wrote last:\n"));
    for (size_t i = 0; i < lines->n; ++i) {
        text_add(out, SLICE_LIT("  "));
        last_lines_show(lines, i, out);
        text_add_char(out, '\n');
    }
}

void error_body(const struct error_facts *e, bool html, struct text *out)
{
    const struct failure *f = e->failure;
    struct text plain = {0};

    /* The lines of the process have more information than the failure of another one. */
    if (e->lines != NULL && e->lines->n > 0 && (f == NULL || f->pid != e->pid)) {
        text_addf(&plain, "\nprocess %ld\n", e->pid);
        add_lines(e->lines, &plain);
    } else if (f != NULL) {
        text_add_char(&plain, '\n');
        failure_add_summary(f, &plain);
        text_addf(&plain, " (%.1f s ago)\n", (double)(e->now_ms - f->at_ms) / 1000);
        add_lines(&f->lines, &plain);
    }
    if (!html) {
        text_add(out, e->reason);
        text_add_char(out, '\n');
        text_add(out, text_slice(&plain));
        text_fini(&plain);
        return;
    }
    text_add(out, SLICE_LIT("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
                            "<title>error</title>\n<h1>"));
    text_add_html(out, e->reason);
    text_add(out, SLICE_LIT("</h1>\n<pre>"));
    for (struct slice rest = text_slice(&plain); rest.len != 0;) {
        text_add_html(out, slice_cut(&rest, '\n'));
        text_add_char(out, '\n');
    }
    text_add(out, SLICE_LIT("</pre>\n</html>\n"));
    text_fini(&plain);
}

/* Appends the body of the response of outcome O to OUT: the reason and the output of its process,
 * as HTML if the client accepts that. Returns its Content-Type, or NULL if no body is to be sent
 * (show_errors is off, or O is self-explanatory). */
static const char *front_explain(const struct front_exchange *x, enum agent_outcome o,
                                 struct text *out)
{
    const struct app_group *g = x->listener->group;
    const struct slot *s = x->at_slot.slot;
    const struct message_field *accept =
        message_fields_find(&x->response->req->fields, SLICE_LIT("accept"), NULL);
    struct app_process *p = NULL;
    bool html = false;
    /* The output of a process may have the reason; a full queue needs none. */
    bool explained = o == OUTCOME_NOT_STARTED || o == OUTCOME_NOT_REACHED || o == OUTCOME_FAILED ||
                     o == OUTCOME_LATE;

    if (!g->s->show_errors || !explained)
        return NULL;
    struct error_facts e = {.reason = slice_trim(outcomes[o].text),
                            .failure = s != NULL ? s->failure : g->last_failure,
                            .now_ms = loop_now_ms(g->pool->loop)};
    /* A process that has just died of the request may not have been reported yet. */
    if (s != NULL && (o == OUTCOME_FAILED || o == OUTCOME_LATE))
        p = slot_process(s);
    if (p != NULL) {
        e.lines = process_output_last(&p->output);
        e.pid = p->pid;
    }
    for (struct slice rest = accept != NULL ? accept->value : SLICE_NULL; rest.len != 0;) {
        struct slice item = slice_cut(&rest, ',');

        html |= slice_eq_nocase(slice_trim(slice_cut(&item, ';')), SLICE_LIT("text/html"));
    }
    error_body(&e, html, out);
    return html ? "text/html; charset=utf-8" : "text/plain; charset=utf-8";
}

/* ---- our own responses ---- */

/* Sends the response of outcome O, unless the client has gone. May be the end of response and X. */
static void front_respond(struct front_exchange *x, enum agent_outcome o)
{
    struct text text = {0};

    if (x->trace.log != NULL) {
        /* Without its line end. */
        text_addf(&text, "%d %.*s", outcomes[o].status, (int)outcomes[o].text.len - 1,
                  outcomes[o].text.p);
        trace_request_failed(&x->trace, x->touched ? "resumelb.failed" : "resumelb.rejected",
                             text_slice(&text));
        text_clear(&text);
    }
    if (outcomes[o].figure != AGENT_STATS)
        front_count(x, outcomes[o].figure);
    if (x->response == NULL) {
        text_fini(&text);
        end_if_done(x);
        return;
    }
    struct http_request *req = x->response->req;
    const char *type = front_explain(x, o, &text);
    if (!is_direct(x)) {
        front_put_backlog(req, slot_backlog(&x->at_slot));
        if (outcomes[o].note == NOTE_UNPROCESSED)
            http_request_add_response(req, "Resumelb-Unprocessed", SLICE_LIT("1"));
        if (outcomes[o].note == NOTE_FAILED)
            http_request_add_response(req, "Resumelb-Failed", SLICE_LIT("1"));
    } else if (outcomes[o].status == 503) {
        /* Seconds: a place may be free any moment. */
        http_request_add_response(req, "Retry-After", SLICE_LIT("1"));
    }
    if (type != NULL) {
        /* Nothing in such a body is run, loaded or framed. */
        http_request_add_response(req, "Content-Security-Policy",
                                  SLICE_LIT("default-src 'none'; frame-ancestors 'none'"));
        http_request_add_response(req, "X-Content-Type-Options", SLICE_LIT("nosniff"));
    }
    http_response_simple(x->response, outcomes[o].status,
                         type != NULL ? type : "text/plain; charset=utf-8",
                         type != NULL ? text_slice(&text) : outcomes[o].text);
    text_fini(&text);
}

/* ---- the head ---- */

/* Writes the request's head for a process, or for another agent. Of the product's own fields, a
 * process gets only the class set by a load balancer; of a client of the application's own address,
 * X-Forwarded-*, as a server sets it that clients connect to. */
static void write_head(struct front_exchange *x, bool to_agent)
{
    const struct http_request *req = x->response->req;
    bool direct = is_direct(x);
    char client[ADDR_TEXT_MAX];
    struct forwarded_request r = {.req = req,
                                  .target = req->target,
                                  .authority = req->authority,
                                  .dropped = to_agent ? 0 : FIELD_BIT(FIELD_OURS),
                                  .cls = to_agent || direct ? SLICE_NULL : x->cls.cls,
                                  .websocket = x->upgrade};

    if (direct) {
        const struct addr *peer = http_conn_peer(x->response->conn);

        r.forwards = true;
        r.appends = networks_have(x->front->allow, peer);
        r.dropped |= r.appends ? 0 : FIELD_CLAIMS;
        r.client = addr_host_slice(peer, client);
        r.tls = http_conn_client_has_tls(x->response->conn);
    }
    text_clear(&x->head);
    http_put_request(&r, &x->head);
}

/* ---- passing on ---- */

/*
 * Requests that this agent still holds after another agent has taken over (upgrade.h), and that
 * none of its processes can serve: only the new agent starts processes. Such a request is passed on
 * to the new agent at its address for such requests, and the response is returned through this
 * agent. Reporting the request as unprocessed would be sufficient for a load balancer that has
 * another worker at that moment, but a client of the application's own address has no alternative.
 * With TLS the request is not passed on, because the new agent would not authenticate this agent as
 * a load balancer; the client receives an error that permits a retry.
 */

/*
 * X was rejected because of WHY. Returns true if X is to be passed on to the new agent; X->place
 * then refers to that agent instead of a process, and the caller must connect to it.
 */
static bool front_pass_on(struct front_exchange *x, enum agent_outcome why)
{
    const struct app_group *g = x->listener->group;
    /* The address at which the other agent accepts requests like X. */
    struct addr to = is_direct(x) ? g->own_listeners[0].addr : x->listener->addr;
    /* The source address of a connection to it. */
    struct addr source = to;

    if (!g->pool->handed_over || (why != OUTCOME_STOPPING && why != OUTCOME_NOT_STARTED) ||
        x->response == NULL || x->front->tls != NULL)
        return false;
    if (to.sa.sa_family == AF_INET && to.in.sin_addr.s_addr == htonl(INADDR_ANY))
        source.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (to.sa.sa_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&to.in6.sin6_addr))
        source.in6.sin6_addr = in6addr_loopback;
    if (!is_direct(x) && !networks_have(x->front->allow, &source))
        return false;
    /* It holds no place. */
    ASSERT(x->at_slot.core.state == CORE_REQUEST_NONE);
    ASSERT(x->at_slot.backend == NULL);
    x->at_slot.addr = to;
    if (!is_direct(x))
        write_head(x, true);
    x->passed_on = true;
    /* The other agent applies its time-outs, and judges the process by the result. */
    x->unready = true;
    log_info(subject_of(x), "request-relayed", "to=%s reason=\"another agent has taken over\"",
             addr_text(&to));
    return true;
}

static void connect_to_process(struct front_exchange *x);
static void acquire_process(struct front_exchange *x);

/* ---- failure ---- */

static void respond_failed(struct front_exchange *x, enum err e)
{
    if (x->has_head && (x->response == NULL || !http_response_withdraw(x->response))) {
        /* The forwarded response is truncated, visibly for the client. */
        trace_request_failed(&x->trace, "resumelb.cut", slice_of(err_text(e)));
        if (x->response != NULL)
            http_response_abort(x->response);
        end_if_done(x);
    } else if (!x->touched) {
        front_respond(x, OUTCOME_NOT_REACHED);
    } else if (e == ERR_TIMEOUT) {
        front_respond(x, OUTCOME_LATE);
    } else {
        front_respond(x, OUTCOME_FAILED);
    }
}

static void on_no_connection(struct front_exchange *x, enum err e)
{
    struct app_process *p = slot_request_process(&x->at_slot);

    if (e == ERR_CONNECT_TIMEOUT)
        log_warn(subject_of(x), "process-connect-failed", "reason=\"%s\" setting=connect_timeout",
                 err_text(e));
    else
        log_warn(subject_of(x), "process-connect-failed", "reason=\"%s\"", err_text(e));
    front_count(x, x->touched ? AGENT_STAT_failures : AGENT_STAT_connect_failures);
    if (p != NULL)
        app_process_hold(p);
    if (p != NULL && !x->touched)
        app_process_unreachable(p);
    leave_worker(x);
    if (!is_direct(x) || x->touched || x->response == NULL || ++x->tries >= CONNECT_TRIES_MAX) {
        respond_failed(x, e);
        return;
    }
    front_count(x, AGENT_STAT_tries_elsewhere);
    x->worker_done = false;
    x->retried = x->passed_on = false;
    acquire_process(x);
}

/* Sends X again, on a new connection to the same process: the reused one was unusable. */
static void retry_fresh(struct front_exchange *x)
{
    front_count(x, AGENT_STAT_retries_fresh);
    http1_client_give_back(&x->conn);
    x->retried = true;
    connect_to_process(x);
}

static void log_request_failure(struct front_exchange *x,
                                const struct http1_client_failure *failure)
{
    const char *begun = failure->received ? "yes" : "no";
    const char *repeatable = x->safe ? "yes" : "no";
    const char *connection = http1_client_reused(x->conn) ? "reused" : "new";

    if (failure->error == ERR_TIMEOUT)
        log_warn(subject_of(x), "process-request-failed",
                 "reason=\"%s\" response_begun=%s repeatable=%s connection=%s setting=%s",
                 failure->reason, begun, repeatable, connection, failure->setting);
    else
        log_warn(subject_of(x), "process-request-failed",
                 "reason=\"%s\" response_begun=%s repeatable=%s connection=%s", failure->reason,
                 begun, repeatable, connection);
}

static void on_front_error(void *context, const struct http1_client_failure *failure)
{
    struct front_exchange *x = context;
    struct app_process *p = slot_request_process(&x->at_slot);
    bool dead = failure->closed_idle || failure->left_over;
    bool late = failure->error == ERR_TIMEOUT;

    x->touched |= failure->written;
    if (dead && failure->written)
        conn_restrict(x->at_slot.backend, loop_now_ms(x->front->loop));
    if (dead && !x->retried && x->response != NULL && (x->safe || !failure->written)) {
        retry_fresh(x);
        return;
    }
    if (x->touched) {
        log_request_failure(x, failure);
        front_count(x, late ? AGENT_STAT_timeouts : AGENT_STAT_failures);
        account_request(x, clock_mono_us(), true);
    }
    if (late && !failure->received && failure->written)
        slot_process_stuck(&x->at_slot, failure->setting);
    else if (!failure->received && p != NULL)
        app_process_hold(p);
    leave_worker(x);
    respond_failed(x, failure->error);
}

/* ---- the response ---- */

static size_t buffer_limit(const struct front_exchange *x)
{
    if (x->front->buffered_bytes >= x->front->response_buffers_total)
        return RESPONSE_BUFFER_FLOOR;
    return settings_of(x)->response_buffer_bytes;
}

static void pause_if_full(struct front_exchange *x)
{
    if (x->response != NULL && x->response->queued_bytes >= buffer_limit(x))
        http1_client_pause(x->conn);
}

/* Copies the response's headers into the response, which must exist, except those between agent and
 * process, and adds the headers for load balancers. */
static void copy_headers(struct front_exchange *x, const struct http1_head *head)
{
    struct http_request *req = x->response->req;
    bool to_load_balancer = !is_direct(x);
    /* Those between agents and load balancers are another agent's if it wrote the response;
     * "Resumelb-Unprocessed" of a process would be a promise that it cannot make. */
    uint32_t ours = x->passed_on && to_load_balancer ? 0 : FIELD_BIT(FIELD_OURS);

    http_request_take_response(req, head, FIELDS_HOP | FIELD_BIT(FIELD_DATE) | ours);
    if (to_load_balancer && !x->passed_on)
        front_put_backlog(req, slot_backlog(&x->at_slot));
}

static void on_front_head(void *context, const struct http1_head *head, bool final)
{
    static const enum agent_stat rows[] = {AGENT_STAT_responses_2xx, AGENT_STAT_responses_3xx,
                                           AGENT_STAT_responses_4xx, AGENT_STAT_responses_5xx};
    struct front_exchange *x = context;

    if (x->safe && x->response != NULL && http1_client_gave_up(x->conn, head)) {
        x->touched = true;
        retry_fresh(x);
        return;
    }
    x->has_head = true;
    x->status = head->status;
    if (x->status >= 200 && x->status < 600)
        front_count(x, rows[x->status / 100 - 2]);
    trace_request_responded(&x->trace, (unsigned)x->status, x->is_head ? 0 : head->content_length);
    slot_responded(&x->at_slot);
    if (x->response != NULL) {
        struct http_request *req = x->response->req;

        req->res.status = head->status;
        copy_headers(x, head);
        http_response_hold(x->response, head->content_length, RESPONSE_HOLD_MS);
    } else if (!final) {
        timer_start(x->front->loop, &x->abandoned, ABANDONED_MS);
    }
    if (!final)
        return;
    /* Release the process first: the next request may then be sent before this response. */
    worker_finished(x);
    if (x->response != NULL)
        http_response_send(x->response, NULL, true);
    else
        end_if_done(x);
}

static void on_front_body(void *context, struct body_piece *body, bool last)
{
    struct front_exchange *x = context;

    if (last)
        worker_finished(x);
    if (x->response == NULL) {
        body_piece_release(body);
        end_if_done(x);
        return;
    }
    http_response_send(x->response, body, last);
    count_buffered(x);
    if (!last)
        pause_if_full(x);
}

static ssize_t on_moving(void *context, struct transport *from, size_t max)
{
    struct front_exchange *x = context;
    ssize_t n = http_response_move(x->response, from, max);

    if (n > 0) {
        count_buffered(x);
        pause_if_full(x);
    }
    return n;
}

static void on_front_drained(void *context)
{
    struct front_exchange *x = context;

    count_buffered(x);
    if (x->conn != NULL && x->response->queued_bytes <= buffer_limit(x) / 2)
        http1_client_resume(x->conn);
}

/* ---- tunnels ---- */

static void on_tunnel_ended(void *context, uint64_t to_worker_bytes, uint64_t to_client_bytes)
{
    struct front_exchange *x = context;

    log_debug(subject_of(x), "tunnel-ended", "to_process=%llu to_client=%llu",
              (unsigned long long)to_worker_bytes, (unsigned long long)to_client_bytes);
    leave_worker(x);
    end_if_done(x);
}

static void on_upgrade(void *context, const struct http1_head *head)
{
    struct front_exchange *x = context;
    const struct http_tunnel_end end = {on_tunnel_ended, x};

    x->has_head = true;
    x->tunnel = true;
    x->status = head->status;
    front_count(x, AGENT_STAT_responses_2xx);
    front_count(x, AGENT_STAT_tunnels);
    trace_request_responded(&x->trace, (unsigned)x->status, UINT64_MAX);
    slot_responded(&x->at_slot);
    /* Before slot_upgraded(): the reported backlog includes X, as in any other response. */
    if (x->response != NULL)
        copy_headers(x, head);
    slot_upgraded(&x->at_slot);
    if (x->response == NULL) {
        leave_worker(x);
        end_if_done(x);
        return;
    }
    struct http_request *req = x->response->req;
    http_request_add_response(req, "Upgrade", SLICE_LIT("websocket"));
    const struct upgraded_transport upgraded = http1_client_take_upgraded(&x->conn);
    http_response_tunnel(x->response, &upgraded, settings_of(x)->tunnel_idle_timeout_ms, &end);
}

static const struct http1_client_events http1_client_exchange_events = {
    on_front_head, on_front_body, on_moving, on_front_error, on_upgrade};

/* ---- to the process ---- */

/* Reports the homes of the request's class, as the load balancer sent them, to the slot. */
static void use_home(struct front_exchange *x)
{
    /* The report refers to the request's header, which is freed when the client disconnects. */
    bool reported = x->cls.has_reported && x->response != NULL;

    if (x->cls.cls.len != 0 && !is_direct(x))
        slot_homes_use(&x->at_slot, x->cls.fingerprint, x->cls.cls,
                       reported ? &x->cls.reported : NULL);
}

static void send_request(struct front_exchange *x)
{
    const struct agent_app_settings *s = settings_of(x);
    const struct http1_client_request r = {
        .head = text_slice(&x->head),
        .body = x->body,
        .body_file = x->body_file,
        .is_head = x->is_head,
        .once = !x->safe,
        .moves = true,
        .upgrade = x->upgrade ? SLICE_LIT("websocket") : SLICE_NULL,
        .first_byte_timeout_ms = x->unready ? 0 : s->first_byte_timeout_ms,
        .between_bytes_timeout_ms = s->between_bytes_timeout_ms,
        .events = &http1_client_exchange_events,
        .context = x,
    };

    /* A starting process has start_timeout, which ends the process and thereby X. */
    x->started_us = clock_mono_us();
    use_home(x);
    trace_request_activated(&x->trace);
    http1_client_request(x->conn, &r);
}

static void on_front_connected(void *context, struct http1_client_conn *c, enum err e)
{
    struct front_exchange *x = context;

    x->attempt = NULL;
    if (e != ERR_OK) {
        on_no_connection(x, e);
        return;
    }
    x->conn = c;
    send_request(x);
}

static void connect_to_process(struct front_exchange *x)
{
    struct conn_backend *b = x->at_slot.backend; /* NULL: passed on */
    uint64_t unsafe_idle_ms = settings_of(x)->unsafe_reuse_idle_ms;
    struct conn_checkout o = {.fresh = x->retried, .max_idle_ms = x->safe ? 0 : unsafe_idle_ms};
    enum conn_result r = CONN_OPEN;

    if (!x->safe && !x->passed_on)
        o.fresh |= unsafe_idle_ms == 0 || conn_is_restricted(b, loop_now_ms(x->front->loop));
    if (!x->passed_on)
        r = conn_checkout(b, x->front->loop, &o, &x->waiter);
    ASSERT(r != CONN_WAIT); /* connections are not limited */
    if (r == CONN_REUSED) {
        x->conn = http1_client_of_pooled(x->waiter.conn);
        send_request(x);
    } else if (r == CONN_OPEN) {
        x->attempt =
            http1_client_connect_tls(x->front->loop, &x->at_slot.addr, NULL, b,
                                     settings_of(x)->connect_timeout_ms, on_front_connected, x);
    } else {
        on_no_connection(x, ERR_CONNECT_REFUSED);
    }
}

static void on_slot(struct slot_request *r)
{
    struct front_exchange *x = container_of(r, struct front_exchange, at_slot);
    const struct core_process *p = r->core.process;
    int64_t limit = settings_of(x)->upgrade_concurrency;

    /* Sessions without a place are upgraded connections. */
    if (x->upgrade && limit != 0 && p->sessions - p->places >= limit) {
        leave_worker(x);
        front_respond(x, OUTCOME_UPGRADES);
        return;
    }
    x->unready = r->first;
    connect_to_process(x);
}

static void on_slot_rejected(struct slot_request *r, enum agent_outcome why)
{
    struct front_exchange *x = container_of(r, struct front_exchange, at_slot);

    if (front_pass_on(x, why)) {
        connect_to_process(x);
        return;
    }
    x->worker_done = true;
    front_respond(x, why);
}

/* ---- the client ---- */

static void on_abandoned(struct timer *t)
{
    struct front_exchange *x = container_of(t, struct front_exchange, abandoned);

    leave_worker(x);
    end_if_done(x);
}

static void on_front_gone(void *context, bool done)
{
    struct front_exchange *x = context;

    x->response = NULL;
    count_buffered(x);
    x->body = SLICE_NULL;
    x->body_file = NULL;
    if (done) {
        trace_request_ended(&x->trace);
    } else {
        trace_request_failed(&x->trace, "resumelb.gone", SLICE_LIT("the client has disconnected"));
        front_count(x, AGENT_STAT_clients_gone);
    }
    if (!x->worker_done && !x->tunnel) {
        if (x->conn == NULL || http1_client_times(x->conn).written_us == 0) {
            /* The request's body was freed with the response: it cannot be sent any more. */
            leave_worker(x);
        } else {
            /* The process has, or may yet get, the request. */
            http1_client_resume(x->conn);
            if (x->has_head)
                timer_start(x->front->loop, &x->abandoned, ABANDONED_MS);
        }
    }
    end_if_done(x);
}

static const struct http_response_events response_events = {on_front_drained, on_front_gone};

static void acquire_process(struct front_exchange *x)
{
    enum agent_outcome why;

    switch (slot_acquire(x->listener->group, x->listener->slot, &x->at_slot, &why)) {
    case SLOT_GO:
        on_slot(&x->at_slot);
        return;
    case SLOT_WAIT:
        use_home(x);
        return;
    case SLOT_REJECTED:
        on_slot_rejected(&x->at_slot, why);
        return;
    }
}

void exchange_start(struct agent_front *f, const struct front_listener *listener,
                    struct http_request *req, struct http_conn *conn)
{
    struct http_response *response = http_request_take(req, sizeof(*response));
    struct front_exchange *x = xcalloc(1, sizeof(*x));
    struct slice target = req->target;

    x->front = f;
    x->listener = listener;
    x->response = response;
    x->is_head = slice_is(req->method, "HEAD");
    x->safe = x->is_head || slice_is(req->method, "GET");
    x->upgrade = http_request_wants_websocket(req);
    x->body = req->body;
    x->body_file = req->body_file;
    x->at_slot.core.may_probe = x->safe && !x->upgrade;
    x->at_slot.go = on_slot;
    x->at_slot.rejected = on_slot_rejected;
    x->freeing.run = front_free_now;
    timer_init(&x->abandoned, on_abandoned);
    front_read_class(req, &x->cls);
    /* HTTP/1.0 permits this, but applications reject an empty Host. */
    if (req->authority.len == 0)
        req->authority = http_conn_host(conn, req);
    http_response_init(response, req, conn, &response_events, x);
    write_head(x, false);
    list_push_back(&f->exchanges, &x->node);
    front_count(x, AGENT_STAT_requests);
    /* The path without the query, which makes URLs of its own and may have secrets. The body is
     * already complete: handlers are called only after the whole request was received. */
    trace_request_begin(&x->trace, f->trace, req->method, slice_cut(&target, '?'), x->body.len);
    acquire_process(x);
}

void exchanges_cut(struct agent_front *f)
{
    struct front_exchange *x;

    list_for_each_entry_safe (x, &f->exchanges, node) {
        if (x->worker_done || x->tunnel)
            continue;
        trace_request_failed(&x->trace, "resumelb.cut", SLICE_LIT("the agent is shutting down"));
        leave_worker(x);
        if (x->response != NULL)
            http_response_abort(x->response);
        else
            end_if_done(x);
    }
}
