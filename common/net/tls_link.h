/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS over one connection to a worker, as the client. Who watches the descriptor is told by others;
 * reading and writing behave as recv and send on it do. Belongs to a transport (transport.h). One
 * loop's thread.
 *
 * What has been read and not been asked for yet shows in no poll: tls_link_more tells of it.
 */
#ifndef RLB_NET_TLS_LINK_H
#define RLB_NET_TLS_LINK_H

#include "common/base/text.h"
#include "common/net/worker_tls.h"

struct iovec;
struct tls_link;

/* Over FD, which is connected, and has to outlive it. NULL: it could not be set up (said in the
 * log). */
struct tls_link *tls_link_create(struct tls_peer *p, int fd, unsigned loop_index);
/* NULL is fine. */
void tls_link_destroy(struct tls_link *l);

enum tls_progress {
    TLS_DONE,
    TLS_READS,  /* go on when the socket is readable */
    TLS_WRITES, /* go on when it takes bytes */
    TLS_FAILED, /* said in the log, with the reason */
};
enum tls_progress tls_link_handshake(struct tls_link *l) must_check;
/* The handshake is given up: said in the log. */
void tls_link_say(const struct tls_link *l, const char *reason);
/* After the handshake: whether it has resumed a session. */
bool tls_link_resumed(const struct tls_link *l);

/*
 * As recv(2): bytes; 0: the peer has said that this is the end (close_notify); -1 with errno:
 * EAGAIN; ECONNRESET, also when the connection ended without that word: what came may be cut short;
 * EPROTO: what came is no TLS of the peer's, or an alert (said in the log).
 */
ssize_t tls_link_recv(struct tls_link *l, char *p, size_t room);
/* As send(2), of N pieces at IOV. To be repeated with the same bytes after EAGAIN. */
ssize_t tls_link_send(struct tls_link *l, const struct iovec *iov, size_t n);
/* Whether tls_link_recv would find something without the socket being readable. */
bool tls_link_more(const struct tls_link *l) apart;
/* Whether it has failed by itself, as EPROTO says. */
bool tls_link_broken(const struct tls_link *l);
/*
 * An idle connection: whether nothing has come but what is TLS's own (session tickets). Looks at
 * the socket.
 */
bool tls_link_quiet(struct tls_link *l) apart;
/* Tell the peer that this is the end, if it will hear it. Before the socket is closed. */
void tls_link_bye(struct tls_link *l);

/* worker_tls.c's: a session has come for SSL. Whether it was kept. */
bool tls_link_session(SSL *ssl, SSL_SESSION *session);
/* worker_tls.c's, for SSL_CTX_set_cert_cb: the peer asks for our certificate. */
int tls_link_asked(SSL *ssl, void *context);

#endif
