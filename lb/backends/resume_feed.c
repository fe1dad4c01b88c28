/* SPDX-License-Identifier: Apache-2.0
 *
 * Either a fetch is in progress or the timer for the next one is running; close_up() ends whichever
 * it is. The limit of silence is the fetch's deadline, which each part of the body extends. It
 * applies from the request on, so that a worker that accepts a connection and sends nothing is as
 * silent as one that stops sending. Events come last in every function that has them: the feed may
 * be destroyed in them, and is freed at the end of the turn.
 */
#include "lb/backends/resume_feed.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "lb/core/lb.h"

enum {
    /* The pause before an address is tried again that was not there, doubling. */
    REST_MIN_MS = 100,
    REST_MAX_MS = 5000,
};

static void connect_now(struct resume_feed *f);

static const struct app_settings *settings(const struct resume_feed *f)
{
    return &f->app->settings->s;
}

static void count(const struct resume_feed *f, enum app_stat row, int64_t n)
{
    stat_add(application_control_stats(f->app), row, n);
}

static void close_up(struct resume_feed *f)
{
    timer_stop(&f->timer);
    http_fetch_stop(&f->fetch);
    if (f->open)
        count(f, APP_STAT_feeds_open, -1);
    f->open = false;
    text_clear(&f->line);
    f->skipping = false;
}

static void rest(struct resume_feed *f, enum resume_end how)
{
    close_up(f);
    f->reconnecting = false;
    f->settled = true;
    timer_start(f->loop, &f->timer, f->rest_ms);
    f->rest_ms = f->rest_ms * 2 < REST_MAX_MS ? f->rest_ms * 2 : REST_MAX_MS;
    f->events->gone(f->context, how);
}

/* The one try at once: what is there may be the same worker as before. */
static void again(struct resume_feed *f)
{
    close_up(f);
    f->reconnecting = true;
    connect_now(f);
    f->events->broken(f->context);
}

/* It cannot be had, or it broke. WHY is for the log. */
static void fail(struct resume_feed *f, const char *why)
{
    bool was_open = f->open;

    if (!f->failing)
        log_warn(NULL, was_open ? "resume-stream-broken" : "resume-stream-failed",
                 "application=%s worker=%s reason=\"%s\"", f->app->name, f->name, why);
    f->failing = !was_open;
    if (!was_open || f->reconnecting)
        rest(f, RESUME_END_NONE);
    else
        again(f);
}

/* ---- lines ---- */

static void refuse_line(struct resume_feed *f, const char *why)
{
    count(f, APP_STAT_feed_bad_lines, 1);
    log_warn(NULL, "resume-rejected", "application=%s worker=%s reason=\"%s\"", f->app->name,
             f->name, why);
}

static void take_resume(struct resume_feed *f, const struct resume_line *line)
{
    if (!f->open) {
        f->open = true;
        count(f, APP_STAT_feeds_open, 1);
        log_info_folded(NULL, "resume-stream-opened",
                        "application=%s worker=%s instance=%s state=%s", f->app->name, f->name,
                        line->incarnation, resume_state_text(line->state));
    }
    f->reconnecting = false;
    f->settled = true;
    f->failing = false;
    f->rest_ms = REST_MIN_MS;
    count(f, APP_STAT_feed_lines, 1);
    f->events->resume(f->context, line);
}

static void take_homes(struct resume_feed *f, struct slice bytes)
{
    struct home_line line;
    char why[160] = "";

    if (home_line_parse(bytes, &line, why) != ERR_OK) {
        refuse_line(f, why);
        return;
    }
    count(f, APP_STAT_feed_lines, 1);
    /* Of a known process. */
    if (f->open)
        f->events->homes(f->context, &line);
    home_line_fini(&line);
}

static void take_line(struct resume_feed *f, struct slice bytes)
{
    struct resume_line line = {0};
    char why[160] = "";
    enum err e;

    if (bytes.len > 0 && bytes.p[bytes.len - 1] == '\r')
        --bytes.len;
    if (bytes.len == 0)
        return;
    if (home_line_is(bytes)) {
        take_homes(f, bytes);
        return;
    }
    e = resume_line_parse(bytes, (size_t)settings(f)->max_skills, &line, why);
    if (e == ERR_NOT_FOUND)
        return;
    if (e != ERR_OK) {
        refuse_line(f, why);
    } else if (line.end == RESUME_END_UPGRADE && f->open) {
        /* Another agent has the address, and the same incarnation behind it. */
        again(f);
    } else if (line.end != RESUME_END_NONE) {
        log_info_folded(NULL, "resume-stream-ended", "application=%s worker=%s", f->app->name,
                        f->name);
        f->rest_ms = REST_MIN_MS;
        rest(f, line.end);
    } else {
        take_resume(f, &line);
    }
    resume_line_fini(&line);
}

