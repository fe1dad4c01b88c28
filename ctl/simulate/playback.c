/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelbctl playback: sends the GETs of a log to one server after the other, and reports.
 */
#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/upstream/http1_client.h"
#include "common/wire/url_line.h"
#include "ctl/simulate/simulate.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* ---- reading ---- */

static bool is_sendable(struct slice s)
{
    for (size_t i = 0; i < s.len; ++i) {
        if ((unsigned char)s.p[i] <= ' ' || s.p[i] == 0x7f)
            return false;
    }
    return true;
}

static size_t playback_store(struct text *texts, struct slice a, const char *between,
                             struct slice b)
{
    size_t at = texts->len;

    text_add(texts, a);
    text_add(texts, slice_of(between));
    text_add(texts, b);
    text_add_char(texts, '\0');
    return at;
}

/* Reads the GETs of p->o.words[0]. No target has bytes that would end a line of a request. */
static enum err playback_read(struct playback *p, struct diag *d)
{
    struct requests in;
    struct access_line l;
    uint64_t first_ms = 0;
    enum err e = requests_open(p->o.words[0], &in, d);

    if (e != ERR_OK)
        return e;
    while (e == ERR_OK && p->n < p->limit && requests_next(&in, &l)) {
        struct playback_request q = {0};

        if (!slice_is(l.method, "GET") || l.path.len == 0 || l.path.p[0] != '/' ||
            !is_sendable(l.path) || !is_sendable(l.query) || !is_sendable(l.host)) {
            ++p->others;
            continue;
        }
        if (!simulate_classify(&p->classifiers.all[0], &l, &q.cls)) {
            diag_add(d, p->o.words[0], 0, 0, "too many classes");
            e = ERR_TOO_LARGE;
            break;
        }
        if (p->n == 0)
            first_ms = l.time_ms;
        q.due_ns = (l.time_ms - first_ms) * 1000000;
        q.host_at = playback_store(&p->texts, l.host, "", SLICE_LIT(""));
        q.target_at = playback_store(&p->texts, l.path, l.query.len != 0 ? "?" : "", l.query);
        p->requests = xgrow(p->requests, p->n + 1, &p->room, sizeof(p->requests[0]));
        p->requests[p->n++] = q;
    }
    requests_print_bad(&in, &p->bad);
    enum err closed = ctl_close(in.in, in.file, d);
    e = e == ERR_OK ? closed : e;
    if (e == ERR_OK && p->n == 0) {
        diag_add(d, p->o.words[0], 0, 0, "no GETs%s%s", in.bad_why != NULL ? ": " : "",
                 in.bad_why != NULL ? in.bad_why : "");
        e = ERR_SYNTAX;
    }
    if (e == ERR_OK)
        requests_spread(&in, &p->requests[0].due_ns, sizeof(p->requests[0]), p->n);
    return e;
}

/* ---- playing ---- */

/*
 * A player: one loop, so many clients, each with at most one connection and one request on it.
 *
 *   IDLE -- a request is due --> CONNECTING -> ASKED -- response or error --> IDLE
 *
 * Closed loop: the next request is due when a client is free. Paced: at the times of the log. If no
 * client is free, a request waits, and its latency counts from when it was due, so that a slow
 * server cannot hide its delay by taking fewer.
 */

enum { CHECK_MS = 50, PACE_AHEAD_US = 1000 };

struct player;

struct playback_client {
    struct list node; /* in player.idle */
    struct player *player;
    struct http1_client_conn *conn;
    struct loop_deferred next;
    size_t request;
    uint64_t began_us;
    bool reused; /* the connection has served before */
};

struct player {
    struct playback *p;
    struct playback_server *s;
    struct loop *loop;
    struct playback_client *clients;
    struct list idle;
    struct timer pace, check;
    uint64_t started_us;
    size_t next; /* request */
    size_t running;
    sigset_t ending;
};

