/* SPDX-License-Identifier: Apache-2.0
 *
 * A context has its set's names and its own number with it (as ex_data), which go with the last
 * connection that has chosen it; the set itself may be gone by then.
 */
#include "lb/tls_set.h"

#include "common/tls/tls_server.h"
#include "lb/tls_client.h"
#include "lb/tls_names.h"
#include "lb/tls_ocsp.h"
#include "lb/tls_tickets.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct tls_set {
    _Atomic unsigned refs;
    SSL_CTX **contexts;
    size_t n;
    struct tls_names *names; /* -> index of contexts */
    struct tls_files *files;
    struct diag notes;
    time_t until; /* the first OCSP response ends; 0: there is none */
};

/* What a context knows of its set. */
struct place {
    struct tls_names *names;
    unsigned index;
    struct tls_tickets *tickets;
    struct tls_ocsp *ocsp;                 /* or NULL */
    unsigned char digest[EVP_MAX_MD_SIZE]; /* of what a session of it was based on */
    unsigned digest_len;
};

/* ---- places ---- */

static void free_place(void *parent, void *place, CRYPTO_EX_DATA *data, int index, long argl,
                       void *argp)
{
    struct place *p = place;

    (void)parent;
    (void)data;
    (void)index;
    (void)argl;
    (void)argp;
    if (p == NULL)
        return;
    tls_names_unref(p->names);
    tls_tickets_unref(p->tickets);
    tls_ocsp_destroy(p->ocsp);
    free(p);
}

/* The library gives it out once, and it is constant then. */
static int place_index;
static pthread_once_t place_index_made = PTHREAD_ONCE_INIT;

static void make_place_index(void)
{
    place_index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, free_place);
    ASSERT(place_index >= 0);
}

static void set_place(SSL_CTX *ctx, struct tls_names *names, unsigned index)
{
    struct place *p = xcalloc(1, sizeof(*p));

    pthread_once(&place_index_made, make_place_index);
    p->names = tls_names_ref(names);
    p->index = index;
    if (SSL_CTX_set_ex_data(ctx, place_index, p) != 1)
        abort(); /* out of memory */
}

static struct place *place_of(const SSL_CTX *ctx)
{
    return SSL_CTX_get_ex_data(ctx, place_index);
}

/* ---- reading ---- */

struct reading {
    const struct tls_config *config;
    struct tls_set *set;
    struct tls_names **names; /* per context: what it was opened for */
    struct diag *d;
};

static int key_kind(SSL_CTX *ctx)
{
    return EVP_PKEY_get_base_id(SSL_CTX_get0_privatekey(ctx));
}

static bool has_kind(SSL_CTX *ctx, int kind)
{
    bool found = false;

    for (long more = SSL_CTX_set_current_cert(ctx, SSL_CERT_SET_FIRST); more == 1 && !found;
         more = SSL_CTX_set_current_cert(ctx, SSL_CERT_SET_NEXT))
        found = key_kind(ctx) == kind;
    SSL_CTX_set_current_cert(ctx, SSL_CERT_SET_FIRST);
    return found;
}

/* The context that takes one more certificate with these names and this kind of key, or N. */
static size_t find_twin(const struct reading *r, const struct tls_names *names, int kind)
{
    size_t i = 0;

    while (i < r->set->n &&
           (!tls_names_same(r->names[i], names) || has_kind(r->set->contexts[i], kind)))
        ++i;
    return i;
}

/* On the loop of a connection. */
static int on_status(SSL *ssl, void *context)
{
    (void)context;
    return tls_ocsp_staple(place_of(SSL_get_SSL_CTX(ssl))->ocsp, ssl);
}

/* FILE (NULL: none) for FROM's certificate, which is TO's to show. */
static void add_ocsp(struct tls_set *s, SSL_CTX *to, SSL_CTX *from, const char *file)
{
    struct place *p = place_of(to);
    struct tls_ocsp *o = file != NULL ? tls_ocsp_read(file, from, &s->notes) : NULL;

    if (o == NULL)
        return;
    if (s->until == 0 || o->until < s->until)
        s->until = o->until;
    o->next = p->ocsp;
    p->ocsp = o;
    SSL_CTX_set_tlsext_status_cb(to, on_status);
}

/* CTX becomes one of the set's, or goes into one of them. */
static bool place_context(struct reading *r, SSL_CTX *ctx, const struct certificate_settings *from)
{
    const char *file = from->certificate;
    struct tls_names *names = tls_names_create();
    struct tls_set *s = r->set;
    X509 *certificate = SSL_CTX_get0_certificate(ctx);

    if (!tls_names_add(names, certificate, 0)) {
        diag_add(r->d, file, 0, 0, "more than %d names", TLS_CERTIFICATE_NAMES_MAX);
        tls_names_unref(names);
        SSL_CTX_free(ctx);
        return false;
    }
    tls_names_sort(names);
    size_t twin = find_twin(r, names, key_kind(ctx));
    if (twin == s->n) {
        /* There were no more a moment ago. */
        bool few = tls_names_add(s->names, certificate, (unsigned)s->n);
        ASSERT(few);
        r->names[s->n] = names;
        set_place(ctx, s->names, (unsigned)s->n);
        add_ocsp(s, ctx, ctx, from->ocsp);
        s->contexts[s->n++] = ctx;
        return true;
    }
    add_ocsp(s, s->contexts[twin], ctx, from->ocsp);
    bool added = tls_server_add(s->contexts[twin], ctx);
    if (!added)
        tls_server_complain(r->d, file, "cannot stand beside the other one for the same names");
    tls_names_unref(names);
    SSL_CTX_free(ctx);
    return added;
}

