/* SPDX-License-Identifier: Apache-2.0
 *
 * The server of http_server_fixture.h with HTTP/2 on a plain listener, and a client with frames
 * that the test composes.
 */
#pragma once

#include "common/wire/http2/hpack.h"
#include "common/wire/http2/http2_reader.h"
#include "tests/unit/http/http_server_fixture.h"

enum {
    H2_END = FLAG_END_STREAM,
    H2_WHOLE = FLAG_END_STREAM | FLAG_END_HEADERS,
    H2_STREAMS = 512, /* the client's may have numbers up to twice that */
};

/* GET, https, "/", authority "a"; POST; the same with an Expect field. */
#define H2_GET SLICE_LIT("\x82\x87\x84\x41\1a")
#define H2_POST SLICE_LIT("\x83\x87\x84\x41\1a")
#define H2_EXPECT                                                                                  \
    SLICE_LIT("\x83\x87\x84\x41\1a\x0f\x14\x0c"                                                    \
              "100-continue")

/* What the client has received of a stream. */
struct h2_seen {
    unsigned heads;
    int interim, status; /* of the first head if it is 1xx, and of the last */
    uint64_t bytes;
    bool ended;
    int reset; /* the code, or -1 */
    uint64_t window;
};

struct h2_client {
    struct raw_peer peer;
    size_t parsed; /* bytes of peer.in */
    struct hpack table;
    struct h2_seen streams[H2_STREAMS], *head;
    unsigned settings, acks, pings, goaways;
    uint32_t last_id, code; /* of the last GOAWAY */
    uint64_t window;        /* WINDOW_UPDATE of the connection */
    size_t block_bytes;     /* of the last head */
    unsigned first_byte;
    uint32_t ended[H2_STREAMS]; /* the streams that have ended, in that order */
    unsigned nended;
};

struct h2 {
    struct fixture base; /* first: the fixture's functions are used with it */
    struct http_listener *listener;
    struct addr addr;
    struct h2_client client;
    struct http_response *responses[H2_STREAMS]; /* of the requests in order */
};

static inline struct h2_seen *h2_of(struct h2 *h, uint32_t id)
{
    assert_true(id / 2 < H2_STREAMS);
    return &h->client.streams[id / 2];
}

static inline void h2_frame(struct text *t, unsigned type, unsigned flags, uint32_t id,
                            struct slice payload)
{
    const char head[] = {(char)(payload.len >> 16),
                         (char)(payload.len >> 8),
                         (char)payload.len,
                         (char)type,
                         (char)flags,
                         (char)(id >> 24),
                         (char)(id >> 16),
                         (char)(id >> 8),
                         (char)id};

    text_add(t, (struct slice){head, sizeof(head)});
    text_add(t, payload);
}

static inline void h2_send_text(struct h2 *h, struct text *t)
{
    raw_send_bytes(h->base.loop, &h->client.peer, text_slice(t));
    text_fini(t);
}

static inline void h2_send(struct h2 *h, unsigned type, unsigned flags, uint32_t id,
                           struct slice payload)
{
    struct text t = {0};

    h2_frame(&t, type, flags, id, payload);
    h2_send_text(h, &t);
}

static inline struct slice h2_u32(uint32_t v)
{
    static char bytes[4];

    for (int i = 0; i < 4; ++i)
        bytes[i] = (char)(v >> (24 - 8 * i));
    return (struct slice){bytes, 4};
}

static inline void h2_window(struct h2 *h, uint32_t id, uint32_t amount)
{
    h2_send(h, TYPE_WINDOW_UPDATE, 0, id, h2_u32(amount));
}

static inline void h2_setting(struct h2 *h, char id, uint32_t value)
{
    char payload[HTTP2_SETTING_BYTES] = {0, id};

    memcpy(payload + 2, h2_u32(value).p, 4);
    h2_send(h, TYPE_SETTINGS, 0, 0, (struct slice){payload, sizeof(payload)});
}

/* ---- what comes ---- */

static inline void h2_on_field(void *context, const struct hpack_field *f, bool *checked)
{
    struct h2_client *c = context;

    (void)checked;
    if (!slice_is(f->name, ":status"))
        return;
    int status = (f->value.p[0] - '0') * 100 + (f->value.p[1] - '0') * 10 + f->value.p[2] - '0';
    if (status < 200)
        c->head->interim = status;
    c->head->status = status;
}

static inline void h2_on_head(struct h2_client *c, struct h2_seen *s, struct slice block)
{
    const struct hpack_limits limits = {.list_bytes = 1 << 20, .fields = 1000};

    ++s->heads;
    c->head = s;
    c->block_bytes = block.len;
    c->first_byte = (unsigned char)block.p[0];
    assert_int_equal(hpack_decode(&c->table, block, &limits, h2_on_field, c), FAULT_NONE);
}

static inline void h2_on_frame(struct h2 *h, unsigned type, unsigned flags, uint32_t id,
                               struct slice payload)
{
    struct h2_client *c = &h->client;
    struct h2_seen *s = h2_of(h, id);

    if (type == TYPE_DATA)
        s->bytes += payload.len;
    else if (type == TYPE_HEADERS)
        h2_on_head(c, s, payload);
    else if (type == TYPE_RST_STREAM)
        s->reset = (int)http2_get32(payload.p);
    else if (type == TYPE_SETTINGS)
        ++*(flags != 0 ? &c->acks : &c->settings);
    else if (type == TYPE_PING)
        ++c->pings;
    else if (type == TYPE_WINDOW_UPDATE)
        *(id != 0 ? &s->window : &c->window) += http2_get32(payload.p);
    else if (type == TYPE_GOAWAY) {
        ++c->goaways;
        c->last_id = http2_get32(payload.p);
        c->code = http2_get32(payload.p + 4);
    }
    if ((type == TYPE_DATA || type == TYPE_HEADERS) && (flags & FLAG_END_STREAM) != 0) {
        s->ended = true;
        c->ended[c->nended++] = id;
    }
}

