/* SPDX-License-Identifier: Apache-2.0
 *
 *   listener --outer--> SSL --(ClientHello)--> a context of the effective set
 *
 * The outer context has no certificate and stays for the life of the listener. At each ClientHello
 * a callback replaces it by the one for the client's server name, so that new certificates need no
 * new listener and established connections are not affected. (Only the outer context has this
 * callback: a second ClientHello of a handshake, after a HelloRetryRequest, keeps the context of
 * the first one.)
 *
 * A set holds the certificates as they were read at one time: a context per certificate, or per two
 * for the same names, an RSA and an ECDSA one, of which the client gets the one that it supports.
 * It is constant and reference counted. A context refers to its set's names and to its index
 * (ex_data), which are freed with the last connection that uses the context, possibly after the
 * set. Lock: around the pointer to the effective set, held to take a reference.
 */
#include "common/tls/tls_listener.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/tls/crypto.h"
#include "common/tls/tls_files.h"
#include "common/tls/tls_names.h"
#include "common/tls/tls_tickets.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ocsp.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

/* ---- OCSP ---- */

/*
 * An OCSP response from a file, checked before it is stapled: it must be signed for the
 * certificate's issuer, have the status "good", and not have expired (RFC 6960). Owned by its
 * creator; constant.
 */

struct tls_ocsp {
    struct tls_ocsp *next; /* next response of the same context, which may have two certificates */
    X509 *certificate;     /* reference held */
    unsigned char *bytes;  /* DER */
    size_t len;
    time_t until; /* nextUpdate */
};

enum {
    /* Maximum size of a response; typical ones have one to five kilobytes. */
    OCSP_BYTES_MAX = 64 * 1024,
    /* Maximum difference of the responder's clock to the local one. */
    CLOCK_SKEW_S = 300,
    DAY_S = 24 * 3600,
};

/* Returns true if BASIC is signed by ISSUER, or by a responder that ISSUER has authorized. */
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

/* Returns true if ONE refers to CERTIFICATE, compared by the digest that the responder has
 * chosen. */
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

/* Returns NULL if BASIC confirms CERTIFICATE, of CTX, until *UNTIL, else the problem. */
static const char *listener_check(OCSP_BASICRESP *basic, SSL_CTX *ctx, X509 *certificate,
                                  time_t *until)
{
    bool is_own_issuer = X509_check_issued(certificate, certificate) == X509_V_OK;
    X509 *issuer = is_own_issuer ? certificate : NULL;
    STACK_OF(X509) *chain = NULL;
    ASN1_GENERALIZEDTIME *from = NULL;
    ASN1_GENERALIZEDTIME *next = NULL;
    int days = 0;
    int seconds = 0;
    int i = 0;

    SSL_CTX_get0_chain_certs(ctx, &chain);
    for (int k = 0; k < sk_X509_num(chain) && issuer == NULL; ++k) {
        if (X509_check_issued(sk_X509_value(chain, k), certificate) == X509_V_OK)
            issuer = sk_X509_value(chain, k);
    }
    if (issuer == NULL)
        return "the certificate's file does not have its issuer";
    if (!signed_for(basic, issuer))
        return "it is not signed for the certificate's issuer";
    while (i < OCSP_resp_count(basic) && !is_about(OCSP_resp_get0(basic, i), certificate, issuer))
        ++i;
    OCSP_SINGLERESP *one = OCSP_resp_get0(basic, i);
    if (one == NULL)
        return "it is of another certificate";
    if (OCSP_single_get0_status(one, NULL, NULL, &from, &next) != V_OCSP_CERTSTATUS_GOOD)
        return "it does not confirm the certificate";
    if (next == NULL)
        return "it has no expiry time";
    if (OCSP_check_validity(from, next, CLOCK_SKEW_S, -1) != 1 ||
        ASN1_TIME_diff(&days, &seconds, NULL, next) != 1 || days < 0 || days + seconds <= 0)
        return "it has expired, or is not yet valid";
    *until = time(NULL) + (time_t)days * DAY_S + seconds;
    return NULL;
}

/*
 * Reads FILE for the certificate of CTX. The issuer is looked up in its chain; a certificate may be
 * its own issuer. Returns NULL and adds the reason to NOTES on failure, which is never fatal.
 */
