/* SPDX-License-Identifier: Apache-2.0
 *
 * Cryptographic functions of the TLS library. Any thread.
 */
#pragma once

#include "common/base/base.h"

#include <openssl/types.h>

/* Compares LEN bytes of A and B in a time that does not depend on their values. */
bool crypto_equal(const void *a, const void *b, size_t len);
/* Overwrites and frees a text that is a secret. NULL is allowed. */
void crypto_free(char *secret);

enum { SHA1_BASE64_ROOM = 29 };
/* Writes the SHA-1 of LEN bytes at P in base64, with a NUL. Returns false if the library has no
 * SHA-1. */
bool sha1_base64(const void *p, size_t len, char out[SHA1_BASE64_ROOM]) must_check;

enum { SHA256_BYTES = 32 };
EVP_MD_CTX *sha256_begin(void) returns_nonnull_;
void sha256_add(EVP_MD_CTX *h, const void *p, size_t len);
/* Writes the digest of the bytes added, and frees H. */
void sha256_end(EVP_MD_CTX *h, unsigned char out[SHA256_BYTES]);
