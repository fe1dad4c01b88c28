/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/tls/crypto.h"

/* The examples of FIPS 180-2 for "abc". */
static void digests_are_those_of_the_standard(void **state)
{
    static const unsigned char expected[SHA256_BYTES] =
        "\xba\x78\x16\xbf\x8f\x01\xcf\xea\x41\x41\x40\xde\x5d\xae\x22\x23"
        "\xb0\x03\x61\xa3\x96\x17\x7a\x9c\xb4\x10\xff\x61\xf2\x00\x15\xad";
    unsigned char digest[SHA256_BYTES];
    char text[SHA1_BASE64_ROOM];

    (void)state;
    EVP_MD_CTX *h = sha256_begin();
    sha256_add(h, "a", 1);
    sha256_add(h, "bc", 2);
    sha256_end(h, digest);
    assert_memory_equal(digest, expected, SHA256_BYTES);
    assert_true(sha1_base64("abc", 3, text));
    assert_string_equal(text, "qZk+NkcGgWq6PiVxeFDCbJzQ2J0=");
}

static void bytes_are_equal_only_if_all_are(void **state)
{
    (void)state;
    assert_true(crypto_equal("secret", "secret", 6));
    assert_true(crypto_equal("secret", "secreT", 5));
    assert_false(crypto_equal("secret", "secreT", 6));
    assert_false(crypto_equal("secret", "Secret", 6));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digests_are_those_of_the_standard),
        cmocka_unit_test(bytes_are_equal_only_if_all_are),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
