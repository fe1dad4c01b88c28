/* SPDX-License-Identifier: Apache-2.0
 *
 * Large bodies of HTTP/1 whose length is announced: libh2o would keep them in a file mapping, whose
 * pages cost more than the bytes in them. So they are read into a file by us, while the head waits
 * at the start of the input; then libh2o gets the head alone, as that of a request without a body,
 * and the request its body from us:
 *
 *     head -> (100 Continue) -> body, into the file -> the head to libh2o -> http_server's on_req
 *
 * Of a plain connection bytes go straight from its socket to the file, never more than the body's;
 * of one with TLS libh2o decrypts them into the input first.
 */
#include "common/base/log.h"
#include "common/net/body_file.h"
#include "common/net/http_conn.h"
#include "common/wire/http1_request.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

enum {
    READ_BYTES = 256 * 1024,
    READS_PER_EVENT = 4, /* then the loop's other sockets have their turn */
};

bool http_tap_spilling(const struct http_conn *c)
{
    return c->tap.file != NULL;
}

bool http_tap_spilled(const struct http_conn *c)
{
    return http_tap_spilling(c) && c->tap.state != TAP_CHUNKED && c->tap.left == 0;
}

bool http_tap_wants_spill(const struct http_conn *c)
{
    const struct http_server_options *o = &c->server->options;

    if (o->spill_dir == NULL)
        return false;
    /* Whoever waits for "100 Continue" gets it from us, as the body does not go to libh2o. */
    if (c->tap.state == TAP_CHUNKED)
        return c->server->head.conn == c && c->server->head.facts.expects;
    return c->tap.state == TAP_LENGTH && c->tap.left > o->body_spill_bytes;
}

bool http_tap_outgrows_memory(const struct http_conn *c)
{
    const struct http_server_options *o = &c->server->options;

    return o->spill_dir != NULL && c->sock->input->size - c->tap.head_bytes > o->body_spill_bytes;
}

static void log_no_room(const struct http_conn *c, int error)
{
    log_warn(NULL, "body-not-kept", "folder=%s errno=%d", c->server->options.spill_dir, error);
}

static bool no_room(struct http_conn *c, int error)
{
    log_no_room(c, error);
    http_tap_refuse(c, FAULT_BODY_NO_ROOM);
    return false;
}

/* The body goes with the request from here on, and is not on its way any more. */
static void end_spill(struct http_conn *c)
{
    struct http_tap *t = &c->tap;

    if (c->sock->_cb.write != NULL) {
        h2o_socket_read_stop(c->sock); /* until "100 Continue" has gone */
        return;
    }
    if (body_file_map(t->file).p == NULL) {
        (void)no_room(c, errno);
        return;
    }
    body_file_throw(&c->server->body_bin, t->body);
    t->body = t->file;
    t->file = NULL;
    t->state = TAP_HEAD;
    c->sock->bytes_read = c->sock->input->size;
    (void)http_tap_pass_on(c, NULL);
}

static void on_continue_sent(h2o_socket_t *sock, const char *err)
{
    struct http_conn *c = sock->on_close.data;

    if (sock->_cb.read == NULL)
        http_tap_read_on(c);
    if (err != NULL || c->cut)
        http_conn_cut(c);
    else if (c->tap.state == TAP_REFUSED)
        http_tap_write_refusal(c);
    else if (http_tap_spilled(c))
        end_spill(c);
}

bool http_tap_says_continue(const struct http_conn *c)
{
    return c->sock->_cb.write == on_continue_sent;
}

bool http_tap_begin_spill(struct http_conn *c)
{
    static char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
    h2o_buffer_t *in = c->sock->input;
    struct body_file *file = body_file_create(c->server->options.spill_dir);

    if (file == NULL)
        return no_room(c, errno);
    bool expects = http1_request_hide_body(in->bytes, c->tap.head_bytes);
    c->tap.file = file;
    c->tap.stripped = (struct request_chunks){0};
    if (expects && c->sock->_cb.write == NULL) {
        h2o_iovec_t bytes = h2o_iovec_init(interim, sizeof(interim) - 1);
        h2o_socket_write(c->sock, &bytes, 1, on_continue_sent);
    }
    return true;
}

bool http_tap_spill(struct http_conn *c, size_t bytes, size_t rest)
{
    struct http_tap *t = &c->tap;
    h2o_buffer_t *in = c->sock->input;
    char *from = in->bytes + in->size - rest - bytes;
    size_t data = t->state == TAP_CHUNKED ? request_chunks_strip(&t->stripped, from, bytes) : bytes;

    if (!body_file_add(t->file, (struct slice){from, data}))
        return no_room(c, errno);
    memmove(from, from + bytes, rest);
    in->size -= bytes;
    return true;
}

void http_tap_drop_spill(struct http_conn *c)
{
    if (!http_tap_spilling(c))
        return;
    body_file_throw(&c->server->body_bin, c->tap.file);
    c->tap.file = NULL;
}

