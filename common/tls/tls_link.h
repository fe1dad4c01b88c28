/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS over one connection: to a worker, as the client, or of a client, as the server. The owner
 * watches the descriptor; reading and writing behave as recv and send on it do. Belongs to a
 * transport (transport.h). One loop's thread.
 *
 * The poller does not report what the library has read ahead: see tls_link_more.
 */
#ifndef RLB_TLS_TLS_LINK_H
#define RLB_TLS_TLS_LINK_H

#include "common/base/text.h"
#include "common/tls/tls_server.h"
#include "common/tls/worker_tls.h"

struct iovec;
struct tls_link;

/* Over FD, which is connected, and has to outlive it. NULL: it could not be set up (logged). */
struct tls_link *tls_link_create(struct tls_peer *p, int fd, unsigned loop_index);
/* As the server of the peer, by a context of tls_server_create. If the handshake fails, why is
 * noted in *WHY, which is TLS_FAILURE_CLOSED now and outlives the link. NULL: no memory. */
struct tls_link *tls_link_accept(SSL_CTX *ctx, int fd, enum tls_failure *why);
SSL *tls_link_ssl(const struct tls_link *l);
/* Accepts NULL. */
void tls_link_destroy(struct tls_link *l);

enum tls_progress {
    TLS_DONE,
    TLS_READS,  /* continue when the socket is readable */
    TLS_WRITES, /* continue when it takes bytes */
    TLS_FAILED, /* of a worker: logged, with the reason */
};
enum tls_progress tls_link_handshake(struct tls_link *l) must_check;
/* The handshake is abandoned: log REASON. */
void tls_link_say(const struct tls_link *l, const char *reason);
/* After the handshake: whether it has resumed a session. */
bool tls_link_resumed(const struct tls_link *l);

/*
 * As recv(2): bytes; 0: the peer has sent close_notify; -1 with errno: EAGAIN; ECONNRESET, also if
 * the connection ended without close_notify: what came may be truncated; EPROTO: what came is not
 * valid TLS, or an alert (of a worker: logged).
 */
ssize_t tls_link_recv(struct tls_link *l, char *p, size_t room);
/* Like send(2), for the N buffers of IOV. After EAGAIN the call must be repeated with the same
 * bytes. */
ssize_t tls_link_send(struct tls_link *l, const struct iovec *iov, size_t n);
/* Whether tls_link_recv() can return data although the socket is not readable. */
bool tls_link_more(const struct tls_link *l) noinline_;
/* Whether the library has data or an end of the connection that tls_link_recv()
 * has not returned. */
bool tls_link_has_input(const struct tls_link *l);
/* Nothing more is sent, not even close_notify, so that the peer detects the truncation. */
void tls_link_abort(struct tls_link *l);
/* Whether the input has ended, by close_notify or by a failure. */
bool tls_link_ended(const struct tls_link *l);
/* Whether it has failed with EPROTO. */
bool tls_link_broken(const struct tls_link *l);
/*
 * Whether an idle connection has received nothing but TLS messages without data (session tickets).
 * Reads from the socket.
 */
bool tls_link_quiet(struct tls_link *l) noinline_;
/* Sends close_notify if that is still possible. Must be called before the socket is closed. */
void tls_link_bye(struct tls_link *l);

#endif
