/* SPDX-License-Identifier: Apache-2.0
 *
 * CLASSIFY: what comes before anything is held or waited for.
 *
 *   its application -> its client -> its trace -> its method -> its class -> header rules -> rates
 *
 * Forwarding fields from a peer that is not trusted are removed before any other code reads them:
 * they are not part of any class, key or request to a worker. RFC 7239 section 8.1: a recipient
 * that trusts these fields from any peer can be sent arbitrary values.
 *
 * Methods: RFC 9110 15.5.6 (405 and Allow), 15.6.2 (501), 7.6.2 (Max-Forwards).
 */
#include "lb/request/exchange.h"

#include "common/base/bytes.h"
#include "common/base/map.h"
#include "common/net/networks.h"
#include "common/skills/classes.h"
#include "common/tls/tls_listener.h"
#include "common/tls/tls_server.h"
#include "common/wire/http1_head.h"
#include "common/wire/trace_context.h"
#include "lb/limits/rate_rule.h"
#include "lb/request/front.h"
#include "lb/rules/classify.h"
#include "lb/rules/methods.h"
#include "lb/rules/poison.h"

bool exchange_find_client(const struct networks *trusted, const struct message_fields *fields,
                          struct addr *address)
{
    struct client_search s = {.trusted = trusted, .client = *address};

    for (size_t i = fields->n; i-- != 0;) {
        if (fields->at[i].kind == FIELD_FOR && !client_addr_search(&s, fields->at[i].value))
            break;
    }
    if (s.hops != 0)
        *address = s.client;
    return s.hops != 0;
}

static void apply_trust(struct exchange *x)
{
    const struct networks *trusted = &x->al->settings->trusted;

    /* At this point the client address is that of the connected peer. */
    if (!networks_have(trusted, &x->client_addr)) {
        message_fields_drop(&x->req->fields, FIELD_CLAIMS);
        return;
    }
    /* The certificate of this connection has been verified here. */
    if (client_certificate_is_requested(http_conn_ssl(x->conn)))
        message_fields_drop(&x->req->fields, FIELD_BIT(FIELD_CLIENT_CERTIFICATE));
    const struct message_fields *fields = &x->req->fields;
    struct slice proto = SLICE_NULL;
    struct slice host = SLICE_NULL;

    if (exchange_find_client(trusted, fields, &x->client_addr))
        x->client = addr_host_slice(&x->client_addr, x->client_room);
    /* The last of each, which the nearest proxy has added. */
    for (size_t i = 0; i < fields->n; ++i) {
        if (fields->at[i].kind == FIELD_PROTO)
            proto = fields->at[i].value;
        else if (fields->at[i].kind == FIELD_FORWARDED_HOST)
            host = fields->at[i].value;
    }
    if (slice_eq_nocase(proto, SLICE_LIT("https")))
        x->tls = true;
    else if (slice_eq_nocase(proto, SLICE_LIT("http")))
        x->tls = false;
    if (host.len != 0 && http_authority_valid(host))
        x->forwarded_host = host;
}

/* ---- its trace (W3C Trace Context) ---- */

static const struct slice parent_name = {"traceparent", 11};
static const struct slice state_name = {"tracestate", 10};

/* Writes 16 hex digits, not all zero, and returns their low bits: a hash of the exchange's unique
 * id with a random key of this process, cheaper than random numbers. */
static uint64_t make_digits(const struct exchange *x, char purpose, char out[SPAN_ID_LEN])
{
    char key[33];

    memcpy(key, x->id, 32);
    key[32] = purpose;
    uint64_t v = map_hash(key, sizeof(key));
    uint64_t left = v |= v == 0;

    for (size_t i = SPAN_ID_LEN; i-- != 0; left >>= 4)
        out[i] = "0123456789abcdef"[left & 15];
    return v;
}

