/* SPDX-License-Identifier: Apache-2.0
 *
 * Listeners keep one outer context for their whole life. At each ClientHello a callback puts the
 * present one in its place (SSL_set_SSL_CTX, as one does for SNI), so a renewed certificate needs
 * no new listener, and connections that are up are left alone. Lock: around the pointer to the
 * present context, held to take a reference.
 */
#include "lb/tls.h"

#include <openssl/ssl.h>
#include <pthread.h>
#include <stdlib.h>

struct tls_certificate {
    SSL_CTX *outer;
    pthread_mutex_t lock;
    SSL_CTX *present; /* under the lock; counted */
};

/* On the loop of a connection. */
static int on_client_hello(SSL *ssl, int *alert, void *context)
{
    struct tls_certificate *t = context;

    (void)alert;
    pthread_mutex_lock(&t->lock);
    SSL_CTX *present = t->present;
    SSL_CTX_up_ref(present);
    pthread_mutex_unlock(&t->lock);
    if (SSL_get_SSL_CTX(ssl) != present)
        SSL_set_SSL_CTX(ssl, present);
    SSL_CTX_free(present);
    return SSL_CLIENT_HELLO_SUCCESS;
}

struct tls_certificate *tls_certificate_create(const char *certificate_file, const char *key_file,
                                               bool http2, struct diag *d)
{
    SSL_CTX *ctx = http_tls_create(certificate_file, key_file, http2, d);

    if (ctx == NULL)
        return NULL;
    struct tls_certificate *t = xcalloc(1, sizeof(*t));
    pthread_mutex_init(&t->lock, NULL);
    t->outer = ctx;
    t->present = ctx;
    SSL_CTX_up_ref(ctx);
    SSL_CTX_set_client_hello_cb(t->outer, on_client_hello, t);
    return t;
}

void tls_certificate_destroy(struct tls_certificate *t)
{
    if (t == NULL)
        return;
    SSL_CTX_free(t->present);
    SSL_CTX_free(t->outer);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

SSL_CTX *tls_certificate_context(struct tls_certificate *t)
{
    return t->outer;
}

void tls_certificate_take(struct tls_certificate *t, struct tls_certificate *from)
{
    SSL_CTX *old;

    /* Its own callback would look at FROM, which may be gone: a second ClientHello of one handshake
     * (after a retry request) comes to the context that took its place. */
    SSL_CTX_set_client_hello_cb(from->outer, NULL, NULL);
    SSL_CTX_up_ref(from->outer);
    pthread_mutex_lock(&t->lock);
    old = t->present;
    t->present = from->outer;
    pthread_mutex_unlock(&t->lock);
    SSL_CTX_free(old);
}
