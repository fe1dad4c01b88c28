/* SPDX-License-Identifier: Apache-2.0
 *
 * One exchange over one connection, with two mostly independent directions:
 *
 *     write:  head + body at once -> the rest, whenever the socket accepts more
 *     read:   HEAD (1xx heads are dropped) -> BODY -> NONE
 *                        |101
 *                        v
 *                     TUNNEL
 *
 * The response may overtake the request: it is passed on, and the connection is not reused.
 * A failed write alone is not an error, because the worker may have responded before it closed: the
 * reading side finds the response, or the end.
 *
 * Every callback may cancel the exchange, close the connection, or return it to the pool and start
 * the next request on it. Therefore code that calls a callback must compare the exchange's serial
 * number afterwards.
 *
 * Bytes of large bodies may bypass this module: on_moving moves them from the worker's socket to
 * the client's. Other bytes are read to their final place: a body directly into the struct
 * http1_body that is passed on, and a head into memory that can become one, together with the bytes
 * that followed it in the same read.
 */
#include "common/base/text.h"
#include "common/upstream/http1_body.h"
#include "common/upstream/http1_client_internal.h"

#include <stdlib.h>

enum {
    HEAD_READ_BYTES = HTTP1_INPUT_BYTES,
    /* After a large response the next one is expected to be large: one read takes 64 KiB with its
       head. */
    HEAD_READ_LARGE = 80 * 1024,
    /* Unless a large body is to be moved: then little of it is read with its head. */
    HEAD_READ_SMALL = 4 * 1024,
    /* Moving costs two system calls more than reading, as much as copying so many bytes twice. */
    MOVE_MIN = 32 * 1024,
    BODY_READ_FIRST = 16 * 1024,
    BODY_READS_PER_EVENT = 4, /* then the loop's other sockets have their turn */
    /* Up to this size a head is parsed at every read, so that garbage is detected early; above it
       only when its end has arrived, as the cost would be quadratic. */
    EAGER_PARSE_MAX = 4096,
};

/* ---- ends ---- */

static bool wholly_written(const struct http1_exchange *x)
{
    return x->times.written_us != 0;
}

static size_t unread_bytes(const struct http1_conn *c)
{
    return c->in.len - c->in.used;
}

static void drop_input(struct http1_conn *c)
{
    http1_input_free(c->loop, &c->in);
    c->in = (struct http1_input){0};
}

static void drop_output(struct http1_conn *c)
{
    free(c->x.out.head_copy);
    c->x.out = (struct http1_output){0};
}

void http1_exchange_fini(struct http1_conn *c)
{
    drop_input(c);
    drop_output(c);
}

/* The exchange is over; facts about it stay until the next. */
static void leave_exchange(struct http1_conn *c)
{
    c->x.state = EXCHANGE_NONE;
    c->x.paused = false;
    c->quiet_since = loop_waits(c->loop);
    ++c->serial;
    deadline_clear(&c->deadline);
    list_remove(&c->work.node);
    drop_output(c);
}

static cold_ void fail(struct http1_conn *c, enum err e)
{
    const struct http1_request r = c->x.request;

    leave_exchange(c);
    c->dead = true;
    http1_conn_read_stop(c);
    r.events->on_error(r.context, e);
}

/* The last byte of the response is here. */
static void complete(struct http1_conn *c)
{
    bool reusable = c->x.keep_alive && wholly_written(&c->x) && unread_bytes(c) == 0;

    /* Data that TLS has read ahead may be a session ticket, an end, or unsolicited bytes. */
    if (reusable && transport_read_ahead(&c->transport))
        reusable = transport_is_quiet(&c->transport);

    c->x.times.last_byte_us = loop_now_us(c->loop);
    if (!reusable)
        c->dead = true;
    leave_exchange(c);
}

