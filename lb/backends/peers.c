/* SPDX-License-Identifier: Apache-2.0
 *
 * Each load balancer has records of its own decisions and uses for each worker (member->homes), and
 * publishes only these. What it gives its pool is what an agent would have recorded had it received
 * the requests of all: the merged records of itself and its peers.
 *
 *     data loop   decision, end of a request -> member->homes
 *     control     every 100 ms: changes of member->homes -> merged -> pool
 *                                                        '-> lines -> streams of peers
 *                 lines of peers -> peer_worker -> merged -> pool
 *
 * The lines of a round are printed once for all streams. A stream that was too slow for a round
 * gets everything again when it has caught up.
 */
#include "common/base/clock.h"
#include "common/base/log.h"
#include "lb/backends/membership.h"
#include "lb/backends/peers_internal.h"
#include "lb/core/lb.h"
#include "routing/pool.h"

enum {
    TICK_MS = HOME_LINES_DECIDED_MS,
    /* Rounds between two in which all changes are sent, not only decisions; and keep-alive. */
    TICKS_OF_ALL = HOME_LINES_MS / TICK_MS,
};

struct peer_stream {
    struct list node;
    struct http_response *response;
    bool behind; /* it has missed a round */
};

static bool is_shared(const struct backend *b)
{
    return b->worker != NULL && member_of(b->worker)->homes != NULL;
}

struct backend *peers_find_worker(const struct application *a, struct slice name)
{
    char text[HOME_FROM_MAX + 1];

    snprintf(text, sizeof(text), "%.*s", SLICE_FMT(name));
    struct backend *b = membership_find(a->membership, text);
    return b != NULL && is_shared(b) ? b : NULL;
}

static struct peer_worker *find_reported(const struct lb_peer *peer, const struct application *a,
                                         const struct backend *b)
{
    return map_entry(map_find(&peer->applications[a->number].workers, b->name, strlen(b->name)),
                     struct peer_worker, by_name);
}

struct peer_worker *peers_worker(struct lb_peer *peer, const struct application *a,
                                 const struct backend *b)
{
    struct peer_worker *w = find_reported(peer, a, b);

    if (w != NULL)
        return w;
    w = xcalloc(1, sizeof(*w));
    w->name = xstrdup(b->name);
    w->records = home_records_create((size_t)a->settings->s.max_skills);
    map_add(&peer->applications[a->number].workers, &w->by_name, w->name, strlen(w->name));
    return w;
}

/* Removes what PEER has reported of the workers of A; or, if GONE, of those that are gone. */
static void remove_reported(struct lb_peer *peer, const struct application *a, bool gone)
{
    struct map *workers = &peer->applications[a->number].workers;

    map_for_each_safe (struct peer_worker, w, workers, by_name) {
        if (gone && peers_find_worker(a, slice_of(w->name)) != NULL)
            continue;
        map_remove(workers, &w->by_name);
        home_records_destroy(w->records);
        free(w->name);
        free(w);
    }
}

/* Whether another address of the same load balancer counts already. */
static bool is_repeated(const struct lb_peer *peer)
{
    for (const struct lb_peer *other = peer->all->items; other != peer; ++other) {
        if (other->open && strcmp(other->instance, peer->instance) == 0)
            return true;
    }
    return false;
}

/* ---- records ---- */

/* Merges the records of CLS at B, and gives the result to the pool. */
static void publish_class(const struct peers *p, const struct application *a, struct backend *b,
                          struct slice cls)
{
    struct member *m = member_of(b->worker);
    const struct home_records *records[PEERS_MAX];
    struct home_row row;
    char *from = NULL;
    size_t n = 0;

    for (size_t i = 0; i < p->n; ++i) {
        const struct peer_worker *w = find_reported(&p->items[i], a, b);

        if (w != NULL && !(p->items[i].open && is_repeated(&p->items[i])))
            records[n++] = w->records;
    }
    latch_lock(&m->homes_lock);
    records[n++] = m->homes;
    bool found = home_records_merge(records, n, cls, clock_mono_us(), &row);
    if (found && row.from.len != 0)
        from = xasprintf("%.*s", (int)row.from.len, row.from.p);
    latch_unlock(&m->homes_lock);
    if (!found)
        return;
    row.from = slice_of(from);
    backend_on_homes(b, &(struct home_line){.rows = &row, .n = 1});
    free(from);
}