static void connect_client(struct playback_client *c);
static void playback_begin(struct player *y);

static struct playback_record *record_of(struct playback_client *c)
{
    return &c->player->s->records[c->request];
}

static void now_idle(struct loop_deferred *d)
{
    struct playback_client *c = container_of(d, struct playback_client, next);
    struct player *y = c->player;

    list_push_front(&y->idle, &c->node);
    --y->running;
    playback_begin(y);
    if (y->running == 0 && (y->p->interrupted || y->next == y->p->n))
        loop_stop(y->loop);
}

static void playback_finish(struct playback_client *c, enum err e)
{
    struct playback_record *r = record_of(c);
    uint64_t spent_us = clock_mono_us() - c->began_us;

    r->played = true;
    r->latency_us = spent_us < UINT32_MAX ? (uint32_t)spent_us : UINT32_MAX;
    r->error = (uint16_t)e;
    if (e != ERR_OK)
        r->status = 0;
    if (c->conn != NULL && (e != ERR_OK || !http1_client_reusable(c->conn)))
        http1_client_close(&c->conn);
    loop_defer_once(c->player->loop, &c->next);
}

static void on_playback_head(void *context, const struct http1_head *head, bool final)
{
    struct playback_client *c = context;
    uint64_t n = 0;

    record_of(c)->status = (uint16_t)head->status;
    for (size_t i = 0; i < head->nheaders; ++i) {
        if (slice_eq_nocase(head->headers[i].name, slice_of(c->player->p->loads_header)) &&
            parse_u64(head->headers[i].value, PLAYBACK_NO_LOADS - 1, &n))
            record_of(c)->loads = (uint32_t)n;
    }
    if (final)
        playback_finish(c, ERR_OK);
}

static void on_playback_body(void *context, struct body_piece *body, bool last)
{
    body_piece_release(body);
    if (last)
        playback_finish(context, ERR_OK);
}

static void on_playback_error(void *context, const struct http1_client_failure *failure)
{
    struct playback_client *c = context;
    /* An idle connection that ends when it is reused: the server had closed it. */
    bool again = c->reused && !failure->received;

    http1_client_close(&c->conn);
    if (again)
        connect_client(c);
    else
        playback_finish(c, failure->error);
}

static const struct http1_client_events events = {
    .on_head = on_playback_head, .on_body = on_playback_body, .on_error = on_playback_error};

static void on_client_open(void *context, struct http1_client_conn *conn, enum err e)
{
    struct playback_client *c = context;
    const struct playback *p = c->player->p;
    const struct playback_request *q = &p->requests[c->request];
    const char *host = p->texts.p + q->host_at;
    struct text head = {0};

    c->conn = conn;
    if (conn == NULL) {
        playback_finish(c, e);
        return;
    }
    text_addf(&head, "GET %s HTTP/1.1\r\nHost: ", p->texts.p + q->target_at);
    text_add(&head, host[0] != '\0' ? slice_of(host) : c->player->s->host);
    text_add(&head, SLICE_LIT("\r\nUser-Agent: resumelbctl-playback\r\nAccept: */*\r\n\r\n"));
    struct http1_client_request r = {
        .head = text_slice(&head),
        .first_byte_timeout_ms = p->o.timeout_ms,
        .between_bytes_timeout_ms = p->o.timeout_ms,
        .events = &events,
        .context = c,
    };
    http1_client_request(conn, &r);
    text_fini(&head);
}

static void connect_client(struct playback_client *c)
{
    struct player *y = c->player;

    c->reused = c->conn != NULL;
    if (c->reused)
        on_client_open(c, c->conn, ERR_OK);
    else
        (void)http1_client_connect_tls(y->loop, &y->s->addr, NULL, NULL, y->p->o.timeout_ms,
                                       on_client_open, c);
}

