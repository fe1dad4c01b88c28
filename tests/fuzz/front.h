/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole front in one process: a real server on a loop, and a client on a real connection that
 * sends the input. What it responds is the handler's choice, by the length of the path. Bits of the
 * input's first byte: 0 the client reads nothing, 1 it half-closes, 2 it resets at the end,
 * 3 its bytes come in pieces, each after a turn of the loop, 4 no body of HTTP/1 is put into a
 * file; 5 by TLS, 7 FRONT_REQUESTS requests come before: over HTTP/2 as many streams as are
 * announced, over HTTP/1 pipelined; over HTTP/2 also 6 no preface comes before. The second byte,
 * unless it is 0: the server's socket takes only a part of what is written, and the client reads
 * pieces of so many times 16 bytes, one a turn. With bit 7 the third byte: two bits each, the path
 * lengths of four requests in a row, less one.
 */
#pragma once

#include "common/base/list.h"
#include "common/base/text.h"
#include "common/http/http_server.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/self_signed.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    FRONT_SILENT = 1,
    FRONT_HALF = 2,
    FRONT_RESET = 4,
    FRONT_PIECES = 8,
    FRONT_IN_MEMORY = 16,
    FRONT_TLS = 32,
    FRONT_NO_PREFACE = 64,
    FRONT_MANY = 128,
};

/* Requests that come before the input with FRONT_MANY. */
enum { FRONT_REQUESTS = 100 };

/* Addresses that a connection is tried from. */
enum { FRONT_TRIES = 100 };

struct front {
    struct loop *loop;
    struct http_server *server;
    struct sockaddr_storage addr[4]; /* 1: with TLS; 2: with small buffers to send from */
    socklen_t addr_len[4];
    SSL_CTX *ssl_client;
    SSL *ssl;         /* of the present connection; NULL: it has none */
    struct list late; /* calls that get a response one a turn */
    unsigned responses;
    size_t sip; /* what the present client reads at a time; 0: all there is */
};

struct front_call {
    struct http_response response;
    struct list late_node; /* in front.late, or alone */
    char body[70000];
};

static inline void front_on_gone(void *context, bool done)
{
    struct front_call *call = context;

    (void)done;
    list_remove(&call->late_node);
    free(call);
}

static const struct http_response_events front_events = {.gone = front_on_gone};

static inline void front_on_request(void *context, struct http_request *req, struct http_conn *conn)
{
    struct front *f = context;
    struct front_call *call = xmalloc(sizeof(*call));
    size_t len = req->target.len;

    /* What a worker would get: of one line, and from the start. */
    ASSERT(len != 0 && (req->target.p[0] == '/' || len == 1));
    for (size_t i = 0; i < len; ++i)
        ASSERT((unsigned char)req->target.p[i] > ' ');
    for (size_t i = 0; i < req->fields.n; ++i)
        ASSERT(memchr(req->fields.at[i].value.p, '\n', req->fields.at[i].value.len) == NULL);
    ++f->responses;
    memset(call->body, 'x', sizeof(call->body));
    list_init(&call->late_node);
    http_response_init(&call->response, req, conn, &front_events, call);
    if (len % 8 == 7)
        list_push_back(&f->late, &call->late_node);
    if (len % 4 == 3)
        return; /* responded in a later turn, or never: it ends with the connection */
    if (len % 4 == 2) {
        req->res.status = 200;
        http_response_start(&call->response, 10);
        http_response_abort(&call->response);
        return;
    }
    size_t bytes = len % 4 != 1 ? sizeof(call->body) : len % 8 == 1 ? 0 : 5;

    http_response_simple(&call->response, 200, "text/plain", (struct slice){call->body, bytes});
}

static inline void front_listen(struct front *f, int which, const struct http_listen_options *o)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int small = 4608; /* the kernel's least; accepted sockets have it from the listening one */

    f->addr_len[which] = sizeof(f->addr[which]);
    int failed = bind(fd, (struct sockaddr *)&a, sizeof(a)) != 0 || listen(fd, 16) != 0 ||
                 getsockname(fd, (struct sockaddr *)&f->addr[which], &f->addr_len[which]) != 0;
    ASSERT(!failed);
    if ((which & 2) != 0)
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    http_server_listen(f->server, fd, o);
}

static inline void front_start(struct front *f, bool http2, bool in_memory)
{
    const struct tls_context_options tls = {.http2 = http2};
    struct http_server_options o = {
        .max.body_bytes = 100000,
        .sinks = {.memory_bytes = 4000, .directory = in_memory ? NULL : "/tmp"},
        .max.head_bytes = 8192,
        .max.fields = 50,
        .http2_pings = 50,
        .http2_priorities = 50,
        .http2_window_updates = 200,
        .http2_resets = 50,
        .http2_unknown_frames = 50,
        .http2_requests = 100,
        .http2_abandoned = 30,
        .on_request = front_on_request,
        .context = f,
    };

    signal(SIGPIPE, SIG_IGN);
    list_init(&f->late);
    f->loop = loop_create(0);
    f->server = http_server_create(f->loop, &o);
    for (int which = 0; which < 4; ++which)
        front_listen(f, which,
                     &(struct http_listen_options){
                         .http2 = http2,
                         .ssl = (which & 1) != 0 ? self_signed_context(&tls) : NULL,
                     });
    f->ssl_client = SSL_CTX_new(TLS_client_method());
    if (http2)
        SSL_CTX_set_alpn_protos(f->ssl_client, (const unsigned char *)"\x02h2", 3);
}