/* Appends the classes of RECORDS that have changed after CURSOR, a line each. */
static void add_classes(const struct home_records *records, uint64_t cursor, struct text *out)
{
    for (const struct home_record *r = home_records_after(records, cursor); r != NULL;
         r = home_records_next(records, r)) {
        text_add(out, class_name(&r->base));
        text_add_char(out, '\n');
    }
}

static void publish_classes(const struct peers *p, const struct application *a, struct backend *b,
                            struct slice classes)
{
    while (classes.len != 0)
        publish_class(p, a, b, slice_cut(&classes, '\n'));
}

void peers_take_homes(struct lb_peer *peer, const struct application *a, struct slice name,
                      const struct home_line *line)
{
    struct backend *b = peers_find_worker(a, name);
    uint64_t now_us = clock_mono_us();

    if (b == NULL)
        return;
    struct peer_worker *w = peers_worker(peer, a, b);
    for (size_t i = 0; i < line->n; ++i) {
        home_records_set(w->records, &line->rows[i], now_us);
        publish_class(peer->all, a, b, line->rows[i].cls);
    }
}

void peers_take_in_flight(const struct peers *p, const struct application *a,
                          const struct backend *b)
{
    uint64_t total = worker_in_flight(b->worker);
    uint64_t now_ms = loop_now_ms(p->lb->control);
    uint64_t max_age_ms = a->settings->s.backlog_max_age_ms;

    for (size_t i = 0; i < p->n; ++i) {
        const struct peer_worker *w = find_reported(&p->items[i], a, b);

        /* A report of another peer does not make this one's younger. */
        if (w != NULL && now_ms - w->reported_ms < max_age_ms && p->items[i].open &&
            !is_repeated(&p->items[i]))
            total += w->in_flight;
    }
    worker_report(b->worker, total < WORKER_REPORT_MAX ? total : WORKER_REPORT_MAX, now_ms);
}

/* ---- which load balancers there are ---- */

/* The first 16 hexadecimal digits. */
static uint64_t number_of(const char *instance)
{
    char digits[17];

    snprintf(digits, sizeof(digits), "%.16s", instance);
    return strtoull(digits, NULL, 16);
}

/* Sets the load balancers that decide for A: this one and the peers that serve it. */
static void set_balancers(const struct peers *p, const struct application *a)
{
    uint64_t own = number_of(p->lb->instance);
    uint64_t ids[PEERS_MAX] = {own};
    size_t n = 1;
    size_t self = 0;

    for (size_t i = 0; i < p->n; ++i) {
        const struct lb_peer *peer = &p->items[i];
        uint64_t id = number_of(peer->instance);

        if (peer->open && peer->applications[a->number].same && !is_repeated(peer))
            ids[n++] = id;
    }
    qsort(ids, n, sizeof(ids[0]), ascending_u64);
    while (ids[self] != own)
        ++self;
    membership_set_peers(a->membership, ids, n, self);
}

static void publish_backend(void *context, const struct backend *b)
{
    const struct peers *p = context;
    const struct application *a = b->app;
    struct text classes = {0};

    if (!is_shared(b))
        return;
    struct member *m = member_of(b->worker);
    latch_lock(&m->homes_lock);
    add_classes(m->homes, 0, &classes);
    latch_unlock(&m->homes_lock);
    for (size_t i = 0; i < p->n; ++i) {
        const struct peer_worker *w = find_reported(&p->items[i], a, b);

        if (w != NULL)
            add_classes(w->records, 0, &classes);
    }
    publish_classes(p, a, membership_find(a->membership, b->name), text_slice(&classes));
    text_fini(&classes);
}

void peers_changed(struct peers *p)
{
    for (size_t i = 0; i < p->lb->napplications && !p->stopped; ++i) {
        const struct application *a = p->lb->applications[i];

        set_balancers(p, a);
        /* The pool has dropped what it knew of the others' decisions. */
        membership_each(a->membership, publish_backend, p);
    }
}

/* ---- the streams of peers ---- */

