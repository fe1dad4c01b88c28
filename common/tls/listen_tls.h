/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS of listeners that all show one certificate (an agent's): the context for
 * http_server_listen, whose certificate and authorities may be replaced while it is in use.
 * Connections that are up are left alone. One loop's thread.
 */
#ifndef RLB_TLS_LISTEN_TLS_H
#define RLB_TLS_LISTEN_TLS_H

#include "common/tls/tls_server.h"

struct listen_tls;

enum listen_tls_verify { LISTEN_TLS_OFF, LISTEN_TLS_OPTIONAL, LISTEN_TLS_REQUIRED };

struct listen_tls_options {
    const char *certificate, *key; /* PEM files */
    const char *client_ca;         /* PEM file; NULL with LISTEN_TLS_OFF */
    enum listen_tls_verify verify; /* whether clients are asked for a certificate */
    bool tls13_only;
    const char *ciphers, *ciphersuites; /* of TLS 1.2 and 1.3; NULL: AEAD only, the library's */
};

/* Reads the files. NULL: errors are in D. The texts are copied. */
struct listen_tls *listen_tls_create(const struct listen_tls_options *o, struct diag *d);
/* No listener has its context any more. NULL is fine. */
void listen_tls_destroy(struct listen_tls *t);
/* Stays the same as long as T lives. Borrowed. */
SSL_CTX *listen_tls_context(struct listen_tls *t);
/* Handshakes from now on are as FRESH says. */
void listen_tls_take(struct listen_tls *t, struct listen_tls *fresh);
/*
 * Now and then (each second): when a file has changed, what is in it counts from now on; when that
 * cannot be used, what is in force stays, said once.
 */
void listen_tls_look(struct listen_tls *t);

#endif
