/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS contexts for the listeners of common/http/http_server.h: TLS 1.2 and up, ALPN as asked, no
 * renegotiation, no compression, no session cache of the library's. Contexts are OpenSSL's, counted
 * by it; any thread.
 */
#pragma once

#include "common/base/err.h"
#include "common/base/text.h"

#include <openssl/ssl.h>

/* Reason for which a handshake was not completed. */
enum tls_failure {
    TLS_FAILURE_CLOSED,             /* closed by either side without an alert, or timed out */
    TLS_FAILURE_VERSION,            /* unsupported protocol version */
    TLS_FAILURE_NOTHING_IN_COMMON,  /* no common cipher suite, group, signature or application
                                       protocol */
    TLS_FAILURE_CLIENT_CERTIFICATE, /* missing or rejected client certificate */
    TLS_FAILURE_REJECTED_BY_CLIENT, /* the client sent an alert, mostly because of the certificate
                                     */
    TLS_FAILURE_PLAIN_HTTP,         /* the client sent plain HTTP */
    TLS_FAILURE_OTHER,
    TLS_FAILURES
};
/* Returns the name of F, such as "client-certificate". Never NULL. */
const char *tls_failure_text(enum tls_failure f);
/* Sets the reason for which SSL will fail, its app data, if the first record of its client, with
 * BYTES as its head, is not TLS. */
void tls_server_first_record(SSL *ssl, const void *bytes, size_t len);

struct tls_context_options {
    const char *certificate, *key; /* PEM files; NULL: a context without certificate */
    bool http2;                    /* offered by ALPN; servers only */
    bool tls13_only;
    const char *ciphers, *ciphersuites; /* for TLS 1.2 and 1.3; NULL: AEAD only; the defaults */
};
/*
 * Creates a context for METHOD (a server's or a client's) with the versions, ciphers and
 * certificate of O, and the modes of reading and writing. Returns NULL with the errors in D on
 * failure.
 */
SSL_CTX *tls_context_create(const SSL_METHOD *method, const struct tls_context_options *o,
                            struct diag *d);
/* Creates a server's context. Returns NULL with the errors in D on failure. */
SSL_CTX *tls_server_create(const struct tls_context_options *o, struct diag *d);
/* Adds "FILE: WHAT: reason of the library" to D. */
void tls_server_complain(struct diag *d, const char *file, const char *what);

/* ---- client certificates: the library verifies them ---- */

enum {
    /* Maximum length of a printed subject. */
    CLIENT_SUBJECT_MAX = 1024,
    /* Maximum size of the file with the authorities. */
    CLIENT_CA_BYTES_MAX = 1 << 20,
};
/* Whether a certificate is requested of clients. */
enum client_certificate_mode {
    CLIENT_CERTIFICATE_OFF,
    CLIENT_CERTIFICATE_OPTIONAL,
    CLIENT_CERTIFICATE_REQUIRED,
};

/*
 * Makes CTX request certificates issued by the authorities in FILE.
 *   subjects  reject certificates with a subject that is empty or longer than CLIENT_SUBJECT_MAX
 *   basis     receives FILE's content and REQUIRED; a session is not resumed if they differ
 * Returns false, with the reason in D, if the authorities cannot be used.
 */
bool client_certificate_request(SSL_CTX *ctx, const char *file, bool required, bool subjects,
                                struct text *basis, struct diag *d) must_check;

struct client_certificate {
    struct slice verdict; /* "SUCCESS", "NONE"; p == NULL: none was requested */
    struct slice subject; /* RFC 4514, visible ASCII; p == NULL: nothing was verified */
};
/* Returns true if the listener of SSL (NULL: plain) requests certificates. */
bool client_certificate_is_requested(const SSL *ssl);
/* Returns the client certificate of SSL (NULL: plain). The subject is stored in ROOM. */
struct client_certificate client_certificate_of(const SSL *ssl, char room[CLIENT_SUBJECT_MAX]);