static cold_ enum err error_of_end(const struct http1_conn *c, ssize_t n)
{
    if (c->transport.tls != NULL && tls_link_broken(c->transport.tls))
        return ERR_TLS_FAILED;
    if (c->x.out.failed && !c->x.any_received)
        return ERR_WRITE_FAILED;
    return n == 0 ? ERR_PEER_CLOSED : ERR_PEER_RESET;
}

/* ---- time ---- */

static void arm_timer(struct http1_conn *c)
{
    const struct http1_exchange *x = &c->x;
    bool waits_for_first = wholly_written(x) && !x->any_received;
    uint64_t ms =
        waits_for_first ? x->request.first_byte_timeout_ms : x->request.between_bytes_timeout_ms;

    if (ms == 0 || x->paused)
        deadline_clear(&c->deadline);
    else
        deadline_set(c->loop, &c->deadline, ms);
}

static bool is_reading(const struct http1_conn *c)
{
    return (c->x.state == EXCHANGE_HEAD || c->x.state == EXCHANGE_BODY) && !c->x.paused;
}

void http1_exchange_expired(struct http1_conn *c)
{
    ASSERT(c->x.state == EXCHANGE_HEAD || c->x.state == EXCHANGE_BODY);
    fail(c, ERR_TIMEOUT);
}

/* ---- writing ---- */

static void note_written(struct http1_conn *c, size_t n)
{
    struct http1_output *out = &c->x.out;

    c->x.any_written |= n != 0;
    slice_take(&out->body, n - slice_take(&out->head, n).len);
    if (out->head.len == 0 && out->body.len == 0)
        c->x.times.written_us = loop_now_us(c->loop);
    arm_timer(c);
}

static void write_more(struct http1_conn *c)
{
    struct http1_output *out = &c->x.out;
    ssize_t n = http1_conn_send(c, out->head, out->body);

    if (n >= 0) {
        note_written(c, (size_t)n);
    } else if (errno != EAGAIN && errno != EWOULDBLOCK) {
        out->failed = true;
        return;
    }
    if (!wholly_written(&c->x))
        http1_conn_await_writable(c);
}

void http1_exchange_writable(struct http1_conn *c)
{
    bool waits = c->x.state == EXCHANGE_HEAD || c->x.state == EXCHANGE_BODY;

    if (waits && !c->x.out.failed && !wholly_written(&c->x))
        write_more(c);
}

static void keep_head(struct http1_output *out)
{
    if (out->head.len == 0)
        return;
    out->head_copy = xmalloc(out->head.len);
    memcpy(out->head_copy, out->head.p, out->head.len);
    out->head.p = out->head_copy;
}

/* In place: what is set at once is made elsewhere and copied. The framing comes with the head. */
static void begin(struct http1_exchange *x, const struct http1_request *r)
{
    x->state = EXCHANGE_HEAD;
    x->request = *r;
    x->out = (struct http1_output){.head = r->head, .body = r->body};
    x->times = (struct http1_times){0};
    x->read_bytes = BODY_READ_FIRST;
    x->room_bytes = SIZE_MAX;
    x->interim = 0;
    x->failure = ERR_OK;
    x->fault = RESPONSE_FAULT_NONE;
    x->paused = x->keep_alive = x->any_written = x->any_received = false;
}

void http1_request(struct http1_conn *c, const struct http1_request *r)
{
    ASSERT(c->x.state == EXCHANGE_NONE);
    ASSERT(c->transport.watch != NULL);
    ASSERT(r->head.len != 0);
    drop_input(c);
    ++c->serial;
    begin(&c->x, r);
    if (c->dead) {
        c->x.failure = ERR_PEER_CLOSED;
        loop_defer(c->loop, &c->work);
        return;
    }
    write_more(c);
    /* Unless a write has set it. */
    if (!deadline_is_set(&c->deadline))
        arm_timer(c);
    keep_head(&c->x.out);
}

/* ---- reading: bodies ---- */

