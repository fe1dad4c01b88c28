/* SPDX-License-Identifier: Apache-2.0
 *
 *   walk -> the next limit that fits -> lease -> held ----> walk
 *                                        |  full, timed out, unreachable -> stored, or rejected
 *                                        +- waits: notified -> held, ...; done -> stored, or retry
 */
#include "lb/request/exchange.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/wire/http1_bytes.h"
#include "lb/limits/limit_lease.h"
#include "lb/limits/response_store.h"

/*
 * ---- stored responses: taking one, and responding with one ----
 *
 * What an exchange needs for them is taken from its request.
 */

struct limit_storing {
    struct response_store_url url;
    struct cache_request request;
    struct cache_wish wish;
    bool may_share;
};

static struct response_store_url url_of(const struct exchange *x)
{
    return (struct response_store_url){.scheme = x->tls ? SLICE_LIT("https") : SLICE_LIT("http"),
                                       .authority = x->authority,
                                       .target = x->target};
}

struct cache_policy limit_cache_policy(const struct exchange *x)
{
    const struct app_settings *s = exchange_settings(x);

    return (struct cache_policy){.cookies = s->stored_with_cookies,
                                 .certificates = s->stored_with_certificates,
                                 .private_fields = &x->al->settings->private_headers};
}

/* Whether X may get another request's response, and others the response of X. Made once. */
static noinline_ struct limit_storing *storing_of(struct exchange *x)
{
    struct limit_storing *k = x->storing;
    struct cache_policy policy = limit_cache_policy(x);

    if (k != NULL)
        return k;
    k = http_request_take(x->req, sizeof(*k));
    *k = (struct limit_storing){.url = url_of(x), .request = headers_cache_request(x->req)};
    k->may_share = !x->has_user && cache_check_request(&k->request, &policy, &k->wish);
    x->storing = k;
    if (!k->may_share)
        return k;
    /* From here on the fields as the worker gets them, with our values instead of the client's.
     * Read from the head itself, so that no field can be forgotten. */
    struct slice rest = http_request_retain(x->req, exchange_head(x, NULL));
    size_t room = 1, n = 0;

    for (size_t i = 0; i < rest.len; ++i)
        room += rest.p[i] == '\n';
    struct message_field *fields = http_request_take(x->req, room * sizeof(*fields));
    (void)slice_cut(&rest, '\n'); /* the request line */
    while (rest.len != 0) {
        struct slice line = slice_cut(&rest, '\n');
        struct message_field *h = &fields[n];

        --line.len; /* its CR */
        if (line.len == 0)
            break;
        bool split = http1_split_header(line, &h->name, &h->value);
        ASSERT(split);
        h->kind = http_field_kind(h->name);
        ++n;
    }
    k->request.fields = (struct cache_fields){fields, n};
    /* Fields of the client do not describe the certificate of the connection. */
    k->may_share = !cache_has_user(k->request.fields, &policy);
    return k;
}

/* ---- getting a response by a stored response ---- */

/* Responds with a stored response, if X may have one and there is one that meets NEED. */
static bool serve_stored(struct exchange *x, const struct response_store_need *need,
                         struct slice detail)
{
    struct limit_storing *k = storing_of(x);
    enum stored_use use = need->stale != NULL ? STORED_STALE : STORED_COALESCED;
    struct stored_response *stored = NULL;
    struct stored_rendering a;
    const struct headers_response r = exchange_response(x);

    if (k->may_share)
        stored = response_store_find(x->app->store, &k->url, &k->request, need, clock_mono_us());
    if (stored == NULL)
        return false;
    stored_render(stored, use, detail, clock_mono_us(), &a);
    headers_take_response(&r, &a.head);
    exchange_change_response(x, false);
    timer_stop(&x->total_timer);
    limit_release(x, false);
    x->started = true;
    x->status = a.head.status;
    x->outcome = use == STORED_STALE ? OUTCOME_STALE : OUTCOME_COALESCED;
    exchange_enter(x, STEP_DELIVER);
    http_response_start(&x->response, a.head.content_length);
    http_response_send(&x->response, stored_take_body(stored), true);
    if (!x->client_over)
        exchange_count_buffered(x);
    stored_put(stored);
    return true;
}

/* ---- taking a stored response ---- */

void limit_store_drop(struct exchange *x)
{
    if (x->stored_maker != NULL)
        stored_maker_destroy(x->stored_maker);
    x->stored_maker = NULL;
}

