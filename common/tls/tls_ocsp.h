/* SPDX-License-Identifier: Apache-2.0
 *
 * An OCSP response from a file, checked before it is stapled: it must be signed for the
 * certificate's issuer, have the status "good", and not have expired (RFC 6960). Owned by its
 * creator; constant.
 */
#ifndef RLB_TLS_TLS_OCSP_H
#define RLB_TLS_TLS_OCSP_H

#include "common/base/err.h"

#include <openssl/ssl.h>
#include <time.h>

struct tls_ocsp {
    struct tls_ocsp *next; /* of the same context, which may have two certificates */
    X509 *certificate;     /* reference held */
    unsigned char *bytes;  /* DER */
    size_t len;
    time_t until; /* nextUpdate */
};

enum {
    /* Typical responses have one to five kilobytes. */
    OCSP_BYTES_MAX = 64 * 1024,
};

/*
 * Reads FILE for the certificate of CTX. The issuer is looked up in its chain; a certificate may be
 * its own issuer. Returns NULL and adds the reason to NOTES on failure, which is never fatal.
 */
struct tls_ocsp *tls_ocsp_read(const char *file, SSL_CTX *ctx, struct diag *notes);
/* Frees the whole list. NULL is allowed. */
void tls_ocsp_destroy(struct tls_ocsp *o);
/* For the library's status callback: staples the response in LIST for the certificate that SSL
 * uses. */
int tls_ocsp_staple(const struct tls_ocsp *list, SSL *ssl);

#endif
