/* SPDX-License-Identifier: Apache-2.0
 *
 * Certificates of clients: requested, verified by the library, and what is known of them then.
 * Stateless; the first function on the thread that creates contexts, the others on the connection's
 * loop.
 */
#ifndef RLB_TLS_CLIENT_CERTIFICATE_H
#define RLB_TLS_CLIENT_CERTIFICATE_H

#include "common/base/err.h"
#include "common/base/text.h"

#include <openssl/ssl.h>

enum {
    /* Bytes of a subject as it is printed. */
    CLIENT_SUBJECT_MAX = 1024,
    /* Of the file with the authorities. */
    CLIENT_CA_BYTES_MAX = 1 << 20,
};
/* Whether clients are asked for a certificate. */
enum client_certificate_mode {
    CLIENT_CERTIFICATE_OFF,
    CLIENT_CERTIFICATE_OPTIONAL,
    CLIENT_CERTIFICATE_REQUIRED,
};

/*
 * Have CTX ask for certificates of the authorities in FILE.
 *   subjects  reject certificates whose subject is empty or longer than CLIENT_SUBJECT_MAX
 *   basis     what was read is appended: a session must not be resumed where it differs
 * Returns false if they cannot be used; D says why.
 */
bool client_certificate_ask(SSL_CTX *ctx, const char *file, bool required, bool subjects,
                            struct text *basis, struct diag *d) must_check;

struct client_certificate {
    struct slice verdict; /* "SUCCESS", "NONE"; p == NULL: none was requested */
    struct slice subject; /* RFC 4514, visible ASCII; p == NULL: nothing was verified */
};
/* Whether the listener of SSL (NULL: plain) requests certificates. */
bool client_certificate_is_asked(const SSL *ssl);
/* The certificate of SSL (NULL: plain). The subject is in ROOM. */
struct client_certificate client_certificate_of(const SSL *ssl, char room[CLIENT_SUBJECT_MAX]);

#endif
