/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/resume_stream.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "worker-agent/app_group.h"
#include "worker-agent/app_pool.h"
#include "worker-agent/slot_queue.h"

enum {
    /* An empty line after so long without one; readers want one every 10 s. */
    KEEP_ALIVE_MS = 8000,
    /* Streams of one slot: load balancers, and people who look. */
    STREAMS_MAX = 200,
};

struct resume_stream {
    struct list node;
    struct slot *slot;
    struct http_reply *reply;
    struct timer keep_alive;
    char fingerprint[FINGERPRINT_LEN + 1];
    bool has_fingerprint;
    bool behind; /* there is something newer than what was sent, and the reader is slow */
    bool ended;
    struct text sent; /* the last line */
};

static struct loop *loop_of(const struct resume_stream *st)
{
    return st->slot->group->pool->loop;
}

static void send_bytes(struct resume_stream *st, struct slice bytes, bool final)
{
    timer_start(loop_of(st), &st->keep_alive, KEEP_ALIVE_MS);
    http_reply_send(st->reply, http1_body_copy(bytes), final);
}

static void print_line(const struct resume_stream *st, struct text *out)
{
    struct resume_line line = slot_line(st->slot);
    const struct slot_meter *m = slot_meters_find(
        &st->slot->meters, st->has_fingerprint ? slice_of(st->fingerprint) : SLICE_NULL);
    const char *fingerprint = m != NULL ? m->fingerprint : st->fingerprint;

    memcpy(line.fingerprint, fingerprint, sizeof(line.fingerprint));
    if (m != NULL) {
        line.generation = m->generation;
        line.skills = m->resume; /* borrowed for the printing */
    }
    size_t left_out = resume_line_print(&line, out);
    if (left_out > 0)
        log_warn(st->slot, "resume-line-full", "skills_left_out=%zu limit_bytes=%d", left_out,
                 RESUME_LINE_MAX);
}

static void send_newest(struct resume_stream *st)
{
    struct text line = {0};

    if (st->reply->queued_bytes > 0) {
        st->behind = true;
        return;
    }
    st->behind = false;
    print_line(st, &line);
    if (slice_eq(text_slice(&line), text_slice(&st->sent))) {
        text_fini(&line);
        return;
    }
    text_fini(&st->sent);
    st->sent = line;
    group_count(st->slot->group, AGENT_STAT_stream_lines);
    send_bytes(st, text_slice(&line), false);
}

static void on_keep_alive(struct timer *t)
{
    struct resume_stream *st = container_of(t, struct resume_stream, keep_alive);

    /* A reader who does not even take a line is looked after by send_timeout. */
    if (st->reply->queued_bytes == 0)
        send_bytes(st, SLICE_LIT("\n"), false);
    else
        timer_start(loop_of(st), t, KEEP_ALIVE_MS);
}

static void on_drained(void *context)
{
    struct resume_stream *st = context;

    if (st->behind && st->reply->queued_bytes == 0)
        send_newest(st);
}

static void on_gone(void *context, bool done)
{
    struct resume_stream *st = context;

    log_info(st->slot, "stream-closed", "orderly=%s", done ? "yes" : "no");
    stat_add(st->slot->group->cell, AGENT_STAT_streams, -1);
    timer_stop(&st->keep_alive);
    list_remove(&st->node);
    text_fini(&st->sent);
    free(st);
}

static const struct http_reply_events events = {.drained = on_drained, .gone = on_gone};

static size_t list_length(const struct list *head)
{
    size_t n = 0;
    struct list *it;

    list_for_each (it, head)
        ++n;
    return n;
}

static void end_stream(struct resume_stream *st, enum resume_end why)
{
    const struct resume_line line = {.end = why};
    struct text bytes = {0};

    if (st->ended)
        return;
    st->ended = true;
    (void)resume_line_print(&line, &bytes);
    /* Sending may be the end of the stream, which stops the timer: not started again after that. */
    struct http1_body *body = http1_body_copy(text_slice(&bytes));
    text_fini(&bytes);
    timer_stop(&st->keep_alive);
    http_reply_send(st->reply, body, true);
}

void resume_stream_start(struct slot *s, h2o_req_t *req, struct http_conn *conn,
                         struct slice fingerprint)
{
    struct http_reply *reply = h2o_mem_alloc_shared(&req->pool, sizeof(*reply), NULL);
    struct resume_stream *st = xcalloc(1, sizeof(*st));
    char peer[ADDR_TEXT_MAX];

    st->slot = s;
    st->reply = reply;
    timer_init(&st->keep_alive, on_keep_alive);
    if (fingerprint.len == FINGERPRINT_LEN) {
        memcpy(st->fingerprint, fingerprint.p, FINGERPRINT_LEN);
        st->has_fingerprint = true;
    }
    bool full = list_length(&s->streams) >= STREAMS_MAX;
    list_push_back(&s->streams, &st->node);
    stat_add(s->group->cell, AGENT_STAT_streams, 1);
    http_reply_init(reply, req, conn, &events, st);
    log_info(s, "stream-opened", "peer=%s", addr_format(http_conn_peer(conn), peer));
    if (full || s->group->pool->leaving || slot_is_out(s)) {
        st->ended = true;
        http_reply_simple(reply, 503, "text/plain; charset=utf-8",
                          full ? SLICE_LIT("too many streams\n") : SLICE_LIT("stopping\n"));
        return;
    }
    req->res.status = 200;
    h2o_add_header(&req->pool, &req->res.headers, H2O_TOKEN_CONTENT_TYPE, NULL,
                   H2O_STRLIT("application/x-resumelb-resume+jsonl"));
    h2o_add_header(&req->pool, &req->res.headers, H2O_TOKEN_CACHE_CONTROL, NULL,
                   H2O_STRLIT("no-store"));
    http_reply_start(reply, UINT64_MAX);
    send_newest(st);
    if (s->group->pool->handed_over)
        end_stream(st, RESUME_END_UPGRADE);
}

void resume_streams_changed(struct slot *s)
{
    struct list *it;
    struct list *next;

    list_for_each_safe (it, next, &s->streams) {
        struct resume_stream *st = list_entry(it, struct resume_stream, node);

        if (!st->ended)
            send_newest(st);
    }
}

void resume_streams_end(struct slot *s, enum resume_end why)
{
    struct list *it;
    struct list *next;

    list_for_each_safe (it, next, &s->streams)
        end_stream(list_entry(it, struct resume_stream, node), why);
}
