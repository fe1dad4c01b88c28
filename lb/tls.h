/* SPDX-License-Identifier: Apache-2.0
 *
 * The certificate of one listener, which may change while connections are taken. Made, changed and
 * destroyed by the control thread; outlives the listeners that use its context.
 */
#ifndef RLB_LB_TLS_H
#define RLB_LB_TLS_H

#include "common/net/http_server.h"

struct tls_certificate;

/* Errors go to D; NULL then. */
struct tls_certificate *tls_certificate_create(const char *certificate_file, const char *key_file,
                                               bool http2, struct diag *d);
/* NULL is fine. */
void tls_certificate_destroy(struct tls_certificate *t);
/* For http_server_listen, on any loop; stays the same when the certificate changes. */
SSL_CTX *tls_certificate_context(struct tls_certificate *t);
/* Handshakes from now on use FROM's certificate; both stay to be destroyed. */
void tls_certificate_take(struct tls_certificate *t, struct tls_certificate *from);

#endif