static void add_worker_line(const struct backend *b, struct text *out)
{
    struct json_writer w = {.out = out};

    json_open_object(&w, NULL);
    json_put_int(&w, "v", 1);
    json_put_text(&w, "application", slice_of(b->app->name));
    json_put_text(&w, "worker", slice_of(b->name));
    json_close_object(&w);
    text_add_char(out, '\n');
}

/* What is sent to peers in a round, or at the beginning of a stream. */
struct round {
    struct peers *peers;
    struct text *out;
    bool first;     /* of a stream: everything, which is not given to the pool again */
    bool all;       /* not only decisions */
    bool publishes; /* others decide, too */
    struct json_writer counts;
};

static void add_homes(void *context, const struct backend *b)
{
    struct round *r = context;
    struct text lines = {0};
    struct text classes = {0};

    if (!is_shared(b))
        return;
    struct member *m = member_of(b->worker);
    uint64_t cursor = r->first ? 0 : m->homes_published;
    latch_lock(&m->homes_lock);
    if (r->first || r->all || home_records_decided(m->homes, cursor)) {
        if (r->publishes && !r->first)
            add_classes(m->homes, cursor, &classes);
        (void)home_lines_print(m->homes, &cursor, clock_mono_us(), &lines);
    }
    latch_unlock(&m->homes_lock);
    if (!r->first)
        m->homes_published = cursor;
    if (lines.len != 0) {
        add_worker_line(b, r->out);
        text_add(r->out, text_slice(&lines));
    }
    publish_classes(r->peers, b->app, membership_find(b->app->membership, b->name),
                    text_slice(&classes));
    text_fini(&lines);
    text_fini(&classes);
}

static void add_in_flight(void *context, const struct backend *b)
{
    struct round *r = context;
    uint64_t n = is_shared(b) ? worker_in_flight(b->worker) : 0;

    if (n != 0)
        json_put_int(&r->counts, b->name, n < PEER_IN_FLIGHT_MAX ? (int64_t)n : PEER_IN_FLIGHT_MAX);
}

static void add_round(struct round *r)
{
    const struct lb *lb = r->peers->lb;

    for (size_t i = 0; i < lb->napplications; ++i) {
        const struct application *a = lb->applications[i];

        membership_each(a->membership, add_homes, r);
        r->counts = (struct json_writer){.out = r->out};
        json_open_object(&r->counts, NULL);
        json_put_int(&r->counts, "v", 1);
        json_put_text(&r->counts, "application", slice_of(a->name));
        json_open_object(&r->counts, "in_flight");
        membership_each(a->membership, add_in_flight, r);
        json_close_object(&r->counts);
        json_close_object(&r->counts);
        text_add_char(r->out, '\n');
    }
}

static void add_first_line(const struct lb *lb, struct text *out)
{
    struct json_writer w = {.out = out};

    json_open_object(&w, NULL);
    json_put_int(&w, "v", 1);
    json_put_text(&w, "balancer", slice_of(lb->instance));
    json_open_object(&w, "applications");
    for (size_t i = 0; i < lb->napplications; ++i)
        json_put_text(&w, lb->applications[i]->name,
                      slice_of(classifier_fingerprint(lb->applications[i]->classifier)));
    json_close_object(&w);
    json_close_object(&w);
    text_add_char(out, '\n');
}

/* Sends everything to ST, with an empty line at its end. */
static void send_all(struct peer_stream *st, struct peers *p, bool first)
{
    struct text out = {0};

    if (first)
        add_first_line(p->lb, &out);
    add_round(&(struct round){.peers = p, .out = &out, .first = true});
    text_add_char(&out, '\n');
    st->behind = false;
    http_response_send(st->response, body_piece_copy(text_slice(&out)), false);
    text_fini(&out);
}

static void on_tick(struct timer *t)
{
    struct peers *p = container_of(t, struct peers, tick);
    struct peer_stream *st;
    struct text out = {0};
    struct round r = {.peers = p, .out = &out, .all = ++p->ticks % TICKS_OF_ALL == 0};

    timer_start(p->lb->control, t, TICK_MS);
    for (size_t i = 0; i < p->n; ++i) {
        r.publishes |= p->items[i].open;
        for (size_t k = 0; k < p->lb->napplications && r.all; ++k)
            remove_reported(&p->items[i], p->lb->applications[k], true);
    }
    if (list_empty(&p->streams) && !r.publishes)
        return;
    add_round(&r);
    list_for_each_entry_safe (st, &p->streams, node) {
        if (st->response->queued_bytes != 0)
            st->behind = true;
        else if (st->behind)
            send_all(st, p, false);
        else
            http_response_send(st->response, body_piece_copy(text_slice(&out)), false);
    }
    text_fini(&out);
}

