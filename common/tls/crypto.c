/* SPDX-License-Identifier: Apache-2.0 */
#include "common/tls/crypto.h"

#include <stdlib.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>

bool crypto_equal(const void *a, const void *b, size_t len)
{
    return CRYPTO_memcmp(a, b, len) == 0;
}

void crypto_free(char *secret)
{
    if (secret != NULL)
        OPENSSL_cleanse(secret, strlen(secret));
    free(secret);
}

bool sha1_base64(const void *p, size_t len, char out[SHA1_BASE64_ROOM])
{
    enum { BYTES = 20 };
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned int n = 0;

    return EVP_Digest(p, len, hash, &n, EVP_sha1(), NULL) == 1 && n == BYTES &&
           EVP_EncodeBlock((unsigned char *)out, hash, BYTES) == SHA1_BASE64_ROOM - 1;
}

EVP_MD_CTX *sha256_begin(void)
{
    EVP_MD_CTX *md = EVP_MD_CTX_new();

    ASSERT(md != NULL);
    int done = EVP_DigestInit_ex(md, EVP_sha256(), NULL);
    ASSERT(done == 1);
    return md;
}

void sha256_add(EVP_MD_CTX *h, const void *p, size_t len)
{
    int done = EVP_DigestUpdate(h, p, len);
    ASSERT(done == 1);
}

void sha256_end(EVP_MD_CTX *h, unsigned char out[SHA256_BYTES])
{
    int done = EVP_DigestFinal_ex(h, out, NULL);
    ASSERT(done == 1);
    EVP_MD_CTX_free(h);
}