static inline ssize_t front_recv(struct front *f, int client, char *p, size_t room)
{
    if (f->ssl == NULL)
        return recv(client, p, room, MSG_DONTWAIT);
    return SSL_read(f->ssl, p, (int)room);
}

static inline ssize_t front_put(struct front *f, int client, struct slice bytes)
{
    if (f->ssl == NULL)
        return send(client, bytes.p, bytes.len, MSG_DONTWAIT | MSG_NOSIGNAL);
    return SSL_write(f->ssl, bytes.p, (int)bytes.len);
}

static inline void front_handshake(struct front *f, int client)
{
    fcntl(client, F_SETFL, O_NONBLOCK);
    f->ssl = SSL_new(f->ssl_client);
    SSL_set_fd(f->ssl, client);
    SSL_set_connect_state(f->ssl);
    for (int i = 0; i < 1000 && SSL_do_handshake(f->ssl) != 1; ++i)
        loop_turn(f->loop, i < 20 ? 0 : 1);
    ASSERT(SSL_is_init_finished(f->ssl));
}

/* Such a response begins outside of any event of its connection, which may be closing. */
static inline void front_response_late(struct front *f)
{
    struct list *first = list_pop_front(&f->late);

    if (first == NULL)
        return;
    struct front_call *call = list_entry(first, struct front_call, late_node);

    http_response_simple(&call->response, 200, "text/plain",
                         (struct slice){call->body, sizeof(call->body)});
}

static inline void front_turn(struct front *f, int client, unsigned mode)
{
    char buffer[16384];

    loop_turn(f->loop, 0);
    front_response_late(f);
    if (f->sip != 0) {
        if ((mode & FRONT_SILENT) == 0)
            front_recv(f, client, buffer, f->sip);
        return;
    }
    while ((mode & FRONT_SILENT) == 0 && front_recv(f, client, buffer, sizeof(buffer)) > 0)
        loop_turn(f->loop, 0);
}

static inline void front_send(struct front *f, int client, struct slice bytes, unsigned mode)
{
    size_t piece = (mode & FRONT_PIECES) != 0 ? 1 + bytes.len / 7 : bytes.len;

    for (size_t at = 0; at < bytes.len;) {
        size_t n = bytes.len - at < piece ? bytes.len - at : piece;
        if (front_put(f, client, (struct slice){bytes.p + at, n}) <= 0)
            break;
        at += n;
        front_turn(f, client, mode);
    }
}

/*
 * Each connection is from another address of this machine's: one alone is out of ports when tens of
 * thousands have ended within a minute. Where what is to be had has still not ended, the next one.
 */
static inline int front_client(struct front *f, unsigned mode)
{
    static uint32_t number;
    int which = ((mode & FRONT_TLS) != 0) + (f->sip != 0 ? 2 : 0);
    int small = 4096;

    for (int i = 0; i < FRONT_TRIES; ++i) {
        struct sockaddr_in from = {
            .sin_family = AF_INET,
            .sin_addr.s_addr = htonl(0x7f010000 + number++ % 0x10000),
        };
        int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if ((mode & FRONT_SILENT) != 0 || f->sip != 0)
            setsockopt(client, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
        if (bind(client, (struct sockaddr *)&from, sizeof(from)) == 0 &&
            connect(client, (struct sockaddr *)&f->addr[which], f->addr_len[which]) == 0)
            return client;
        close(client);
    }
    ASSERT(false && "no connection");
    return -1;
}

/* The next byte of what BYTES has left; 0 at its end. */
static inline unsigned front_take(struct slice *bytes)
{
    if (bytes->len == 0)
        return 0;
    unsigned byte = (unsigned char)bytes->p[0];

    *bytes = (struct slice){bytes->p + 1, bytes->len - 1};
    return byte;
}

/* The path of the Ith of the requests that come before, by the input's third byte. */
static inline struct slice front_path(unsigned lengths, unsigned i)
{
    return (struct slice){"/abc", 1 + (lengths >> i % 4 * 2 & 3)};
}

/* One connection, from its start to its end; a leak or a request left behind is a failure. */
static inline void front_talk(struct front *f, struct slice before, struct slice bytes,
                              unsigned mode)
{
    struct linger reset = {.l_onoff = 1};
    int client;

    client = front_client(f, mode);
    if ((mode & FRONT_TLS) != 0)
        front_handshake(f, client);
    front_send(f, client, before, mode);
    front_send(f, client, bytes, mode);
    if ((mode & FRONT_HALF) != 0)
        shutdown(client, SHUT_WR);
    for (int i = 0; i < (f->sip != 0 ? 64 : 3); ++i)
        front_turn(f, client, mode);
    if ((mode & FRONT_RESET) != 0)
        setsockopt(client, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    close(client);
    SSL_free(f->ssl);
    f->ssl = NULL;
    ERR_clear_error();
    for (int i = 0; i < 1000 && http_server_connections(f->server) != 0; ++i) {
        loop_turn(f->loop, i < 20 ? 0 : 1);
        front_response_late(f);
        if (i == 20)
            http_server_cut(f->server);
    }
    ASSERT(http_server_connections(f->server) == 0);
}
