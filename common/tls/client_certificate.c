/* SPDX-License-Identifier: Apache-2.0 */
#include "common/tls/client_certificate.h"

#include "common/base/file.h"
#include "common/tls/tls_server.h"

#include <openssl/x509.h>

/* The length of the subject in ROOM; 0: it is empty or too long. */
static apart size_t print_subject(X509 *certificate, char room[CLIENT_SUBJECT_MAX])
{
    BIO *out = BIO_new(BIO_s_mem());
    char *text = NULL;
    size_t len = 0;

    /* Control characters, and all beyond ASCII, are escaped. */
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

/* A subject that cannot be reported completely is not reported in part. */
static int on_verify(int good, X509_STORE_CTX *store)
{
    char room[CLIENT_SUBJECT_MAX];

    if (!good || X509_STORE_CTX_get_error_depth(store) != 0)
        return good;
    if (print_subject(X509_STORE_CTX_get_current_cert(store), room) != 0)
        return 1;
    X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REJECTED);
    return 0;
}

bool client_certificate_ask(SSL_CTX *ctx, const char *file, bool required, bool subjects,
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
        subjects ? on_verify : NULL);
    enum err e = file_read(file, CLIENT_CA_BYTES_MAX, basis);

    text_add_char(basis, required ? '1' : '0');
    if (e != ERR_OK)
        diag_add(d, file, 0, 0, "%s", err_text(e));
    return e == ERR_OK;
}

bool client_certificate_is_asked(const SSL *ssl)
{
    return ssl != NULL && SSL_get_verify_mode(ssl) != SSL_VERIFY_NONE;
}

struct client_certificate client_certificate_of(const SSL *ssl, char room[CLIENT_SUBJECT_MAX])
{
    struct client_certificate c = {SLICE_NULL, SLICE_NULL};

    if (!client_certificate_is_asked(ssl))
        return c;
    X509 *certificate = SSL_get0_peer_certificate(ssl);
    size_t len = 0;

    if (certificate != NULL && SSL_get_verify_result(ssl) == X509_V_OK)
        len = print_subject(certificate, room);
    c.verdict = len != 0 ? SLICE_LIT("SUCCESS") : SLICE_LIT("NONE");
    if (len != 0)
        c.subject = (struct slice){room, len};
    return c;
}
