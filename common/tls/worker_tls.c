/* SPDX-License-Identifier: Apache-2.0
 *
 * A session is only accessed by its loop; the generation stored with it shows whether it was
 * created under the present context.
 */
#include "common/tls/worker_tls.h"

#include "common/base/log.h"
#include "common/base/text.h"
#include "common/tls/tls_files.h"

#include <arpa/inet.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdlib.h>

/* A configuration, which worker_tls_take() replaces as a whole. */
struct worker_tls_config {
    struct worker_tls_options o;
    struct tls_files files; /* texts of the options */
};

struct worker_tls {
    atomic_uint refs;
    struct worker_tls_config c; /* used by the control thread */
    bool rejected; /* the files could not be used when they were last read; used by the control
                     thread */
    pthread_mutex_t lock; /* protects the following members */
    SSL_CTX *ctx;
    unsigned generation;
};

struct stored_session {
    SSL_SESSION *session;
    unsigned generation;
};

struct tls_peer {
    struct log_subject subject;
    atomic_uint refs;
    struct worker_tls *tls; /* counted */
    char *name, *application, *worker;
    bool is_address; /* NAME is an IP address */
    unsigned nloops;
    struct stored_session sessions[]; /* one for each of NLOOPS loops, and one for other threads */
};

/* ---- the context ---- */

/* Called for a session, received in the handshake or (TLS 1.3) later. 1: the reference is taken. */
static int on_session(SSL *ssl, SSL_SESSION *session)
{
    tls_peer_store_session(SSL_get_app_data(ssl), session);
    return 1;
}