/* Hand H on, with all body bytes of BYTES, which lie in H's memory. */
static void pass_on(struct http1_conn *c, struct held_body *h, struct slice bytes)
{
    const struct http1_request r = c->x.request;
    enum err e = held_body_take(h, &c->x.framing, &bytes);

    if (e == ERR_OK && h->body.bytes != 0) {
        r.events->on_body(r.context, &h->body, false);
    } else if (e == ERR_OK) {
        http1_body_release(&h->body);
    } else if (e == ERR_NOT_FOUND) {
        if (bytes.len != 0)
            c->x.keep_alive = false;
        complete(c);
        r.events->on_body(r.context, &h->body, true);
    } else {
        http1_body_release(&h->body);
        c->x.fault = http1_chunked_fault(&c->x.framing.chunked);
        fail(c, ERR_BAD_RESPONSE);
    }
}

/* Bytes that were read after the head. */
static void pass_on_input(struct http1_conn *c)
{
    struct slice rest = {c->in.p + c->in.used, unread_bytes(c)};

    if (rest.len == 0)
        drop_input(c);
    else
        pass_on(c, http1_input_take(c->loop, &c->in), rest);
}

/* EOF, or an error of the socket. */
static void on_body_end(struct http1_conn *c, ssize_t n)
{
    const struct http1_request r = c->x.request;

    if (n != 0 || c->x.framing.kind != HTTP1_BODY_CLOSE) {
        fail(c, error_of_end(c, n));
        return;
    }
    complete(c);
    http1_conn_read_stop(c);
    r.events->on_body(r.context, http1_body_copy(SLICE_NULL), true);
}

/* One read. Whether there may be more at once. */
static bool read_body_once(struct http1_conn *c)
{
    size_t room = http1_next_read_bytes(&c->x);
    struct held_body *h = held_body_create(room);
    ssize_t n = transport_recv(&c->transport, h->bytes, room);

    if (n <= 0) {
        bool nothing_yet = n == -1 && (errno == EAGAIN || errno == EINTR);
        http1_body_release(&h->body);
        if (!nothing_yet)
            on_body_end(c, n);
        return false;
    }
    size_t got = (size_t)n;
    http1_adapt_read_bytes(&c->x, room, got);
    if (got <= room / 2) {
        /* Data that waits for a slow client must not take many times its size in memory. */
        h = held_body_shrink(h, got);
    }
    arm_timer(c);
    pass_on(c, h, (struct slice){h->bytes, got});
    return got == room;
}

/* Whether bytes of bodies may go their way without being read. */
static bool moves(const struct http1_conn *c)
{
    return c->x.request.moves && c->transport.tls == NULL;
}

static bool may_move_body(const struct http1_conn *c)
{
    const struct body_framing *f = &c->x.framing;

    return moves(c) && f->kind == HTTP1_BODY_LENGTH && f->left >= MOVE_MIN;
}

/* As read_body_once. */
static bool move_body_once(struct http1_conn *c)
{
    const struct http1_request r = c->x.request;
    size_t room = at_least(c->x.room_bytes, HTTP1_BODY_READ_MIN);
    size_t max = c->x.framing.left < room ? (size_t)c->x.framing.left : room;
    ssize_t n = r.events->on_moving(r.context, &c->transport, max);

    if (n == -1 && errno == ENOTSUP)
        return read_body_once(c);
    if (n <= 0) {
        if (n == 0 || (errno != EAGAIN && errno != EINTR))
            on_body_end(c, n);
        return false;
    }
    arm_timer(c);
    c->x.framing.left -= (size_t)n;
    if (c->x.framing.left == 0) {
        http1_resume(c); /* an idle connection is listened to */
        complete(c);
        r.events->on_body(r.context, http1_body_copy(SLICE_NULL), true);
        return false;
    }
    return (size_t)n == max;
}

