/* SPDX-License-Identifier: Apache-2.0
 *
 * What load balancers are sent by a slot: its resume, its state, and its homes, which other load
 * balancers have reported with their requests.
 */
#include "worker-agent/pool/slot.h"

#include <stdlib.h>

#include "common/base/log.h"

enum {
    /* An empty line is sent after this time without a line; readers require one every 10 s. */
    KEEP_ALIVE_MS = 8000,
    /* Maximum streams of one slot: load balancers and operators. */
    STREAMS_MAX = 200,
};

struct resume_stream {
    struct list node;
    struct slot *slot;
    struct http_response *response;
    struct timer keep_alive;
    bool wants_homes;
    struct timer homes;                    /* the next line of them */
    uint64_t homes_number;                 /* of these records ... */
    uint64_t homes_reported;               /* ... so many changes have been sent */
    char fingerprint[FINGERPRINT_LEN + 1]; /* "": of the most recently used classifier */
    bool behind; /* there is something newer than what was sent, and the reader is slow */
    bool ended;
    struct text sent; /* the last line */
};

static struct loop *loop_of(const struct resume_stream *st)
{
    return st->slot->group->pool->loop;
}

static void send_bytes(struct resume_stream *st, struct slice bytes)
{
    timer_start(loop_of(st), &st->keep_alive, KEEP_ALIVE_MS);
    http_response_send(st->response, body_piece_copy(bytes), false);
}

static struct slice fingerprint_of(const struct resume_stream *st)
{
    return st->fingerprint[0] != '\0' ? slice_of(st->fingerprint) : SLICE_NULL;
}

static void print_line(const struct resume_stream *st, struct text *out)
{
    struct resume_line line = slot_line(st->slot);
    const struct slot_meter *m = slot_meters_find(&st->slot->meters, fingerprint_of(st));
    const char *fingerprint = m != NULL ? m->fingerprint : st->fingerprint;

    memcpy(line.fingerprint, fingerprint, sizeof(line.fingerprint));
    if (m != NULL) {
        line.generation = m->generation;
        line.skills = m->resume; /* borrowed for the printing */
    }
    size_t left_out = resume_line_print(&line, out);
    if (left_out > 0)
        log_warn(st->slot, "resume-line-full", "skills_left_out=%zu limit=%d", left_out,
                 RESUME_LINE_MAX);
}

