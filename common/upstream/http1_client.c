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
 * reading side finds the response, or the end. That end does not end a body if the write has taken
 * the error of the socket, which is reported once.
 *
 * Every callback may close the connection, or return it to the pool and start the next request on
 * it. Therefore code that calls a callback must compare the exchange's serial number afterwards.
 *
 * Bytes of large bodies may bypass this module: on_moving moves them from the worker's socket to
 * the client's. Other bytes are read to their final place: a body directly into the struct
 * body_piece that is passed on, and a head into memory that can become one, together with the bytes
 * that followed it in the same read. Every read is bounded. Except under back-pressure a connection
 * is always watched for bytes: its reuse then costs no system call, and its end is detected at once
 * while it is idle.
 */
#include "common/upstream/http1_client.h"
#include "common/base/text.h"
#include "common/net/body_file.h"
#include "common/wire/http1_bytes.h"

#include <stdlib.h>

enum {
    INPUT_BYTES = 16 * 1024, /* room of an input in one of the loop's blocks */
    HEAD_READ_BYTES = INPUT_BYTES,
    /* After a large response the next one is expected to be large: one read takes 64 KiB with its
       head. */
    HEAD_READ_LARGE = 80 * 1024,
    /* Unless a large body is to be moved: then little of it is read with its head. */
    HEAD_READ_SMALL = 4 * 1024,
    /* Moving costs two system calls more than reading, as much as copying so many bytes twice. */
    MOVE_MIN = 32 * 1024,
    BODY_READ_FIRST = 16 * 1024,
    BODY_READ_MIN = 4 * 1024,
    BODY_READ_MAX = 128 * 1024,
    /* Up to this size a head is parsed at every read, so that garbage is detected early; above it
       only when its end has arrived, as the cost would be quadratic. */
    EAGER_PARSE_MAX = 4096,
    /* How long to wait for the reset by which a worker rejects a request that came after its end:
       several round trips, and the first retransmissions. */
    RESET_WAIT_MS = 1000,
};

enum exchange_state {
    EXCHANGE_NONE,   /* no request, or over; what is known of the last one stays */
    EXCHANGE_HEAD,   /* no final response head yet */
    EXCHANGE_BODY,   /* within the response body */
    EXCHANGE_TUNNEL, /* 101: the socket waits to be taken */
};

/* Bytes read ahead of a head's end, in the memory of a body to be. */
struct http1_client_input {
    struct body_piece *body; /* NULL: there is none */
    size_t room, len;
    size_t used;    /* of len: handed on or dropped */
    size_t scanned; /* of len: known not to hold the end of a head */
};

struct http1_client_output {
    struct slice head, body; /* what is left to write */
    char *head_copy;         /* holds HEAD once a write was incomplete */
    bool failed;             /* the socket takes no more */
    bool reset; /* FAILED, and the reading side finds an end where the connection was reset */
};

struct http1_client_exchange {
    enum exchange_state state;
    unsigned interim;          /* 1xx heads seen */
    enum response_fault fault; /* of a response that is rejected */
    bool paused, keep_alive, left_over;
    bool ended;        /* the worker ended the connection; paused until it resets it, too */
    bool unreceived;   /* the worker closed the connection before any of the request came */
    size_t read_bytes; /* how much to read at once */
    size_t room_bytes; /* maximum that the user accepts */
    struct http1_client_times times;
    struct body_framing framing;
    uint64_t written_from; /* transport_sent_bytes() before the request */
    size_t written;        /* of the request */
    struct http1_client_output out;
    struct http1_client_request request; /* head and body are in OUT */
};

