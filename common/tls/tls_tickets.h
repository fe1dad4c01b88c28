/* SPDX-License-Identifier: Apache-2.0
 *
 * The session ticket keys of one set of certificates. Tickets are encrypted with the newest key and
 * decrypted with any of them. Shared by all loops, and by contexts created when the same
 * certificates are re-read. Reference counted; any thread. Lock: internal, protects the keys.
 */
#pragma once

#include "common/base/base.h"

#include <openssl/evp.h>

enum {
    /* The newest key and previous ones: a ticket can be decrypted for at least two rotations. */
    TICKET_KEYS_KEPT = 3,
    TICKET_NAME_BYTES = 16, /* RFC 5077 section 4 */
};

struct tls_tickets;

/* Creates a set with one key. Returns NULL if the library has no random bytes. */
struct tls_tickets *tls_tickets_create(void);
struct tls_tickets *tls_tickets_ref(struct tls_tickets *t);
/* NULL is allowed. */
void tls_tickets_unref(struct tls_tickets *t);
/*
 * Adds a new key if the newest has been used for INTERVAL_MS, and removes the oldest. The first
 * call starts the interval. Control thread.
 */
void tls_tickets_rotate(struct tls_tickets *t, uint64_t now_ms, uint64_t interval_ms);
/* Prepares the encryption of a ticket with the newest key: sets NAME and IV. Returns false if the
 * library failed. */
bool tls_tickets_encrypt(struct tls_tickets *t, unsigned char name[TICKET_NAME_BYTES],
                         unsigned char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac) must_check;
/*
 * Prepares the decryption of a ticket. Returns 0 if the key is unknown or no longer available, 1 if
 * it is the newest key, 2 if it is an older one, -1 if the library failed.
 */
int tls_tickets_decrypt(struct tls_tickets *t, const unsigned char name[TICKET_NAME_BYTES],
                        const unsigned char *iv, EVP_CIPHER_CTX *cipher,
                        EVP_MAC_CTX *mac) must_check;
