/* SPDX-License-Identifier: Apache-2.0
 *
 * The certificates of one listener as they were read at one time: a TLS context per certificate, or
 * per two with the same names, an RSA and an ECDSA one, of which the client gets what it can. The
 * first is the default. Immutable and reference counted; any thread. Connections keep the context
 * they have chosen, and with it what is asked below.
 */
#ifndef RLB_LB_TLS_SET_H
#define RLB_LB_TLS_SET_H

#include "lb/tls_config.h"
#include "lb/tls_files.h"

#include <openssl/ssl.h>
#include <time.h>

struct tls_set;
struct tls_tickets;

/* Read what C says. NULL: errors are in D. Control thread, as it reads files. */
struct tls_set *tls_set_create(const struct tls_config *c, struct diag *d);
struct tls_set *tls_set_ref(struct tls_set *s);
/* NULL is fine. */
void tls_set_unref(struct tls_set *s);
/* The files as they were just before they were read. Borrowed. */
const struct tls_files *tls_set_files(const struct tls_set *s);
/* What of it is not as configured, but no reason not to serve: lines. Borrowed; NULL: nothing. */
const char *tls_set_notes(const struct tls_set *s);
/* Whether something in it has expired that had not when it was read. */
bool tls_set_outdated(const struct tls_set *s, time_t now);
/* The keys that seal and open tickets of SSL's context. Borrowed, for as long as SSL lives. */
struct tls_tickets *tls_set_tickets(const SSL *ssl);
/* Where S has the same certificates as OLD, tickets of OLD are good for S. Before S is in force. */
void tls_set_inherit(struct tls_set *s, const struct tls_set *old);
/* tls_tickets_rotate for all of S. */
void tls_set_rotate(struct tls_set *s, uint64_t now_ms, uint64_t interval_ms);
/* The context for the server name NAME, which may be p == NULL: none. Borrowed. */
SSL_CTX *tls_set_choose(const struct tls_set *s, struct slice name);
/*
 * Whether HOST (host[:port]) belongs to another certificate than the one that SSL's connection has
 * been given (RFC 9110 section 15.5.20).
 */
bool tls_set_misdirected(const SSL *ssl, struct slice host);

#endif
