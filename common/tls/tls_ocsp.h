/* SPDX-License-Identifier: Apache-2.0
 *
 * An OCSP response from a file, checked before it is stapled: signed for the certificate's issuer,
 * good, and not past its end (RFC 6960). Owned by whoever read it; constant then.
 */
#ifndef RLB_TLS_TLS_OCSP_H
#define RLB_TLS_TLS_OCSP_H

#include "common/base/err.h"

#include <openssl/ssl.h>
#include <time.h>

struct tls_ocsp {
    struct tls_ocsp *next; /* of one context, which may have two certificates */
    X509 *certificate;     /* counted */
    unsigned char *bytes;  /* DER */
    size_t len;
    time_t until; /* nextUpdate */
};

enum {
    /* Responses have one to five kilobytes. */
    OCSP_BYTES_MAX = 64 * 1024,
};

/*
 * Read FILE for the certificate of CTX, whose chain has the issuer (or which is its own). NULL: why
 * not is in NOTES; never a reason not to serve.
 */
struct tls_ocsp *tls_ocsp_read(const char *file, SSL_CTX *ctx, struct diag *notes);
/* With all that follow it. NULL is fine. */
void tls_ocsp_destroy(struct tls_ocsp *o);
/* For the library's status callback: what is in the list for the certificate that SSL shows. */
int tls_ocsp_staple(const struct tls_ocsp *list, SSL *ssl);

#endif