/* Begins the requests that are due, while clients are idle. */
static void playback_begin(struct player *y)
{
    struct playback *p = y->p;

    while (!p->interrupted && y->next < p->n && !list_empty(&y->idle)) {
        uint64_t now_us = clock_mono_us();
        uint64_t due_us = now_us;

        if (p->speed > 0)
            due_us =
                y->started_us + (uint64_t)((double)p->requests[y->next].due_ns / 1e3 / p->speed);
        if (due_us > now_us + PACE_AHEAD_US) {
            timer_start(y->loop, &y->pace, (due_us - now_us) / 1000);
            return;
        }
        struct playback_client *c = list_entry(y->idle.next, struct playback_client, node);
        list_remove(&c->node);
        ++y->running;
        c->request = y->next++;
        c->began_us = due_us < now_us ? due_us : now_us;
        record_of(c)->loads = PLAYBACK_NO_LOADS;
        connect_client(c);
    }
}

static void on_pace(struct timer *t)
{
    playback_begin(container_of(t, struct player, pace));
}

/* Handles a request to exit: waits for the requests in progress, at most until they time out. */
static void playback_check(struct timer *t)
{
    struct player *y = container_of(t, struct player, check);
    static const struct timespec at_once;

    if (sigtimedwait(&y->ending, NULL, &at_once) > 0) {
        y->p->interrupted = true; /* nothing new is begun */
        timer_stop(&y->pace);
        if (y->running == 0)
            loop_stop(y->loop);
    }
    timer_start(y->loop, &y->check, CHECK_MS);
}

/* Ask S for everything, until done or interrupted. */
static void playback_run(struct playback *p, struct playback_server *s)
{
    struct player y = {.p = p, .s = s, .loop = loop_create(0)};

    s->records = xcalloc(p->n, sizeof(s->records[0]));
    y.clients = xcalloc(p->clients, sizeof(y.clients[0]));
    list_init(&y.idle);
    for (size_t i = 0; i < p->clients; ++i) {
        y.clients[i] = (struct playback_client){.player = &y, .next.run = now_idle};
        list_push_back(&y.idle, &y.clients[i].node);
    }
    sigemptyset(&y.ending);
    sigaddset(&y.ending, SIGINT);
    sigaddset(&y.ending, SIGTERM);
    sigprocmask(SIG_BLOCK, &y.ending, NULL);
    signal(SIGPIPE, SIG_IGN); /* a server that hangs up is an error like others */
    timer_init(&y.pace, on_pace);
    timer_init(&y.check, playback_check);
    timer_start(y.loop, &y.check, CHECK_MS);
    y.started_us = clock_mono_us();
    playback_begin(&y);
    loop_run(y.loop);
    s->wall_s = (double)(clock_mono_us() - y.started_us) / 1e6;
    timer_stop(&y.pace);
    timer_stop(&y.check);
    for (size_t i = 0; i < p->clients; ++i)
        http1_client_close(&y.clients[i].conn);
    loop_destroy(y.loop);
    free(y.clients);
}

/* ---- figures ---- */

enum { FIRST_SERVER_ERROR = 500 };

static int compare_latency(const void *a, const void *b)
{
    return compare_u64(*(const uint32_t *)a, *(const uint32_t *)b);
}

/* The smallest value that PERCENT of all values do not exceed (nearest rank). */
static double percentile_ms(const uint32_t *sorted, size_t n, unsigned percent)
{
    size_t rank = n != 0 ? (n * percent + 99) / 100 : 0;

    return rank != 0 ? sorted[rank - 1] / 1e3 : 0;
}

void playback_figures(const struct playback *p, const struct playback_server *s, uint32_t cls,
                      struct playback_figures *out)
{
    uint32_t *latencies = xmalloc((p->n + 1) * sizeof(latencies[0]));
    size_t responded = 0, reported = 0;
    double loads = 0;