static void send_newest(struct resume_stream *st)
{
    struct text line = {0};

    if (st->response->queued_bytes > 0) {
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
    send_bytes(st, text_slice(&line));
}

/* ---- homes: the lines ---- */

static void plan_homes(struct resume_stream *st, uint64_t in_ms)
{
    uint64_t due_ms = loop_active_ms(loop_of(st)) + in_ms;

    if (!timer_running(&st->homes) || st->homes.due_ms > due_ms)
        timer_start(loop_of(st), &st->homes, in_ms);
}

/* The home records that the stream reports; NULL: none yet. */
static const struct slot_meter *homes_of(const struct resume_stream *st)
{
    return slot_meters_find_homes(&st->slot->meters, fingerprint_of(st));
}

/* How many of their changes have been sent. */
static uint64_t reported_of(const struct resume_stream *st, const struct slot_meter *one)
{
    return st->homes_number == one->homes_number ? st->homes_reported : 0;
}

/* All that has changed since the last time. */
static void print_homes(struct resume_stream *st, const struct slot_meter *one, struct text *out)
{
    st->homes_reported = reported_of(st, one);
    st->homes_number = one->homes_number;
    size_t lines = home_lines_print(one->homes, &st->homes_reported, loop_now_us(loop_of(st)), out);
    while (lines-- != 0)
        group_count(st->slot->group, AGENT_STAT_stream_lines);
}

static void on_homes(struct timer *t)
{
    struct resume_stream *st = container_of(t, struct resume_stream, homes);
    const struct slot_meter *one = homes_of(st);
    struct text lines = {0};

    if (st->ended)
        return;
    if (st->response->queued_bytes > 0) {
        plan_homes(st, HOME_LINES_MS);
        return;
    }
    if (one != NULL)
        print_homes(st, one, &lines);
    /* This may end the stream and free ST. */
    if (lines.len != 0)
        send_bytes(st, text_slice(&lines));
    text_fini(&lines);
}

/* Schedules sending them after a short delay. */
static void homes_changed(struct slot *s)
{
    struct resume_stream *st;

    list_for_each_entry (st, &s->streams, node) {
        const struct slot_meter *one = homes_of(st);

        if (st->wants_homes && !st->ended && one != NULL)
            plan_homes(st, home_lines_delay_ms(one->homes, reported_of(st, one)));
    }
}

/* ---- homes: requests ---- */

void slot_homes_use(struct slot_request *r, struct slice fingerprint, struct slice cls,
                    const struct home_report *reported)
{
    static const struct home_report nothing = {0};
    struct slot *s = r->slot;
    const struct core_process *p = s != NULL ? s->core.process : NULL;
    /* The present process, or one that it waits for. */
    bool runs = s != NULL && r->core.state == CORE_REQUEST_RUNNING && r->life == s->life;
    bool waits = r->core.state == CORE_REQUEST_WAITING && p != NULL && p->state == CORE_READY;

    if (!(runs || waits) || (r->housed && r->housed_life == s->life))
        return;
    if (reported == NULL)
        reported = &nothing;
    if (reported->passing)
        return;
    r->housed = true;
    r->housed_life = s->life;
    home_records_use(slot_meters_homes(&s->meters, fingerprint), cls, reported->kind,
                     reported->from, loop_now_us(s->group->pool->loop));
    homes_changed(s);
}

void slot_homes_served(const struct slot_request *r, struct slice fingerprint, struct slice cls,
                       uint64_t service_us)
{
    struct slot *s = r->slot;

    if (s == NULL || r->life != s->life)
        return;
    const struct slot_meter *one = slot_meters_find_homes(&s->meters, fingerprint);
    if (one == NULL)
        return;
    home_records_served(one->homes, cls, service_us, loop_now_us(s->group->pool->loop));
    homes_changed(s);
}

/* ---- the streams ---- */

static void on_keep_alive(struct timer *t)
{
    struct resume_stream *st = container_of(t, struct resume_stream, keep_alive);

    /* A reader that does not accept even one line is handled by send_timeout. */
    if (st->response->queued_bytes == 0)
        send_bytes(st, SLICE_LIT("\n"));
    else
        timer_start(loop_of(st), t, KEEP_ALIVE_MS);
}

static void on_stream_drained(void *context)
{
    struct resume_stream *st = context;

    if (st->behind && st->response->queued_bytes == 0)
        send_newest(st);
}

static void on_stream_gone(void *context, bool done)
{
    struct resume_stream *st = context;

    log_info(st->slot, "resume-stream-closed", "orderly=%s", done ? "yes" : "no");
    stat_add(st->slot->group->cell, AGENT_STAT_streams, -1);
    timer_stop(&st->keep_alive);
    timer_stop(&st->homes);
    list_remove(&st->node);
    text_fini(&st->sent);
    free(st);
}

static const struct http_response_events events = {.drained = on_stream_drained,
                                                   .gone = on_stream_gone};

static void end_stream(struct resume_stream *st, enum resume_end why)
{
    const struct resume_line line = {.end = why};
    struct text bytes = {0};

    if (st->ended)
        return;
    st->ended = true;
    (void)resume_line_print(&line, &bytes);
    /* Sending may free ST: its timers are stopped before, and nothing of it is used after. */
    struct body_piece *body = body_piece_copy(text_slice(&bytes));
    text_fini(&bytes);
    timer_stop(&st->keep_alive);
    timer_stop(&st->homes);
    http_response_send(st->response, body, true);
}

void resume_stream_start(struct slot *s, struct http_request *req, struct http_conn *conn,
                         struct slice fingerprint, bool homes)
{
    struct http_response *response = http_request_take(req, sizeof(*response));
    struct resume_stream *st = xcalloc(1, sizeof(*st));
    struct text lines = {0};

    st->slot = s;
    st->response = response;
    st->wants_homes = homes;
    timer_init(&st->keep_alive, on_keep_alive);
    timer_init(&st->homes, on_homes);
    if (fingerprint.len == FINGERPRINT_LEN)
        memcpy(st->fingerprint, fingerprint.p, FINGERPRINT_LEN);
    bool full = list_length(&s->streams) >= STREAMS_MAX;
    list_push_back(&s->streams, &st->node);
    stat_add(s->group->cell, AGENT_STAT_streams, 1);
    http_response_init(response, req, conn, &events, st);
    log_info(s, "resume-stream-accepted", "client=%s", addr_text(http_conn_peer(conn)));
    if (full || s->group->pool->leaving || slot_is_retired(s)) {
        st->ended = true;
        http_response_simple(response, 503, "text/plain; charset=utf-8",
                             full ? SLICE_LIT("too many streams\n") : SLICE_LIT("stopping\n"));
        return;
    }
    req->res.status = 200;
    http_request_add_response(req, "content-type",
                              SLICE_LIT("application/x-resumelb-resume+jsonl"));
    http_request_add_response(req, "cache-control", SLICE_LIT("no-store"));
    http_response_start(response, UINT64_MAX);
    /* The state that a restarted load balancer needs before its first request, in one piece. */
    slot_meters_renew(&s->meters);
    print_line(st, &st->sent);
    text_add(&lines, text_slice(&st->sent));
    group_count(s->group, AGENT_STAT_stream_lines);
    const struct slot_meter *homes_now = homes ? homes_of(st) : NULL;
    if (homes_now != NULL)
        print_homes(st, homes_now, &lines);
    send_bytes(st, text_slice(&lines));
    text_fini(&lines);
    if (s->group->pool->handed_over)
        end_stream(st, RESUME_END_UPGRADE);
}

void resume_streams_changed(struct slot *s)
{
    struct resume_stream *st;

    list_for_each_entry_safe (st, &s->streams, node) {
        if (!st->ended)
            send_newest(st);
    }
}

void resume_streams_end(struct slot *s, enum resume_end why)
{
    struct resume_stream *st;

    list_for_each_entry_safe (st, &s->streams, node)
        end_stream(st, why);
}
