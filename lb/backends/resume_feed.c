/* SPDX-License-Identifier: Apache-2.0
 *
 * Either a fetch is in progress or the timer for the next one is running; close_up() ends whichever
 * it is. The limit of silence is the fetch's deadline, which each part of the body extends. It
 * applies from the request on, so that a worker that accepts a connection and sends nothing is as
 * silent as one that stops sending. Events come last in every function that has them: the feed may
 * be stopped or restarted in them, and its backend is freed at the end of the turn.
 */
#include "common/base/log.h"
#include "lb/backends/backend.h"
#include "lb/core/lb.h"

enum {
    /* The pause before an absent worker is tried again, doubling. */
    PAUSE_MIN_MS = 100,
    PAUSE_MAX_MS = 5000,
};

static void connect_now(struct timer *t);

static void close_up(struct backend *b)
{
    timer_stop(&b->feed.timer);
    http_fetch_stop(&b->feed.fetch);
    if (b->feed.open)
        stat_add(application_control_stats(b->app), APP_STAT_feeds_open, -1);
    b->feed.open = false;
    text_clear(&b->feed.line);
    b->feed.skipping = false;
}

static void pause_feed(struct backend *b, enum resume_end how)
{
    close_up(b);
    b->feed.reconnecting = false;
    b->feed.settled = true;
    timer_start(b->app->lb->control, &b->feed.timer, b->feed.pause_ms);
    b->feed.pause_ms = b->feed.pause_ms * 2 < PAUSE_MAX_MS ? b->feed.pause_ms * 2 : PAUSE_MAX_MS;
    backend_on_absent(b, how);
}

/* The one attempt at once: the instance may be the same as before. */
static void reconnect_now(struct backend *b)
{
    close_up(b);
    b->feed.reconnecting = true;
    connect_now(&b->feed.timer);
    backend_on_broken(b);
}

/* There is no stream, or it broke. WHY is for the log. */
static void feed_fail(struct backend *b, const char *why)
{
    bool was_open = b->feed.open;

    if (!b->feed.failing)
        log_warn(NULL, was_open ? "resume-stream-broken" : "resume-stream-failed",
                 "application=%s worker=%s reason=\"%s\"", b->app->name, b->name, why);
    b->feed.failing = !was_open;
    if (!was_open || b->feed.reconnecting)
        pause_feed(b, RESUME_END_NONE);
    else
        reconnect_now(b);
}

/* ---- lines ---- */

static void reject_line(struct backend *b, const char *why)
{
    stat_add(application_control_stats(b->app), APP_STAT_feed_bad_lines, 1);
    log_warn(NULL, "resume-rejected", "application=%s worker=%s reason=\"%s\"", b->app->name,
             b->name, why);
}

static void take_line(struct backend *b, struct slice bytes)
{
    struct resume_feed *f = &b->feed;
    struct resume_line line = {0};
    struct home_line homes;
    char why[160] = "";
    enum err e;

    if (bytes.len > 0 && bytes.p[bytes.len - 1] == '\r')
        --bytes.len;
    if (bytes.len == 0)
        return;
    if (home_line_is(bytes)) {
        if (home_line_parse(bytes, &homes, why) != ERR_OK) {
            reject_line(b, why);
            return;
        }
        stat_add(application_control_stats(b->app), APP_STAT_feed_lines, 1);
        /* Used only if a resume has identified the process. */
        if (f->open)
            backend_on_homes(b, &homes);
        home_line_fini(&homes);
        return;
    }
    e = resume_line_parse(bytes, (size_t)b->app->settings->s.max_skills, &line, why);
    if (e == ERR_NOT_FOUND)
        return;
    if (e != ERR_OK) {
        reject_line(b, why);
    } else if (line.end == RESUME_END_UPGRADE && f->open) {
        /* Another agent has the address, and the same instance behind it. */
        reconnect_now(b);
    } else if (line.end != RESUME_END_NONE) {
        log_info_folded(NULL, "resume-stream-ended", "application=%s worker=%s", b->app->name,
                        b->name);
        f->pause_ms = PAUSE_MIN_MS;
        pause_feed(b, line.end);
    } else {
        if (!f->open) {
            stat_add(application_control_stats(b->app), APP_STAT_feeds_open, 1);
            log_info_folded(NULL, "resume-stream-opened",
                            "application=%s worker=%s instance=%s state=%s", b->app->name, b->name,
                            line.instance, resume_state_text(line.state));
        }
        f->open = f->settled = true;
        f->reconnecting = f->failing = false;
        f->pause_ms = PAUSE_MIN_MS;
        stat_add(application_control_stats(b->app), APP_STAT_feed_lines, 1);
        backend_on_resume(b, &line);
    }
    resume_line_fini(&line);
}

