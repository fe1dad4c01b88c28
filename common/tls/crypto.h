/* SPDX-License-Identifier: Apache-2.0
 *
 * What programs use of the library besides TLS. Any thread.
 */
#ifndef RLB_TLS_CRYPTO_H
#define RLB_TLS_CRYPTO_H

#include "common/base/base.h"

/* Whether LEN bytes at A and B are equal, in a time that does not depend on them. */
bool crypto_equal(const void *a, const void *b, size_t len);
/* Overwrites LEN bytes at P, which are then freed. */
void crypto_wipe(void *p, size_t len);

enum { SHA256_BYTES = 32 };
struct sha256;
struct sha256 *sha256_begin(void) returns_nonnull_;
void sha256_add(struct sha256 *h, const void *p, size_t len);
/* The digest of what was added; frees H. */
void sha256_end(struct sha256 *h, unsigned char out[SHA256_BYTES]);

#endif