static void join_trace(struct exchange *x)
{
    const struct app_settings *s = exchange_settings(x);
    struct message_fields *fields = &x->req->fields;
    const struct message_field *found = NULL;
    const struct message_field *state = NULL;
    struct trace_parent p;
    size_t state_bytes = 0, members = 0;

    if (s->trace_context == TRACE_CONTEXT_OFF)
        return;
    if (s->trace_context != TRACE_CONTEXT_TRUSTED ||
        networks_have(&x->al->settings->trusted, http_conn_peer(x->conn)))
        found = message_fields_find(fields, parent_name, NULL);
    /* A traceparent is valid only if it is unique. */
    bool joined = found != NULL && message_fields_find(fields, parent_name, found) == NULL &&
                  trace_parent_parse(found->value, &p);
    if (!joined) {
        make_digits(x, 't', p.trace_id);
        uint64_t low = make_digits(x, 'u', p.trace_id + SPAN_ID_LEN) & UINT32_MAX;

        p.flags = (double)low < s->trace_sample * ((double)UINT32_MAX + 1) ? TRACE_SAMPLED : 0;
    }
    make_digits(x, 's', p.span_id);
    /* A tracestate belongs to its own trace only. Its fields form one list. */
    bool state_passes = joined;
    while (state_passes && (state = message_fields_find(fields, state_name, state)) != NULL) {
        state_bytes += state->value.len;
        state_passes =
            state_bytes <= TRACE_STATE_BYTES_MAX && trace_state_valid(state->value, &members);
    }
    if (!state_passes)
        headers_remove(fields, state_name);
    headers_remove(fields, parent_name);
    trace_parent_print(&p, x->trace_room);
    headers_add_to(x->req, fields, parent_name, (struct slice){x->trace_room, TRACE_PARENT_LEN});
    x->trace_id = (struct slice){x->trace_room + 3, TRACE_ID_LEN};
    x->span_id = (struct slice){x->trace_room + 4 + TRACE_ID_LEN, SPAN_ID_LEN};
}

/* ---- its method ---- */

/* RFC 9110 9.3.8: writes the request as it was received, without fields that contain secrets. */
static void put_trace(const struct exchange *x, struct text *out)
{
    const struct message_fields *fields = &x->req->fields;
    uint32_t dropped = FIELDS_HOP | FIELD_BIT(FIELD_COOKIE) | FIELD_BIT(FIELD_OURS);

    text_add(out, SLICE_LIT("TRACE "));
    text_add(out, x->req->target);
    text_add(out, SLICE_LIT(" HTTP/1.1\r\nHost: "));
    text_add(out, x->authority);
    text_add(out, SLICE_LIT("\r\n"));
    for (size_t i = 0; i < fields->n; ++i) {
        const struct message_field *f = &fields->at[i];

        if ((FIELD_BIT(f->kind) & dropped) != 0 || SLICE_IS_WORD(f->name, "authorization"))
            continue;
        char *lower = http_request_take(x->req, f->name.len);
        ascii_lower_copy(lower, f->name);
        text_addf(out, "%.*s: %.*s\r\n", (int)f->name.len, lower, SLICE_FMT(f->value));
    }
    text_add(out, SLICE_LIT("\r\n"));
}

/* Ends X, which holds no worker, with a small response. Add header fields before. */
static noinline_ void respond_here(struct exchange *x, enum outcome o, int status, const char *type,
                                   struct slice body)
{
    timer_stop(&x->total_timer);
    x->outcome = o;
    exchange_enter(x, STEP_DELIVER);
    exchange_change_response(x, true);
    x->started = true;
    x->status = status;
    http_response_simple(&x->response, status, type, body);
}

static bool method_passes(struct exchange *x)
{
    const struct text_list *allowed = &exchange_settings(x)->methods;
    struct slice method = x->req->method;
    bool trace = slice_is(method, "TRACE");
    uint64_t forwards = 0;

    if (!methods_have(allowed, method)) {
        exchange_fail(x, method_is_registered(method) ? OUTCOME_METHOD_NOT_ALLOWED
                                                      : OUTCOME_METHOD_UNKNOWN);
        return false;
    }
    /* RFC 9110 7.6.2: ignored for other methods. */
    if (!trace && !slice_is(method, "OPTIONS"))
        return true;
    switch ((int)headers_max_forwards(&x->req->fields, &forwards)) {
    case ERR_NOT_FOUND:
        return true;
    case ERR_OK:
        break;
    default:
        exchange_fail(x, OUTCOME_BAD_REQUEST);
        return false;
    }
    struct text body = {0};
    if (forwards != 0) {
        text_add_u64(&body, forwards - 1);
        for (size_t i = 0; i < x->req->fields.n; ++i) {
            if (SLICE_IS_WORD(x->req->fields.at[i].name, "max-forwards"))
                x->req->fields.at[i].value = http_request_retain(x->req, text_slice(&body));
        }
        text_fini(&body);
        return true;
    }
    if (trace)
        put_trace(x, &body);
    else
        exchange_add_allow(x);
    if (exchange_settings(x)->request_id)
        http_request_add_response(x->req, "X-Request-ID", x->request_id);
    respond_here(x, OUTCOME_RESPONDED_HERE, outcome_status(OUTCOME_RESPONDED_HERE),
                 trace ? "message/http" : "text/plain", text_slice(&body));
    text_fini(&body);
    return false;
}