/* Takes BYTES up to the next line end, which it uses up; what is left of them. */
static struct slice take_part(struct resume_feed *f, struct slice bytes)
{
    const char *end = memchr(bytes.p, '\n', bytes.len);
    size_t n = end != NULL ? (size_t)(end - bytes.p) : bytes.len;
    struct slice rest_of = {bytes.p + n, bytes.len - n};

    if (!f->skipping && f->line.len + n > RESUME_LINE_MAX) {
        refuse_line(f, "line over its limit");
        f->skipping = true;
        text_clear(&f->line);
    }
    if (!f->skipping)
        text_add(&f->line, (struct slice){bytes.p, n});
    if (end == NULL)
        return rest_of;
    if (!f->skipping) {
        /* Ours while it is read: an event may close up, which clears the line. */
        struct text line = f->line;

        f->line = (struct text){0};
        take_line(f, text_slice(&line));
        text_fini(&line);
    }
    f->skipping = false;
    ++rest_of.p;
    --rest_of.len;
    return rest_of;
}

/* ---- the request ---- */

static void on_timer(struct timer *t)
{
    connect_now(container_of(t, struct resume_feed, timer));
}

static void on_head(struct http_fetch *fetch, const struct http1_head *head)
{
    struct resume_feed *f = container_of(fetch, struct resume_feed, fetch);
    char why[80];

    f->refused = false;
    if (head->status == 200)
        return;
    snprintf(why, sizeof(why), "no resume stream: status %d", head->status);
    fail(f, why);
}

static void on_body(struct http_fetch *fetch, struct slice bytes)
{
    struct resume_feed *f = container_of(fetch, struct resume_feed, fetch);
    const struct http1_conn *conn = fetch->conn;

    http_fetch_extend(fetch, settings(f)->feed_silence_ms);
    while (bytes.len > 0 && fetch->conn == conn)
        bytes = take_part(f, bytes);
}

static void on_done(struct http_fetch *fetch, enum err e)
{
    struct resume_feed *f = container_of(fetch, struct resume_feed, fetch);

    f->refused = e == ERR_CONNECT_REFUSED;
    if (e == ERR_TLS_FAILED)
        count(f, APP_STAT_worker_tls_failures, 1);
    fail(f, e == ERR_OK ? "ended without its end line" : e == ERR_TIMEOUT ? "silent" : err_text(e));
}

static const struct http_fetch_events fetch_events = {
    .on_head = on_head, .on_body = on_body, .done = on_done};

static void connect_now(struct resume_feed *f)
{
    bool is_unix = f->addr.sa.sa_family == AF_UNIX;
    struct http_fetch_request q = {.addr = &f->addr,
                                   .peer = f->peer,
                                   .connect_timeout_ms = settings(f)->connect_timeout_ms,
                                   .timeout_ms = settings(f)->feed_silence_ms,
                                   .events = &fetch_events};

    text_addf(&q.bytes,
              "GET /.well-known/resumelb/resume HTTP/1.1\r\n"
              "Host: %s\r\n"
              "Accept: application/x-resumelb-resume+jsonl\r\n"
              "Resumelb-Feed: 1\r\n"
              "Resumelb-Classifier: %s\r\n"
              "Resumelb-Homes: 1\r\n\r\n",
              is_unix ? "localhost" : f->name, classifier_fingerprint(f->app->classifier));
    http_fetch_start(&f->fetch, f->loop, &q);
}

/* ---- the feed ---- */

struct resume_feed *resume_feed_create(struct application *app, const struct addr *addr,
                                       struct tls_peer *peer, const char *name,
                                       const struct resume_feed_events *events, void *context)
{
    struct resume_feed *f = xcalloc(1, sizeof(*f));

    f->app = app;
    f->loop = app->lb->control;
    f->addr = *addr;
    f->peer = peer != NULL ? tls_peer_ref(peer) : NULL;
    f->name = name;
    f->events = events;
    f->context = context;
    f->rest_ms = REST_MIN_MS;
    timer_init(&f->timer, on_timer);
    connect_now(f);
    return f;
}

static void free_now(struct loop_deferred *d)
{
    struct resume_feed *f = container_of(d, struct resume_feed, deferred);

    text_fini(&f->line);
    tls_peer_unref(f->peer);
    free(f);
}

void resume_feed_destroy(struct resume_feed *f)
{
    if (f == NULL)
        return;
    close_up(f);
    f->deferred.run = free_now;
    loop_defer(f->loop, &f->deferred);
}
