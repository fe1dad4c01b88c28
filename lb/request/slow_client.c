/* SPDX-License-Identifier: Apache-2.0
 *
 * A response to a client that is slower than the worker: response_buffer is full.
 *
 *   DIRECT --(response_buffer full)--> SPILLING --(a limit, no disk)--> paused
 *     ^                                 |  ^                              |
 *     +---(the client has it all)-------+  +---(space was released)-------+
 *
 * SPILLING: data from the worker is appended to a file, and is sent to the client from the front of
 * the file whenever half of response_buffer has been sent. The worker is released after its last
 * byte, wherever that byte is stored. Paused: reading from the worker waits for the client. That
 * holds the worker, so it ends after worker_hold_timeout if other requests wait for the worker. An
 * event stream, and a response that cannot be written to a file, is only ever DIRECT or paused.
 *
 * Files are shared fairly among clients (response_spill.h). When they are used up, responses are
 * paused; when other requests wait for the worker of a paused one, it gets the file of a client
 * that has more, which is cut. If there is no such client, it is cut itself, unless it is
 * the only one of its client.
 */
#include "lb/request/exchange.h"

#include "common/base/log.h"

#include <stdlib.h>

enum {
    /* Maximum number of bytes read from the file at once. */
    PIECE_BYTES = 64 * 1024,
    /* Maximum number of bytes sent to a client in a turn, in fairness to other sockets. */
    FEED_MAX = 1024 * 1024,
    /* A paused response continues when this many bytes may be added, or all have been sent. */
    RESUME_BYTES = 256 * 1024,
    /* How often within worker_hold_timeout it is checked whether other requests wait. */
    HOLD_CHECKS = 8,
    /* The same, in ms, while other clients have what it lacks. */
    CROWDED_CHECK_MS = 100,
};

struct slow_client {
    struct exchange *x;
    struct response_spill *spill; /* or NULL if no file was needed yet */
    bool was_spilled;             /* counted in the statistics */
    bool final, aborted;    /* the response is complete, or was aborted, after the bytes in SPILL */
    uint64_t counted_bytes; /* bytes in files that were counted */
    struct timer more;      /* sends the next piece to a client that received everything at once */
    struct timer hold;
    uint64_t held_us;       /* paused while other requests waited for the worker */
    uint64_t held_since_us; /* start of the part of the current pause that is not in HELD_US */
};

static bool has_spilled(const struct slow_client *s)
{
    return s->spill != NULL && !response_spill_is_empty(s->spill);
}

static void slow_client_count(struct exchange *x)
{
    struct slow_client *s = x->slow;
    uint64_t now = s->spill != NULL ? response_spill_in_file(s->spill) : 0;

    stat_add(x->al->stats, APP_STAT_spilled_bytes, (int64_t)(now - s->counted_bytes));
    s->counted_bytes = now;
    exchange_count_buffered(x);
}

size_t exchange_slow_bytes(const struct exchange *x)
{
    return x->slow->spill != NULL ? response_spill_in_memory(x->slow->spill) : 0;
}

static void drop_spill(struct exchange *x)
{
    response_spill_destroy(x->slow->spill);
    x->slow->spill = NULL;
    slow_client_count(x);
}

void exchange_slow_end(struct exchange *x)
{
    drop_spill(x);
    timer_stop(&x->slow->more);
    timer_stop(&x->slow->hold);
    free(x->slow);
    x->slow = NULL;
}

/* ---- paused ---- */

/* Other requests wait for the worker of X. */
static bool do_others_wait(const struct exchange *x)
{
    struct conn_backend_view v;

    conn_backend_view(x->member->backend, &v);
    return (x->member->has_feed && worker_is_over(x->member->worker)) ||
           atomic_load_explicit(&x->app->nrejected, memory_order_relaxed) != 0 || v.waiting != 0;
}

/* Adds the uncounted part of the current pause to HELD_US. */
static void count_hold(struct exchange *x)
{
    struct slow_client *s = x->slow;
    uint64_t now_us = loop_now_us(x->lb_loop->loop);

    if (do_others_wait(x))
        s->held_us += now_us - s->held_since_us;
    s->held_since_us = now_us;
}

/* Other clients have what X lacks. */
static bool is_crowded(const struct exchange *x)
{
    return x->slow->spill != NULL && response_spill_is_crowded(x->slow->spill);
}

