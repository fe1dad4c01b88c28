/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole front in one process: a real server on a loop, and a client on a real connection that
 * sends the input. What it answers is the handler's choice, by the length of the path. Bits of the
 * input's first byte: 0 the client reads nothing, 1 it half-closes, 2 it resets at the end,
 * 3 its bytes come in pieces, each after a turn of the loop, 4 all of HTTP/1 goes by libh2o.
 */
#ifndef RLB_TESTS_FUZZ_FRONT_H
#define RLB_TESTS_FUZZ_FRONT_H

#include "common/net/http_server.h"
#include "tests/fuzz/fuzz.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FRONT_SILENT = 1, FRONT_HALF = 2, FRONT_RESET = 4, FRONT_PIECES = 8, FRONT_LONG_WAY = 16 };

/* Addresses that a connection is tried from. */
enum { FRONT_TRIES = 100 };

struct front {
    struct loop *loop;
    struct http_server *server;
    struct sockaddr_storage addr;
    socklen_t addr_len;
    unsigned answers;
};

struct front_call {
    struct http_reply reply;
    char body[70000];
};

static inline void front_on_gone(void *context, bool done)
{
    (void)done;
    free(context);
}

static const struct http_reply_events front_events = {.gone = front_on_gone};

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
    ++f->answers;
    memset(call->body, 'x', sizeof(call->body));
    http_reply_init(&call->reply, req, conn, &front_events, call);
    if (len % 4 == 3)
        return; /* never answered: it ends with the connection */
    if (len % 4 == 2) {
        req->res.status = 200;
        http_reply_start(&call->reply, 10);
        http_reply_abort(&call->reply);
        return;
    }
    size_t bytes = len % 4 != 1 ? sizeof(call->body) : len % 8 == 1 ? 0 : 5;

    http_reply_simple(&call->reply, 200, "text/plain", (struct slice){call->body, bytes});
}

static inline void front_start(struct front *f, bool http2, bool long_way)
{
    struct http_server_options o = {
        .max_body_bytes = 100000,
        .max_header_bytes = 8192,
        .max_headers = 50,
        .http2_pings = 50,
        .http2_priorities = 50,
        .http2_window_updates = 200,
        .http2_resets = 50,
        .http2_unknown_frames = 50,
        .http2_requests = 100,
        .http2_abandoned = 30,
        .long_way = long_way,
        .on_request = front_on_request,
        .context = f,
    };
    struct http_listen_options listen_options = {.http2 = http2};
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    signal(SIGPIPE, SIG_IGN);
    f->addr_len = sizeof(f->addr);
    int failed = bind(fd, (struct sockaddr *)&a, sizeof(a)) != 0 || listen(fd, 16) != 0 ||
                 getsockname(fd, (struct sockaddr *)&f->addr, &f->addr_len) != 0;
    ASSERT(!failed);
    f->loop = loop_create(0);
    f->server = http_server_create(f->loop, &o);
    http_server_listen(f->server, fd, &listen_options);
}

static inline void front_turn(struct front *f, int client, unsigned mode)
{
    char buffer[16384];

    loop_turn(f->loop, 0);
    while ((mode & FRONT_SILENT) == 0 && recv(client, buffer, sizeof(buffer), MSG_DONTWAIT) > 0)
        loop_turn(f->loop, 0);
}

static inline void front_send(struct front *f, int client, struct slice bytes, unsigned mode)
{
    size_t piece = (mode & FRONT_PIECES) != 0 ? 1 + bytes.len / 7 : bytes.len;

    for (size_t at = 0; at < bytes.len;) {
        size_t n = bytes.len - at < piece ? bytes.len - at : piece;
        if (send(client, bytes.p + at, n, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
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
    int small = 4096;

    for (int i = 0; i < FRONT_TRIES; ++i) {
        struct sockaddr_in from = {
            .sin_family = AF_INET,
            .sin_addr.s_addr = htonl(0x7f010000 + number++ % 0x10000),
        };
        int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if ((mode & FRONT_SILENT) != 0)
            setsockopt(client, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
        if (bind(client, (struct sockaddr *)&from, sizeof(from)) == 0 &&
            connect(client, (struct sockaddr *)&f->addr, f->addr_len) == 0)
            return client;
        close(client);
    }
    ASSERT(!"no connection to be had");
    return -1;
}

/* One connection, from its start to its end; a leak or a request left behind is a failure. */
static inline void front_talk(struct front *f, struct slice before, struct slice bytes,
                              unsigned mode)
{
    struct linger reset = {.l_onoff = 1};
    int client = front_client(f, mode);

    front_send(f, client, before, mode);
    front_send(f, client, bytes, mode);
    if ((mode & FRONT_HALF) != 0)
        shutdown(client, SHUT_WR);
    for (int i = 0; i < 3; ++i)
        front_turn(f, client, mode);
    if ((mode & FRONT_RESET) != 0)
        setsockopt(client, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    close(client);
    for (int i = 0; i < 1000 && http_server_connections(f->server) != 0; ++i) {
        loop_turn(f->loop, i < 20 ? 0 : 1);
        if (i == 20)
            http_server_cut(f->server);
    }
    ASSERT(http_server_connections(f->server) == 0);
}

#endif
