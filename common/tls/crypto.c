/* SPDX-License-Identifier: Apache-2.0 */
#include "common/tls/crypto.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

bool crypto_equal(const void *a, const void *b, size_t len)
{
    return CRYPTO_memcmp(a, b, len) == 0;
}

void crypto_wipe(void *p, size_t len)
{
    OPENSSL_cleanse(p, len);
}

static EVP_MD_CTX *context(struct sha256 *h)
{
    return (EVP_MD_CTX *)(void *)h;
}

struct sha256 *sha256_begin(void)
{
    EVP_MD_CTX *md = EVP_MD_CTX_new();

    ASSERT(md != NULL);
    ASSERT(EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1);
    return (struct sha256 *)(void *)md;
}

void sha256_add(struct sha256 *h, const void *p, size_t len)
{
    ASSERT(EVP_DigestUpdate(context(h), p, len) == 1);
}

void sha256_end(struct sha256 *h, unsigned char out[SHA256_BYTES])
{
    ASSERT(EVP_DigestFinal_ex(context(h), out, NULL) == 1);
    EVP_MD_CTX_free(context(h));
}
