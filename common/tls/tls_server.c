/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS for listeners. The library's callbacks determine why a handshake fails, and store the cause
 * where the app data of the SSL points to (tls_link_accept).
 */
#include "common/tls/tls_server.h"
#include "common/base/file.h"

#include <openssl/err.h>
#include <openssl/x509.h>

/* For TLS 1.2: the suites that RFC 9113 section 9.2.2 permits. All suites of TLS 1.3 are
 * acceptable. */
#define AEAD_SUITES "ECDHE+AESGCM:ECDHE+CHACHA20"
/* For TLS 1.3: all suites of OpenSSL, beginning with the preferred one of browsers. A handshake
 * derives a dozen secrets with the digest of the suite, and SHA-256 costs less than SHA-384. */
#define TLS13_SUITES "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"

enum { RECORD_HEAD = 5 }; /* bytes: type, version, length */

/* Length-prefixed, in order of preference. Clients that offer only HTTP/1.0 are served as well. */
#define HTTP1_PROTOCOLS "\x08http/1.1\x08http/1.0"
static const struct slice http1_protocols = SLICE_LIT(HTTP1_PROTOCOLS);
static const struct slice http2_protocols = SLICE_LIT("\x02h2" HTTP1_PROTOCOLS);

/* OURS is a slice as above. Without a common protocol the handshake fails (RFC 7301 section
 * 3.2). */