static SSL_CTX *create_context(const struct worker_tls_options *o, struct diag *d)
{
    SSL_CTX *ctx = tls_context_create(TLS_client_method(), &o->context, d);

    if (ctx == NULL)
        return NULL;
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(ctx, on_session);
    SSL_CTX_set_verify(ctx, o->verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
    if (o->verify && o->ca == NULL && SSL_CTX_set_default_verify_paths(ctx) != 1)
        tls_server_complain(d, NULL, "cannot use the system's authorities");
    else if (o->verify && o->ca != NULL && SSL_CTX_load_verify_file(ctx, o->ca) != 1)
        tls_server_complain(d, o->ca, "cannot use these authorities");
    else
        return ctx;
    SSL_CTX_free(ctx);
    return NULL;
}

/* ---- trusted authorities ---- */

struct worker_tls *worker_tls_create(const struct worker_tls_options *o, struct diag *d)
{
    struct worker_tls *t = xcalloc(1, sizeof(*t));
    struct tls_context_options *c = &t->c.o.context;
    struct tls_files *f = &t->c.files;

    atomic_init(&t->refs, 1);
    pthread_mutex_init(&t->lock, NULL);
    t->c.o = *o;
    t->c.o.ca = tls_files_add(f, o->ca);
    c->certificate = tls_files_add(f, c->certificate);
    c->key = tls_files_add(f, c->key);
    tls_files_watch(f);
    c->ciphers = tls_files_add(f, c->ciphers);
    c->ciphersuites = tls_files_add(f, c->ciphersuites);
    t->ctx = create_context(&t->c.o, d);
    if (t->ctx != NULL)
        return t;
    worker_tls_unref(t);
    return NULL;
}

DEFINE_REF(worker_tls)

void worker_tls_unref(struct worker_tls *t)
{
    if (t == NULL || atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1)
        return;
    SSL_CTX_free(t->ctx);
    tls_files_fini(&t->c.files);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

/* Makes CTX the current context; its reference passes to T. */
static void replace_context(struct worker_tls *t, SSL_CTX *ctx)
{
    pthread_mutex_lock(&t->lock);
    SSL_CTX *old = t->ctx;
    t->ctx = ctx;
    ++t->generation;
    pthread_mutex_unlock(&t->lock);
    SSL_CTX_free(old);
}

void worker_tls_take(struct worker_tls *t, struct worker_tls *fresh)
{
    struct worker_tls_config old = t->c;

    SSL_CTX_up_ref(fresh->ctx);
    replace_context(t, fresh->ctx);
    t->c = fresh->c;
    fresh->c = old;
    t->rejected = false;
}

void worker_tls_poll(struct worker_tls *t, const char *application)
{
    struct diag d = {0};

    if (!tls_files_changed(&t->c.files))
        return;
    SSL_CTX *ctx = create_context(&t->c.o, &d);
    if (ctx != NULL) {
        replace_context(t, ctx);
        log_info(NULL, "worker-certificates-reloaded", "application=%s", application);
    } else if (!t->rejected) {
        log_warn(NULL, "worker-certificates-reload-failed",
                 "application=%s reason=\"%.*s\" action=\"keep the old ones\"", application,
                 DIAG_FIRST_LINE(&d));
    }
    t->rejected = ctx == NULL;
    diag_fini(&d);
}

/* ---- identities of workers ---- */

static void describe_peer(const struct log_subject *self, struct log_text *out)
{
    const struct tls_peer *p = (const struct tls_peer *)(const void *)self;

    log_put(out, "application=%s worker=%s", p->application, p->worker);
}

struct tls_peer *tls_peer_create(struct worker_tls *t, const char *server_name,
                                 const char *application, const char *worker, unsigned nloops)
{
    struct tls_peer *p = xcalloc(1, sizeof(*p) + (nloops + 1) * sizeof(p->sessions[0]));
    struct in6_addr ip;

    atomic_init(&p->refs, 1);
    p->tls = worker_tls_ref(t);
    p->name = xstrdup(server_name);
    p->subject.describe = describe_peer;
    p->application = xstrdup(application);
    p->worker = xstrdup(worker);
    p->is_address =
        inet_pton(AF_INET, server_name, &ip) == 1 || inet_pton(AF_INET6, server_name, &ip) == 1;
    p->nloops = nloops;
    return p;
}

DEFINE_REF(tls_peer)

void tls_peer_unref(struct tls_peer *p)
{
    if (p == NULL || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (unsigned i = 0; i <= p->nloops; ++i)
        SSL_SESSION_free(p->sessions[i].session);
    worker_tls_unref(p->tls);
    free(p->name);
    free(p->application);
    free(p->worker);
    free(p);
}

const char *tls_peer_name(const struct tls_peer *p)
{
    return p->name;
}

bool tls_peer_is(const struct tls_peer *p, const struct worker_tls *t, const char *server_name)
{
    return p->tls == t && strcmp(p->name, server_name) == 0;
}

static struct stored_session *session_of(struct tls_peer *p, unsigned loop_index)
{
    return &p->sessions[loop_index < p->nloops ? loop_index : p->nloops];
}

void tls_peer_store_session(const struct tls_peer_use *use, SSL_SESSION *session)
{
    struct stored_session *k = session_of(use->peer, use->loop_index);

    SSL_SESSION_free(k->session);
    *k = (struct stored_session){session, use->generation};
}

SSL *tls_peer_begin(struct tls_peer *p, unsigned loop_index, struct tls_peer_use *use)
{
    struct worker_tls *t = p->tls;
    const struct stored_session *k = session_of(p, loop_index);

    pthread_mutex_lock(&t->lock);
    SSL_CTX *ctx = t->ctx;
    SSL_CTX_up_ref(ctx);
    *use = (struct tls_peer_use){tls_peer_ref(p), loop_index, t->generation};
    pthread_mutex_unlock(&t->lock);
    SSL *ssl = SSL_new(ctx);
    SSL_CTX_free(ctx);
    if (ssl == NULL)
        return NULL;
    /* The name that the certificate must match, and SNI. */
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
    bool good = false;
    if (p->is_address) {
        good = X509_VERIFY_PARAM_set1_ip_asc(param, p->name) == 1;
    } else {
        X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
        good = X509_VERIFY_PARAM_set1_host(param, p->name, 0) == 1 &&
               SSL_set_tlsext_host_name(ssl, p->name) == 1;
    }
    if (!good) {
        SSL_free(ssl);
        return NULL;
    }
    if (k->session != NULL && k->generation == use->generation)
        SSL_set_session(ssl, k->session);
    SSL_set_app_data(ssl, use);
    SSL_set_connect_state(ssl);
    return ssl;
}