static bool read_certificate(struct reading *r, const struct certificate_settings *s)
{
    const struct tls_settings *t = &r->config->s;
    struct tls_server_options o = {
        .certificate_file = s->certificate,
        .key_file = s->key,
        .http2 = r->config->http2,
        .tls13_only = t->min_version == TLS_VERSION_13,
        .ciphers = t->ciphers,
        .ciphersuites = t->ciphersuites,
    };
    SSL_CTX *ctx = tls_server_create(&o, r->d);

    return ctx != NULL && place_context(r, ctx, s);
}

/* A session may be resumed where the same certificates are shown, and the same ones (BASIS) are
 * asked of clients; and nowhere else. */
static bool set_session_context(SSL_CTX *ctx, struct place *p, struct slice basis)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    bool good = md != NULL && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1 &&
                EVP_DigestUpdate(md, basis.p, basis.len) == 1;

    for (long more = SSL_CTX_set_current_cert(ctx, SSL_CERT_SET_FIRST); good && more == 1;
         more = SSL_CTX_set_current_cert(ctx, SSL_CERT_SET_NEXT)) {
        good = X509_digest(SSL_CTX_get0_certificate(ctx), EVP_sha256(), digest, &len) == 1 &&
               EVP_DigestUpdate(md, digest, len) == 1;
    }
    SSL_CTX_set_current_cert(ctx, SSL_CERT_SET_FIRST);
    good = good && EVP_DigestFinal_ex(md, p->digest, &p->digest_len) == 1 &&
           SSL_CTX_set_session_id_context(ctx, p->digest, p->digest_len) == 1;
    EVP_MD_CTX_free(md);
    return good;
}

static bool finish_context(struct reading *r, SSL_CTX *ctx)
{
    const struct tls_settings *t = &r->config->s;
    struct place *p = place_of(ctx);
    struct text basis = {0};
    bool asked = t->client_verify == CLIENT_VERIFY_OFF ||
                 tls_client_ask(ctx, t->client_ca, t->client_verify, &basis, r->d);

    p->tickets = tls_tickets_create();
    bool good = p->tickets != NULL && set_session_context(ctx, p, text_slice(&basis));
    text_fini(&basis);
    if (asked && !good)
        tls_server_complain(r->d, NULL, "cannot set up TLS sessions");
    return asked && good;
}

static bool finish_contexts(struct reading *r)
{
    for (size_t i = 0; i < r->set->n; ++i) {
        if (!finish_context(r, r->set->contexts[i]))
            return false;
    }
    return true;
}

struct tls_set *tls_set_create(const struct tls_config *c, struct diag *d)
{
    struct tls_set *s = xcalloc(1, sizeof(*s));
    struct reading r = {.config = c, .set = s, .d = d};
    bool good = true;

    atomic_init(&s->refs, 1);
    s->files = tls_files_look(c);
    s->names = tls_names_create();
    s->contexts = xcalloc(c->ncertificates, sizeof(SSL_CTX *));
    r.names = xcalloc(c->ncertificates, sizeof(struct tls_names *));
    for (size_t i = 0; i < c->ncertificates && good; ++i)
        good = read_certificate(&r, &c->certificates[i]);
    tls_names_sort(s->names);
    good = good && finish_contexts(&r);
    for (size_t i = 0; i < s->n; ++i)
        tls_names_unref(r.names[i]);
    free(r.names);
    if (good)
        return s;
    tls_set_unref(s);
    return NULL;
}

struct tls_set *tls_set_ref(struct tls_set *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void tls_set_unref(struct tls_set *s)
{
    if (s == NULL || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < s->n; ++i)
        SSL_CTX_free(s->contexts[i]);
    free(s->contexts);
    tls_names_unref(s->names);
    tls_files_destroy(s->files);
    diag_fini(&s->notes);
    free(s);
}

const struct tls_files *tls_set_files(const struct tls_set *s)
{
    return s->files;
}

const char *tls_set_notes(const struct tls_set *s)
{
    return s->notes.text;
}

bool tls_set_outdated(const struct tls_set *s, time_t now)
{
    return s->until != 0 && now >= s->until;
}

/* ---- sessions ---- */

struct tls_tickets *tls_set_tickets(const SSL *ssl)
{
    return place_of(SSL_get_SSL_CTX(ssl))->tickets;
}

static void inherit(struct place *p, const struct place *old)
{
    if (p->digest_len != old->digest_len || memcmp(p->digest, old->digest, p->digest_len) != 0)
        return;
    tls_tickets_ref(old->tickets);
    tls_tickets_unref(p->tickets);
    p->tickets = old->tickets;
}

void tls_set_inherit(struct tls_set *s, const struct tls_set *old)
{
    for (size_t i = 0; i < s->n; ++i) {
        for (size_t k = 0; k < old->n; ++k)
            inherit(place_of(s->contexts[i]), place_of(old->contexts[k]));
    }
}

void tls_set_rotate(struct tls_set *s, uint64_t now_ms, uint64_t interval_ms)
{
    for (size_t i = 0; i < s->n; ++i)
        tls_tickets_rotate(place_of(s->contexts[i])->tickets, now_ms, interval_ms);
}

/* ---- choosing ---- */

SSL_CTX *tls_set_choose(const struct tls_set *s, struct slice name)
{
    unsigned owner = 0;

    if (name.p == NULL || !tls_names_find(s->names, name, &owner))
        owner = 0;
    return s->contexts[owner];
}

bool tls_set_misdirected(const SSL *ssl, struct slice host)
{
    const struct place *p = place_of(SSL_get_SSL_CTX(ssl));
    unsigned owner = 0;

    return p != NULL && tls_names_find(p->names, slice_cut(&host, ':'), &owner) &&
           owner != p->index;
}
