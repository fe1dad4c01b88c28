/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the stream of a peer. Either a fetch is in progress or the timer for the next one is
 * running. A peer that cannot be reached changes nothing for requests.
 */
#include "common/base/log.h"
#include "lb/backends/membership.h"
#include "lb/backends/peers_internal.h"
#include "lb/core/lb.h"

enum {
    /* The pause before an absent peer is tried again, doubling: it is found again within 2 s. */
    PAUSE_MIN_MS = 100,
    PAUSE_MAX_MS = 1000,
    CONNECT_MS = 1000,
    /* Without a line for this long the stream is broken; one is sent every second. */
    SILENCE_MS = 5000,
};

static void connect_now(struct timer *t);

static void close_stream(struct lb_peer *p)
{
    bool was_open = p->open;

    timer_stop(&p->timer);
    http_fetch_stop(&p->fetch);
    text_clear(&p->line);
    p->open = false;
    p->application = NULL;
    p->instance[0] = '\0';
    for (size_t i = 0; i < p->all->lb->napplications; ++i) {
        p->applications[i].same = false;
        map_for_each (struct peer_worker, w, &p->applications[i].workers, by_name)
            w->in_flight = 0;
    }
    if (was_open)
        peers_changed(p->all);
}

/* WHY is for the log and the status. */
static void fail_peer(struct lb_peer *p, const char *why)
{
    if (!p->failing || strcmp(why, p->failed) != 0)
        log_warn(NULL, p->open ? "peer-lost" : "peer-not-connected", "peer=%s reason=\"%s\"",
                 p->name, why);
    if (why != p->why)
        snprintf(p->why, sizeof(p->why), "%s", why);
    p->failing = !p->open;
    /* Each new stream has its cost: one that ends at once is opened ever more slowly. */
    if (p->open && loop_now_ms(p->all->lb->control) - p->opened_ms >= PAUSE_MAX_MS)
        p->pause_ms = PAUSE_MIN_MS;
    snprintf(p->failed, sizeof(p->failed), "%s", why);
    close_stream(p);
    p->settled = true;
    timer_start(p->all->lb->control, &p->timer, p->pause_ms);
    p->pause_ms = p->pause_ms * 2 < PAUSE_MAX_MS ? p->pause_ms * 2 : PAUSE_MAX_MS;
}

/* ---- lines ---- */

static struct application *find_application(const struct lb_peer *p, struct slice name)
{
    const struct lb *lb = p->all->lb;

    for (size_t i = 0; i < lb->napplications; ++i) {
        struct application *a = lb->applications[i];

        if (slice_is(name, a->name))
            return p->applications[a->number].same ? a : NULL;
    }
    return NULL;
}

static const char *take_first(struct lb_peer *p, const struct peer_line *line)
{
    const struct lb *lb = p->all->lb;

    /* A name may stand for all load balancers. */
    if (slice_is(line->instance, lb->instance))
        return "the address of this load balancer";
    snprintf(p->instance, sizeof(p->instance), "%.*s", SLICE_FMT(line->instance));
    for (size_t i = 0; i < lb->napplications; ++i) {
        const struct application *a = lb->applications[i];

        p->applications[i].same =
            slice_is(json_text(line->applications, a->name), classifier_fingerprint(a->classifier));
    }
    p->open = true;
    p->opened_ms = loop_now_ms(lb->control);
    p->failing = false;
    p->why[0] = '\0';
    log_info_folded(NULL, "peer-connected", "peer=%s instance=%s", p->name, p->instance);
    peers_changed(p->all);
    return NULL;
}

/* Workers that are not in COUNTS have none. */
static void take_in_flight(struct lb_peer *p, const struct application *a, json_t *counts)
{
    const char *name;
    json_t *v;

    json_object_foreach (counts, name, v) {
        const struct backend *b = peers_find_worker(a, slice_of(name));

        if (b != NULL)
            (void)peers_worker(p, a, b);
    }
    map_for_each (struct peer_worker, w, &p->applications[a->number].workers, by_name) {
        const struct backend *b = peers_find_worker(a, slice_of(w->name));
        uint64_t before = w->in_flight;

        w->in_flight = (uint64_t)json_integer_value(json_object_get(counts, w->name));
        w->reported_ms = loop_now_ms(p->all->lb->control);
        if (b != NULL && (before != 0 || w->in_flight != 0))
            peers_take_in_flight(p->all, a, b);
    }
}