struct http1_client_conn {
    struct pooled_conn pooled;
    struct loop *loop;
    struct transport transport; /* closed when taken */
    bool large_before;          /* the last response's body was worth moving */
    bool dead;                  /* can serve no (further) request */
    uint64_t serial; /* of the exchange: a caller of a callback detects by it that the exchange has
                        changed */
    /* loop_waits() when it became idle and watched: later waits report what arrives. */
    uint64_t quiet_since;
    size_t head_read_bytes; /* how much to read for the next head; 0: nothing known yet */
    struct http1_client_input in;
    struct http1_client_exchange x;
    struct deadline deadline;  /* of the exchange; stopped while the connection is idle */
    struct loop_deferred work; /* failure to report, or input to process */
    struct loop_deferred free_later;
};

/* ---- input ---- */

/*
 * The heads of responses are read into blocks that the loop retains, because nearly all blocks are
 * free again within the turn; larger inputs are allocated and freed.
 */

_Static_assert(sizeof(struct body_piece) + INPUT_BYTES <= LOOP_BLOCK_BYTES,
               "a block holds an input");

static size_t at_least(size_t n, size_t min)
{
    return n > min ? n : min;
}

/* ---- ends ---- */

static bool wholly_written(const struct http1_client_exchange *x)
{
    return x->times.written_us != 0;
}

static size_t unread_bytes(const struct http1_client_conn *c)
{
    return c->in.len - c->in.used;
}

static void drop_input(struct http1_client_conn *c)
{
    if (c->in.body != NULL)
        body_piece_release(c->in.body);
    c->in = (struct http1_client_input){0};
}

static void drop_output(struct http1_client_conn *c)
{
    free(c->x.out.head_copy);
    c->x.out = (struct http1_client_output){0};
}

/* Listens for bytes (again). */
static void read_start(struct http1_client_conn *c)
{
    transport_read(&c->transport, true);
    c->quiet_since = loop_waits(c->loop);
}

static void read_stop(struct http1_client_conn *c)
{
    if (transport_is_open(&c->transport))
        transport_read(&c->transport, false);
}

/* The exchange is over; facts about it stay until the next. */
static void leave_exchange(struct http1_client_conn *c)
{
    c->x.state = EXCHANGE_NONE;
    c->x.paused = false;
    c->quiet_since = loop_waits(c->loop);
    ++c->serial;
    deadline_clear(&c->deadline);
    list_remove(&c->work.node);
    drop_output(c);
}

static bool any_received(const struct http1_client_conn *c)
{
    return c->x.times.first_byte_us != 0;
}

static bool waits_for_first(const struct http1_client_conn *c)
{
    return wholly_written(&c->x) && !any_received(c);
}

static cold_ void http1_client_fail(struct http1_client_conn *c, enum err e)
{
    const struct http1_client_request r = c->x.request;
    bool ended = e == ERR_PEER_CLOSED || e == ERR_PEER_RESET || e == ERR_WRITE_FAILED;
    bool reused = http1_client_reused(c);
    const struct http1_client_failure failure = {
        .error = e,
        .written = c->x.written != 0 && !c->x.unreceived,
        .received = any_received(c),
        .closed_idle = ended && reused && !any_received(c),
        .left_over = reused && c->x.left_over,
        .reason = c->x.fault != RESPONSE_FAULT_NONE ? response_fault_text(c->x.fault) : err_text(e),
        .setting = waits_for_first(c) ? "first_byte_timeout" : "between_bytes_timeout",
    };

    leave_exchange(c);
    c->dead = true;
    read_stop(c);
    r.events->on_error(r.context, &failure);
}

/* The last byte of the response is here. */
static void http1_client_complete(struct http1_client_conn *c)
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

/* Whether no byte of the request was acknowledged when the worker ended the connection: it had
 * ended it, or at least its sending side, before a byte came. */
static cold_ bool is_unacknowledged(const struct http1_client_conn *c)
{
    uint64_t sent = c->transport.tls == NULL
                        ? c->x.written
                        : transport_sent_bytes(&c->transport) - c->x.written_from;

    return !c->x.out.reset && sent != 0 && transport_unacknowledged(&c->transport) >= sent;
}

