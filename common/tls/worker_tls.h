/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS to workers: the trusted authorities and our certificate (struct worker_tls, for all workers
 * of an application), and the expected identity of one worker (struct tls_peer). Both are reference
 * counted; any thread. The configuration of a worker_tls may be replaced while it is in use: new
 * handshakes use the new one, and earlier sessions are not resumed, because they were verified
 * against the previous authorities. Lock: one per worker_tls, protects the current context.
 */
#pragma once

#include "common/tls/tls_server.h"

struct worker_tls;
struct tls_peer;

enum {
    /* Maximum length of a server name (RFC 1035: 255 bytes with lengths, so 253 characters). */
    TLS_PEER_NAME_MAX = 253,
};

struct worker_tls_options {
    const char *ca; /* PEM file of trusted authorities; NULL: the system's */
    bool verify;    /* whether a certificate must be valid and match the expected name */
    struct tls_context_options context; /* with the client certificate; NULL: none is sent */
};

/* Reads the files. Returns NULL with the errors in D on failure. Control thread. */
struct worker_tls *worker_tls_create(const struct worker_tls_options *o, struct diag *d);
struct worker_tls *worker_tls_ref(struct worker_tls *t);
/* NULL is allowed. */
void worker_tls_unref(struct worker_tls *t);
/* Replaces T's configuration by that of FRESH, which the caller then releases. Control thread. */
void worker_tls_take(struct worker_tls *t, struct worker_tls *fresh);
/*
 * Checks the files for changes and re-reads them; to be called every second on the control thread.
 * If changed files cannot be used, the current context remains effective; this is logged once. The
 * last argument names the application in log messages.
 */
void worker_tls_poll(struct worker_tls *t, const char *application);

/*
 * Creates the expected identity of the worker at an address.
 *   server_name  the name that the certificate must be valid for: a DNS name, which is also sent as
 *                SNI, or an IP address
 *   application, worker  for log lines, of which the peer is a subject
 *   nloops       data loops; a session is stored for each of them, and one for all other loops
 * All arguments but T are copied; a reference to T is acquired.
 */
struct tls_peer *tls_peer_create(struct worker_tls *t, const char *server_name,
                                 const char *application, const char *worker, unsigned nloops);
struct tls_peer *tls_peer_ref(struct tls_peer *p);
/* NULL is allowed. */
void tls_peer_unref(struct tls_peer *p);
const char *tls_peer_name(const struct tls_peer *p);
/* Returns true if tls_peer_create() would create a peer equal to P from T and SERVER_NAME. */
bool tls_peer_is(const struct tls_peer *p, const struct worker_tls *t, const char *server_name);

/* ---- for tls_link.c ---- */

/* One connection to a peer, for which its sessions are stored. Outlives its SSL. */
struct tls_peer_use {
    struct tls_peer *peer; /* counted */
    unsigned loop_index, generation;
};
/*
 * Starts the client side of a handshake with P, without a socket yet; resumes the last session of
 * this loop. Sets *USE, the SSL's app data, which holds a reference to P, also on failure. Returns
 * NULL if out of memory, or if the library rejects the name.
 */
SSL *tls_peer_begin(struct tls_peer *p, unsigned loop_index, struct tls_peer_use *use);
/* Stores SESSION for the next connection of this loop; NULL: none. The reference passes to the
 * peer. */
void tls_peer_store_session(const struct tls_peer_use *use, SSL_SESSION *session);
