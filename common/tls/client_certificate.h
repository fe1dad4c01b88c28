/* SPDX-License-Identifier: Apache-2.0
 *
 * Client certificates: requests them and reports the result of the verification, which the library
 * does. Stateless; the first function must be called on the thread that creates contexts, the
 * others on the connection's loop.
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
 * Makes CTX request certificates issued by the authorities in FILE.
 *   subjects  reject certificates with a subject that is empty or longer than CLIENT_SUBJECT_MAX
 *   basis     the content of FILE is appended: a session must not be resumed if it differs
 * Returns false, with the reason in D, if the authorities cannot be used.
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