static cold_ enum err error_of_end(const struct http1_client_conn *c, ssize_t n)
{
    if (c->transport.tls != NULL && tls_link_broken(c->transport.tls))
        return ERR_TLS_FAILED;
    if (c->x.out.failed && !any_received(c))
        return ERR_WRITE_FAILED;
    return n == 0 && !c->x.out.reset ? ERR_PEER_CLOSED : ERR_PEER_RESET;
}

/* ---- time ---- */

static void arm_timer(struct http1_client_conn *c)
{
    const struct http1_client_exchange *x = &c->x;
    uint64_t ms =
        waits_for_first(c) ? x->request.first_byte_timeout_ms : x->request.between_bytes_timeout_ms;

    if (ms == 0 || x->paused)
        deadline_clear(&c->deadline);
    else
        deadline_set(c->loop, &c->deadline, ms);
}

static bool in_exchange(const struct http1_client_conn *c)
{
    return c->x.state == EXCHANGE_HEAD || c->x.state == EXCHANGE_BODY;
}

static bool is_reading(const struct http1_client_conn *c)
{
    return in_exchange(c) && !c->x.paused;
}

static void on_http1_client_timer(struct timer *t)
{
    struct http1_client_conn *c = container_of(t, struct http1_client_conn, deadline.timer);

    if (!deadline_passed(c->loop, &c->deadline))
        return;
    ASSERT(in_exchange(c));
    http1_client_fail(c, c->x.ended ? ERR_PEER_CLOSED : ERR_TIMEOUT);
}

/* ---- writing ---- */

/* HEAD, then what is left of the body, LEFT bytes, from its file. */
static noinline_ ssize_t send_file(struct http1_client_conn *c, struct slice head, size_t left)
{
    struct iovec iov = {writable_bytes(head.p), head.len};
    ssize_t sent = 0;

    if (head.len != 0) {
        sent = transport_send(&c->transport, &iov, 1, MSG_MORE);
        if (sent < 0 || (size_t)sent < head.len)
            return sent;
    }
    ssize_t n = body_file_send(c->x.request.body_file, &c->transport, left);
    /* The next call reports the error. */
    return n >= 0 ? sent + n : sent != 0 ? sent : n;
}

/*
 * If the worker had closed its side before it reset the connection, the error is EPIPE and all it
 * has sent will be read. sendfile(2) may have lost an earlier error. The end of TLS is
 * close_notify.
 */
static cold_ void note_write_failure(struct http1_client_conn *c)
{
    c->x.out.failed = true;
    c->x.out.reset = c->transport.tls == NULL && (errno != EPIPE || c->x.request.body_file != NULL);
}

static void on_writable(void *context);

static void write_more(struct http1_client_conn *c)
{
    struct http1_client_output *out = &c->x.out;
    struct iovec iov[2] = {
        {writable_bytes(out->head.p), out->head.len},
        {writable_bytes(out->body.p), out->body.len},
    };
    bool has_head = out->head.len != 0;
    bool has_body = out->body.len != 0;
    ssize_t n;

    if (c->x.request.body_file != NULL && has_body && c->transport.tls == NULL)
        n = send_file(c, out->head, out->body.len);
    else
        n = transport_send(&c->transport, has_head ? iov : iov + 1, has_head && has_body ? 2 : 1,
                           0);
    if (n >= 0) {
        c->x.written += (size_t)n;
        slice_take(&out->body, (size_t)n - slice_take(&out->head, (size_t)n).len);
        if (out->head.len == 0 && out->body.len == 0)
            c->x.times.written_us = loop_now_us(c->loop);
        arm_timer(c);
    } else if (errno != EAGAIN && errno != EWOULDBLOCK) {
        note_write_failure(c);
        return;
    }
    if (!wholly_written(&c->x))
        transport_await_writable(&c->transport, on_writable);
}

static void on_writable(void *context)
{
    struct http1_client_conn *c = context;

    if (in_exchange(c) && !c->x.out.failed && !wholly_written(&c->x))
        write_more(c);
}

