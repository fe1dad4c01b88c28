/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS towards workers: what is believed of them and shown to them (struct worker_tls, for all
 * workers of an application), and with whom one means to speak (struct tls_peer, one worker's).
 * Both are reference counted; any thread. What a worker_tls says may be replaced while it is in
 * use: handshakes from then on are the new one's, and no session of before is resumed, as it was
 * verified by what was believed then. Lock: the worker_tls's own, around the context in force.
 */
#ifndef RLB_TLS_WORKER_TLS_H
#define RLB_TLS_WORKER_TLS_H

#include "common/base/err.h"

#include <openssl/ssl.h>

struct worker_tls;
struct tls_peer;

enum {
    /* Of a server name (RFC 1035: 255 bytes with lengths, so 253 characters). */
    TLS_PEER_NAME_MAX = 253,
};

struct worker_tls_options {
    const char *ca; /* PEM file of authorities; NULL: the system's */
    bool verify;    /* whether a certificate has to be good, and for the right name */
    const char *certificate, *key; /* PEM files of what is shown to workers; NULL: nothing */
    bool tls13_only;
    const char *ciphers, *ciphersuites; /* of TLS 1.2 and 1.3; NULL: AEAD only, the library's */
};

/* Reads the files. NULL: errors are in D. Control thread. */
struct worker_tls *worker_tls_create(const struct worker_tls_options *o, struct diag *d);
struct worker_tls *worker_tls_ref(struct worker_tls *t);
/* NULL is fine. */
void worker_tls_unref(struct worker_tls *t);
/* From now on T is what FRESH is. Control thread. */
void worker_tls_take(struct worker_tls *t, struct worker_tls *fresh);
/*
 * Now and then (each second), control thread: when a file has changed, what is in it counts from
 * now on; when that cannot be used, what is in force stays, said once. WHOSE is for the log.
 */
void worker_tls_look(struct worker_tls *t, const char *whose);

/*
 * The worker that is to be found behind an address.
 *   server_name  what its certificate must be for: a DNS name, which is also sent as SNI, or an IP
 *                address
 *   application, worker  for log lines, of which the peer is a subject
 *   nloops       data loops; a session is kept for each of them, and one for all other loops
 * All but T are copied; T gets a reference.
 */
struct tls_peer *tls_peer_create(struct worker_tls *t, const char *server_name,
                                 const char *application, const char *worker, unsigned nloops);
struct tls_peer *tls_peer_ref(struct tls_peer *p);
/* NULL is fine. */
void tls_peer_unref(struct tls_peer *p);
const char *tls_peer_name(const struct tls_peer *p);
/* Whether P is what tls_peer_create would make of T and SERVER_NAME. */
bool tls_peer_is(const struct tls_peer *p, const struct worker_tls *t, const char *server_name);

/* ---- for tls_link.c ---- */

/*
 * The client's end of a handshake with P, without a socket yet; resumes the last session of this
 * loop. Out of memory, or a name that the library takes for none: NULL.
 *   generation  to be given with sessions that come of it
 */
SSL *tls_peer_begin(struct tls_peer *p, unsigned loop_index, unsigned *generation);
/* Keep SESSION (whose reference is taken over) for the next connection of this loop; NULL: none. */
void tls_peer_keep(struct tls_peer *p, unsigned loop_index, unsigned generation,
                   SSL_SESSION *session);

#endif
