/* SPDX-License-Identifier: Apache-2.0
 *
 * Listeners keep one outer context, without a certificate; at each ClientHello the one in force is
 * put in its place. Each of these has an identity of its own for sessions, so that none is resumed
 * across a change of certificate or authorities.
 */
#include "common/tls/listen_tls.h"

#include "common/base/log.h"
#include "common/base/text.h"
#include "common/tls/tls_watch.h"

#include <openssl/rand.h>
#include <stdlib.h>

struct listen_tls {
    struct listen_tls_options options;
    char *texts[5];
    SSL_CTX *outer, *inner;
    struct tls_watch files; /* as they were when they were last read */
    bool refused;           /* what they say now could not be used */
};

static void look_at(const struct listen_tls_options *o, struct tls_watch *out)
{
    const char *const paths[TLS_WATCH_FILES] = {o->certificate, o->key, o->client_ca};

    tls_watch_look(out, paths);
}

static bool ask_clients(SSL_CTX *ctx, const struct listen_tls_options *o, struct diag *d)
{
    STACK_OF(X509_NAME) *names = NULL;
    int mode = SSL_VERIFY_PEER;

    if (o->verify == LISTEN_TLS_OFF)
        return true;
    if (SSL_CTX_load_verify_file(ctx, o->client_ca) != 1 ||
        (names = SSL_load_client_CA_file(o->client_ca)) == NULL) {
        tls_server_complain(d, o->client_ca, "cannot use these authorities");
        return false;
    }
    SSL_CTX_set_client_CA_list(ctx, names);
    if (o->verify == LISTEN_TLS_REQUIRED)
        mode |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
    SSL_CTX_set_verify(ctx, mode, NULL);
    return true;
}

static bool identify(SSL_CTX *ctx, struct diag *d)
{
    unsigned char id[16];

    if (RAND_bytes(id, sizeof(id)) == 1 && SSL_CTX_set_session_id_context(ctx, id, sizeof(id)) == 1)
        return true;
    tls_server_complain(d, NULL, "cannot set up TLS sessions");
    return false;
}

static SSL_CTX *create_inner(const struct listen_tls_options *o, struct diag *d)
{
    struct tls_server_options ho = {.certificate_file = o->certificate,
                                    .key_file = o->key,
                                    .tls13_only = o->tls13_only,
                                    .ciphers = o->ciphers,
                                    .ciphersuites = o->ciphersuites};
    SSL_CTX *ctx = tls_server_create(&ho, d);

    if (ctx == NULL || (ask_clients(ctx, o, d) && identify(ctx, d)))
        return ctx;
    SSL_CTX_free(ctx);
    return NULL;
}

static int on_client_hello(SSL *ssl, int *alert, void *context)
{
    const struct listen_tls *t = context;

    (void)alert;
    tls_server_switch(ssl, t->inner);
    return SSL_CLIENT_HELLO_SUCCESS;
}

static SSL_CTX *create_outer(const struct listen_tls_options *o, struct diag *d)
{
    static const unsigned char none[] = "outer";
    struct tls_server_options ho = {.ciphers = o->ciphers, .ciphersuites = o->ciphersuites};
    SSL_CTX *ctx = tls_server_create(&ho, d);

    /* The inner one brings its own, if the two were the same before (SSL_set_SSL_CTX). */
    if (ctx != NULL && SSL_CTX_set_session_id_context(ctx, none, sizeof(none)) != 1)
        abort();
    return ctx;
}

static const char *keep_text(struct listen_tls *t, size_t i, const char *text)
{
    t->texts[i] = xstrdup(text);
    return t->texts[i];
}

struct listen_tls *listen_tls_create(const struct listen_tls_options *o, struct diag *d)
{
    struct listen_tls *t = xcalloc(1, sizeof(*t));

    look_at(o, &t->files);
    t->options = *o;
    t->options.certificate = keep_text(t, 0, o->certificate);
    t->options.key = keep_text(t, 1, o->key);
    t->options.client_ca = keep_text(t, 2, o->client_ca);
    t->options.ciphers = keep_text(t, 3, o->ciphers);
    t->options.ciphersuites = keep_text(t, 4, o->ciphersuites);
    t->inner = create_inner(&t->options, d);
    t->outer = t->inner != NULL ? create_outer(&t->options, d) : NULL;
    if (t->outer == NULL) {
        listen_tls_destroy(t);
        return NULL;
    }
    SSL_CTX_set_client_hello_cb(t->outer, on_client_hello, t);
    return t;
}

void listen_tls_destroy(struct listen_tls *t)
{
    if (t == NULL)
        return;
    SSL_CTX_free(t->outer);
    SSL_CTX_free(t->inner);
    for (size_t i = 0; i < ARRAY_LEN(t->texts); ++i)
        free(t->texts[i]);
    free(t);
}

SSL_CTX *listen_tls_context(struct listen_tls *t)
{
    return t->outer;
}

/* All but the outer contexts, which their listeners know, changes hands. */
void listen_tls_take(struct listen_tls *t, struct listen_tls *fresh)
{
    struct listen_tls old = *t;
    SSL_CTX *fresh_outer = fresh->outer;

    *t = *fresh;
    t->outer = old.outer;
    *fresh = old;
    fresh->outer = fresh_outer;
}

static void say_kept(const struct diag *d)
{
    struct slice rest = slice_of(d->text != NULL ? d->text : "");
    struct slice why = slice_cut(&rest, '\n');

    log_warn(NULL, "certificates-kept", "why=\"%.*s\" action=\"the old ones stay\"",
             SLICE_FMT(why));
}

void listen_tls_look(struct listen_tls *t)
{
    struct tls_watch now;
    struct diag d = {0};

    look_at(&t->options, &now);
    if (tls_watch_same(&now, &t->files))
        return;
    t->files = now;
    SSL_CTX *ctx = create_inner(&t->options, &d);
    if (ctx != NULL) {
        SSL_CTX_free(t->inner);
        t->inner = ctx;
        log_info(NULL, "certificates-renewed", "certificate=%s", t->options.certificate);
    } else if (!t->refused) {
        say_kept(&d);
    }
    t->refused = ctx == NULL;
    diag_fini(&d);
}
