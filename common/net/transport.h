/* SPDX-License-Identifier: Apache-2.0
 *
 * A byte stream over a connected descriptor, plain or TLS. Nothing here waits: reading and writing
 * behave as recv(2), send(2) and splice(2) do on a descriptor that does not block. Only this module
 * calls them on the connection.
 *
 * Embedded in its owner. It is passed to another owner by assignment; the old one is set to
 * TRANSPORT_CLOSED. One loop's thread.
 */
#ifndef RLB_NET_TRANSPORT_H
#define RLB_NET_TRANSPORT_H

#include "common/event/loop.h"
#include "common/event/sys.h"
#include "common/tls/tls_link.h"

#include <errno.h>

struct transport {
    struct loop *loop;
    int fd;               /* -1: closed */
    struct watch *watch;  /* of FD; NULL: on no loop yet */
    struct tls_link *tls; /* NULL: plain */
};

#define TRANSPORT_CLOSED ((struct transport){.fd = -1})

/* Over FD, which T closes. It is on no loop until transport_attach. */
void transport_open(struct transport *t, int fd);
/* TLS from now on, to the peer P. False: it could not be set up (logged). */
bool transport_secure(struct transport *t, struct tls_peer *p, unsigned loop_index) must_check;
/* TLS from now on, as the server of the peer: tls_link_accept. False: no memory. */
bool transport_accept_tls(struct transport *t, SSL_CTX *ctx, enum tls_failure *why) must_check;
/* NULL: plain. */
static inline SSL *transport_ssl(const struct transport *t)
{
    return t->tls != NULL ? tls_link_ssl(t->tls) : NULL;
}
/*
 * Close it, and its descriptor. TLS sends close_notify, if it still can. May be called from a
 * callback of T, and on a closed one.
 */
void transport_close(struct transport *t);
/*
 * Bytes that the peer has not taken would keep the end of the connection from it until it has read
 * them all: have transport_close reset it then, which does not wait.
 */
void transport_reset_at_close(struct transport *t);
/* Makes transport_close reset it in any case, without close_notify of TLS. */
void transport_abort_at_close(struct transport *t);

static inline bool transport_is_open(const struct transport *t)
{
    return t->fd != -1;
}

/* ---- the loop ---- */

/* READABLE is called with CONTEXT, on L, from now on; transport_read changes what for. */
void transport_attach(struct transport *t, struct loop *l, void (*readable)(void *context),
                      void *context);
/* The same for a client's: see watch_start_client. */
void transport_attach_client(struct transport *t, struct loop *l, void (*readable)(void *context),
                             void *context);
/* Remove it from its loop, so that it can be attached to another one. transport_await_writable is
 * not pending. */
void transport_detach(struct transport *t);
/* Call READABLE while there is something to read, or the end; or not. */
static inline void transport_read(struct transport *t, bool on)
{
    watch_read(t->watch, on);
}
/* The conditions for which READABLE is called. */
static inline void transport_read_level(struct transport *t, enum watch_level level)
{
    watch_read_level(t->watch, level);
}
/* Call READY once, when bytes are taken or never will be; NULL: not any more. */
static inline void transport_await_writable(struct transport *t, void (*ready)(void *context))
{
    watch_write(t->watch, ready);
}

/* ---- bytes ---- */

/* As recv(2). With TLS: as tls_link_recv. */
static inline ssize_t transport_recv(struct transport *t, char *p, size_t room)
{
    if (t->tls != NULL)
        return tls_link_recv(t->tls, p, room);
    return sys_recv(t->fd, p, room, MSG_DONTWAIT);
}
/* The same, but the bytes stay to be received. Not with TLS. */
ssize_t transport_peek(struct transport *t, char *p, size_t room);
/*
 * How many bytes of N pieces at IOV are taken; -1 with errno. FLAGS: as of send(2), for plain ones.
 * After EAGAIN TLS wants the same bytes again.
 */
static inline ssize_t transport_send(struct transport *t, struct iovec *iov, size_t n, int flags)
{
    ssize_t sent;

    if (t->tls != NULL)
        return tls_link_send(t->tls, iov, n);
    do
        sent = sys_send_pieces(t->fd, iov, n, flags | MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent == -1 && errno == EINTR);
    return sent;
}
/* As sendfile(2), of MAX bytes from AT on in the file FD. With TLS: ENOTSUP. */
ssize_t transport_send_file(struct transport *t, int fd, off_t at, size_t max);
/* As splice(2): moves at most MAX received bytes into PIPE. With TLS: ENOTSUP. */
ssize_t transport_splice(struct transport *t, int pipe, size_t max);
/* The same from PIPE to the peer, as far as it takes them. */
ssize_t transport_splice_from(struct transport *t, int pipe, size_t max);
/* The handshake has failed, and its alert has been sent: from now on it is plain. */
void transport_drop_tls(struct transport *t);
/* Whether the peer has reset the connection, or it has failed. Asks the system. */
bool transport_has_failed(const struct transport *t);
/* Nothing more is sent, with TLS after its own end; the peer should close. */
void transport_end(struct transport *t);
/* Nothing more is sent; the peer reads the end. With TLS: ENOTSUP, as some peers do not continue
 * after it. */
int transport_end_sending(struct transport *t);

/* ---- what is known of it ---- */

/* Whether transport_recv would find something that the descriptor does not show. */
static inline bool transport_read_ahead(const struct transport *t)
{
    return t->tls != NULL && tls_link_more(t->tls);
}
/*
 * Whether there is something that transport_recv has not returned: bytes, if only a part of a TLS
 * record, or the end. Takes nothing. Asks the system.
 */
bool transport_has_input(const struct transport *t);
/* For an idle connection: whether neither bytes nor an end have arrived, except records of TLS
 * itself. Makes a system call. */
bool transport_is_quiet(struct transport *t);
/* Whether loop_heard_all applies to T: READABLE was called for everything that has arrived. */
static inline bool transport_is_heard(const struct transport *t)
{
    return watch_reads(t->watch) && watch_heard(t->watch) && !transport_read_ahead(t);
}

#endif
