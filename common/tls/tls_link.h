/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS over one connection: to a worker, as the client, or of a client, as the server. The owner
 * watches the descriptor; reading and writing behave as recv and send on it do. Belongs to a
 * transport (transport.h). One loop's thread.
 *
 * The poller does not report what the library has read ahead: see tls_link_more.
 */
#pragma once

#include "common/tls/worker_tls.h"

#include <errno.h>

struct iovec;

/* Other modules read SSL and ENDED, and set BROKEN to close the socket without close_notify. */
struct tls_link {
    SSL *ssl;
    struct tls_peer_use use; /* no peer on the server's side */
    bool up;                 /* the handshake is complete */
    bool requested;          /* the peer has requested a certificate */
    bool received;           /* bytes of the peer were received */
    bool drained;            /* the last read has emptied the library's buffer */
    bool flooded;            /* the peer has sent too many messages of TLS itself, or records */
    bool broken; /* by an alert, or bytes that are not TLS: close_notify must not be sent */
    bool ended;  /* there is no further input, after close_notify or a failure */
    int end;     /* ENDED: errno; 0: by close_notify */
    uint64_t records, records_max; /* received; limit for the present call of the library */
    uint64_t second;               /* since the start of the clock, of the last message */
    unsigned in_second, in_a_row;  /* messages in this second; since the last data */
};

/* Creates the client side of TLS on FD, which is connected and must outlive the link. Returns
 * NULL if it could not be set up, which is logged. */
struct tls_link *tls_link_create(struct tls_peer *p, int fd, unsigned loop_index);
/*
 * Creates the server side with a context of tls_server_create(). *WHY must be TLS_FAILURE_CLOSED
 * and outlive the link; it is set to the cause if the handshake fails. Returns NULL if out of
 * memory.
 */
struct tls_link *tls_link_accept(SSL_CTX *ctx, int fd, enum tls_failure *why);
/* NULL is allowed. */
void tls_link_destroy(struct tls_link *l);

enum tls_progress {
    TLS_DONE,
    TLS_READS,  /* continue when the socket is readable */
    TLS_WRITES, /* continue when the socket is writable */
    TLS_FAILED, /* failed; for a worker, the reason was logged */
};
enum tls_progress tls_link_handshake(struct tls_link *l) must_check;
/* Logs that the handshake is abandoned because of REASON. */
void tls_link_log(const struct tls_link *l, const char *reason);
/* Returns true if the handshake, which is complete, has resumed a session. */
static inline bool tls_link_resumed(const struct tls_link *l)
{
    return SSL_session_reused(l->ssl) == 1;
}

/*
 * Like recv(2). Returns 0 after close_notify of the peer, or -1 with errno: EAGAIN; ECONNRESET,
 * also if the connection ended without close_notify, so the input may be truncated; EPROTO after
 * invalid TLS, an alert, or too many messages of TLS itself (logged for workers).
 */
ssize_t tls_link_recv(struct tls_link *l, char *p, size_t room);
/* Like send(2), for the N buffers of IOV. After EAGAIN the call must be repeated with the same
 * bytes. */
ssize_t tls_link_send(struct tls_link *l, const struct iovec *iov, size_t n);
/* Returns true if tls_link_recv() can return data although the socket is not readable. */
bool tls_link_more(const struct tls_link *l) noinline_;
/* Returns true if the link has failed with EPROTO. */
static inline bool tls_link_broken(const struct tls_link *l)
{
    return l->broken && l->end == EPROTO;
}
/*
 * Returns true if an idle connection has received nothing except TLS messages without data (session
 * tickets). Reads from the socket.
 */
bool tls_link_quiet(struct tls_link *l) noinline_;
/* Sends close_notify if that is still possible. Must be called before the socket is closed. */
void tls_link_shutdown(struct tls_link *l);