/* Read and parse what is there. */
static inline void h2_read(struct h2 *h)
{
    struct h2_client *c = &h->client;

    raw_read(&c->peer, SIZE_MAX);
    for (;;) {
        const unsigned char *p = (const unsigned char *)c->peer.in.p + c->parsed;
        size_t left = c->peer.in.len - c->parsed;
        size_t len = left < HTTP2_HEAD_BYTES ? 0 : (size_t)p[0] << 16 | (size_t)p[1] << 8 | p[2];
        if (left < HTTP2_HEAD_BYTES + len)
            return;
        c->parsed += HTTP2_HEAD_BYTES + len;
        h2_on_frame(h, p[3], p[4], http2_get32(p + 5),
                    (struct slice){(const char *)p + HTTP2_HEAD_BYTES, len});
    }
}

/* ---- waiting ---- */

struct h2_wait {
    struct h2 *h;
    bool (*until)(struct h2 *h, uint64_t value);
    uint64_t value;
};

static inline bool h2_holds(void *context)
{
    struct h2_wait *w = context;

    h2_read(w->h);
    return w->until(w->h, w->value);
}

static inline void h2_until(struct h2 *h, bool (*until)(struct h2 *h, uint64_t value),
                            uint64_t value)
{
    raw_turn_until(h->base.loop, h2_holds,
                   &(struct h2_wait){.h = h, .until = until, .value = value});
}

static inline bool h2_has_ended(struct h2 *h, uint64_t id)
{
    return h2_of(h, (uint32_t)id)->ended;
}

static inline bool h2_has_head(struct h2 *h, uint64_t id)
{
    return h2_of(h, (uint32_t)id)->heads != 0;
}

static inline bool h2_has_reset(struct h2 *h, uint64_t id)
{
    return h2_of(h, (uint32_t)id)->reset != -1;
}

static inline bool h2_has_goaway(struct h2 *h, uint64_t unused)
{
    (void)unused;
    return h->client.goaways != 0;
}

static inline bool h2_is_over(struct h2 *h, uint64_t unused)
{
    (void)unused;
    return h->client.peer.ended || h->client.peer.reset;
}

static inline bool h2_has_pings(struct h2 *h, uint64_t n)
{
    return h->client.pings >= n;
}

/* Until all that was sent has been processed, and responded to. */
static inline void h2_ping(struct h2 *h)
{
    h2_send(h, TYPE_PING, 0, 0, SLICE_LIT("12345678"));
    h2_until(h, h2_has_pings, h->client.pings + 1);
}

static inline bool h2_has_requests(struct h2 *h, uint64_t n)
{
    return h->base.requests >= n;
}

/* ---- life ---- */

static inline void h2_keep_response(struct fixture *f, struct call *call)
{
    struct h2 *h = container_of(f, struct h2, base);

    h->responses[f->requests - 1] = &call->response;
}

static inline void h2_connect(struct h2 *h)
{
    struct text t = {0};

    raw_connect(&h->addr, &h->client.peer);
    text_add(&t, SLICE_LIT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
    h2_frame(&t, TYPE_SETTINGS, 0, 0, SLICE_LIT(""));
    h2_send_text(h, &t);
}

static inline void h2_listen(struct h2 *h)
{
    struct http_listen_options o = {.http2 = true};
    int fd = raw_listen(&h->addr);

    h->listener = http_server_listen(h->base.server, fd, &o);
}

/* With other options from here on. */
static inline void h2_restart(struct h2 *h, const struct http_server_options *o)
{
    fixture_restart(&h->base, o);
    h2_listen(h);
}

static inline int h2_setup(void **state)
{
    struct h2 *h = xcalloc(1, sizeof(*h));

    raw_ignore_sigpipe();
    h->base.loop = loop_create(0);
    struct http_server_options o = fixture_options(&h->base);
    fixture_start(&h->base, &o);
    raw_init(&h->base.client);
    raw_init(&h->client.peer);
    hpack_init(&h->client.table);
    for (size_t i = 0; i < H2_STREAMS; ++i)
        h->client.streams[i].reset = -1;
    h->base.response = h2_keep_response;
    h2_listen(h);
    *state = h;
    return 0;
}

static inline int h2_teardown(void **state)
{
    struct h2 *h = *state;

    raw_fini(&h->client.peer);
    raw_fini(&h->base.client);
    hpack_fini(&h->client.table);
    fixture_stop(&h->base);
    assert_int_equal(h->base.gone, h->base.requests);
    loop_destroy(h->base.loop);
    text_fini(&h->base.method);
    text_fini(&h->base.path);
    text_fini(&h->base.authority);
    text_fini(&h->base.body);
    free(h);
    return 0;
}

/* The Nth request gets BYTES. */
static inline void h2_response(struct h2 *h, unsigned n, size_t bytes)
{
    struct http_response *r = h->responses[n];
    char *body = xcalloc(1, bytes + 1);

    r->req->res.status = 200;
    http_response_start(r, bytes);
    http_response_send(r, body_piece_copy((struct slice){body, bytes}), true);
    free(body);
}

#define H2_TEST(name) cmocka_unit_test_setup_teardown(name, h2_setup, h2_teardown)