void http1_client_request(struct http1_client_conn *c, const struct http1_client_request *r)
{
    struct http1_client_exchange *x = &c->x;
    struct http1_client_output *out = &x->out;

    ASSERT(x->state == EXCHANGE_NONE);
    ASSERT(c->transport.watch != NULL);
    ASSERT(r->head.len != 0);
    drop_input(c);
    ++c->serial;
    /* Set one by one, as a compound literal of all would be built elsewhere and copied. The framing
     * is set with the head. */
    x->state = EXCHANGE_HEAD;
    x->request = *r;
    *out = (struct http1_client_output){.head = r->head, .body = r->body};
    x->times = (struct http1_client_times){0};
    x->read_bytes = BODY_READ_FIRST;
    x->room_bytes = SIZE_MAX;
    x->interim = 0;
    x->fault = RESPONSE_FAULT_NONE;
    x->paused = x->keep_alive = x->left_over = x->ended = x->unreceived = false;
    x->written = 0;
    if (c->transport.tls != NULL)
        x->written_from = transport_sent_bytes(&c->transport);
    if (c->dead) {
        loop_defer_once(c->loop, &c->work); /* which reports it */
        return;
    }
    write_more(c);
    /* Unless a write has set it. */
    if (!deadline_is_set(&c->deadline))
        arm_timer(c);
    if (out->head.len == 0)
        return;
    out->head_copy = xmalloc(out->head.len);
    memcpy(out->head_copy, out->head.p, out->head.len);
    out->head.p = out->head_copy;
}

/* ---- reading: bodies ---- */

/* Hand B on, with all body bytes of BYTES, which lie in B's memory. */
static void http1_client_pass_on(struct http1_client_conn *c, struct body_piece *b,
                                 struct slice bytes)
{
    const struct http1_client_request r = c->x.request;
    enum err e = body_piece_take(b, &c->x.framing, &bytes);

    if (e == ERR_OK && b->bytes != 0) {
        r.events->on_body(r.context, b, false);
    } else if (e == ERR_OK) {
        body_piece_release(b);
    } else if (e == ERR_NOT_FOUND) {
        if (bytes.len != 0)
            c->x.keep_alive = false;
        http1_client_complete(c);
        r.events->on_body(r.context, b, true);
    } else {
        body_piece_release(b);
        c->x.fault = http1_chunked_fault(&c->x.framing.chunked);
        http1_client_fail(c, ERR_BAD_RESPONSE);
    }
}

/* Bytes that were read after the head. They are in the memory of a body, which leaves the input. */
static void pass_on_input(struct http1_client_conn *c)
{
    struct body_piece *b = c->in.body;
    struct slice rest = {b->memory + c->in.used, unread_bytes(c)};

    if (rest.len == 0) {
        drop_input(c);
        return;
    }
    c->in = (struct http1_client_input){0};
    http1_client_pass_on(c, b, rest);
}

/* EOF, or an error of the socket. */
static void on_body_end(struct http1_client_conn *c, ssize_t n)
{
    const struct http1_client_request r = c->x.request;

    if (n != 0 || c->x.out.reset || c->x.framing.kind != HTTP1_BODY_CLOSE) {
        http1_client_fail(c, error_of_end(c, n));
        return;
    }
    http1_client_complete(c);
    read_stop(c);
    r.events->on_body(r.context, body_piece_copy(SLICE_NULL), true);
}