/* A request that changed something invalidates stored responses of its target (RFC 9111 4.4). */
static void invalidate_stored(struct exchange *x, int status)
{
    /* Mostly there are no stored responses, or it changes nothing. */
    if (x->limits == NULL || !x->limits->any_stores || x->safe ||
        !cache_invalidates(x->req->method, status))
        return;
    struct response_store_url url = url_of(x);
    response_store_invalidate(x->app->store, &url, clock_mono_us());
}

void limit_store_head(struct exchange *x, const struct http1_head *head)
{
    limit_store_drop(x);
    /* The client may request a changed resource before it has read all of the response. */
    invalidate_stored(x, head->status);
    if (!x->store_wanted)
        return;
    struct limit_storing *k = storing_of(x);
    struct cache_policy policy = limit_cache_policy(x);

    /* The settings may have changed while it waited. */
    if (cache_has_user(k->request.fields, &policy))
        return;
    struct stored_maker_head h = {
        .request = &k->request,
        .head = head,
        .asked_us = x->sent_us,
        .received_us = loop_now_us(x->lb_loop->loop),
        .received_s = (int64_t)(x->start_wall_ms / 1000 +
                                (loop_now_us(x->lb_loop->loop) - x->start_us) / 1000000),
    };

    x->stored_maker = response_store_begin(x->app->store);
    if (!stored_maker_head(x->stored_maker, &h))
        limit_store_drop(x);
}

void limit_store_end(struct exchange *x)
{
    /* Some servers change things after the head. */
    invalidate_stored(x, x->status);
    if (x->stored_maker == NULL)
        return;
    struct stored_response *stored = stored_maker_end(&x->stored_maker);
    if (stored != NULL)
        response_store_put(x->app->store, &x->storing->url, &stored, clock_mono_us());
}

/* ---- over a limit ---- */

static void limit_walk(struct exchange *x);

static void limit_reject(struct exchange *x, const struct limit *limit, enum outcome o)
{
    x->rejection = limit;
    x->failure = o;
    exchange_fail(x, o);
}

/* Responds with the last good one within stored_max_age; DETAIL: why, for Cache-Status. */
static bool respond_stale(struct exchange *x, const struct limit *limit, const char *detail)
{
    struct response_store_need need = {.stale = &storing_of(x)->wish,
                                       .max_age_s = exchange_settings(x)->stored_max_age_ms / 1000};

    if (!serve_stored(x, &need, slice_of(detail)))
        return false;
    exchange_count(&limit->counter->figures.stale);
    return true;
}

/* X is over LIMIT; POLICY is the limit's setting for that. */
static void end_over_limit(struct exchange *x, const struct limit *limit, int policy,
                           const char *detail, _Atomic uint64_t *figure, enum outcome o)
{
    if (policy == LIMIT_RESPONSE_STALE && respond_stale(x, limit, detail))
        return;
    exchange_count(figure);
    limit_reject(x, limit, o);
}

/* Returns true if the request continues. */
static bool on_unreachable(struct exchange *x, const struct limit *limit)
{
    if (limit->s.on_unreachable == LIMIT_OPEN || limit->s.shadow) {
        exchange_count(&limit->counter->figures.unreachable_open);
        return true;
    }
    exchange_count(&limit->counter->figures.unreachable_closed);
    limit_reject(x, limit, OUTCOME_LIMIT_UNREACHABLE);
    return false;
}

/* ---- leases ---- */

static void stop_counting_wait(struct exchange *x)
{
    if (!x->limit_waiting)
        return;
    x->limit_waiting = false;
    stat_add(x->al->stats, APP_STAT_waiting_for_limit, -1);
}

/* The response that C has waited for last was stored, which X did not choose. */
static bool is_other_variant(struct exchange *x, const struct limit_lease *c)
{
    const struct limit_storing *k = storing_of(x);

    return k->may_share && response_store_were_put(x->app->store, &k->url, c->since_us);
}

