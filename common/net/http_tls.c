/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS for listeners. Each context has session tickets of its own and a session id context made of
 * its certificate, so that a session cannot be resumed at another site.
 */
#include "common/net/http_server.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

/* TLS 1.2; those of TLS 1.3 are all fine. Also what RFC 9113 section 9.2.2 leaves over. */
#define AEAD_SUITES "ECDHE+AESGCM:ECDHE+CHACHA20"

/* Length-prefixed, our preference first. */
static const unsigned char http1_protocols[] = "\x08http/1.1";
static const unsigned char http2_protocols[] = "\x02h2\x08http/1.1";

struct offer {
    const unsigned char *bytes;
    unsigned len;
};

/* Nothing in common is the end (RFC 7301 section 3.2). */
static int select_from(const unsigned char *ours, size_t len, struct offer offer,
                       const unsigned char **out, unsigned char *out_len)
{
    unsigned char *chosen;

    if (SSL_select_next_proto(&chosen, out_len, ours, (unsigned)len, offer.bytes, offer.len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static int select_http1(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                        const unsigned char *offered, unsigned offered_len, void *context)
{
    (void)ssl;
    (void)context;
    return select_from(http1_protocols, sizeof(http1_protocols) - 1,
                       (struct offer){offered, offered_len}, out, out_len);
}

static int select_http2(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                        const unsigned char *offered, unsigned offered_len, void *context)
{
    (void)ssl;
    (void)context;
    return select_from(http2_protocols, sizeof(http2_protocols) - 1,
                       (struct offer){offered, offered_len}, out, out_len);
}

/* The newest is the precise one. */
static void add_openssl_error(struct diag *d, const char *file, const char *what)
{
    unsigned long code = ERR_peek_last_error();
    const char *reason = code != 0 ? ERR_reason_error_string(code) : NULL;

    diag_add(d, file, 0, 0, "%s: %s", what, reason != NULL ? reason : "unknown error");
    ERR_clear_error();
}

/* Nobody is there to type a passphrase. */
static int no_passphrase(char *buf, int size, int writing, void *context)
{
    (void)buf;
    (void)size;
    (void)writing;
    (void)context;
    return -1;
}

static bool set_session_context(SSL_CTX *ctx)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = sizeof(digest);
    const X509 *certificate = SSL_CTX_get0_certificate(ctx);

    if (certificate == NULL || X509_digest(certificate, EVP_sha256(), digest, &len) != 1)
        return false;
    return SSL_CTX_set_session_id_context(ctx, digest, len) == 1;
}

static bool load(SSL_CTX *ctx, const char *certificate_file, const char *key_file, struct diag *d)
{
    SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
    if (SSL_CTX_use_certificate_chain_file(ctx, certificate_file) != 1) {
        add_openssl_error(d, certificate_file, "cannot use this certificate");
        return false;
    }
    if (SSL_CTX_use_PrivateKey_file(ctx, key_file, SSL_FILETYPE_PEM) != 1) {
        add_openssl_error(d, key_file,
                          "cannot use this key (it must be PEM, without a passphrase)");
        return false;
    }
    if (SSL_CTX_check_private_key(ctx) != 1) {
        add_openssl_error(d, key_file, "key and certificate do not belong together");
        return false;
    }
    return true;
}

static bool configure(SSL_CTX *ctx, bool http2)
{
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_alpn_select_cb(ctx, http2 ? select_http2 : select_http1, NULL);
    return SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_cipher_list(ctx, AEAD_SUITES) == 1;
}

SSL_CTX *http_tls_create(const char *certificate_file, const char *key_file, bool http2,
                         struct diag *d)
{
    ERR_clear_error();
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

    if (ctx == NULL || !configure(ctx, http2)) {
        add_openssl_error(d, certificate_file, "cannot set up TLS");
        SSL_CTX_free(ctx);
        return NULL;
    }
    if (!load(ctx, certificate_file, key_file, d)) {
        SSL_CTX_free(ctx);
        return NULL;
    }
    if (!set_session_context(ctx)) {
        add_openssl_error(d, certificate_file, "cannot set up TLS sessions");
        SSL_CTX_free(ctx);
        return NULL;
    }
    return ctx;
}