/* ---- requests that kill workers (poison.h decides) ---- */

struct poison_key exchange_poison_key(const struct exchange *x)
{
    return (struct poison_key){.cls = x->cls, .path = http_request_path(x->req)};
}

bool exchange_is_poisoned(const struct exchange *x)
{
    if (!poison_any_held(x->app->poison) || exchange_settings(x)->poison_deaths == 0)
        return false;
    const struct poison_key key = exchange_poison_key(x);
    return poison_holds(x->app->poison, &key, loop_now_ms(x->lb_loop->loop));
}

/* ---- its user ---- */

/* Before header rules, which may remove what identifies the user. */
static void detect_user(struct exchange *x)
{
    const struct limit_set *limits = x->al->settings->limits;

    if (limits == NULL || !limits->any_stores)
        return;
    struct cache_request r = headers_cache_request(x->req);
    struct cache_policy policy = limit_cache_policy(x);
    x->has_user = cache_has_user(r.fields, &policy);
}

/* ---- its class ---- */

/* Removes the application's path from the target if strip_prefix is configured. */
static void strip_prefix(struct exchange *x)
{
    struct slice *t = &x->target;
    char *rooted = NULL;

    if (x->app->path.len == 0 || !exchange_settings(x)->strip_prefix || t->p[0] != '/')
        return;
    t->p += x->app->path.len;
    t->len -= x->app->path.len;
    if (t->len != 0 && t->p[0] == '/')
        return;
    rooted = http_request_take(x->req, 1 + t->len);
    rooted[0] = '/';
    if (t->len != 0)
        memcpy(rooted + 1, t->p, t->len);
    *t = (struct slice){rooted, 1 + t->len};
}

static bool rates_pass(struct exchange *x)
{
    const struct rate_rules *rules = x->al->settings->rates;
    struct classify_request r;
    char room[LIMIT_KEY_MAX];

    if (rules == NULL || rules->n == 0)
        return true;
    exchange_describe(x, &r);
    for (size_t i = 0; i < rules->n; ++i) {
        const struct rate_rule *rule = &rules->rules[i];

        if (!request_match_fits(rule->match, x->cls, &r))
            continue;
        struct slice key = request_match_key(rule->match, rule->name, x->cls, &r, room);
        uint64_t wait_ns = rate_counter_take(rule->counter, map_hash(key.p, key.len),
                                             loop_now_us(x->lb_loop->loop) * 1000, &rule->rate);

        if (wait_ns == 0) {
            exchange_count(&rule->counter->passed);
        } else if (rule->shadow) {
            exchange_count(&rule->counter->shadow_rejected);
        } else {
            exchange_count(&rule->counter->rejected);
            x->rate_status = rule->status;
            /* Rounded up: a request that is repeated after this time must pass. */
            x->rate_retry_ms = rule->retry_after ? (wait_ns + 999999) / 1000000 : 0;
            exchange_fail(x, OUTCOME_RATE_LIMITED);
            return false;
        }
    }
    return true;
}

/* ---- a listener that sends every client to https ---- */

/* 301 for GET and HEAD, 308 for other methods, because clients change POST into GET after 301 (RFC
 * 9110 sections 15.4.2 and 15.4.9). */
static noinline_ void redirect_to_https(struct exchange *x, unsigned port)
{
    int status = x->safe ? outcome_status(OUTCOME_REDIRECTED) : 308;
    struct text location = {0};

    if (!redirect_location(port, x->authority, x->target, &location)) {
        text_fini(&location);
        exchange_fail(x, OUTCOME_BAD_REQUEST);
        return;
    }
    http_request_add_response(x->req, "Location", text_slice(&location));
    text_fini(&location);
    respond_here(x, OUTCOME_REDIRECTED, status, "text/plain; charset=utf-8",
                 slice_of(http_status_reason(status)));
}

