/* SPDX-License-Identifier: Apache-2.0
 *
 * A server's TLS context with a certificate that was made for this process alone.
 */
#pragma once

#include "common/base/base.h"
#include "common/tls/tls_server.h"

#include <openssl/x509.h>

static inline SSL_CTX *self_signed_context(const struct tls_context_options *o)
{
    struct diag d = {0};
    SSL_CTX *ctx = tls_server_create(o, &d);
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();

    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), 0);
    X509_gmtime_adj(X509_getm_notAfter(cert), 24L * 3600);
    X509_set_pubkey(cert, key);
    int signed_bytes = X509_sign(cert, key, EVP_sha256());
    ASSERT(signed_bytes > 0);
    int used = SSL_CTX_use_cert_and_key(ctx, cert, key, NULL, 1);
    ASSERT(used == 1);
    X509_free(cert);
    EVP_PKEY_free(key);
    return ctx;
}