    *out = (struct playback_figures){.loads = -1};
    for (size_t i = 0; i < p->n; ++i) {
        const struct playback_record *r = &s->records[i];

        if (!r->played || (cls != UINT32_MAX && p->requests[i].cls != cls))
            continue;
        ++out->n;
        out->errors += r->status == 0 || r->status >= FIRST_SERVER_ERROR;
        if (r->status == 0)
            continue;
        latencies[responded++] = r->latency_us;
        if (r->loads != PLAYBACK_NO_LOADS) {
            loads += r->loads;
            ++reported;
        }
    }
    qsort(latencies, responded, sizeof(latencies[0]), compare_latency);
    out->p50_ms = percentile_ms(latencies, responded, 50);
    out->p90_ms = percentile_ms(latencies, responded, 90);
    out->p99_ms = percentile_ms(latencies, responded, 99);
    out->max_ms = percentile_ms(latencies, responded, 100);
    if (reported != 0)
        out->loads = loads / (double)reported;
    free(latencies);
}

/* "-50 %" of one figure to another. */
static void add_change(struct table *t, double from, double to)
{
    table_addf(t, from > 0 ? "%+.0f %%" : "-", 100 * (to - from) / from);
}

static void add_row(const struct playback *p, struct table *t, struct slice name, uint32_t cls)
{
    struct playback_figures f[PLAYBACK_SERVERS_MAX];

    table_add(t, name.len != 0 ? name : SLICE_LIT("(none)"));
    for (size_t i = 0; i < p->nservers; ++i) {
        playback_figures(p, &p->servers[i], cls, &f[i]);
        table_numbers(t, "%zu %zu %.2f %.2f %.2f", f[i].n, f[i].errors, f[i].p50_ms, f[i].p90_ms,
                      f[i].p99_ms);
        table_addf(t, f[i].loads >= 0 ? "%.2f" : "-", f[i].loads);
    }
    if (p->nservers == 2) {
        add_change(t, f[0].p50_ms, f[1].p50_ms);
        add_change(t, f[0].p99_ms, f[1].p99_ms);
    }
}

static void print_text(const struct playback *p, const struct class_counts *shown, struct text *out)
{
    struct table t;

    text_add(out, text_slice(&p->bad));
    if (p->others != 0)
        text_addf(out, "%zu requests skipped that are not GETs\n", p->others);
    for (size_t i = 0; i < p->nservers; ++i) {
        const struct playback_server *s = &p->servers[i];
        size_t without[ERR_COUNT] = {0};
        struct playback_figures f;

        playback_figures(p, s, UINT32_MAX, &f);
        text_addf(out, "%s%s: %zu requests in %.1f s, %.1f/s, %zu errors\n",
                  p->nservers == 2 ? (i == 0 ? "1 " : "2 ") : "", s->url, f.n, s->wall_s,
                  s->wall_s > 0 ? (double)f.n / s->wall_s : 0, f.errors);
        for (size_t k = 0; k < p->n; ++k)
            without[s->records[k].error] += s->records[k].played;
        for (int e = ERR_OK + 1; e < ERR_COUNT; ++e) {
            if (without[e] != 0)
                text_addf(out, "  %zu without a response: %s\n", without[e], err_text((enum err)e));
        }
    }
    if (p->interrupted)
        text_add(out, SLICE_LIT("interrupted: the log was not played completely\n"));
#define COLUMNS "|>requests|>errors|>p50 ms|>p90 ms|>p99 ms|>loads"
    table_begin(&t, p->nservers == 2 ? "class" COLUMNS COLUMNS "|>p50|>p99" : "class" COLUMNS);
    add_row(p, &t, SLICE_LIT("all"), UINT32_MAX);
    for (size_t i = 0; i < shown->n; ++i)
        add_row(p, &t, shown->classes[i].name, shown->classes[i].number);
    table_end(&t, out);
}

static void put_figures(const struct playback *p, const struct playback_server *s, uint32_t cls,
                        struct json_writer *w)
{
    struct playback_figures f;

