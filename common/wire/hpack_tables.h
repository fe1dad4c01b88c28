/* SPDX-License-Identifier: Apache-2.0
 *
 * The constants of HPACK (RFC 7541 appendices A and B), for hpack.c.
 */
#ifndef RLB_WIRE_HPACK_TABLES_H
#define RLB_WIRE_HPACK_TABLES_H

#include "common/wire/hpack.h"

enum {
    HPACK_STATIC_FIELDS = 61,
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

#endif
