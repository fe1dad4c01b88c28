/* SPDX-License-Identifier: Apache-2.0 */
#include "common/tls/tls_ocsp.h"

#include "common/base/file.h"

#include <openssl/err.h>
#include <openssl/ocsp.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

enum {
    /* A responder's clock may be so far ahead of ours. */
    CLOCK_SKEW_S = 300,
    DAY_S = 24 * 3600,
};

static X509 *find_issuer(SSL_CTX *ctx, X509 *certificate)
{
    STACK_OF(X509) *chain = NULL;

    if (X509_check_issued(certificate, certificate) == X509_V_OK)
        return certificate;
    SSL_CTX_get0_chain_certs(ctx, &chain);
    for (int i = 0; i < sk_X509_num(chain); ++i) {
        if (X509_check_issued(sk_X509_value(chain, i), certificate) == X509_V_OK)
            return sk_X509_value(chain, i);
    }
    return NULL;
}

/* Whether BASIC is signed by ISSUER, or by a responder that ISSUER has authorized. */
static bool signed_for(OCSP_BASICRESP *basic, X509 *issuer)
{
    STACK_OF(X509) *others = sk_X509_new_null();
    X509_STORE *store = X509_STORE_new();
    bool good = others != NULL && store != NULL && sk_X509_push(others, issuer) > 0 &&
                X509_STORE_add_cert(store, issuer) == 1 &&
                X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN) == 1 &&
                OCSP_basic_verify(basic, others, store, 0) == 1;

    X509_STORE_free(store);
    sk_X509_free(others);
    return good;
}

/* Whether ONE is about CERTIFICATE, by the digest that the responder has chosen. */
static bool is_about(OCSP_SINGLERESP *one, X509 *certificate, X509 *issuer)
{
    OCSP_CERTID *theirs = (OCSP_CERTID *)(uintptr_t)OCSP_SINGLERESP_get0_id(one);
    ASN1_OBJECT *digest = NULL;

    if (OCSP_id_get0_info(NULL, &digest, NULL, NULL, theirs) != 1)
        return false;
    OCSP_CERTID *ours = OCSP_cert_to_id(EVP_get_digestbyobj(digest), certificate, issuer);
    bool same = ours != NULL && OCSP_id_cmp(ours, theirs) == 0;

    OCSP_CERTID_free(ours);
    return same;
}

/* NULL: it is good until *UNTIL. */
static const char *judge(OCSP_SINGLERESP *one, time_t *until)
{
    ASN1_GENERALIZEDTIME *from = NULL;
    ASN1_GENERALIZEDTIME *next = NULL;
    int days = 0;
    int seconds = 0;

    if (OCSP_single_get0_status(one, NULL, NULL, &from, &next) != V_OCSP_CERTSTATUS_GOOD)
        return "it does not say that the certificate is good";
    if (next == NULL)
        return "it does not say how long it is good for";
    if (OCSP_check_validity(from, next, CLOCK_SKEW_S, -1) != 1 ||
        ASN1_TIME_diff(&days, &seconds, NULL, next) != 1 || days < 0 || days + seconds <= 0)
        return "it has expired, or is not valid yet";
    *until = time(NULL) + (time_t)days * DAY_S + seconds;
    return NULL;
}

static const char *check(OCSP_BASICRESP *basic, X509 *certificate, X509 *issuer, time_t *until)
{
    if (issuer == NULL)
        return "the certificate's file does not have its issuer";
    if (!signed_for(basic, issuer))
        return "it is not signed for the certificate's issuer";
    for (int i = 0; i < OCSP_resp_count(basic); ++i) {
        OCSP_SINGLERESP *one = OCSP_resp_get0(basic, i);

        if (is_about(one, certificate, issuer))
            return judge(one, until);
    }
    return "it is about another certificate";
}

static const char *check_bytes(const struct text *bytes, SSL_CTX *ctx, time_t *until)
{
    const unsigned char *p = (const unsigned char *)bytes->p;
    OCSP_RESPONSE *response = d2i_OCSP_RESPONSE(NULL, &p, (long)bytes->len);
    OCSP_BASICRESP *basic = NULL;
    X509 *certificate = SSL_CTX_get0_certificate(ctx);
    const char *why = "not an OCSP response";

    if (response != NULL && p == (const unsigned char *)bytes->p + bytes->len &&
        OCSP_response_status(response) == OCSP_RESPONSE_STATUS_SUCCESSFUL)
        basic = OCSP_response_get1_basic(response);
    if (basic != NULL)
        why = check(basic, certificate, find_issuer(ctx, certificate), until);
    OCSP_BASICRESP_free(basic);
    OCSP_RESPONSE_free(response);
    ERR_clear_error();
    return why;
}

struct tls_ocsp *tls_ocsp_read(const char *file, SSL_CTX *ctx, struct diag *notes)
{
    struct text bytes = {0};
    time_t until = 0;
    enum err e = file_read(file, OCSP_BYTES_MAX, &bytes);
    const char *why = e != ERR_OK ? err_text(e) : check_bytes(&bytes, ctx, &until);

    if (why != NULL) {
        diag_add(notes, file, 0, 0, "%s", why);
        text_fini(&bytes);
        return NULL;
    }
    struct tls_ocsp *o = xcalloc(1, sizeof(*o));
    o->certificate = SSL_CTX_get0_certificate(ctx);
    X509_up_ref(o->certificate);
    o->bytes = (unsigned char *)bytes.p;
    o->len = bytes.len;
    o->until = until;
    return o;
}

void tls_ocsp_destroy(struct tls_ocsp *o)
{
    while (o != NULL) {
        struct tls_ocsp *next = o->next;

        X509_free(o->certificate);
        free(o->bytes);
        free(o);
        o = next;
    }
}

int tls_ocsp_staple(const struct tls_ocsp *list, SSL *ssl)
{
    const X509 *shown = SSL_get_certificate(ssl);

    while (list != NULL && (shown == NULL || X509_cmp(list->certificate, shown) != 0))
        list = list->next;
    unsigned char *copy = list != NULL ? OPENSSL_memdup(list->bytes, list->len) : NULL;
    if (copy == NULL)
        return SSL_TLSEXT_ERR_NOACK;
    SSL_set_tlsext_status_ocsp_resp(ssl, copy, (long)list->len);
    return SSL_TLSEXT_ERR_OK;
}
