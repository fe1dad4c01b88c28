/* SPDX-License-Identifier: Apache-2.0
 *
 * Certificates of clients: asked for, verified by the library, and what workers are told of them.
 * Stateless; the first function on the control thread, the others on the connection's loop.
 */
#ifndef RLB_LB_TLS_CLIENT_H
#define RLB_LB_TLS_CLIENT_H

#include "common/base/text.h"
#include "lb/settings.h"

#include <openssl/ssl.h>

enum {
    /* Bytes of a subject as it is written for workers; a certificate with a longer one is refused.
     */
    CLIENT_SUBJECT_MAX = 1024,
    /* Of the file with the authorities. */
    CLIENT_CA_BYTES_MAX = 1 << 20,
};

/*
 * Have CTX ask for certificates of the authorities in FILE.
 *   verify  CLIENT_VERIFY_OPTIONAL or CLIENT_VERIFY_REQUIRED
 *   basis   what was read is appended: a session is not to be resumed where it differs
 * False: D says why.
 */
bool tls_client_ask(SSL_CTX *ctx, const char *file, int verify, struct text *basis,
                    struct diag *d) must_check;

struct tls_client {
    struct slice verdict; /* "SUCCESS", "NONE"; p == NULL: was not asked */
    struct slice subject; /* RFC 4514, visible ASCII; p == NULL: nothing was verified */
};
/* Whether SSL (NULL: plain) belongs to a listener with client_verify. */
bool tls_client_is_asked(const SSL *ssl);
/* What SSL (NULL: plain) has shown of itself. The subject lies in ROOM. */
struct tls_client tls_client_of(const SSL *ssl, char room[CLIENT_SUBJECT_MAX]);

#endif