/* One read. Whether there may be more at once. */
static bool read_body_once(struct http1_client_conn *c)
{
    struct http1_client_exchange *x = &c->x;
    size_t most = at_least(x->room_bytes, BODY_READ_MIN);
    size_t room = x->read_bytes < most ? x->read_bytes : most;

    if (x->framing.kind == HTTP1_BODY_LENGTH && x->framing.left < room)
        room = (size_t)x->framing.left;
    struct body_piece *b = body_piece_create(room);
    ssize_t n = transport_recv(&c->transport, b->memory, room);

    if (n <= 0) {
        bool nothing_yet = n == -1 && (errno == EAGAIN || errno == EINTR);
        body_piece_release(b);
        if (!nothing_yet)
            on_body_end(c, n);
        return false;
    }
    size_t got = (size_t)n;
    if (got == room && x->read_bytes < BODY_READ_MAX)
        x->read_bytes *= 2;
    else if (got < x->read_bytes / 4 && x->read_bytes > BODY_READ_MIN)
        x->read_bytes /= 2;
    if (got <= room / 2) {
        /* Data that waits for a slow client must not take many times its size in memory. */
        b = body_piece_resize(b, got);
    }
    arm_timer(c);
    http1_client_pass_on(c, b, (struct slice){b->memory, got});
    return got == room;
}

/* Whether bodies may be passed on by on_moving, without being read here. */
static bool moves_bodies(const struct http1_client_conn *c)
{
    return c->x.request.moves && c->transport.tls == NULL;
}

/* As read_body_once. */
static bool move_body_once(struct http1_client_conn *c)
{
    const struct http1_client_request r = c->x.request;
    size_t room = at_least(c->x.room_bytes, BODY_READ_MIN);
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
        http1_client_resume(c); /* an idle connection is listened to */
        http1_client_complete(c);
        r.events->on_body(r.context, body_piece_copy(SLICE_NULL), true);
        return false;
    }
    return (size_t)n == max;
}

static void read_body(struct http1_client_conn *c)
{
    const struct body_framing *f = &c->x.framing;
    uint64_t serial = c->serial;

    if (c->in.body != NULL) {
        /* Resumed, and the socket was readable before what is here could be passed on. */
        list_remove(&c->work.node);
        pass_on_input(c);
        return;
    }
    for (int i = 0; i < READS_PER_EVENT; ++i) {
        bool move = moves_bodies(c) && f->kind == HTTP1_BODY_LENGTH && f->left >= MOVE_MIN;
        bool more = move ? move_body_once(c) : read_body_once(c);
        if (!more || c->serial != serial || c->x.paused)
            return;
    }
}

/* ---- reading: heads ---- */

/* An interim head. Returns whether to continue with the next. */
static cold_ bool on_interim_head(struct http1_client_conn *c, const struct http1_head *head)
{
    const struct http1_client_request r = c->x.request;
    bool upgrade = head->status == 101;
    bool asked = r.upgrade.len != 0 && wholly_written(&c->x);
    bool allowed = upgrade ? asked && http1_head_switches_to(head, r.upgrade)
                           : ++c->x.interim <= HTTP1_CLIENT_INTERIM_MAX;

    if (!allowed) {
        c->x.fault = upgrade ? RESPONSE_FAULT_UPGRADE : RESPONSE_FAULT_INTERIM;
        http1_client_fail(c, ERR_BAD_RESPONSE);
        return false;
    }
    if (!upgrade)
        return true;
    leave_exchange(c);
    c->x.state = EXCHANGE_TUNNEL;
    c->dead = true; /* for HTTP */
    read_stop(c);
    r.events->on_upgrade(r.context, head);
    return false;
}

/* The head's strings lie in c->in, which a callback may drop: it is put aside meanwhile. */
static noinline_ void on_last_head(struct http1_client_conn *c, const struct http1_head *head)
{
    const struct http1_client_request r = c->x.request;
    struct body_piece *b = c->in.body;

    http1_client_complete(c);
    c->in = (struct http1_client_input){0};
    r.events->on_head(r.context, head, true);
    body_piece_release(b);
}

