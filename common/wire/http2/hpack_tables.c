/* SPDX-License-Identifier: Apache-2.0
 *
 * The static table of RFC 7541 appendix A, and the Huffman code of appendix B. That is canonical:
 * the lengths of the codes say all, as codes of one length follow each other in the order of the
 * symbols, and shorter ones come first (Schwartz and Kallick, 1964).
 */
#include "common/wire/http2/hpack_tables.h"

#define SLICE_CONST(s)                                                                             \
    {                                                                                              \
        (s), sizeof(s) - 1                                                                         \
    }

/* clang-format off */
const struct hpack_field hpack_static[HPACK_STATIC_FIELDS] = {
    {SLICE_CONST(":authority"), SLICE_CONST("")},
    {SLICE_CONST(":method"), SLICE_CONST("GET")},
    {SLICE_CONST(":method"), SLICE_CONST("POST")},
    {SLICE_CONST(":path"), SLICE_CONST("/")},
    {SLICE_CONST(":path"), SLICE_CONST("/index.html")},
    {SLICE_CONST(":scheme"), SLICE_CONST("http")},
    {SLICE_CONST(":scheme"), SLICE_CONST("https")},
    {SLICE_CONST(":status"), SLICE_CONST("200")},
    {SLICE_CONST(":status"), SLICE_CONST("204")},
    {SLICE_CONST(":status"), SLICE_CONST("206")},
    {SLICE_CONST(":status"), SLICE_CONST("304")},
    {SLICE_CONST(":status"), SLICE_CONST("400")},
    {SLICE_CONST(":status"), SLICE_CONST("404")},
    {SLICE_CONST(":status"), SLICE_CONST("500")},
    {SLICE_CONST("accept-charset"), SLICE_CONST("")},
    {SLICE_CONST("accept-encoding"), SLICE_CONST("gzip, deflate")},
    {SLICE_CONST("accept-language"), SLICE_CONST("")},
    {SLICE_CONST("accept-ranges"), SLICE_CONST("")},
    {SLICE_CONST("accept"), SLICE_CONST("")},
    {SLICE_CONST("access-control-allow-origin"), SLICE_CONST("")},
    {SLICE_CONST("age"), SLICE_CONST("")},
    {SLICE_CONST("allow"), SLICE_CONST("")},
    {SLICE_CONST("authorization"), SLICE_CONST("")},
    {SLICE_CONST("cache-control"), SLICE_CONST("")},
    {SLICE_CONST("content-disposition"), SLICE_CONST("")},
    {SLICE_CONST("content-encoding"), SLICE_CONST("")},
    {SLICE_CONST("content-language"), SLICE_CONST("")},
    {SLICE_CONST("content-length"), SLICE_CONST("")},
    {SLICE_CONST("content-location"), SLICE_CONST("")},
    {SLICE_CONST("content-range"), SLICE_CONST("")},
    {SLICE_CONST("content-type"), SLICE_CONST("")},
    {SLICE_CONST("cookie"), SLICE_CONST("")},
    {SLICE_CONST("date"), SLICE_CONST("")},
    {SLICE_CONST("etag"), SLICE_CONST("")},
    {SLICE_CONST("expect"), SLICE_CONST("")},
    {SLICE_CONST("expires"), SLICE_CONST("")},
    {SLICE_CONST("from"), SLICE_CONST("")},
    {SLICE_CONST("host"), SLICE_CONST("")},
    {SLICE_CONST("if-match"), SLICE_CONST("")},
    {SLICE_CONST("if-modified-since"), SLICE_CONST("")},
    {SLICE_CONST("if-none-match"), SLICE_CONST("")},
    {SLICE_CONST("if-range"), SLICE_CONST("")},
    {SLICE_CONST("if-unmodified-since"), SLICE_CONST("")},
    {SLICE_CONST("last-modified"), SLICE_CONST("")},
    {SLICE_CONST("link"), SLICE_CONST("")},
    {SLICE_CONST("location"), SLICE_CONST("")},
    {SLICE_CONST("max-forwards"), SLICE_CONST("")},
    {SLICE_CONST("proxy-authenticate"), SLICE_CONST("")},
    {SLICE_CONST("proxy-authorization"), SLICE_CONST("")},
    {SLICE_CONST("range"), SLICE_CONST("")},
    {SLICE_CONST("referer"), SLICE_CONST("")},
    {SLICE_CONST("refresh"), SLICE_CONST("")},
    {SLICE_CONST("retry-after"), SLICE_CONST("")},
    {SLICE_CONST("server"), SLICE_CONST("")},
    {SLICE_CONST("set-cookie"), SLICE_CONST("")},
    {SLICE_CONST("strict-transport-security"), SLICE_CONST("")},
    {SLICE_CONST("transfer-encoding"), SLICE_CONST("")},
    {SLICE_CONST("user-agent"), SLICE_CONST("")},
    {SLICE_CONST("vary"), SLICE_CONST("")},
    {SLICE_CONST("via"), SLICE_CONST("")},
    {SLICE_CONST("www-authenticate"), SLICE_CONST("")},
};

/* By symbol; the last is the end of the string (EOS). */
static const uint8_t lengths[HUFFMAN_SYMBOLS] = {
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7,
    7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21,
    23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24,
    21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
};
/* clang-format on */

void huffman_fill(struct huffman *h)
{
    uint32_t code = 0;
    unsigned n = 0;

    for (unsigned bits = 1; bits <= HUFFMAN_BITS_MAX; ++bits) {
        h->first_code[bits] = code;
        h->first_index[bits] = n;
        for (unsigned s = 0; s < HUFFMAN_SYMBOLS; ++s) {
            if (lengths[s] == bits) {
                h->symbols[n++] = (uint16_t)s;
                ++code;
            }
        }
        /* Left-aligned: every code of so many bits, or fewer, is below it. */
        h->limit[bits] = (uint64_t)code << (HUFFMAN_BITS_MAX - bits);
        code <<= 1;
    }
    ASSERT(n == HUFFMAN_SYMBOLS);
}

void huffman_fill_codes(struct huffman_code *codes)
{
    uint32_t code = 0;

    for (unsigned bits = 1; bits <= HUFFMAN_BITS_MAX; ++bits) {
        for (unsigned s = 0; s < HUFFMAN_SYMBOLS; ++s) {
            if (lengths[s] != bits)
                continue;
            if (s != HUFFMAN_EOS)
                codes[s] = (struct huffman_code){.code = code, .bits = (uint8_t)bits};
            ++code;
        }
        code <<= 1;
    }
}