static void read_body(struct http1_conn *c)
{
    uint64_t serial = c->serial;

    if (c->in.p != NULL) {
        /* Resumed, and the socket was readable before what is here could be passed on. */
        list_remove(&c->work.node);
        pass_on_input(c);
        return;
    }
    for (int i = 0; i < BODY_READS_PER_EVENT; ++i) {
        bool more = may_move_body(c) ? move_body_once(c) : read_body_once(c);
        if (!more || c->serial != serial || c->x.paused)
            return;
    }
}

/* ---- reading: heads ---- */

static void enter_tunnel(struct http1_conn *c, const struct http1_head *head)
{
    const struct http1_request r = c->x.request;

    leave_exchange(c);
    c->x.state = EXCHANGE_TUNNEL;
    c->dead = true; /* for HTTP */
    http1_conn_read_stop(c);
    r.events->on_upgrade(r.context, head);
}

/* An interim head. Returns whether to continue with the next. */
static cold_ bool on_interim_head(struct http1_conn *c, const struct http1_head *head)
{
    bool upgrade = head->status == 101;
    struct slice protocol = c->x.request.upgrade;
    bool asked = protocol.len != 0 && wholly_written(&c->x);
    bool allowed = upgrade ? asked && http1_head_switches_to(head, protocol)
                           : ++c->x.interim <= HTTP1_INTERIM_MAX;

    if (!allowed) {
        c->x.fault = upgrade ? RESPONSE_FAULT_UPGRADE : RESPONSE_FAULT_INTERIM;
        fail(c, ERR_BAD_RESPONSE);
        return false;
    }
    if (upgrade)
        enter_tunnel(c, head);
    return !upgrade;
}

/* The head's strings lie in c->in, which a callback may drop: it is put aside meanwhile. */
static noinline_ void on_last_head(struct http1_conn *c, const struct http1_head *head)
{
    const struct http1_request r = c->x.request;
    struct loop *l = c->loop;
    struct http1_input in = c->in;

    complete(c);
    c->in = (struct http1_input){0};
    r.events->on_head(r.context, head, true);
    http1_input_free(l, &in);
}

static void on_head_with_body(struct http1_conn *c, const struct http1_head *head)
{
    struct http1_exchange *x = &c->x;
    struct http1_input in = c->in;
    uint64_t serial = c->serial;
    struct loop *l = c->loop;

    x->framing = (struct body_framing){.kind = head->framing, .left = head->content_length};
    bool large = head->framing == HTTP1_BODY_LENGTH && head->content_length > HEAD_READ_BYTES;
    c->head_read_bytes = large ? HEAD_READ_LARGE : HEAD_READ_BYTES;
    c->large_before = large && head->content_length > MOVE_MIN + HEAD_READ_SMALL;
    /* The announced length may be read at once: the read is bounded by the remaining length. */
    if (large)
        x->read_bytes = HTTP1_BODY_READ_MAX;
    x->state = EXCHANGE_BODY;
    c->in = (struct http1_input){0};
    x->request.events->on_head(x->request.context, head, false);
    if (c->serial != serial) {
        http1_input_free(l, &in);
        return;
    }
    c->in = in;
    if (!x->paused)
        pass_on_input(c);
}

static enum err parse_input(struct http1_conn *c, struct http1_head *head)
{
    struct http1_input *in = &c->in;
    struct slice rest = {in->p + in->used, in->len - in->used};
    size_t from = in->scanned > in->used + 3 ? in->scanned - 3 : in->used;
    ASSERT(in->p != NULL);
    bool put_off = rest.len > EAGER_PARSE_MAX && rest.len < RESPONSE_HEAD_MAX &&
                   memmem(in->p + from, in->len - from, "\r\n\r\n", 4) == NULL;

    in->scanned = in->len;
    if (put_off)
        return ERR_BUSY;
    return http1_head_parse(rest, c->x.request.is_head, head);
}