static void on_head_with_body(struct http1_client_conn *c, const struct http1_head *head)
{
    struct http1_client_exchange *x = &c->x;
    struct http1_client_input in = c->in;
    uint64_t serial = c->serial;

    x->framing = (struct body_framing){.kind = head->framing, .left = head->content_length};
    bool large = head->framing == HTTP1_BODY_LENGTH && head->content_length > HEAD_READ_BYTES;
    c->head_read_bytes = large ? HEAD_READ_LARGE : HEAD_READ_BYTES;
    c->large_before = large && head->content_length > MOVE_MIN + HEAD_READ_SMALL;
    /* The announced length may be read at once: the read is bounded by the remaining length. */
    if (large)
        x->read_bytes = BODY_READ_MAX;
    x->state = EXCHANGE_BODY;
    c->in = (struct http1_client_input){0};
    x->request.events->on_head(x->request.context, head, false);
    if (c->serial != serial) {
        body_piece_release(in.body);
        return;
    }
    c->in = in;
    if (!x->paused)
        pass_on_input(c);
}

static void take_heads(struct http1_client_conn *c)
{
    struct http1_client_input *in = &c->in;
    struct http1_head head;

    ASSERT(in->body != NULL);
    do {
        struct slice rest = {in->body->memory + in->used, in->len - in->used};
        size_t from = in->scanned > in->used + 3 ? in->scanned - 3 : in->used;

        in->scanned = in->len;
        if (rest.len > EAGER_PARSE_MAX && rest.len < RESPONSE_HEAD_MAX &&
            memmem(in->body->memory + from, in->len - from, "\r\n\r\n", 4) == NULL)
            return;
        enum err e = http1_head_parse(rest, c->x.request.is_head, &head);
        if (e == ERR_BUSY)
            return;
        if (e != ERR_OK) {
            c->x.fault = head.fault;
            c->x.left_over = e == ERR_SYNTAX && head.status == 0 && c->x.interim == 0;
            http1_client_fail(c, e == ERR_TOO_LARGE ? e : ERR_BAD_RESPONSE);
            return;
        }
        in->used += head.bytes;
        in->scanned = in->used;
        if (head.status < 200 && !on_interim_head(c, &head))
            return;
    } while (head.status < 200);
    c->x.keep_alive = head.keep_alive;
    if (head.framing == HTTP1_BODY_NONE)
        on_last_head(c, &head);
    else
        on_head_with_body(c, &head);
}

/*
 * EOF before a head, or an error of the socket. A worker that has closed the connection resets it
 * when the request comes. One that has closed only its sending side acknowledges the request, and
 * may process it, although it cannot respond. A reset without an end before it proves nothing: what
 * it acknowledges is not taken by the kernel.
 */
static cold_ void on_head_end(struct http1_client_conn *c, ssize_t n)
{
    struct http1_client_exchange *x = &c->x;

    x->unreceived = n == 0 && is_unacknowledged(c);
    if (!x->unreceived || !x->request.once || transport_has_failed(&c->transport)) {
        http1_client_fail(c, error_of_end(c, n));
        return;
    }
    x->unreceived = false;
    x->ended = x->paused = true;
    transport_read_level(&c->transport, WATCH_FAILURE);
    transport_await_writable(&c->transport, NULL);
    deadline_set(c->loop, &c->deadline, RESET_WAIT_MS);
}

static void read_head(struct http1_client_conn *c)
{
    struct http1_client_input *in = &c->in;
    /* Whether to read little after the head, because the body is probably to be moved. */
    bool small = in->len == 0 && c->large_before && moves_bodies(c);
    size_t first = small ? HEAD_READ_BYTES : at_least(c->head_read_bytes, HEAD_READ_BYTES);
    size_t most = at_least(c->x.room_bytes, HEAD_READ_BYTES);

    if (in->body == NULL) {
        in->room = first < most ? first : most;
        bool block = in->room == INPUT_BYTES;
        in->body = block ? loop_alloc_block(c->loop) : xmalloc(sizeof(*in->body) + in->room);
        body_piece_init(in->body, block ? c->loop : NULL);
    } else if (in->len == in->room && in->used != 0) { /* removes interim heads */
        memmove(in->body->memory, in->body->memory + in->used, in->len - in->used);
        in->len -= in->used;
        in->scanned -= in->used;
        in->used = 0;
    } else if (in->len == in->room) {
        in->room *= 2;
        in->body = body_piece_resize(in->body, in->room);
    }
    size_t room = small ? HEAD_READ_SMALL : in->room - in->len;
    uint64_t serial = c->serial;
    ssize_t n = transport_recv(&c->transport, in->body->memory + in->len, room);

    if (n <= 0) {
        if (n == 0 || (errno != EAGAIN && errno != EINTR))
            on_head_end(c, n);
        return;
    }
    if (!any_received(c))
        c->x.times.first_byte_us = loop_now_us(c->loop);
    in->len += (size_t)n;
    take_heads(c);
    if (c->serial == serial && is_reading(c))
        arm_timer(c);
    /* Of the body there is more, then. */
    if ((size_t)n == room && c->serial == serial && c->x.state == EXCHANGE_BODY && !c->x.paused)
        read_body(c);
}