static int select_protocol(unused_ SSL *ssl, const unsigned char **out, unsigned char *out_len,
                           const unsigned char *offered, unsigned offered_len, void *ours)
{
    const struct slice *s = ours;
    unsigned char *chosen;

    if (SSL_select_next_proto(&chosen, out_len, (const unsigned char *)s->p, (unsigned)s->len,
                              offered, offered_len) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

/* ---- why a handshake fails ---- */

const char *tls_failure_text(enum tls_failure f)
{
    static const char *const texts[TLS_FAILURES] = {
        "closed",     "version", "nothing-in-common", "client-certificate", "rejected-by-client",
        "plain-http", "other",
    };

    return texts[f];
}

static enum tls_failure failure_of_our_alert(int alert)
{
    switch (alert) {
    case SSL_AD_PROTOCOL_VERSION:
        return TLS_FAILURE_VERSION;
    case SSL_AD_HANDSHAKE_FAILURE:
    case SSL_AD_INSUFFICIENT_SECURITY:
    case SSL_AD_NO_APPLICATION_PROTOCOL:
        return TLS_FAILURE_NOTHING_IN_COMMON;
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
    case SSL_AD_CERTIFICATE_REVOKED:
    case SSL_AD_CERTIFICATE_EXPIRED:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_UNKNOWN_CA:
    case SSL_AD_CERTIFICATE_REQUIRED:
        return TLS_FAILURE_CLIENT_CERTIFICATE;
    default:
        return TLS_FAILURE_OTHER;
    }
}

/* RET is the level and number of an alert, as in SSL_CTX_set_info_callback(3). */
static void on_info(const SSL *ssl, int where, int ret)
{
    bool ours = (where & SSL_CB_WRITE) != 0;

    if ((where & SSL_CB_ALERT) == 0 || SSL_is_init_finished(ssl))
        return;
    enum tls_failure *why = SSL_get_app_data(ssl);
    /* The first error is the cause. */
    if ((ret >> 8) != SSL3_AL_FATAL || *why != TLS_FAILURE_CLOSED)
        return;
    /* The library sends an alert also to a client that has closed. */
    if (ours && ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING)
        return;
    *why = ours ? failure_of_our_alert(ret & 0xff) : TLS_FAILURE_REJECTED_BY_CLIENT;
}

void tls_server_first_record(SSL *ssl, const void *bytes, size_t len)
{
    static const char methods[][RECORD_HEAD + 1] = {
        "GET ", "HEAD ", "POST ", "PUT ", "DELET", "PATCH", "OPTIO", "CONNE", "TRACE", "PRI *",
    };

    if (len != RECORD_HEAD)
        return;
    for (size_t i = 0; i < ARRAY_LEN(methods); ++i) {
        if (memcmp(bytes, methods[i], strlen(methods[i])) == 0)
            *(enum tls_failure *)SSL_get_app_data(ssl) = TLS_FAILURE_PLAIN_HTTP;
    }
}

/* ---- contexts ---- */

/* The newest error is the most precise one, but a system error about a file has precedence. */
void tls_server_complain(struct diag *d, const char *file, const char *what)
{
    unsigned long newest = 0;
    unsigned long system = 0;
    unsigned long code;

    while ((code = ERR_get_error()) != 0) {
        newest = code;
        if (ERR_GET_LIB(code) == ERR_LIB_SYS)
            system = code;
    }
    const char *reason = newest != 0 ? ERR_reason_error_string(newest) : NULL;
    if (system != 0)
        reason = strerror(ERR_GET_REASON(system));
    diag_add(d, file, 0, 0, "%s: %s", what, reason != NULL ? reason : "unknown error");
}

/* Keys with a passphrase are not supported. */
static int no_passphrase(unused_ char *buf, unused_ int size, unused_ int writing,
                         unused_ void *context)
{
    return -1;
}

SSL_CTX *tls_context_create(const SSL_METHOD *method, const struct tls_context_options *o,
                            struct diag *d)
{
    const char *file = o->certificate;

    ERR_clear_error();
    SSL_CTX *ctx = SSL_CTX_new(method);
    if (ctx == NULL) {
        tls_server_complain(d, file, "cannot set up TLS");
        return NULL;
    }
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    /* The buffer of a repeated write may have moved (http1_client.c copies a head). */
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(ctx, 1);
    SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
    if (SSL_CTX_set_min_proto_version(ctx, o->tls13_only ? TLS1_3_VERSION : TLS1_2_VERSION) != 1)
        tls_server_complain(d, NULL, "min_version");
    else if (SSL_CTX_set_cipher_list(ctx, o->ciphers != NULL ? o->ciphers : AEAD_SUITES) != 1)
        tls_server_complain(d, NULL, "ciphers");
    else if (o->ciphersuites != NULL && SSL_CTX_set_ciphersuites(ctx, o->ciphersuites) != 1)
        tls_server_complain(d, NULL, "ciphersuites");
    else if (file != NULL && SSL_CTX_use_certificate_chain_file(ctx, file) != 1)
        tls_server_complain(d, file, "cannot use this certificate");
    else if (file != NULL && SSL_CTX_use_PrivateKey_file(ctx, o->key, SSL_FILETYPE_PEM) != 1)
        tls_server_complain(d, o->key,
                            "cannot use this key (it must be PEM, without a passphrase)");
    else if (file != NULL && SSL_CTX_check_private_key(ctx) != 1)
        tls_server_complain(d, o->key, "key and certificate do not match");
    else
        return ctx;
    SSL_CTX_free(ctx);
    return NULL;
}

SSL_CTX *tls_server_create(const struct tls_context_options *o, struct diag *d)
{
    const struct slice *protocols = o->http2 ? &http2_protocols : &http1_protocols;
    struct tls_context_options with = *o;

    if (o->ciphersuites == NULL)
        with.ciphersuites = TLS13_SUITES;
    SSL_CTX *ctx = tls_context_create(TLS_server_method(), &with, d);
    if (ctx == NULL)
        return NULL;
    SSL_CTX_set_options(ctx, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_alpn_select_cb(ctx, select_protocol, (void *)(uintptr_t)protocols);
    SSL_CTX_set_info_callback(ctx, on_info);
    return ctx;
}

/* ---- client certificates ---- */

/* Writes the subject to ROOM. Returns its length, or 0 if it is empty or too long. */
static noinline_ size_t print_subject(X509 *certificate, char room[CLIENT_SUBJECT_MAX])
{
    BIO *out = BIO_new(BIO_s_mem());
    char *text = NULL;
    size_t len = 0;

    /* Control and non-ASCII characters are escaped. */
    if (out != NULL &&
        X509_NAME_print_ex(out, X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253) > 0) {
        long n = BIO_get_mem_data(out, &text);

        if (n > 0 && n <= CLIENT_SUBJECT_MAX) {
            len = (size_t)n;
            memcpy(room, text, len);
        }
    }
    BIO_free(out);
    return len;
}

/* A certificate is rejected if its subject cannot be reported completely. */
static int on_tls_server_verify(int good, X509_STORE_CTX *store)
{
    char room[CLIENT_SUBJECT_MAX];

    if (!good || X509_STORE_CTX_get_error_depth(store) != 0)
        return good;
    if (print_subject(X509_STORE_CTX_get_current_cert(store), room) != 0)
        return 1;
    X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REJECTED);
    return 0;
}

bool client_certificate_request(SSL_CTX *ctx, const char *file, bool required, bool subjects,
                                struct text *basis, struct diag *d)
{
    STACK_OF(X509_NAME) *names = NULL;

    if (SSL_CTX_load_verify_file(ctx, file) != 1 ||
        (names = SSL_load_client_CA_file(file)) == NULL) {
        tls_server_complain(d, file, "cannot use these authorities");
        return false;
    }
    SSL_CTX_set_client_CA_list(ctx, names);
    SSL_CTX_set_verify(
        ctx, required ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT : SSL_VERIFY_PEER,
        subjects ? on_tls_server_verify : NULL);
    enum err e = file_read(file, CLIENT_CA_BYTES_MAX, basis);

    text_add_char(basis, required ? '1' : '0');
    if (e != ERR_OK)
        diag_add(d, file, 0, 0, "%s", err_text(e));
    return e == ERR_OK;
}

bool client_certificate_is_requested(const SSL *ssl)
{
    return ssl != NULL && SSL_get_verify_mode(ssl) != SSL_VERIFY_NONE;
}

struct client_certificate client_certificate_of(const SSL *ssl, char room[CLIENT_SUBJECT_MAX])
{
    struct client_certificate c = {SLICE_NULL, SLICE_NULL};

    if (!client_certificate_is_requested(ssl))
        return c;
    X509 *certificate = SSL_get0_peer_certificate(ssl);
    size_t len = 0;

    if (certificate != NULL && SSL_get_verify_result(ssl) == X509_V_OK)
        len = print_subject(certificate, room);
    if (len == 0)
        return (struct client_certificate){SLICE_LIT("NONE"), SLICE_NULL};
    return (struct client_certificate){SLICE_LIT("SUCCESS"), {room, len}};
}
