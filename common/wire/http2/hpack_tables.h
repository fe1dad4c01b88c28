/* SPDX-License-Identifier: Apache-2.0
 *
 * The constants of HPACK (RFC 7541 appendices A and B) and its integers, for the files hpack*.c.
 */
#ifndef RLB_WIRE_HTTP2_HPACK_TABLES_H
#define RLB_WIRE_HTTP2_HPACK_TABLES_H

#include "common/wire/http2/hpack.h"

enum {
    HPACK_STATIC_FIELDS = 61,
    HPACK_STATUS_FIRST = 8, /* index of the first field ":status", and of the last */
    HPACK_STATUS_LAST = 14,
    HUFFMAN_SYMBOLS = 257,
    HUFFMAN_EOS = 256,
    HUFFMAN_BITS_MAX = 30,
};

extern const struct hpack_field hpack_static[HPACK_STATIC_FIELDS];

/* What decoding needs, by the length of a code. */
struct huffman {
    uint64_t limit[HUFFMAN_BITS_MAX + 1];
    uint32_t first_code[HUFFMAN_BITS_MAX + 1];
    uint32_t first_index[HUFFMAN_BITS_MAX + 1];
    uint16_t symbols[HUFFMAN_SYMBOLS]; /* by length, then by code */
};
void huffman_fill(struct huffman *h);

/* What encoding needs, by symbol: the code, right-aligned, and its length in bits. */
struct huffman_code {
    uint32_t code;
    uint8_t bits;
};
/* Fill CODES, which has room for HUFFMAN_EOS of them: every symbol that is a byte. */
void huffman_fill_codes(struct huffman_code *codes);

enum { HPACK_INTEGER_MAX = 11 /* bytes of a size_t, the prefix included */ };

/* RFC 7541 section 5.1: V at TO, with a prefix of BITS bits after those of KIND. Returns its end.
 */
static inline char *hpack_put_integer(char *to, unsigned kind, unsigned bits, size_t v)
{
    size_t all = ((size_t)1 << bits) - 1;

    if (v < all) {
        *to++ = (char)(kind | v);
        return to;
    }
    *to++ = (char)(kind | all);
    for (v -= all; v >= 0x80; v >>= 7)
        *to++ = (char)(0x80 | (v & 0x7f));
    *to++ = (char)v;
    return to;
}

#endif
