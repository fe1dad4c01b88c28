/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening connections to workers.
 */
#include "common/upstream/http1_client.h"

#include <stdlib.h>

enum {
    /* If the backlog of a unix socket is full, connect(2) fails immediately instead of waiting. */
    CONNECT_AGAIN_MS = 20,
};

struct http1_client_connect {
    struct loop *loop;
    struct addr addr;
    struct tls_peer *peer;           /* counted; NULL: plain */
    struct conn_backend *permission; /* of it, or NULL */
    struct transport transport;
    struct timer timeout;
    struct timer again;
    struct loop_deferred end; /* a result that is known immediately is reported later */
    int error;                /* errno of the last step that failed */
    void (*cb)(void *context, struct http1_client_conn *c, enum err e);
    void *context;
};

void http1_client_connect_cancel(struct http1_client_connect **ap)
{
    struct http1_client_connect *a = *ap;

    if (a == NULL)
        return;
    *ap = NULL;
    timer_stop(&a->timeout);
    timer_stop(&a->again);
    list_remove(&a->end.node);
    transport_close(&a->transport);
    tls_peer_unref(a->peer);
    if (a->permission != NULL)
        conn_not_opened(a->permission);
    free(a);
}

static void end_attempt(struct http1_client_connect *a, enum err e)
{
    void (*cb)(void *, struct http1_client_conn *, enum err) = a->cb;
    void *context = a->context;
    struct http1_client_conn *c = NULL;
    int error = a->error;

    if (e == ERR_OK)
        c = http1_client_conn_create(a->loop, &a->transport);
    if (c != NULL && a->permission != NULL) {
        conn_opened(a->permission, http1_client_pooled(c), a->loop);
        a->permission = NULL;
    }
    http1_client_connect_cancel(&a);
    errno = error;
    cb(context, c, e);
}

static void shake_hands(void *context)
{
    struct http1_client_connect *a = context;

    switch (tls_link_handshake(a->transport.tls)) {
    case TLS_DONE:
        end_attempt(a, ERR_OK);
        return;
    case TLS_READS:
        transport_read(&a->transport, true);
        return;
    case TLS_WRITES:
        transport_read(&a->transport, false);
        transport_await_writable(&a->transport, shake_hands);
        return;
    case TLS_FAILED:
        end_attempt(a, ERR_TLS_FAILED);
        return;
    }
    UNREACHABLE();
}

/* Attaches A to its loop, without watching for input yet. */
static void attach_transport(struct http1_client_connect *a)
{
    transport_attach(&a->transport, a->loop, shake_hands, a);
    transport_read(&a->transport, false);
}

static enum err error_of_errno(int error)
{
    switch (error) {
    case 0:
        return ERR_OK;
    case ECONNREFUSED:
    case ENOENT: /* of a unix socket */
        return ERR_CONNECT_REFUSED;
    case ETIMEDOUT:
        return ERR_CONNECT_TIMEOUT;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
    case EADDRNOTAVAIL: /* out of local ports */
        return ERR_SYSTEM;
    default:
        return ERR_CONNECT_FAILED;
    }
}

/* Handles the result of connect(2). */
static void on_connected(struct http1_client_connect *a)
{
    enum err e = error_of_errno(a->error);

    if (e != ERR_OK || a->peer == NULL) {
        end_attempt(a, e);
        return;
    }
    a->transport.tls = tls_link_create(a->peer, a->transport.fd, loop_index(a->loop));
    if (a->transport.tls == NULL) {
        end_attempt(a, ERR_TLS_FAILED);
        return;
    }
    attach_transport(a);
    shake_hands(a);
}

static void http1_client_connect_run_end(struct loop_deferred *d)
{
    on_connected(container_of(d, struct http1_client_connect, end));
}

static void on_http1_client_connect_timeout(struct timer *t)
{
    struct http1_client_connect *a = container_of(t, struct http1_client_connect, timeout);

    if (a->transport.tls != NULL)
        tls_link_log(a->transport.tls, "handshake not completed in time");
    end_attempt(a, ERR_CONNECT_TIMEOUT);
}

static void on_attempt_connected(void *context)
{
    struct http1_client_connect *a = context;
    socklen_t len = sizeof(a->error);

    if (getsockopt(a->transport.fd, SOL_SOCKET, SO_ERROR, &a->error, &len) != 0)
        a->error = errno;
    on_connected(a);
}

static void try_connect(struct http1_client_connect *a)
{
    bool local = a->addr.sa.sa_family == AF_UNIX;
    int fd = socket(a->addr.sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int error = fd == -1 ? errno : 0;

    if (fd != -1 && !local)
        (void)addr_tune_socket(fd, 0, 0, 0);
    if (fd != -1)
        error = addr_connect(fd, &a->addr);
    if (error == 0 || error == EINPROGRESS)
        transport_open(&a->transport, fd);
    else if (fd != -1)
        close(fd);
    if (error == EINPROGRESS) {
        attach_transport(a);
        transport_await_writable(&a->transport, on_attempt_connected);
        return;
    }
    a->error = error;
    if (error == EAGAIN && local)
        timer_start(a->loop, &a->again, CONNECT_AGAIN_MS);
    else
        loop_defer_once(a->loop, &a->end);
}

static void on_again(struct timer *t)
{
    try_connect(container_of(t, struct http1_client_connect, again));
}

struct http1_client_connect *
http1_client_connect_tls(struct loop *l, const struct addr *addr, struct tls_peer *peer,
                         struct conn_backend *b, uint64_t timeout_ms,
                         void (*cb)(void *context, struct http1_client_conn *c, enum err e),
                         void *context)
{
    struct http1_client_connect *a = xcalloc(1, sizeof(*a));

    a->loop = l;
    a->addr = *addr;
    a->peer = peer != NULL ? tls_peer_ref(peer) : NULL;
    a->permission = b;
    a->cb = cb;
    a->context = context;
    a->transport = TRANSPORT_CLOSED;
    a->end.run = http1_client_connect_run_end;
    timer_init(&a->timeout, on_http1_client_connect_timeout);
    timer_init(&a->again, on_again);
    if (timeout_ms != 0)
        timer_start(l, &a->timeout, timeout_ms);
    try_connect(a);
    return a;
}