/* FIRST: of a pause. */
static void watch_hold(struct exchange *x, bool first)
{
    uint64_t timeout_ms = exchange_settings(x)->worker_hold_timeout_ms;
    uint64_t pause_ms = timeout_ms / HOLD_CHECKS;

    if (timeout_ms == 0 || timer_running(&x->slow->hold))
        return;
    if (pause_ms == 0)
        pause_ms = 1;
    if (is_crowded(x) && pause_ms > CROWDED_CHECK_MS)
        pause_ms = CROWDED_CHECK_MS;
    if (is_crowded(x) && first)
        pause_ms = 0;
    timer_start(x->lb_loop->loop, &x->slow->hold, pause_ms);
}

static void pause_reading(struct exchange *x)
{
    if (x->paused)
        return;
    x->paused = true;
    x->paused_since_us = x->slow->held_since_us = loop_now_us(x->lb_loop->loop);
    http1_client_pause(x->http);
    watch_hold(x, true);
}

void exchange_end_pause(struct exchange *x)
{
    if (!x->paused)
        return;
    x->paused = false;
    x->paused_us += loop_now_us(x->lb_loop->loop) - x->paused_since_us;
    if (x->member != NULL)
        count_hold(x);
}

/* Ends X, which is slow, for its client. DROPS: with the bytes that are queued for it. */
static cold_ void cut_response(struct exchange *x, bool drops)
{
    char cls[LOG_CUT_ROOM];
    const struct worker *w = x->member != NULL ? x->member->worker : x->last;

    stat_add(x->al->stats, APP_STAT_holds_cut, 1);
    log_info_folded(NULL, "slow-response-cut", "application=%s worker=%s class=\"%s\" client=%.*s",
                    x->app->name, w != NULL ? worker_name(w) : "-", log_cut(x->cls, cls),
                    (int)x->client.len, x->client.p);
    if (x->step == STEP_FORWARD)
        exchange_release(x);
    drop_spill(x);
    if (x->step != STEP_DELIVER)
        exchange_fail(x, OUTCOME_SLOW_CLIENT);
    else
        x->outcome = OUTCOME_SLOW_CLIENT;
    if (drops && !x->client_over)
        http_response_cut(&x->response);
}

/* Another client got the space of X's file. */
static void on_spill_lost(void *context)
{
    cut_response(context, true);
}

/* ---- into the file ---- */

static cold_ void note_failure(struct exchange *x)
{
    int error = response_spill_error(x->slow->spill);

    stat_add(x->al->stats, APP_STAT_spill_failures, 1);
    log_warn(NULL, "response-spill-failed", "application=%s directory=%s reason=\"%s\"",
             x->app->name, x->lb_loop->lb->spill_space.directory, strerror(error));
}

/* Returns the number of bytes that may be added to the file; 0: reading must follow the client.
 * REVOKES: as of response_spill_room. */
static size_t spill_room(struct exchange *x, bool revokes)
{
    struct slow_client *s = x->slow;
    uint64_t max = exchange_settings(x)->response_spill_max_bytes;

    if (x->event_stream || max == 0)
        return 0;
    if (s->spill == NULL) {
        const struct fair_owner owner = fair_owner_of(&x->client_addr, x->conn);

        s->spill = response_spill_create(&x->front->spills, &owner, on_spill_lost, x);
    }
    size_t room = response_spill_room(s->spill, max, revokes);
    if (room >= RESPONSE_ROOM_MIN)
        return room;
    if (x->paused)
        return 0;
    if (response_spill_error(s->spill) != 0)
        note_failure(x);
    else
        stat_add(x->al->stats, APP_STAT_spill_limits, 1);
    return 0;
}

static void spill_or_pause(struct exchange *x)
{
    size_t room = spill_room(x, false);

    x->spilling = room != 0 || has_spilled(x->slow);
    if (room != 0)
        http1_client_room(x->http, room);
    else
        pause_reading(x);
}