static void on_stream_gone(void *context, unused_ bool done)
{
    struct peer_stream *st = context;

    list_remove(&st->node);
    free(st);
}

int peers_serve(void *context, struct http_response *response)
{
    static const struct http_response_events events = {.gone = on_stream_gone};
    struct lb *lb = context;
    struct peers *p = lb->peers;

    if (p == NULL)
        return 404;
    if (p->stopped || list_length(&p->streams) >= PEERS_MAX)
        return 503;
    struct peer_stream *st = xcalloc(1, sizeof(*st));
    st->response = response;
    list_push_back(&p->streams, &st->node);
    response->events = &events;
    response->context = st;
    response->req->res.status = 200;
    http_request_add_response(response->req, "Content-Type",
                              SLICE_LIT("application/x-resumelb-resume+jsonl"));
    http_response_start(response, UINT64_MAX);
    send_all(st, p, true);
    return 0;
}

/* ---- life ---- */

struct peers *peers_create(struct lb *lb)
{
    const struct text_list *list = &lb->settings.peers;

    if (list->n == 0)
        return NULL;
    struct peers *p = xcalloc(1, sizeof(*p));
    p->lb = lb;
    p->items = xcalloc(list->n, sizeof(*p->items));
    list_init(&p->streams);
    timer_init(&p->tick, on_tick);
    for (; p->n < list->n; ++p->n) {
        struct lb_peer *peer = &p->items[p->n];

        peer->all = p;
        /* Checked with the configuration. */
        if (addr_parse(slice_of(list->items[p->n]), &peer->addr) != ERR_OK)
            ASSERT(false);
        snprintf(peer->name, sizeof(peer->name), "%s", addr_text(&peer->addr));
    }
    return p;
}

void peers_start(struct peers *p)
{
    for (size_t i = 0; p != NULL && i < p->n; ++i) {
        p->items[i].applications =
            xcalloc(p->lb->napplications, sizeof(p->items[i].applications[0]));
        peer_feed_start(&p->items[i]);
    }
    if (p != NULL)
        timer_start(p->lb->control, &p->tick, TICK_MS);
}

bool peers_settled(const struct peers *p)
{
    for (size_t i = 0; p != NULL && i < p->n; ++i) {
        if (!p->items[i].settled)
            return false;
    }
    return true;
}

void peers_describe(const struct peers *p, struct json_writer *w)
{
    json_open_array(w, "peers");
    for (size_t i = 0; p != NULL && i < p->n; ++i) {
        const struct lb_peer *peer = &p->items[i];

        json_open_object(w, NULL);
        json_put_text(w, "address", slice_of(peer->name));
        json_put_bool(w, "connected", peer->open);
        json_put_text(w, "instance", slice_of(peer->instance));
        json_put_text(w, "why", slice_of(peer->why));
        json_close_object(w);
    }
    json_close_array(w);
}

void peers_stop(struct peers *p)
{
    struct peer_stream *st;

    if (p == NULL || p->stopped)
        return;
    p->stopped = true;
    timer_stop(&p->tick);
    list_for_each_entry_safe (st, &p->streams, node)
        http_response_send(st->response, body_piece_copy(SLICE_LIT("{\"end\":\"stop\"}\n")), true);
    for (size_t i = 0; i < p->n; ++i) {
        struct lb_peer *peer = &p->items[i];

        if (peer->applications == NULL)
            continue; /* not started */
        peer_feed_stop(peer);
        for (size_t k = 0; k < p->lb->napplications; ++k)
            remove_reported(peer, p->lb->applications[k], false);
        free(peer->applications);
        peer->applications = NULL;
    }
}

void peers_destroy(struct peers *p)
{
    if (p == NULL)
        return;
    peers_stop(p);
    ASSERT(list_empty(&p->streams));
    free(p->items);
    free(p);
}
