/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS of one listener: the set of certificates in force, which may change while connections are
 * taken. Made, changed and destroyed by the control thread; outlives the listeners that use its
 * context.
 */
#ifndef RLB_LB_TLS_H
#define RLB_LB_TLS_H

#include "lb/tls_set.h"

struct tls_listener;

/* Errors go to D; NULL then. Keeps a reference to CONFIG. */
struct tls_listener *tls_listener_create(struct tls_config *config, struct diag *d);
/* NULL is fine. */
void tls_listener_destroy(struct tls_listener *t);
/* For http_server_listen, on any loop; stays the same when the certificates change. */
SSL_CTX *tls_listener_context(struct tls_listener *t);
/* Handshakes from now on are SET's, which was made of CONFIG. A reference to each is taken. */
void tls_listener_take(struct tls_listener *t, struct tls_config *config, struct tls_set *set);
/* Log what of it is not as configured, but no reason not to serve. ADDRESS is the listener's. */
void tls_listener_say_notes(const struct tls_listener *t, const char *address);
/*
 * Once a second: keys of tickets are rotated; when a file has changed, take what is in them now.
 * When that cannot be used (a new certificate, its key still the old one), what is in force stays
 * until another change; said once. address  the listener's, for the log
 */
void tls_listener_look(struct tls_listener *t, const char *address, uint64_t now_ms);

#endif
