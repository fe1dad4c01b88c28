/* SPDX-License-Identifier: Apache-2.0 */
#include "common/tls/tls_tickets.h"

#include <openssl/crypto.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

struct bench {
    EVP_CIPHER_CTX *cipher;
    EVP_MAC *hmac;
    EVP_MAC_CTX *mac;
};

static void set_up(struct bench *b)
{
    b->cipher = EVP_CIPHER_CTX_new();
    b->hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    b->mac = EVP_MAC_CTX_new(b->hmac);
    ASSERT(b->cipher != NULL && b->mac != NULL);
}

static void tear_down(struct bench *b)
{
    EVP_CIPHER_CTX_free(b->cipher);
    EVP_MAC_CTX_free(b->mac);
    EVP_MAC_free(b->hmac);
}

struct sealed {
    unsigned char name[TICKET_NAME_BYTES];
    unsigned char iv[EVP_MAX_IV_LENGTH];
    unsigned char bytes[64];
    int len;
};

static void seal(struct bench *b, struct tls_tickets *t, struct sealed *s)
{
    int more = 0;

    ASSERT(tls_tickets_encrypt(t, s->name, s->iv, b->cipher, b->mac));
    ASSERT(EVP_EncryptUpdate(b->cipher, s->bytes, &s->len, (const unsigned char *)"ticket", 6) ==
           1);
    ASSERT(EVP_EncryptFinal_ex(b->cipher, s->bytes + s->len, &more) == 1);
    s->len += more;
}

/* What tls_tickets_decrypt says; when it is more than 0, the ticket has been read too. */
static int open_sealed(struct bench *b, struct tls_tickets *t, const struct sealed *s)
{
    unsigned char out[64];
    int len = 0;
    int more = 0;
    int found = tls_tickets_decrypt(t, s->name, s->iv, b->cipher, b->mac);

    if (found <= 0)
        return found;
    ASSERT(EVP_DecryptUpdate(b->cipher, out, &len, s->bytes, s->len) == 1);
    ASSERT(EVP_DecryptFinal_ex(b->cipher, out + len, &more) == 1);
    ASSERT(len + more == 6 && memcmp(out, "ticket", 6) == 0);
    return found;
}

static void a_ticket_is_opened_for_two_rotations_and_then_no_more(void **state)
{
    struct tls_tickets *t = tls_tickets_create();
    struct bench b;
    struct sealed s;

    (void)state;
    set_up(&b);
    tls_tickets_rotate(t, 5000, 1000);
    seal(&b, t, &s);
    assert_int_equal(open_sealed(&b, t, &s), 1);
    tls_tickets_rotate(t, 5999, 1000);
    assert_int_equal(open_sealed(&b, t, &s), 1);
    tls_tickets_rotate(t, 6000, 1000);
    assert_int_equal(open_sealed(&b, t, &s), 2);
    tls_tickets_rotate(t, 7000, 1000);
    assert_int_equal(open_sealed(&b, t, &s), 2);
    tls_tickets_rotate(t, 8000, 1000);
    assert_int_equal(open_sealed(&b, t, &s), 0);
    seal(&b, t, &s);
    assert_int_equal(open_sealed(&b, t, &s), 1);
    tear_down(&b);
    tls_tickets_unref(t);
}

static void another_sets_ticket_is_not_opened(void **state)
{
    struct tls_tickets *one = tls_tickets_create();
    struct tls_tickets *other = tls_tickets_create();
    struct bench b;
    struct sealed s;

    (void)state;
    set_up(&b);
    seal(&b, one, &s);
    assert_int_equal(open_sealed(&b, other, &s), 0);
    tear_down(&b);
    tls_tickets_unref(one);
    tls_tickets_unref(other);
    tls_tickets_unref(NULL);
}

static void *use(void *context)
{
    struct tls_tickets *t = context;
    struct bench b;
    struct sealed s;

    set_up(&b);
    for (int i = 0; i < 500; ++i) {
        seal(&b, t, &s);
        ASSERT(open_sealed(&b, t, &s) >= 0);
    }
    tear_down(&b);
    tls_tickets_unref(t);
    return NULL;
}

static void loops_seal_and_open_while_keys_are_rotated(void **state)
{
    struct tls_tickets *t = tls_tickets_create();
    pthread_t threads[2];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(threads); ++i)
        ASSERT(pthread_create(&threads[i], NULL, use, tls_tickets_ref(t)) == 0);
    for (uint64_t now_ms = 1; now_ms < 500; ++now_ms)
        tls_tickets_rotate(t, now_ms, 1);
    for (size_t i = 0; i < ARRAY_LEN(threads); ++i)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    tls_tickets_unref(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ticket_is_opened_for_two_rotations_and_then_no_more),
        cmocka_unit_test(another_sets_ticket_is_not_opened),
        cmocka_unit_test(loops_seal_and_open_while_keys_are_rotated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