    playback_figures(p, s, cls, &f);
    json_put_int(w, "requests", (int64_t)f.n);
    json_put_int(w, "errors", (int64_t)f.errors);
    json_put_real(w, "p50_ms", f.p50_ms);
    json_put_real(w, "p90_ms", f.p90_ms);
    json_put_real(w, "p99_ms", f.p99_ms);
    json_put_real(w, "max_ms", f.max_ms);
    json_put_real(w, "loads_per_request", f.loads >= 0 ? f.loads : (double)NAN);
}

static void print_json(const struct playback *p, const struct class_counts *shown, struct text *out)
{
    struct json_writer w = {.out = out};

    json_open_object(&w, NULL);
    json_put_int(&w, "left_out", (int64_t)p->others);
    json_put_bool(&w, "interrupted", p->interrupted);
    json_open_array(&w, "servers");
    for (const struct playback_server *s = p->servers; s < p->servers + p->nservers; ++s) {
        json_open_object(&w, NULL);
        json_put_text(&w, "url", slice_of(s->url));
        json_put_real(&w, "seconds", s->wall_s);
        put_figures(p, s, UINT32_MAX, &w);
        json_open_array(&w, "classes");
        for (size_t i = 0; i < shown->n; ++i) {
            json_open_object(&w, NULL);
            json_put_text(&w, "class", shown->classes[i].name);
            put_figures(p, s, shown->classes[i].number, &w);
            json_close_object(&w);
        }
        json_close_array(&w);
        json_close_object(&w);
    }
    json_close_array(&w);
    json_close_object(&w);
    text_add_char(out, '\n');
}

/* ---- the command ---- */

enum {
    CLIENTS_CLOSED = 8,
    CLIENTS_PACED = 256, /* enough for all requests in flight at the servers of a log */
    TIMEOUT_S = 30,
    TOP_DEFAULT = 10,
};

static int take_speed(struct ctl_options *o, unused_ const struct ctl_flag *f, const char *value)
{
    struct playback *p = container_of(o, struct playback, o);

    if (parse_double(slice_of(value), &p->speed) && p->speed >= 1e-6 && p->speed <= 1e6)
        return CTL_OK;
    return ctl_usage_error(o->command, "--speed: expected a number from 1e-06 to 1e+06, not",
                           value);
}

/* Returns -1 to continue; else the exit code. */
static int parse_arguments(struct playback *p, const struct ctl_command *c, int argc, char **argv)
{
    int code = ctl_parse(c, argc, argv, &p->o);

    if (code >= 0)
        return code;
    if (p->o.words[0] == NULL || p->o.words[1] == NULL)
        return ctl_usage_error(c, "expected a log and a server: LOG http://HOST:PORT", NULL);
    for (char **url = p->o.words + 1; *url != NULL; ++url) {
        struct playback_server *s = &p->servers[p->nservers];
        struct text address = {0};
        struct url_line u;
        size_t n = 1;

        if (url_line_parse(slice_of(*url), &u) != NULL || u.host.len == 0 || u.tls ||
            u.query.len != 0 || !slice_is(u.path, "/"))
            return ctl_usage_error(c, "expected a server as http://HOST:PORT, not", *url);
        *s = (struct playback_server){.url = *url, .host = u.host};
        ++p->nservers;
        text_add(&address, u.host);
        if (u.host.p[u.host.len - 1] == ']' || slice_find(u.host, ':') == SIZE_MAX)
            text_add(&address, SLICE_LIT(":80"));
        enum err e = addr_parse(text_slice(&address), &s->addr);
        if (e == ERR_UNSUPPORTED)
            e = addr_resolve(text_slice(&address), &s->addr, &n);
        text_fini(&address);
        if (e != ERR_OK) {
            fprintf(stderr, "resumelbctl: %s: %s\n", *url, err_text(e));
            return CTL_FAILED;
        }
    }
    code = CTL_OK;
    if (p->classifiers.n == 0)
        code = simulate_add_classifier(&p->o, &p->classifiers, "host");
    if (p->clients == 0)
        p->clients = p->speed > 0 ? CLIENTS_PACED : CLIENTS_CLOSED;
    return code == CTL_OK ? -1 : code;
}