static struct tls_ocsp *tls_ocsp_read(const char *file, SSL_CTX *ctx, struct diag *notes)
{
    X509 *certificate = SSL_CTX_get0_certificate(ctx);
    struct text bytes = {0};
    time_t until = 0;
    enum err e = file_read(file, OCSP_BYTES_MAX, &bytes);
    const unsigned char *p = (const unsigned char *)bytes.p;
    OCSP_RESPONSE *response = d2i_OCSP_RESPONSE(NULL, &p, (long)bytes.len);
    OCSP_BASICRESP *basic = NULL;
    const char *why = e != ERR_OK ? err_text(e) : "not an OCSP response";

    if (response != NULL && p == (const unsigned char *)bytes.p + bytes.len &&
        OCSP_response_status(response) == OCSP_RESPONSE_STATUS_SUCCESSFUL)
        basic = OCSP_response_get1_basic(response);
    if (basic != NULL)
        why = listener_check(basic, ctx, certificate, &until);
    OCSP_BASICRESP_free(basic);
    OCSP_RESPONSE_free(response);
    ERR_clear_error();
    if (why != NULL) {
        diag_add(notes, file, 0, 0, "%s", why);
        text_fini(&bytes);
        return NULL;
    }
    struct tls_ocsp *o = xcalloc(1, sizeof(*o));
    X509_up_ref(certificate);
    *o = (struct tls_ocsp){.certificate = certificate,
                           .bytes = (unsigned char *)bytes.p,
                           .len = bytes.len,
                           .until = until};
    return o;
}

/* ---- listeners ---- */

struct tls_set {
    _Atomic unsigned refs;
    SSL_CTX **contexts;
    size_t n;
    struct tls_names *names; /* maps names to indices of contexts */
    struct diag
        notes;    /* deviations from the configuration that do not prevent serving, a line each */
    time_t until; /* expiry of the first OCSP response; 0: there is none */
};

/* A configuration, which tls_listener_take() replaces as a whole. */
struct tls_listener_config {
    struct tls_listener_options o;
    struct tls_certificate_files *certificates; /* of the options */
    struct tls_files files;                     /* texts of the options */
};

struct tls_listener {
    SSL_CTX *outer;
    struct tls_listener_config c;
    bool rejected; /* the files could not be used when they were last read */
    pthread_mutex_t lock;
    struct tls_set *set; /* protected by the lock; counted reference */
};

/* The part of a context that refers to its set. */
struct listener_context {
    struct tls_names *names;
    struct tls_names *own_names; /* of the first certificate */
    unsigned index;
    struct tls_tickets *tickets;
    struct tls_ocsp *ocsp;              /* or NULL */
    unsigned char digest[SHA256_BYTES]; /* of the data that a session depends on */
};

/* ---- contexts ---- */

static void free_listener_context(unused_ void *parent, void *context, unused_ CRYPTO_EX_DATA *data,
                                  unused_ int index, unused_ long argl, unused_ void *argp)
{
    struct listener_context *p = context;

    if (p == NULL)
        return;
    tls_names_unref(p->names);
    tls_names_unref(p->own_names);
    tls_tickets_unref(p->tickets);
    while (p->ocsp != NULL) {
        struct tls_ocsp *o = p->ocsp;

        p->ocsp = o->next;
        X509_free(o->certificate);
        free(o->bytes);
        free(o);
    }
    free(p);
}

/* Index of the library's application data, which is assigned once. */
static int context_index;
static pthread_once_t context_index_made = PTHREAD_ONCE_INIT;

static void make_context_index(void)
{
    context_index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, free_listener_context);
    ASSERT(context_index >= 0);
}

static struct listener_context *listener_context_of(const SSL_CTX *ctx)
{
    return SSL_CTX_get_ex_data(ctx, context_index);
}

/* ---- reading ---- */

static bool has_kind(SSL_CTX *ctx, int kind)
{
    bool found = false;

    for (long more = SSL_CTX_set_current_cert(ctx, SSL_CERT_SET_FIRST); more == 1 && !found;
         more = SSL_CTX_set_current_cert(ctx, SSL_CERT_SET_NEXT))
        found = EVP_PKEY_get_base_id(SSL_CTX_get0_privatekey(ctx)) == kind;
    SSL_CTX_set_current_cert(ctx, SSL_CERT_SET_FIRST);
    return found;
}

