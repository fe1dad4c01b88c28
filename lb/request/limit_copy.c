/* SPDX-License-Identifier: Apache-2.0
 *
 * What an exchange has to do with copies of responses: taking one, and being answered by one. What
 * it needs for that of its request is made once, and taken from the request.
 */
#include "lb/request/exchange.h"

#include "common/base/clock.h"
#include "common/wire/http1_bytes.h"
#include "lb/limits/copy_answer.h"
#include "lb/request/headers.h"

struct limit_copying {
    struct copies_url url;
    struct cache_request request;
    struct cache_wish wish;
    bool may_share;
};

static struct copies_url url_of(const struct exchange *x)
{
    return (struct copies_url){.scheme = x->tls ? SLICE_LIT("https") : SLICE_LIT("http"),
                               .authority = x->authority,
                               .target = x->target};
}

static struct cache_policy policy_of(const struct exchange *x)
{
    const struct app_settings *s = exchange_settings(x);

    return (struct cache_policy){.cookies = s->copy_with_cookies,
                                 .certificates = s->copy_with_certificates,
                                 .private_fields = application_private_headers(x->al)};
}

bool limit_has_user(struct exchange *x)
{
    struct cache_request r = headers_cache_request(x->req);
    struct cache_policy policy = policy_of(x);

    return cache_check_user(r.fields, &policy) != CACHE_OK;
}

/*
 * The fields as the worker gets them: those that are set here have our values, not the client's.
 * Read from the head itself, so that no field can be forgotten.
 */
static struct cache_fields sent_fields(struct exchange *x)
{
    struct slice rest = http_request_keep(x->req, exchange_head(x));
    size_t room = 0;

    for (size_t i = 0; i < rest.len; ++i)
        room += rest.p[i] == '\n';
    struct http1_header *fields = http_request_take(x->req, (room + 1) * sizeof(*fields));
    size_t n = 0;

    (void)slice_cut(&rest, '\n'); /* the request line */
    while (rest.len != 0) {
        struct slice line = slice_cut(&rest, '\n');
        struct http1_header *h = &fields[n];

        --line.len; /* its CR */
        if (line.len == 0)
            break;
        ASSERT(http1_split_header(line, &h->name, &h->value));
        h->kind = http_field_kind(h->name);
        ++n;
    }
    return (struct cache_fields){fields, n};
}

static noinline_ struct limit_copying *copying_of(struct exchange *x)
{
    struct limit_copying *k = x->copying;
    struct cache_policy policy = policy_of(x);

    if (k != NULL)
        return k;
    k = http_request_take(x->req, sizeof(*k));
    *k = (struct limit_copying){.url = url_of(x), .request = headers_cache_request(x->req)};
    k->may_share = !x->has_user && cache_check_request(&k->request, &policy, &k->wish) == CACHE_OK;
    if (k->may_share) {
        k->request.fields = sent_fields(x);
        /* Fields of the client do not describe the certificate of the connection. */
        k->may_share = cache_check_user(k->request.fields, &policy) == CACHE_OK;
    }
    x->copying = k;
    return k;
}

bool limit_may_share(struct exchange *x)
{
    return copying_of(x)->may_share;
}

void limit_copy_wanted(struct exchange *x)
{
    x->copies_wanted = true;
}

/* ---- being answered by one ---- */

static void answer(struct exchange *x, struct copy *copy, enum copy_use use, struct slice detail)
{
    const struct app_settings *s = exchange_settings(x);
    struct copy_answer a;
    struct headers_response r = {
        .req = x->req,
        .via = s->via ? x->home->lb->name : SLICE_NULL,
        .request_id = s->request_id ? x->request_id : SLICE_NULL,
        .own_server = x->shared->own_server,
    };

    copy_answer_make(copy, use, detail, clock_mono_us(), &a);
    headers_take_response(&r, &a.head);
    exchange_change_response(x, false);
    timer_stop(&x->total_timer);
    limit_give_back(x, false);
    x->started = true;
    x->status = a.head.status;
    x->outcome = use == COPY_STALE ? OUTCOME_STALE : OUTCOME_COALESCED;
    exchange_enter(x, STEP_DELIVER);
    http_reply_start(&x->reply, a.head.content_length);
    http_reply_send(&x->reply, copy_take_body(copy), true);
    if (!x->client_over)
        exchange_count_buffered(x);
    copy_put(copy);
}

bool limit_answer_shared(struct exchange *x, uint64_t since_us)
{
    struct limit_copying *k = copying_of(x);

    if (!k->may_share)
        return false;
    struct copy *copy =
        copies_find_shared(x->app->copies, &k->url, &k->request, since_us, clock_mono_us());
    if (copy == NULL)
        return false;
    answer(x, copy, COPY_COALESCED, SLICE_NULL);
    return true;
}

bool limit_answer_stale(struct exchange *x, struct slice detail)
{
    struct limit_copying *k = copying_of(x);

    if (!k->may_share)
        return false;
    struct copy *copy =
        copies_find_stale(x->app->copies, &k->url, &k->request, &k->wish,
                          exchange_settings(x)->copies_max_age_ms / 1000, clock_mono_us());
    if (copy == NULL)
        return false;
    answer(x, copy, COPY_STALE, detail);
    return true;
}

/* ---- taking one ---- */

void limit_copy_drop(struct exchange *x)
{
    copy_maker_destroy(x->copy_maker);
    x->copy_maker = NULL;
}

/* One that changed something makes copies of its target old (RFC 9111 4.4). */
static void invalidate_target(struct exchange *x, int status)
{
    struct copies_url url = url_of(x);

    if (cache_invalidates(x->req->method, status))
        copies_invalidate(x->app->copies, &url, clock_mono_us());
}

/* Mostly there are no copies, or it changes nothing. */
static inline void invalidate(struct exchange *x, int status)
{
    if (x->limits != NULL && x->limits->any_copies && !x->safe)
        invalidate_target(x, status);
}

void limit_copy_head(struct exchange *x, const struct http1_head *head)
{
    limit_copy_drop(x);
    /* The client may request a changed resource before it has read all of the response. */
    invalidate(x, head->status);
    if (!x->copies_wanted)
        return;
    struct limit_copying *k = copying_of(x);
    struct cache_policy policy = policy_of(x);

    /* The settings may have changed while it waited. */
    if (cache_check_user(k->request.fields, &policy) != CACHE_OK)
        return;
    struct copy_maker_head h = {
        .request = &k->request,
        .head = head,
        .asked_us = x->sent_us,
        .received_us = loop_now_us(x->home->loop),
        .received_s = (int64_t)(x->start_wall_ms / 1000 +
                                (loop_now_us(x->home->loop) - x->start_us) / 1000000),
    };

    x->copy_maker = copies_begin(x->app->copies);
    if (copy_maker_head(x->copy_maker, &h) != CACHE_OK)
        limit_copy_drop(x);
}

void limit_copy_body(struct exchange *x, const struct http1_body *body)
{
    if (x->copy_maker != NULL && body != NULL)
        copy_maker_body(x->copy_maker, body);
}

void limit_copy_end(struct exchange *x)
{
    struct copy *copy = NULL;

    /* Some servers change things after the head. */
    invalidate(x, x->status);
    if (x->copy_maker == NULL)
        return;
    copy = copy_maker_end(&x->copy_maker);
    if (copy != NULL)
        copies_put(x->app->copies, &x->copying->url, &copy, clock_mono_us());
}