static void take_heads(struct http1_conn *c)
{
    struct http1_head head;
    bool again = true;

    while (again) {
        enum err e = parse_input(c, &head);
        if (e == ERR_BUSY)
            return;
        if (e != ERR_OK) {
            c->x.fault = head.fault;
            fail(c, e == ERR_TOO_LARGE ? e : ERR_BAD_RESPONSE);
            return;
        }
        c->in.used += head.bytes;
        c->in.scanned = c->in.used;
        if (head.status >= 200)
            break;
        again = on_interim_head(c, &head);
        if (!again)
            return;
    }
    c->x.keep_alive = head.keep_alive;
    if (head.framing == HTTP1_BODY_NONE)
        on_last_head(c, &head);
    else
        on_head_with_body(c, &head);
}

/* Makes room for more of a head; how much of it to use. */
static size_t head_room(struct http1_conn *c)
{
    struct http1_input *in = &c->in;
    bool small = in->len == 0 && c->large_before && moves(c);
    size_t first = small ? HEAD_READ_BYTES : at_least(c->head_read_bytes, HEAD_READ_BYTES);
    size_t room = at_least(c->x.room_bytes, HEAD_READ_BYTES);

    http1_input_make_room(c->loop, in, first < room ? first : room);
    return small ? HEAD_READ_SMALL : in->room - in->len;
}

static void read_head(struct http1_conn *c)
{
    struct http1_input *in = &c->in;
    size_t room = head_room(c);
    uint64_t serial = c->serial;
    ssize_t n = transport_recv(&c->transport, in->p + in->len, room);

    if (n <= 0) {
        if (n == 0 || (errno != EAGAIN && errno != EINTR))
            fail(c, error_of_end(c, n));
        return;
    }
    if (!c->x.any_received) {
        c->x.any_received = true;
        c->x.times.first_byte_us = loop_now_us(c->loop);
    }
    in->len += (size_t)n;
    take_heads(c);
    if (c->serial == serial && is_reading(c))
        arm_timer(c);
    /* Of the body there is more, then. */
    if ((size_t)n == room && c->serial == serial && c->x.state == EXCHANGE_BODY && !c->x.paused)
        read_body(c);
}

/* Data that TLS has read ahead is not reported by a poll. */
static void read_ahead_later(struct http1_conn *c)
{
    if (is_reading(c) && transport_read_ahead(&c->transport))
        loop_defer(c->loop, &c->work);
}

void http1_exchange_readable(struct http1_conn *c)
{
    switch (c->x.state) {
    case EXCHANGE_HEAD:
        read_head(c);
        read_ahead_later(c);
        return;
    case EXCHANGE_BODY:
        read_body(c);
        read_ahead_later(c);
        return;
    case EXCHANGE_NONE:
    case EXCHANGE_TUNNEL: /* the next owner of the socket reads */
        break;
    }
    UNREACHABLE();
}

void http1_exchange_work(struct http1_conn *c)
{
    if (c->x.failure != ERR_OK)
        fail(c, c->x.failure);
    else if (is_reading(c))
        http1_exchange_readable(c);
}

/* ---- what the user may do meanwhile ---- */

void http1_room(struct http1_conn *c, size_t bytes)
{
    c->x.room_bytes = bytes;
}

void http1_pause(struct http1_conn *c)
{
    if (c->x.paused || (c->x.state != EXCHANGE_HEAD && c->x.state != EXCHANGE_BODY))
        return;
    c->x.paused = true;
    deadline_clear(&c->deadline);
    list_remove(&c->work.node);
    http1_conn_read_stop(c);
}

void http1_resume(struct http1_conn *c)
{
    if (!c->x.paused)
        return;
    c->x.paused = false;
    arm_timer(c);
    http1_conn_read_start(c);
    if (c->in.p != NULL && c->x.state == EXCHANGE_BODY)
        loop_defer(c->loop, &c->work);
    else
        read_ahead_later(c);
}

void http1_cancel(struct http1_conn *c)
{
    if (c->x.state == EXCHANGE_NONE)
        return;
    transport_reset_at_close(&c->transport);
    leave_exchange(c);
    c->dead = true;
    http1_conn_read_stop(c);
}