/* Called on the loop of a connection: staples the response for the certificate that SSL uses. */
static int on_status(SSL *ssl, unused_ void *context)
{
    const struct tls_ocsp *o = listener_context_of(SSL_get_SSL_CTX(ssl))->ocsp;
    const X509 *shown = SSL_get_certificate(ssl);

    while (o != NULL && (shown == NULL || X509_cmp(o->certificate, shown) != 0))
        o = o->next;
    unsigned char *copy = o != NULL ? OPENSSL_memdup(o->bytes, o->len) : NULL;
    if (copy == NULL)
        return SSL_TLSEXT_ERR_NOACK;
    SSL_set_tlsext_status_ocsp_resp(ssl, copy, (long)o->len);
    return SSL_TLSEXT_ERR_OK;
}

/* Adds the OCSP response in FILE (NULL: none) for the certificate of FROM, which TO presents. */
static void add_ocsp(struct tls_set *s, SSL_CTX *to, SSL_CTX *from, const char *file)
{
    struct listener_context *p = listener_context_of(to);
    struct tls_ocsp *o = file != NULL ? tls_ocsp_read(file, from, &s->notes) : NULL;

    if (o == NULL)
        return;
    if (s->until == 0 || o->until < s->until)
        s->until = o->until;
    o->next = p->ocsp;
    p->ocsp = o;
    SSL_CTX_set_tlsext_status_cb(to, on_status);
}

/* Reads a certificate and adds a context for it to S, or adds it to a context of S. */
static bool read_certificate(struct tls_set *s, const struct tls_listener_options *o,
                             const struct tls_certificate_files *from, struct diag *d)
{
    const char *file = from->certificate;
    struct tls_context_options with = o->context;
    STACK_OF(X509) *chain = NULL;
    size_t twin = 0;

    with.certificate = file;
    with.key = from->key;
    SSL_CTX *ctx = tls_server_create(&with, d);
    if (ctx == NULL)
        return false;
    struct tls_names *names = tls_names_create();
    int kind = EVP_PKEY_get_base_id(SSL_CTX_get0_privatekey(ctx));
    X509 *certificate = SSL_CTX_get0_certificate(ctx);
    bool good = tls_names_add(names, certificate, 0);
    if (!good) {
        diag_add(d, file, 0, 0, "more than %d names", TLS_CERTIFICATE_NAMES_MAX);
        goto out;
    }
    /* A context accepts a further certificate with the same names and another kind of key. */
    while (twin < s->n &&
           (!tls_names_same(listener_context_of(s->contexts[twin])->own_names, names) ||
            has_kind(s->contexts[twin], kind)))
        ++twin;
    if (twin == s->n) {
        struct listener_context *p = xcalloc(1, sizeof(*p));

        /* Adding the same names succeeded before. */
        bool added = tls_names_add(s->names, certificate, (unsigned)s->n);
        ASSERT(added);
        pthread_once(&context_index_made, make_context_index);
        p->names = tls_names_ref(s->names);
        p->own_names = names;
        p->index = (unsigned)s->n;
        if (SSL_CTX_set_ex_data(ctx, context_index, p) != 1)
            abort(); /* out of memory */
        add_ocsp(s, ctx, ctx, from->ocsp);
        s->contexts[s->n++] = ctx;
        return true;
    }
    add_ocsp(s, s->contexts[twin], ctx, from->ocsp);
    good = SSL_CTX_get0_chain_certs(ctx, &chain) == 1 &&
           SSL_CTX_use_cert_and_key(s->contexts[twin], certificate, SSL_CTX_get0_privatekey(ctx),
                                    chain, 0) == 1;
    if (!good)
        tls_server_complain(d, file, "conflicts with the other one for the same names");
out:
    tls_names_unref(names);
    SSL_CTX_free(ctx);
    return good;
}

/* Restricts the resumption of sessions to contexts that present the same certificates and
 * request the same ones of clients. */
static bool finish_context(const struct tls_listener_options *o, SSL_CTX *ctx, struct diag *d)
{
    struct listener_context *p = listener_context_of(ctx);
    struct text basis = {0};
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    bool asked =
        o->clients == CLIENT_CERTIFICATE_OFF ||
        client_certificate_request(ctx, o->client_ca, o->clients == CLIENT_CERTIFICATE_REQUIRED,
                                   o->client_subjects, &basis, d);
    EVP_MD_CTX *all = sha256_begin();

    p->tickets = tls_tickets_create();
    bool good = p->tickets != NULL;
    sha256_add(all, basis.p, basis.len);
    text_fini(&basis);
    for (long more = SSL_CTX_set_current_cert(ctx, SSL_CERT_SET_FIRST); good && more == 1;
         more = SSL_CTX_set_current_cert(ctx, SSL_CERT_SET_NEXT)) {
        good = X509_digest(SSL_CTX_get0_certificate(ctx), EVP_sha256(), digest, &len) == 1;
        sha256_add(all, digest, len);
    }
    SSL_CTX_set_current_cert(ctx, SSL_CERT_SET_FIRST);
    sha256_end(all, p->digest);
    good = good && SSL_CTX_set_session_id_context(ctx, p->digest, SHA256_BYTES) == 1;
    if (asked && !good)
        tls_server_complain(d, NULL, "cannot set up TLS sessions");
    return asked && good;
}

