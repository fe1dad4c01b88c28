/* SPDX-License-Identifier: Apache-2.0
 *
 * AES-256-CBC and HMAC-SHA256, as RFC 5077 section 4 recommends. The library applies them with the
 * contexts that are set up here; see SSL_CTX_set_tlsext_ticket_key_evp_cb(3).
 */
#include "common/tls/tls_tickets.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <stdlib.h>

struct ticket_key {
    unsigned char name[TICKET_NAME_BYTES];
    unsigned char cipher[32];
    unsigned char mac[32];
};

struct tls_tickets {
    _Atomic unsigned refs;
    uint64_t newest_since_ms; /* used by the control thread; 0: the interval has not started */
    EVP_CIPHER *cipher;       /* fetched once, as the look-up takes longer than its use */
    pthread_mutex_t lock;
    struct ticket_key keys[TICKET_KEYS_KEPT]; /* protected by the lock; the newest first */
    size_t n;
};

static bool tickets_make_key(struct ticket_key *k)
{
    return RAND_bytes(k->name, sizeof(k->name)) == 1 &&
           RAND_priv_bytes(k->cipher, sizeof(k->cipher)) == 1 &&
           RAND_priv_bytes(k->mac, sizeof(k->mac)) == 1;
}

struct tls_tickets *tls_tickets_create(void)
{
    struct tls_tickets *t = xcalloc(1, sizeof(*t));

    t->cipher = EVP_CIPHER_fetch(NULL, "AES-256-CBC", NULL);
    if (t->cipher == NULL || !tickets_make_key(&t->keys[0])) {
        EVP_CIPHER_free(t->cipher);
        free(t);
        return NULL;
    }
    t->n = 1;
    atomic_init(&t->refs, 1);
    pthread_mutex_init(&t->lock, NULL);
    return t;
}

DEFINE_REF(tls_tickets)

void tls_tickets_unref(struct tls_tickets *t)
{
    if (t == NULL || atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1)
        return;
    pthread_mutex_destroy(&t->lock);
    OPENSSL_cleanse(t->keys, sizeof(t->keys));
    EVP_CIPHER_free(t->cipher);
    free(t);
}

void tls_tickets_rotate(struct tls_tickets *t, uint64_t now_ms, uint64_t interval_ms)
{
    struct ticket_key fresh;

    if (t->newest_since_ms == 0)
        t->newest_since_ms = now_ms;
    /* Without random bytes the old key remains in use until the next attempt. */
    if (now_ms - t->newest_since_ms < interval_ms || !tickets_make_key(&fresh))
        return;
    t->newest_since_ms = now_ms;
    pthread_mutex_lock(&t->lock);
    memmove(&t->keys[1], &t->keys[0], (TICKET_KEYS_KEPT - 1) * sizeof(t->keys[0]));
    t->keys[0] = fresh;
    if (t->n < TICKET_KEYS_KEPT)
        ++t->n;
    pthread_mutex_unlock(&t->lock);
    OPENSSL_cleanse(&fresh, sizeof(fresh));
}

static bool set_mac(EVP_MAC_CTX *mac, struct ticket_key *k)
{
    char digest[] = "SHA256";
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, k->mac, sizeof(k->mac)),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end(),
    };

    return EVP_MAC_CTX_set_params(mac, params) == 1;
}

bool tls_tickets_encrypt(struct tls_tickets *t, unsigned char name[TICKET_NAME_BYTES],
                         unsigned char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac)
{
    struct ticket_key k;

    pthread_mutex_lock(&t->lock);
    k = t->keys[0];
    pthread_mutex_unlock(&t->lock);
    memcpy(name, k.name, sizeof(k.name));
    bool good = RAND_bytes(iv, EVP_CIPHER_get_iv_length(t->cipher)) == 1 &&
                EVP_EncryptInit_ex(cipher, t->cipher, NULL, k.cipher, iv) == 1 && set_mac(mac, &k);
    OPENSSL_cleanse(&k, sizeof(k));
    return good;
}

int tls_tickets_decrypt(struct tls_tickets *t, const unsigned char name[TICKET_NAME_BYTES],
                        const unsigned char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac)
{
    struct ticket_key k;
    size_t at = 0;

    pthread_mutex_lock(&t->lock);
    while (at < t->n && memcmp(t->keys[at].name, name, TICKET_NAME_BYTES) != 0)
        ++at;
    bool found = at < t->n;
    if (found)
        k = t->keys[at];
    pthread_mutex_unlock(&t->lock);
    if (!found)
        return 0;
    bool good = EVP_DecryptInit_ex(cipher, t->cipher, NULL, k.cipher, iv) == 1 && set_mac(mac, &k);
    OPENSSL_cleanse(&k, sizeof(k));
    if (!good)
        return -1;
    return at == 0 ? 1 : 2;
}