/* ---- the request ---- */

static void on_feed_head(struct http_fetch *fetch, const struct http1_head *head)
{
    struct backend *b = container_of(fetch, struct backend, feed.fetch);
    char why[80];

    b->feed.refused = false;
    if (head->status == 200)
        return;
    snprintf(why, sizeof(why), "no resume stream: status %d", head->status);
    feed_fail(b, why);
}

static void on_feed_body(struct http_fetch *fetch, struct slice bytes)
{
    struct backend *b = container_of(fetch, struct backend, feed.fetch);
    struct resume_feed *f = &b->feed;
    const struct http1_client_conn *conn = fetch->conn;

    http_fetch_extend(fetch, b->app->settings->s.feed_silence_ms);
    while (bytes.len > 0 && fetch->conn == conn) {
        const char *end = memchr(bytes.p, '\n', bytes.len);
        struct slice part = {bytes.p, end != NULL ? (size_t)(end - bytes.p) : bytes.len};

        if (!f->skipping && f->line.len + part.len > RESUME_LINE_MAX) {
            reject_line(b, "line over its limit");
            f->skipping = true;
            text_clear(&f->line);
        }
        if (!f->skipping)
            text_add(&f->line, part);
        if (end == NULL)
            return;
        bytes = (struct slice){end + 1, bytes.len - part.len - 1};
        if (!f->skipping) {
            /* Moved out while it is read: an event may call close_up(), which clears the line. */
            struct text line = f->line;

            f->line = (struct text){0};
            take_line(b, text_slice(&line));
            text_fini(&line);
        }
        f->skipping = false;
    }
}

static void on_feed_done(struct http_fetch *fetch, enum err e)
{
    struct backend *b = container_of(fetch, struct backend, feed.fetch);

    b->feed.refused = e == ERR_CONNECT_REFUSED;
    if (e == ERR_TLS_FAILED)
        stat_add(application_control_stats(b->app), APP_STAT_worker_tls_failures, 1);
    feed_fail(b, e == ERR_OK        ? "ended without its end line"
                 : e == ERR_TIMEOUT ? "silent"
                                    : err_text(e));
}

static const struct http_fetch_events fetch_events = {
    .on_head = on_feed_head, .on_body = on_feed_body, .done = on_feed_done};

static void connect_now(struct timer *t)
{
    struct backend *b = container_of(t, struct backend, feed.timer);
    bool is_unix = b->addr.sa.sa_family == AF_UNIX;
    struct http_fetch_request q = {.addr = &b->addr,
                                   .peer = b->peer,
                                   .connect_timeout_ms = b->app->settings->s.connect_timeout_ms,
                                   .timeout_ms = b->app->settings->s.feed_silence_ms,
                                   .events = &fetch_events};

    text_addf(&q.bytes,
              "GET /.well-known/resumelb/resume HTTP/1.1\r\n"
              "Host: %s\r\n"
              "Accept: application/x-resumelb-resume+jsonl\r\n"
              "Resumelb-Feed: 1\r\n"
              "Resumelb-Classifier: %s\r\n"
              "Resumelb-Homes: 1\r\n\r\n",
              is_unix ? "localhost" : b->name, classifier_fingerprint(b->app->classifier));
    http_fetch_start(&b->feed.fetch, b->app->lb->control, &q);
}

/* ---- the feed ---- */

void resume_feed_start(struct backend *b)
{
    struct resume_feed *f = &b->feed;

    f->pause_ms = PAUSE_MIN_MS;
    f->reconnecting = f->settled = f->refused = f->failing = false;
    timer_init(&f->timer, connect_now);
    connect_now(&b->feed.timer);
}

void resume_feed_stop(struct backend *b)
{
    close_up(b);
    text_fini(&b->feed.line);
}