/* One read. False: nothing more is to be done now, and the connection may be gone. */
static bool read_once(struct http_conn *c)
{
    struct http_server *s = c->server;
    size_t left = c->tap.left < READ_BYTES ? (size_t)c->tap.left : READ_BYTES;

    if (s->spill_room == NULL)
        s->spill_room = xmalloc(READ_BYTES);
    ssize_t n = recv(h2o_socket_get_fd(c->sock), s->spill_room, left, MSG_DONTWAIT);
    if (n == -1 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        (void)http_tap_pass_on(c, n == 0 ? h2o_socket_error_closed : h2o_socket_error_io);
        return false;
    }
    c->received_bytes += (size_t)n;
    c->tap.left -= (uint64_t)n;
    if (!body_file_add(c->tap.file, (struct slice){s->spill_room, (size_t)n}))
        return no_room(c, errno);
    if (c->tap.left != 0)
        return (size_t)n == left;
    end_spill(c);
    return false;
}

void http_tap_go_on_spilling(struct http_conn *c)
{
    if (http_tap_spilled(c)) {
        end_spill(c);
        return;
    }
    if (!c->tap.reads)
        return;
    for (int i = 0; i < READS_PER_EVENT && read_once(c); ++i)
        ;
}

/* ---- HTTP/2 ---- */

struct stored {
    struct list node; /* in the tap's */
    uint32_t stream;
    struct body_file *file; /* NULL: there is no room */
};

static struct stored *find_stored(const struct http_conn *c, uint32_t stream)
{
    struct list *it;

    list_for_each (it, &c->tap.stored) {
        struct stored *s = list_entry(it, struct stored, node);

        if (s->stream == stream)
            return s;
    }
    return NULL;
}

/* What its file is then the caller's. */
static struct body_file *end_stored(struct stored *s)
{
    struct body_file *file = s->file;

    list_remove(&s->node);
    free(s);
    return file;
}

static struct stored *begin_stored(struct http_conn *c, uint32_t stream, size_t before)
{
    struct stored *s = xcalloc(1, sizeof(*s));

    s->stream = stream;
    s->file = body_file_create(c->server->options.spill_dir);
    if (s->file != NULL)
        body_file_leave(s->file, before);
    else
        log_no_room(c, errno);
    list_push_back(&c->tap.stored, &s->node);
    return s;
}

bool http_tap_store(struct http_conn *c, uint32_t stream, size_t before, struct slice bytes)
{
    struct stored *s = find_stored(c, stream);

    if (s == NULL)
        s = begin_stored(c, stream, before);
    if (s->file != NULL && !body_file_add(s->file, bytes)) {
        log_no_room(c, errno);
        body_file_throw(&c->server->body_bin, s->file);
        s->file = NULL;
    }
    return s->file != NULL;
}

void http_tap_forget_stored(struct http_conn *c, uint32_t stream)
{
    struct stored *s = find_stored(c, stream);

    if (s != NULL)
        body_file_throw(&c->server->body_bin, end_stored(s));
}

/* What REQ has of its body goes before the rest. */
static enum request_fault take_stored(struct http_conn *c, h2o_req_t *req)
{
    struct stored *s = find_stored(c, http_tap_stream_http2(req));

    if (s == NULL)
        return FAULT_NONE;
    struct body_file *file = end_stored(s);
    if (file != NULL && body_file_fill(file, (struct slice){req->entity.base, req->entity.len})) {
        c->tap.body = file;
        return FAULT_NONE;
    }
    if (file != NULL)
        log_no_room(c, errno);
    body_file_throw(&c->server->body_bin, file);
    return FAULT_BODY_NO_ROOM;
}

/* ---- whole ---- */

/* A request's. */
struct owned {
    struct body_file_bin *bin;
    struct body_file *file;
};

static void dispose(void *owner)
{
    struct owned *o = owner;

    body_file_throw(o->bin, o->file);
}

enum request_fault http_tap_give_body(struct http_conn *c, h2o_req_t *req,
                                      const struct body_file **out)
{
    enum request_fault f = c->http2 ? take_stored(c, req) : FAULT_NONE;
    struct body_file *body = c->tap.body;

    *out = NULL;
    if (body == NULL)
        return f;
    struct owned *owner = h2o_mem_alloc_shared(&req->pool, sizeof(*owner), dispose);
    struct slice bytes = body_file_map(body);
    *owner = (struct owned){&c->server->body_bin, body};
    c->tap.body = NULL;
    if (bytes.p == NULL) {
        log_no_room(c, errno);
        return FAULT_BODY_NO_ROOM;
    }
    req->entity = h2o_iovec_init(bytes.p, bytes.len);
    *out = bytes.len != 0 ? body : NULL;
    return FAULT_NONE;
}

void http_tap_fini_spill(struct http_conn *c)
{
    body_file_throw(&c->server->body_bin, c->tap.file);
    body_file_throw(&c->server->body_bin, c->tap.body);
    while (c->tap.http2 != NULL && !list_empty(&c->tap.stored))
        body_file_throw(&c->server->body_bin,
                        end_stored(list_first(&c->tap.stored, struct stored, node)));
}