/* Returns NULL, or why the stream is rejected. */
static const char *take_read(struct lb_peer *p, const struct peer_line *line)
{
    switch (line->kind) {
    case PEER_LINE_EMPTY:
        /* The first empty line follows all that the peer knew at the beginning of the stream. */
        p->settled |= p->open;
        break;
    case PEER_LINE_FIRST:
        return take_first(p, line);
    case PEER_LINE_WORKER:
        p->application = find_application(p, line->application);
        snprintf(p->worker, sizeof(p->worker), "%.*s", SLICE_FMT(line->worker));
        break;
    case PEER_LINE_HOMES:
        if (p->application != NULL)
            peers_take_homes(p, p->application, slice_of(p->worker), &line->homes);
        break;
    case PEER_LINE_IN_FLIGHT:
        p->application = find_application(p, line->application);
        if (p->application != NULL)
            take_in_flight(p, p->application, line->counts);
        break;
    case PEER_LINE_END:
        return "ended";
    }
    return NULL;
}

static const char *take_line(struct lb_peer *p, struct slice bytes)
{
    struct peer_line line;
    const char *why = peer_line_read(&line, !p->open, bytes, p->why);

    if (why == NULL)
        why = take_read(p, &line);
    peer_line_fini(&line);
    return why;
}

/* ---- the request ---- */

static void on_head(struct http_fetch *fetch, const struct http1_head *head)
{
    struct lb_peer *p = container_of(fetch, struct lb_peer, fetch);
    char why[80];

    if (head->status == 200)
        return;
    snprintf(why, sizeof(why),
             head->status == 401 ? "status 401: it has another token" : "status %d", head->status);
    fail_peer(p, why);
}

/* A line is taken over as a whole; after an invalid one, nothing of the stream is. */
static void on_body(struct http_fetch *fetch, struct slice bytes)
{
    struct lb_peer *p = container_of(fetch, struct lb_peer, fetch);

    while (bytes.len > 0) {
        const char *end = memchr(bytes.p, '\n', bytes.len);
        struct slice part = {bytes.p, end != NULL ? (size_t)(end - bytes.p) : bytes.len};
        const char *why = "line over its limit";

        if (p->line.len + part.len <= RESUME_LINE_MAX) {
            text_add(&p->line, part);
            if (end == NULL)
                return;
            why = take_line(p, text_slice(&p->line));
        }
        if (why != NULL) {
            fail_peer(p, why);
            return;
        }
        text_clear(&p->line);
        http_fetch_extend(fetch, SILENCE_MS);
        bytes = (struct slice){end + 1, bytes.len - part.len - 1};
    }
}

static void on_done(struct http_fetch *fetch, enum err e)
{
    struct lb_peer *p = container_of(fetch, struct lb_peer, fetch);

    fail_peer(p, e == ERR_OK ? "ended without its end line" : err_text(e));
}

static void connect_now(struct timer *t)
{
    static const struct http_fetch_events events = {
        .on_head = on_head, .on_body = on_body, .done = on_done};
    struct lb_peer *p = container_of(t, struct lb_peer, timer);
    const struct lb *lb = p->all->lb;
    struct http_fetch_request q = {.addr = &p->addr,
                                   .connect_timeout_ms = CONNECT_MS,
                                   .timeout_ms = SILENCE_MS,
                                   .events = &events};

    text_addf(&q.bytes,
              "GET /peers/stream HTTP/1.1\r\n"
              "Host: %s\r\n"
              "Accept: application/x-resumelb-resume+jsonl\r\n",
              p->addr.sa.sa_family == AF_UNIX ? "localhost" : p->name);
    if (lb->admin_token != NULL)
        text_addf(&q.bytes, "Authorization: Bearer %s\r\n", lb->admin_token);
    text_add(&q.bytes, SLICE_LIT("\r\n"));
    http_fetch_start(&p->fetch, lb->control, &q);
}

void peer_feed_start(struct lb_peer *p)
{
    p->pause_ms = PAUSE_MIN_MS;
    timer_init(&p->timer, connect_now);
    connect_now(&p->timer);
}

void peer_feed_stop(struct lb_peer *p)
{
    close_stream(p);
    text_fini(&p->line);
}
