/* SPDX-License-Identifier: Apache-2.0
 *
 * A byte stream over a connected descriptor, plain or TLS. Nothing here waits: reading and writing
 * behave as recv(2), send(2) and splice(2) do on a descriptor that does not block. Only this module
 * calls them on the connection.
 *
 * Embedded in its owner. It is passed to another owner by assignment; the old one is set to
 * TRANSPORT_CLOSED. One loop's thread.
 */
#pragma once

#include "common/base/text.h"
#include "common/event/loop.h"
#include "common/event/sys.h"
#include "common/tls/tls_link.h"

enum {
    READS_PER_EVENT = 4, /* of one connection; then the loop's others have their turn */
};

struct transport {
    int fd;              /* -1: closed */
    struct watch *watch; /* watch of FD; NULL: not attached to a loop */
    /* NULL: plain TCP or unix. Set by the owner, from tls_link_create() or tls_link_accept() until
     * the handshake has failed. */
    struct tls_link *tls;
};

#define TRANSPORT_CLOSED ((struct transport){.fd = -1})

/* A connection that was upgraded, and the bytes that were read after the 101. Both are the
 * holder's. */
struct upgraded_transport {
    struct transport transport;
    struct text early;
};

/* Initializes T for FD, which T will close. T is not attached to a loop until
 * transport_attach(). */
void transport_open(struct transport *t, int fd);
/* Returns NULL if T has no TLS. */
static inline SSL *transport_ssl(const struct transport *t)
{
    return t->tls != NULL ? t->tls->ssl : NULL;
}
/*
 * Closes T and its descriptor. TLS sends close_notify if that is still possible. May be called from
 * a callback of T, and if T is closed already.
 */
void transport_close(struct transport *t);
/*
 * Makes transport_close() reset the connection if the peer has not received all bytes. Otherwise
 * the peer would not see the end before it has read them all.
 */
void transport_reset_at_close(struct transport *t);
/* Makes transport_close() reset the connection in any case, without close_notify. */
void transport_abort_at_close(struct transport *t);
/* Makes transport_close() omit close_notify, by which a peer with TLS detects the truncation. */
void transport_cut_at_close(struct transport *t);

static inline bool transport_is_open(const struct transport *t)
{
    return t->fd != -1;
}

/* ---- the loop ---- */

/* Attaches T to L, or replaces the callback of T, which is attached to L: READABLE is called with
 * CONTEXT from now on. transport_read() changes the conditions. */
void transport_attach(struct transport *t, struct loop *l, void (*readable)(void *context),
                      void *context);
/* Removes T from its loop, so that it can be attached to another one. transport_await_writable()
 * must not be pending. */
void transport_detach(struct transport *t);
/* Enables or disables the calls of READABLE while there is data, or the end of it. */
static inline void transport_read(struct transport *t, bool on)
{
    watch_read(t->watch, on);
}
/* The conditions for which READABLE is called. */
static inline void transport_read_level(struct transport *t, enum watch_level level)
{
    watch_read_level(t->watch, level);
}
/* Calls READY once when the peer accepts bytes, or never will. NULL cancels this. */
static inline void transport_await_writable(struct transport *t, void (*ready)(void *context))
{
    watch_write(t->watch, ready);
}

/* ---- bytes ---- */

/* Like recv(2). With TLS, like tls_link_recv(). */
static inline ssize_t transport_recv(struct transport *t, char *p, size_t room)
{
    if (t->tls != NULL)
        return tls_link_recv(t->tls, p, room);
    return sys_recv(t->fd, p, room, MSG_DONTWAIT);
}
/* The same with MSG_PEEK. Must not be called with TLS. */
ssize_t transport_peek(struct transport *t, char *p, size_t room);
/*
 * Sends N pieces at IOV. Returns the number of bytes accepted, or -1 with errno set. FLAGS are
 * those of send(2), without effect on TLS. After EAGAIN, TLS must be given the same bytes again.
 */
static inline ssize_t transport_send(struct transport *t, struct iovec *iov, size_t n, int flags)
{
    if (t->tls != NULL)
        return tls_link_send(t->tls, iov, n);
    flags |= MSG_DONTWAIT | MSG_NOSIGNAL;
    return TEMP_FAILURE_RETRY(sys_send_pieces(t->fd, iov, n, flags));
}
/* Like sendfile(2): sends at most MAX bytes from offset AT of the file FD. ENOTSUP with TLS. */
ssize_t transport_send_file(struct transport *t, int fd, off_t at, size_t max);
/* Like splice(2): moves at most MAX bytes, received ones to a pipe, or those of a pipe to the peer;
 * one of FROM and TO is the descriptor of T. ENOTSUP with TLS. */
ssize_t transport_splice(const struct transport *t, int from, int to, size_t max);
/* With TLS: how many bytes were written to the descriptor. */
uint64_t transport_sent_bytes(const struct transport *t) noinline_;
/* How many of the bytes written last the peer's TCP has not acknowledged; zero for other sockets.
 * Makes two system calls. */
uint64_t transport_unacknowledged(const struct transport *t) cold_;
/* Returns true if the connection was reset or has failed. Makes a system call. */
bool transport_has_failed(const struct transport *t);
/* Shuts down sending, with TLS after its close_notify. The peer is expected to close. */
void transport_end(struct transport *t);
/* Shuts down sending, while the peer may continue to send. Returns 0, or -1 with errno set: ENOTSUP
 * with TLS, as some peers stop sending after close_notify. */
int transport_end_sending(struct transport *t);

/* ---- state ---- */

/* Returns true if transport_recv() can return data although the descriptor is not readable. */
static inline bool transport_read_ahead(const struct transport *t)
{
    return t->tls != NULL && tls_link_more(t->tls);
}
/*
 * Returns true if there is input that transport_recv() has not returned: bytes, even if only a part
 * of a TLS record, or the end. Makes a system call.
 */
bool transport_has_input(const struct transport *t);
/* For an idle connection: whether neither bytes nor an end have arrived, except records of TLS
 * itself. Makes a system call. */
bool transport_is_quiet(struct transport *t);
/* Whether loop_reported_all applies to T: READABLE was called for everything that has arrived. */
static inline bool transport_is_current(const struct transport *t)
{
    return watch_reads(t->watch) && watch_is_current(t->watch) && !transport_read_ahead(t);
}
