/* SPDX-License-Identifier: Apache-2.0
 *
 * Listeners keep one outer context for their whole life, without a certificate. At each ClientHello
 * a callback puts the one for the client's server name in its place, of the set in force; so a
 * renewed certificate needs no new listener, and connections that are up are left alone. (The
 * callback is the outer context's alone: a second ClientHello of one handshake, after a retry
 * request, stays where the first one came to.) Lock: around the pointer to the set in force, held
 * to take a reference.
 */
#include "lb/tls.h"

#include "common/base/log.h"
#include "common/tls/tls_server.h"
#include "common/wire/tls_server_name.h"
#include "lb/tls_tickets.h"

#include <pthread.h>
#include <stdlib.h>

struct tls_listener {
    SSL_CTX *outer;
    struct tls_config *config; /* what the set was made of */
    struct tls_files *tried;   /* what could not be used; NULL: the set is what the files say */
    pthread_mutex_t lock;
    struct tls_set *set; /* under the lock; counted. Only the control thread changes it */
};

static struct slice server_name(SSL *ssl)
{
    const unsigned char *bytes = NULL;
    size_t len = 0;
    struct slice name = SLICE_NULL;

    if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &bytes, &len) == 1 &&
        tls_server_name((struct slice){(const char *)bytes, len}, &name))
        return name;
    return SLICE_NULL;
}

/* On the loop of a connection. */
static int on_client_hello(SSL *ssl, int *alert, void *context)
{
    struct tls_listener *t = context;

    (void)alert;
    pthread_mutex_lock(&t->lock);
    struct tls_set *set = tls_set_ref(t->set);
    pthread_mutex_unlock(&t->lock);
    tls_server_switch(ssl, tls_set_choose(set, server_name(ssl)));
    tls_set_unref(set);
    return SSL_CLIENT_HELLO_SUCCESS;
}

/*
 * On the loop of a connection. The library asks the context that a connection began with; whose
 * keys they are, the one says that it has been switched to. A ticket of TLS 1.3 is used once, so
 * each is followed by a new one (2).
 */
static int on_ticket(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
                     EVP_MAC_CTX *mac, int sealing)
{
    struct tls_tickets *tickets = tls_set_tickets(ssl);

    if (sealing)
        return tls_tickets_seal(tickets, name, iv, cipher, mac) ? 1 : -1;
    int found = tls_tickets_open(tickets, name, iv, cipher, mac);

    return found == 1 && SSL_version(ssl) >= TLS1_3_VERSION ? 2 : found;
}

static SSL_CTX *create_outer(const struct tls_config *config, struct diag *d)
{
    static const unsigned char none[] = "outer";
    struct tls_server_options o = {.http2 = config->http2};
    SSL_CTX *ctx = tls_server_create(&o, d);

    /* The one that is chosen brings its own, if the two were the same before (SSL_set_SSL_CTX). */
    if (ctx != NULL && SSL_CTX_set_session_id_context(ctx, none, sizeof(none)) != 1)
        abort();
    if (ctx != NULL && SSL_CTX_set_tlsext_ticket_key_evp_cb(ctx, on_ticket) != 1)
        abort();
    return ctx;
}

struct tls_listener *tls_listener_create(struct tls_config *config, struct diag *d)
{
    struct tls_set *set = tls_set_create(config, d);
    SSL_CTX *outer = set != NULL ? create_outer(config, d) : NULL;

    if (outer == NULL) {
        tls_set_unref(set);
        return NULL;
    }
    struct tls_listener *t = xcalloc(1, sizeof(*t));
    pthread_mutex_init(&t->lock, NULL);
    t->outer = outer;
    t->set = set;
    t->config = tls_config_ref(config);
    SSL_CTX_set_client_hello_cb(t->outer, on_client_hello, t);
    return t;
}

void tls_listener_destroy(struct tls_listener *t)
{
    if (t == NULL)
        return;
    SSL_CTX_free(t->outer);
    tls_set_unref(t->set);
    tls_config_unref(t->config);
    tls_files_destroy(t->tried);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

SSL_CTX *tls_listener_context(struct tls_listener *t)
{
    return t->outer;
}

void tls_listener_take(struct tls_listener *t, struct tls_config *config, struct tls_set *set)
{
    struct tls_set *old;

    tls_config_ref(config);
    tls_config_unref(t->config);
    t->config = config;
    tls_files_destroy(t->tried);
    t->tried = NULL;
    tls_set_inherit(set, t->set);
    tls_set_ref(set);
    pthread_mutex_lock(&t->lock);
    old = t->set;
    t->set = set;
    pthread_mutex_unlock(&t->lock);
    tls_set_unref(old);
}

static void say_kept(const char *address, const struct diag *d)
{
    struct slice rest = slice_of(d->text);
    struct slice why = slice_cut(&rest, '\n');

    log_warn(NULL, "certificates-kept", "address=%s why=\"%.*s\" action=\"the old ones stay\"",
             address, SLICE_FMT(why));
}

void tls_listener_say_notes(const struct tls_listener *t, const char *address)
{
    struct slice rest = slice_of(tls_set_notes(t->set));

    while (rest.len > 0) {
        struct slice why = slice_cut(&rest, '\n');

        log_warn(NULL, "ocsp-not-stapled", "address=%s why=\"%.*s\"", address, SLICE_FMT(why));
    }
}

void tls_listener_look(struct tls_listener *t, const char *address, uint64_t now_ms)
{
    tls_set_rotate(t->set, now_ms, t->config->s.ticket_rotation_ms);

    struct tls_files *now = tls_files_look(t->config);
    struct diag d = {0};

    bool same = tls_files_same(now, t->tried != NULL ? t->tried : tls_set_files(t->set));

    if (same && (t->tried != NULL || !tls_set_outdated(t->set, time(NULL)))) {
        tls_files_destroy(now);
        return;
    }
    struct tls_set *set = tls_set_create(t->config, &d);
    if (set != NULL) {
        tls_files_destroy(now);
        tls_listener_take(t, t->config, set);
        log_info(NULL, "certificates-renewed", "address=%s", address);
        tls_listener_say_notes(t, address);
    } else {
        if (t->tried == NULL)
            say_kept(address, &d);
        tls_files_destroy(t->tried);
        t->tried = now;
    }
    tls_set_unref(set);
    diag_fini(&d);
}