static void set_unref(struct tls_set *s)
{
    if (s == NULL || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < s->n; ++i)
        SSL_CTX_free(s->contexts[i]);
    free(s->contexts);
    tls_names_unref(s->names);
    diag_fini(&s->notes);
    free(s);
}

/* Returns NULL with the errors in D on failure. */
static struct tls_set *set_create(const struct tls_listener_options *o, struct diag *d)
{
    struct tls_set *s = xcalloc(1, sizeof(*s));
    bool good = true;

    atomic_init(&s->refs, 1);
    s->names = tls_names_create();
    s->contexts = xcalloc(o->ncertificates, sizeof(SSL_CTX *));
    for (size_t i = 0; i < o->ncertificates && good; ++i)
        good = read_certificate(s, o, &o->certificates[i], d);
    for (size_t i = 0; i < s->n && good; ++i)
        good = finish_context(o, s->contexts[i], d);
    if (good)
        return s;
    set_unref(s);
    return NULL;
}

/* ---- connections ---- */

/*
 * Called on the loop of a connection, with the context that the connection began with; the keys are
 * those of the context that it was switched to. A TLS 1.3 ticket is used once, so 2 is returned to
 * have a new one sent.
 */
static int on_ticket(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
                     EVP_MAC_CTX *mac, int sealing)
{
    struct tls_tickets *tickets = listener_context_of(SSL_get_SSL_CTX(ssl))->tickets;

    if (sealing)
        return tls_tickets_encrypt(tickets, name, iv, cipher, mac) ? 1 : -1;
    int found = tls_tickets_decrypt(tickets, name, iv, cipher, mac);

    return found == 1 && SSL_version(ssl) >= TLS1_3_VERSION ? 2 : found;
}

/* Called on the loop of a connection: selects the context by the client's server name; without
 * one, or if it is unknown, the first context. */
static int on_client_hello(SSL *ssl, unused_ int *alert, void *context)
{
    struct tls_listener *t = context;
    const unsigned char *bytes = NULL;
    size_t len = 0;
    struct slice name;
    unsigned owner = 0;

    pthread_mutex_lock(&t->lock);
    struct tls_set *set = t->set;
    atomic_fetch_add_explicit(&set->refs, 1, memory_order_relaxed);
    pthread_mutex_unlock(&t->lock);
    if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &bytes, &len) != 1 ||
        !tls_server_name((struct slice){(const char *)bytes, len}, &name) ||
        !tls_names_find(set->names, name, &owner))
        owner = 0;
    /* SSL_set_SSL_CTX() takes over the certificates and everything that is looked up through the
     * context; the rest was copied when the connection was created. */
    SSL_CTX *ctx = set->contexts[owner];
    SSL_set_SSL_CTX(ssl, ctx);
    SSL_set_min_proto_version(ssl, SSL_CTX_get_min_proto_version(ctx));
    SSL_set_verify(ssl, SSL_CTX_get_verify_mode(ctx), SSL_CTX_get_verify_callback(ctx));
    set_unref(set);
    return SSL_CLIENT_HELLO_SUCCESS;
}

bool tls_listener_misdirected(const SSL *ssl, struct slice host)
{
    const struct listener_context *p = listener_context_of(SSL_get_SSL_CTX(ssl));
    unsigned owner = 0;

    return p != NULL && tls_names_find(p->names, slice_cut(&host, ':'), &owner) &&
           owner != p->index;
}

/* ---- life ---- */

struct tls_listener *tls_listener_create(const struct tls_listener_options *o, struct diag *d)
{
    static const unsigned char none[] = "outer";
    const struct tls_context_options outer = {.http2 = o->context.http2};
    struct tls_listener *t = xcalloc(1, sizeof(*t));
    struct tls_listener_config *c = &t->c;
    struct tls_files *f = &c->files;