/* ---- its application ---- */

static struct application *find_application(const struct lb *lb, struct slice authority,
                                            struct slice target)
{
    struct application *only = application_only(lb);

    if (only != NULL)
        return only;
    /* A request without Host is unambiguous if there is one application, and it has all paths. */
    if (authority.len == 0 && lb->napplications == 1 && lb->applications[0]->path.len == 0)
        return lb->applications[0];
    struct slice rest = target;
    struct slice path = slice_cut(&rest, '?');
    /* "OPTIONS *" concerns a whole host. */
    return application_find(lb, authority, path.p[0] == '*' ? SLICE_LIT("/") : path);
}

bool exchange_declines(void *front, const struct http_request *req, unused_ struct http_conn *conn)
{
    const struct lb_loop *lb_loop = ((const struct lb_front *)front)->lb_loop;
    struct application *app = find_application(lb_loop->lb, req->authority, req->target);

    return app != NULL &&
           !methods_have(&application_settings(application_on(app, lb_loop->index))->methods,
                         req->method);
}

/* The Host for a request of HTTP/1.0 without one, which applications reject: the first exact host
 * of the application, else the address of the listener. */
static noinline_ struct slice usual_host(const struct exchange *x)
{
    const struct text_list *hosts = &exchange_settings(x)->hosts;

    for (size_t i = 0; i < hosts->n; ++i) {
        if (hosts->items[i][0] != '*')
            return slice_of(hosts->items[i]);
    }
    return http_conn_host(x->conn, x->req);
}

/* The port in the redirect_https of X's listener, which serves nothing itself; NULL: no redirect.
 */
static const unsigned *redirect_https_port(const struct exchange *x)
{
    return http_conn_tag(x->conn);
}

void exchange_receive(struct exchange *x)
{
    /* The server has checked: the target is "/..." or "*", the authority a host or empty. */
    x->authority = x->req->authority;
    x->target = x->req->target;
    if (!headers_check_request(x->req)) {
        exchange_fail(x, OUTCOME_BAD_REQUEST);
        return;
    }
    const unsigned *https_port = redirect_https_port(x);
    if (https_port != NULL) {
        redirect_to_https(x, *https_port);
        return;
    }
    const SSL *ssl = http_conn_ssl(x->conn);
    if (ssl != NULL && tls_listener_misdirected(ssl, x->authority)) {
        exchange_fail(x, OUTCOME_MISDIRECTED);
        return;
    }
    x->app = find_application(x->lb_loop->lb, x->authority, x->target);
    if (x->app == NULL) {
        exchange_fail(x, OUTCOME_NO_APPLICATION);
        return;
    }
    x->al = application_on(x->app, x->lb_loop->index);
    const struct app_settings *s = exchange_settings(x);
    list_push_back(&x->al->exchanges, &x->node);
    stat_add(x->al->stats, APP_STAT_requests, 1);
    stat_add(x->al->stats, APP_STAT_requests_active, 1);
    stat_add(x->al->stats, APP_STAT_client_received_bytes, (int64_t)x->received_bytes);
    apply_trust(x);
    struct slice sent_id = s->request_id ? headers_request_id(x->req) : SLICE_NULL;
    if (sent_id.p != NULL)
        x->request_id = sent_id;
    join_trace(x);
    if (s->ignore_client_abort)
        http_response_allow_half_close(&x->response);
    if (s->total_timeout_ms != 0)
        timer_start(x->lb_loop->loop, &x->total_timer, s->total_timeout_ms);
    if (x->authority.len == 0)
        x->authority = usual_host(x);
    if (!method_passes(x))
        return;
    strip_prefix(x);
    struct classify_request r;
    char *room = x->texts + x->peer.len;
    x->cls.p = room;
    if (!classifier_of_host(x->app->classifier, x->authority, room, &x->cls.len)) {
        exchange_describe(x, &r);
        x->cls.len = classify_run(x->app->classifier, &r, room);
    }
    x->cls_hash = class_hash(x->cls);
    detect_user(x);
    exchange_change_request(x);
    if (exchange_is_poisoned(x))
        exchange_fail(x, OUTCOME_POISONED);
    else if (rates_pass(x))
        exchange_limit(x);
}