/* Returns true if X continues with the next limit. */
static bool limit_apply_result(struct exchange *x, struct limit_lease *c, enum counter_result r)
{
    const struct limit_settings *s = &c->limit->s;
    struct limit_figures *f = &c->counter->figures;

    switch (r) {
    case COUNTER_LOCKED:
        return true;
    case COUNTER_WAIT:
        if (!x->limit_waiting)
            stat_add(x->al->stats, APP_STAT_waiting_for_limit, 1);
        x->limit_waiting = true;
        return false;
    case COUNTER_DONE:
        /* Another request has done the work. Without a stored response, X does it itself; but
         * if that varies, only the first request of each variant does so. */
        if (!serve_stored(x, &(struct response_store_need){.not_before_us = c->begun_us},
                          SLICE_NULL))
            return limit_apply_result(x, c, limit_lease_again(c, is_other_variant(x, c)));
        exchange_count(&f->coalesced);
        return false;
    case COUNTER_QUEUE_FULL:
        end_over_limit(x, c->limit, s->on_full, "full", &f->rejected_full, OUTCOME_LIMIT_FULL);
        return false;
    case COUNTER_NO_ROOM:
        end_over_limit(x, c->limit, s->on_full, "connections", &f->rejected_connections,
                       OUTCOME_LIMIT_CONNECTIONS);
        return false;
    case COUNTER_TIMEOUT:
        if (!c->immediate) {
            end_over_limit(x, c->limit, s->on_timeout, "timeout", &f->rejected_timeout,
                           OUTCOME_LIMIT_TIMEOUT);
            return false;
        }
        /* The counter is full at present: X gets a stored response at once, or waits. */
        c->immediate = false;
        return !respond_stale(x, c->limit, "busy") &&
               limit_apply_result(x, c, limit_lease_acquire(c, true));
    case COUNTER_UNREACHABLE:
        return on_unreachable(x, c->limit);
    }
    UNREACHABLE();
}

static void on_result(struct limit_lease *c, enum counter_result r)
{
    struct exchange *x = c->owner;

    ASSERT(x->step == STEP_LIMIT);
    stop_counting_wait(x);
    if (limit_apply_result(x, c, r))
        limit_walk(x);
}

/* Returns true if X continues with the next limit. */
static bool limit_make_lease(struct exchange *x, const struct limit *limit,
                             const struct classify_request *r)
{
    bool at_daemon = limit->s.where == LIMIT_DAEMON;
    bool shares = limit->stores && storing_of(x)->may_share;
    char room[LIMIT_KEY_MAX];

    if (x->nleases == LIMIT_LEASES_MAX ||
        (at_daemon && x->ndaemon_leases == LIMIT_DAEMON_LEASES_MAX)) {
        log_warn(NULL, "limit-skipped",
                 "application=%s limit_name=%s reason=\"too many limits match\"", x->app->name,
                 limit->name);
        return on_unreachable(x, limit);
    }
    ++x->nleases;
    x->ndaemon_leases += at_daemon;
    if (shares)
        x->store_wanted = true;
    struct limit_lease *c = limit_lease_create(
        limit, request_match_key(limit->match, limit->name, x->cls, r, room),
        shares && limit->s.mode == LIMIT_ANY ? COUNTER_ANY : COUNTER_ME, x->lb_loop->loop,
        at_daemon ? application_counters(x->al, x->lb_loop->loop) : NULL);
    c->owner = x;
    c->on_result = on_result;
    list_push_front(&x->leases, &c->node);
    c->immediate = limit->s.on_busy == LIMIT_BUSY_STALE && x->store_wanted && !limit->s.shadow;
    return limit_apply_result(x, c, limit_lease_acquire(c, !c->immediate));
}

static noinline_ void limit_walk(struct exchange *x)
{
    struct classify_request r;

    exchange_describe(x, &r);
    while (x->next_limit < x->limits->n) {
        const struct limit *limit = &x->limits->limits[x->next_limit++];

        if (request_match_fits(limit->match, x->cls, &r) && !limit_make_lease(x, limit, &r))
            return;
    }
    exchange_route(x);
}

void exchange_limit(struct exchange *x)
{
    struct limit_set *limits = x->al->settings->limits;

    if (limits == NULL || limits->n == 0) {
        exchange_route(x);
        return;
    }
    exchange_enter(x, STEP_LIMIT);
    list_init(&x->leases);
    x->next_limit = 0;
    x->limits = limit_set_ref(limits);
    limit_walk(x);
}

void limit_release(struct exchange *x, bool done)
{
    struct list *node = NULL;

    if (x->limits == NULL)
        return;
    stop_counting_wait(x);
    while ((node = list_pop_front(&x->leases)) != NULL)
        limit_lease_release(list_entry(node, struct limit_lease, node), done);
    x->nleases = x->ndaemon_leases = 0;
}

void limit_upgraded(struct exchange *x)
{
    struct limit_lease *c;

    if (x->limits == NULL)
        return;
    list_for_each_entry_safe (c, &x->leases, node) {
        if (c->limit->s.hold_tunnels)
            continue;
        list_remove(&c->node);
        limit_lease_release(c, true);
    }
}