/* Data that TLS has read ahead is not reported by a poll. */
static void read_ahead_later(struct http1_client_conn *c)
{
    if (is_reading(c) && transport_read_ahead(&c->transport))
        loop_defer_once(c->loop, &c->work);
}

static void read_response(struct http1_client_conn *c)
{
    if (c->x.state == EXCHANGE_HEAD) {
        read_head(c);
    } else {
        ASSERT(c->x.state == EXCHANGE_BODY); /* of a tunnel, the next owner of the socket reads */
        read_body(c);
    }
    read_ahead_later(c);
}

static void run_work(struct loop_deferred *d)
{
    struct http1_client_conn *c = container_of(d, struct http1_client_conn, work);

    if (c->dead)
        http1_client_fail(c, ERR_PEER_CLOSED);
    else if (is_reading(c))
        read_response(c);
}

static void on_http1_client_readable(void *context)
{
    struct http1_client_conn *c = context;

    if (c->x.state != EXCHANGE_NONE) {
        read_response(c);
        return;
    }
    /* Bytes or an end without a request: a user finds the connection dead; the pool drops it. */
    if (c->transport.tls != NULL && !c->dead && transport_is_quiet(&c->transport))
        return; /* a session ticket */
    c->dead = true;
    read_stop(c);
    if (conn_in_use(&c->pooled))
        return;
    conn_ended_idle(&c->pooled, loop_now_ms(c->loop));
    http1_client_close(&c);
}

/* ---- what the user may do meanwhile ---- */

void http1_client_room(struct http1_client_conn *c, size_t bytes)
{
    c->x.room_bytes = bytes;
}

void http1_client_pause(struct http1_client_conn *c)
{
    if (!is_reading(c))
        return;
    c->x.paused = true;
    deadline_clear(&c->deadline);
    list_remove(&c->work.node);
    read_stop(c);
}

void http1_client_resume(struct http1_client_conn *c)
{
    if (!c->x.paused)
        return;
    c->x.paused = false;
    arm_timer(c);
    read_start(c);
    if (c->in.body != NULL && c->x.state == EXCHANGE_BODY)
        loop_defer_once(c->loop, &c->work);
    else
        read_ahead_later(c);
}

/* ---- connections ---- */

static void run_free(struct loop_deferred *d)
{
    struct http1_client_conn *c = container_of(d, struct http1_client_conn, free_later);

    drop_input(c);
    drop_output(c);
    free(c);
}

struct http1_client_conn *http1_client_conn_create(struct loop *l, struct transport *t)
{
    struct http1_client_conn *c = xcalloc(1, sizeof(*c));

    list_init(&c->pooled.stack_node);
    c->loop = l;
    c->transport = *t;
    *t = TRANSPORT_CLOSED;
    transport_attach(&c->transport, c->loop, on_http1_client_readable, c);
    c->work.run = run_work;
    c->free_later.run = run_free;
    deadline_init(&c->deadline, on_http1_client_timer);
    read_start(c);
    return c;
}

