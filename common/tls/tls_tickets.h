/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of session tickets of one set of certificates: the newest seals, all open. Shared by all
 * loops, and by contexts that are read anew with the same certificates. Reference counted; any
 * thread. Lock: inside, around the keys.
 */
#ifndef RLB_TLS_TLS_TICKETS_H
#define RLB_TLS_TLS_TICKETS_H

#include "common/base/base.h"

#include <openssl/evp.h>

enum {
    /* The newest and those before it: a ticket can be opened for two rotations at least. */
    TICKET_KEYS_KEPT = 3,
    TICKET_NAME_BYTES = 16, /* RFC 5077 section 4 */
};

struct tls_tickets;

/* With one key. NULL: the library has no random bytes. */
struct tls_tickets *tls_tickets_create(void);
struct tls_tickets *tls_tickets_ref(struct tls_tickets *t);
/* NULL is fine. */
void tls_tickets_unref(struct tls_tickets *t);
/*
 * A new key when the newest has served for INTERVAL_MS; the oldest goes. The first call begins to
 * count. Control thread.
 */
void tls_tickets_rotate(struct tls_tickets *t, uint64_t now_ms, uint64_t interval_ms);
/* Prepare to seal a ticket with the newest key: fills NAME and IV. False: the library failed. */
bool tls_tickets_seal(struct tls_tickets *t, unsigned char name[TICKET_NAME_BYTES],
                      unsigned char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac) must_check;
/*
 * Prepare to open one. 0: not a key of ours, or none any more; 1: by the newest; 2: by an older
 * one; -1: the library failed.
 */
int tls_tickets_open(struct tls_tickets *t, const unsigned char name[TICKET_NAME_BYTES],
                     const unsigned char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac) must_check;

#endif