static int playback_main(const struct ctl_command *c, int argc, char **argv)
{
    struct playback p = {.o = {.timeout_ms = TIMEOUT_S * UINT64_C(1000), .top = TOP_DEFAULT},
                         .limit = PLAYBACK_REQUESTS_MAX,
                         .loads_header = "X-Database-Loads"};
    int code = parse_arguments(&p, c, argc, argv);

    if (code < 0) {
        log_set_level(LOG_LEVEL_WARN);
        enum err e = playback_read(&p, &p.o.diag);

        for (size_t i = 0; e == ERR_OK && i < p.nservers && !p.interrupted; ++i)
            playback_run(&p, &p.servers[i]);
        while (p.nservers != 0 && p.servers[p.nservers - 1].records == NULL)
            --p.nservers;
        if (e == ERR_OK) {
            struct class_counts shown; /* the largest classes */

            classify_collect(&p.classifiers.all[0], &shown);
            if (p.o.top != 0 && p.o.top < shown.n)
                shown.n = (size_t)p.o.top;
            if (p.o.json)
                print_json(&p, &shown, &p.o.out);
            else
                print_text(&p, &shown, &p.o.out);
            free(shown.classes);
        }
        code = ctl_finish(&p.o, e);
    }
    for (size_t i = 0; i < p.nservers; ++i)
        free(p.servers[i].records);
    simulate_classifiers_fini(&p.classifiers);
    free(p.requests);
    text_fini(&p.texts);
    text_fini(&p.bad);
    return code;
}

static const struct ctl_flag flags[] = {
    {'C', "clients", "N", NULL,
     "closed loop: number of clients (8); paced: maximum in flight (256)",
     CTL_NUMBER(struct playback, clients, 1, PLAYBACK_CLIENTS_MAX)},
    {'s', "speed", "FACTOR", NULL, "paced: at the times of the log, divided by this factor",
     CTL_OWN(take_speed)},
    {'r', "requests", "N", NULL, "only the first requests, up to this number",
     CTL_NUMBER(struct playback, limit, 1, PLAYBACK_REQUESTS_MAX)},
    {'c', "classifier", "SPEC", "host segment path regex:",
     "classes of the report: host (default), segment, path or regex:VARIABLE:PATTERN",
     SIMULATE_CLASSIFIERS(struct playback, classifiers, 1)},
    {'n', "top", "N", NULL, "number of classes (10); 0: all",
     CTL_NUMBER(struct ctl_options, top, 0, NAMES_MAX)},
    {'t', "timeout", "SECONDS", NULL, "for a response to begin, and to continue (30)",
     ctl_take_seconds, CTL_AT(struct ctl_options, timeout_ms, uint64_t), 1, CTL_TIMEOUT_MAX_S},
    {0, "loads-header", "NAME", NULL, "in which the server reports its loads (X-Database-Loads)",
     CTL_TEXT(struct playback, loads_header)},
    CTL_FLAG_JSON,
    CTL_FLAG_HELP,
};
const struct ctl_command ctl_word_playback = {
    .name = "playback",
    .arguments = "LOG URL [URL2]",
    .summary = "the GETs of a log against one or two real servers: latency, errors, loads",
    .text = "URL is http://HOST:PORT; each request goes there under the Host in the log. "
            "With two, both\nare asked the same, one after the other, and compared. Closed loop "
            "unless --speed is given; paced,\na latency counts from when the request was due.\n",
    .completes = CTL_FILES,
    CTL_FLAGS(flags),
    .run = playback_main,
};