    pthread_mutex_init(&t->lock, NULL);
    c->o = *o;
    c->o.certificates = c->certificates = xcalloc(o->ncertificates, sizeof(*c->certificates));
    for (size_t i = 0; i < o->ncertificates; ++i) {
        c->certificates[i] = (struct tls_certificate_files){
            .certificate = tls_files_add(f, o->certificates[i].certificate),
            .key = tls_files_add(f, o->certificates[i].key),
            .ocsp = tls_files_add(f, o->certificates[i].ocsp),
        };
    }
    c->o.client_ca = tls_files_add(f, o->client_ca);
    tls_files_watch(f);
    c->o.context.ciphers = tls_files_add(f, o->context.ciphers);
    c->o.context.ciphersuites = tls_files_add(f, o->context.ciphersuites);
    t->set = set_create(&c->o, d);
    t->outer = t->set != NULL ? tls_server_create(&outer, d) : NULL;
    if (t->outer == NULL) {
        tls_listener_destroy(t);
        return NULL;
    }
    SSL_CTX_set_client_hello_cb(t->outer, on_client_hello, t);
    /* SSL_set_SSL_CTX() takes over the session id context of the selected context only if both
     * were equal before. */
    if (SSL_CTX_set_session_id_context(t->outer, none, sizeof(none)) != 1 ||
        SSL_CTX_set_tlsext_ticket_key_evp_cb(t->outer, on_ticket) != 1)
        abort();
    return t;
}

void tls_listener_destroy(struct tls_listener *t)
{
    if (t == NULL)
        return;
    SSL_CTX_free(t->outer);
    set_unref(t->set);
    tls_files_fini(&t->c.files);
    free(t->c.certificates);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

SSL_CTX *tls_listener_context(struct tls_listener *t)
{
    return t->outer;
}

/* Makes SET effective; its reference passes to T. Before that, tickets of the previous set become
 * valid for contexts of SET with the same certificates. Returns the previous set. */
static struct tls_set *replace_set(struct tls_listener *t, struct tls_set *set)
{
    struct tls_set *old = t->set;

    for (size_t i = 0; i < set->n; ++i) {
        struct listener_context *p = listener_context_of(set->contexts[i]);

        for (size_t k = 0; k < old->n; ++k) {
            const struct listener_context *q = listener_context_of(old->contexts[k]);

            if (memcmp(p->digest, q->digest, SHA256_BYTES) == 0) {
                tls_tickets_unref(p->tickets);
                p->tickets = tls_tickets_ref(q->tickets);
            }
        }
    }
    pthread_mutex_lock(&t->lock);
    t->set = set;
    pthread_mutex_unlock(&t->lock);
    return old;
}

/* Everything is exchanged except the outer contexts, which the listeners refer to. */
void tls_listener_take(struct tls_listener *t, struct tls_listener *fresh)
{
    struct tls_listener_config old = t->c;

    fresh->set = replace_set(t, fresh->set);
    t->c = fresh->c;
    t->rejected = false;
    fresh->c = old;
}

void tls_listener_log_notes(const struct tls_listener *t, const char *address)
{
    struct slice rest = slice_of(t->set->notes.text);

    while (rest.len > 0) {
        struct slice why = slice_cut(&rest, '\n');

        log_warn(NULL, "ocsp-not-stapled", "address=%s reason=\"%.*s\"", address, SLICE_FMT(why));
    }
}

void tls_listener_poll(struct tls_listener *t, const char *address, uint64_t now_ms)
{
    struct diag d = {0};

    for (size_t i = 0; i < t->set->n; ++i)
        tls_tickets_rotate(listener_context_of(t->set->contexts[i])->tickets, now_ms,
                           t->c.o.ticket_rotation_ms);
    bool changed = tls_files_changed(&t->c.files);
    bool outdated = t->set->until != 0 && time(NULL) >= t->set->until;

    if (!changed && (t->rejected || !outdated))
        return;
    struct tls_set *set = set_create(&t->c.o, &d);

    if (set != NULL) {
        set_unref(replace_set(t, set));
        log_info(NULL, "certificates-reloaded", "address=%s", address);
        tls_listener_log_notes(t, address);
    } else if (!t->rejected) {
        log_warn(NULL, "certificates-reload-failed",
                 "address=%s reason=\"%.*s\" action=\"keep the old ones\"", address,
                 DIAG_FIRST_LINE(&d));
    }
    t->rejected = set == NULL;
    diag_fini(&d);
}