bool exchange_slow_body(struct exchange *x, struct body_piece *body, bool last)
{
    struct slow_client *s = x->slow;

    if (!x->spilling || (body->bytes == 0 && !has_spilled(s)))
        return false;
    s->final = last;
    if (body->bytes == 0) {
        body_piece_release(body);
        return true;
    }
    bool written = response_spill_add(s->spill, body);

    if (written && !s->was_spilled) {
        s->was_spilled = true;
        stat_add(x->al->stats, APP_STAT_spilled_responses, 1);
    }
    slow_client_count(x);
    if (!written)
        note_failure(x);
    if (!last && written)
        spill_or_pause(x);
    else if (!last)
        pause_reading(x);
    return true;
}

/* Other requests wait for the worker of X, which is paused and crowded. Returns false if it must
 * stay so. */
static bool leave_crowd(struct exchange *x)
{
    size_t room = spill_room(x, true);

    if (room != 0) {
        x->spilling = true;
        http1_client_room(x->http, room);
        exchange_end_pause(x);
        http1_client_resume(x->http);
        return true;
    }
    if (!response_spill_is_over_share(x->slow->spill))
        return false;
    cut_response(x, true);
    return true;
}

static void on_hold(struct timer *t)
{
    struct slow_client *s = container_of(t, struct slow_client, hold);
    struct exchange *x = s->x;
    uint64_t timeout_ms = exchange_settings(x)->worker_hold_timeout_ms;

    if (!x->paused || timeout_ms == 0)
        return;
    count_hold(x);
    if (is_crowded(x) && do_others_wait(x) && leave_crowd(x))
        return;
    if (s->held_us < timeout_ms * 1000)
        watch_hold(x, false);
    else
        cut_response(x, false);
}

/* ---- out of the file ---- */

/* Sends bytes from the file. Returns false if the client's side has ended, or will end. */
static bool feed_from_file(struct exchange *x)
{
    struct slow_client *s = x->slow;
    size_t limit = exchange_buffer_limit(x);

    /* At half of LIMIT, so that reading does not stop and resume for each packet. */
    for (size_t fed = 0; has_spilled(s) && x->response.queued_bytes <= limit / 2;) {
        size_t room = limit - x->response.queued_bytes;

        if (fed >= FEED_MAX) {
            timer_start(x->lb_loop->loop, &s->more, 0);
            break;
        }
        struct body_piece *body =
            response_spill_take(s->spill, room < PIECE_BYTES ? room : PIECE_BYTES);
        if (body == NULL) {
            note_failure(x);
            drop_spill(x);
            if (x->step == STEP_FORWARD) {
                exchange_release(x);
                exchange_fail(x, OUTCOME_CUT_SHORT);
            } else {
                x->outcome = OUTCOME_CUT_SHORT;
                http_response_abort(&x->response);
            }
            return false;
        }
        fed += body->bytes;
        bool last = s->final && !has_spilled(s);
        http_response_send(&x->response, body, last);
        if (x->client_over)
            return false;
        if (last)
            break;
    }
    if (s->aborted && !has_spilled(s)) {
        slow_client_count(x);
        http_response_abort(&x->response);
        return false;
    }
    return true;
}

void exchange_slow_drained(struct exchange *x)
{
    if (!feed_from_file(x))
        return;
    slow_client_count(x);
    if (x->step != STEP_FORWARD)
        return;
    /* The worker's side may continue. */
    struct slow_client *s = x->slow;
    size_t limit = exchange_buffer_limit(x);
    size_t room = 0;
    if (!has_spilled(s)) {
        if (x->response.queued_bytes > limit / 2)
            return;
        x->spilling = false;
        room = limit - x->response.queued_bytes;
    } else {
        if (x->paused && response_spill_in_memory(s->spill) == 0)
            room = spill_room(x, false);
        if (room < RESUME_BYTES)
            return;
    }
    http1_client_room(x->http, room);
    if (!x->paused)
        return;
    exchange_end_pause(x);
    http1_client_resume(x->http);
}

static void on_more(struct timer *t)
{
    struct slow_client *s = container_of(t, struct slow_client, more);

    exchange_slow_drained(s->x);
}

void exchange_slow(struct exchange *x)
{
    if (x->slow == NULL) {
        x->slow = xcalloc(1, sizeof(*x->slow));
        x->slow->x = x;
        timer_init(&x->slow->more, on_more);
        timer_init(&x->slow->hold, on_hold);
    }
    spill_or_pause(x);
}

void exchange_slow_abort(struct exchange *x)
{
    if (has_spilled(x->slow))
        x->slow->aborted = true;
    else
        http_response_abort(&x->response);
}