void http1_client_close(struct http1_client_conn **cp)
{
    struct http1_client_conn *c = *cp;

    if (c == NULL)
        return;
    *cp = NULL;
    if (in_exchange(c))
        transport_reset_at_close(&c->transport);
    leave_exchange(c);
    c->dead = true;
    conn_withdraw(&c->pooled);
    deadline_stop(&c->deadline);
    transport_close(&c->transport);
    /* Not linked: the caller owns the connection, and gives it up here. */
    loop_defer(c->loop, &c->free_later);
}

void http1_client_give_back(struct http1_client_conn **cp)
{
    struct http1_client_conn *c = *cp;

    if (c == NULL || c->pooled.backend == NULL || !http1_client_reusable(c)) {
        http1_client_close(cp);
        return;
    }
    struct pooled_conn *p = &c->pooled;
    *cp = NULL;
    conn_checkin(&p, c->loop);
}

struct pooled_conn *http1_client_pooled(struct http1_client_conn *c)
{
    return &c->pooled;
}

struct http1_client_conn *http1_client_of_pooled(struct pooled_conn *p)
{
    return container_of(p, struct http1_client_conn, pooled);
}

bool http1_client_is_tls(const struct http1_client_conn *c, bool *resumed)
{
    *resumed = c->transport.tls != NULL && tls_link_resumed(c->transport.tls);
    return c->transport.tls != NULL;
}

bool http1_client_reusable(const struct http1_client_conn *c)
{
    return !c->dead && c->x.state == EXCHANGE_NONE;
}

bool http1_client_reused(const struct http1_client_conn *c)
{
    return c->pooled.uses > 1;
}

bool http1_client_gave_up(const struct http1_client_conn *c, const struct http1_head *head)
{
    return head->status == 408 && !head->keep_alive && http1_client_reused(c);
}

struct http1_client_times http1_client_times(const struct http1_client_conn *c)
{
    return c->x.times;
}

struct upgraded_transport http1_client_take_upgraded(struct http1_client_conn **cp)
{
    struct http1_client_conn *c = *cp;
    struct upgraded_transport u = {.transport = c->transport};

    ASSERT(c->x.state == EXCHANGE_TUNNEL);
    *cp = NULL;
    c->transport = TRANSPORT_CLOSED;
    text_add(&u.early, (struct slice){c->in.body->memory + c->in.used, unread_bytes(c)});
    http1_client_close(&c);
    return u;
}

/* ---- for the pool ---- */

static bool conn_alive(struct pooled_conn *p)
{
    struct http1_client_conn *c = http1_client_of_pooled(p);

    if (c->dead)
        return false;
    /*
     * Whether the loop's last wait would have reported any readable data: then
     * on_http1_client_readable has seen it. Data that TLS has read ahead is not in the socket.
     */
    if (c->quiet_since < loop_waits(c->loop) && loop_reported_all(c->loop) &&
        transport_is_current(&c->transport))
        return true;
    return transport_is_quiet(&c->transport);
}

static void close_pooled(struct pooled_conn *p)
{
    struct http1_client_conn *c = http1_client_of_pooled(p);

    http1_client_close(&c);
}

static bool detach_conn(struct pooled_conn *p)
{
    struct http1_client_conn *c = http1_client_of_pooled(p);

    /* TLS stays where it is: its sessions are its loop's. */
    if (c->dead || c->transport.tls != NULL || watch_writes(c->transport.watch))
        return false;
    transport_detach(&c->transport);
    deadline_stop(&c->deadline);
    return true;
}

static bool attach_conn(struct pooled_conn *p, struct loop *l)
{
    struct http1_client_conn *c = http1_client_of_pooled(p);

    c->loop = l;
    transport_attach(&c->transport, l, on_http1_client_readable, c);
    read_start(c);
    return true;
}

const struct conn_pool_ops http1_client_pool_ops = {
    .alive = conn_alive,
    .close = close_pooled,
    .detach = detach_conn,
    .attach = attach_conn,
};
