/* SPDX-License-Identifier: Apache-2.0
 *
 * A decoder of HPACK (RFC 7541) that is given limits: it stops before a small block becomes a large
 * list of fields. One per direction of a connection, which owns it; plain computation, any thread.
 * Memory is bounded by the dynamic table, HPACK_TABLE_BYTES, and by the longest string in a block.
 */
#ifndef RLB_WIRE_HTTP2_HPACK_H
#define RLB_WIRE_HTTP2_HPACK_H

#include "common/base/text.h"

enum {
    HPACK_TABLE_BYTES = 4096,  /* SETTINGS_HEADER_TABLE_SIZE: the default */
    HPACK_FIELD_OVERHEAD = 32, /* of a field, in the table and in a list (RFC 7541 section 4.1) */
    HPACK_ENTRIES_MAX = HPACK_TABLE_BYTES / HPACK_FIELD_OVERHEAD,
};

struct hpack_field {
    struct slice name, value;
};

/* Data that the caller of hpack_decode() attaches to an entry of the dynamic table. All zero at
 * first. */
struct hpack_mark {
    uint64_t number; /* of the insertion in that table, starting at 1; 0: not inserted */
    uint64_t before; /* number of bytes inserted before it */
    bool checked;    /* the field has been found valid; for the caller's use */
};

/* How a field was encoded. */
struct hpack_origin {
    size_t name_index;       /* of its name in the static table, or 0 */
    bool whole;              /* whether that entry also has its value */
    struct hpack_mark *mark; /* NULL: neither in the dynamic table nor added to it */
};

struct hpack_entry; /* of the dynamic table */

/* Borrowed for the call. */
typedef void hpack_each_fn(void *context, const struct hpack_field *f,
                           const struct hpack_origin *origin);

/* All zero but for the capacity: hpack_init. */
struct hpack {
    struct hpack_entry **entries; /* a ring */
    size_t room, newest, count;
    size_t bytes, capacity;
};

enum hpack_result {
    HPACK_OK,
    HPACK_MALFORMED, /* a COMPRESSION_ERROR: the connection cannot continue */
    HPACK_TOO_LARGE, /* over the limits; neither can it then */
};

struct hpack_limits {
    size_t list_bytes; /* names, values and HPACK_FIELD_OVERHEAD each */
    size_t fields;
};

void hpack_init(struct hpack *h);
void hpack_fini(struct hpack *h);
/*
 * Decode a whole header block. EACH gets its fields in order, borrowed for the call. On anything
 * but HPACK_OK those before the fault have been given.
 */
enum hpack_result hpack_decode(struct hpack *h, struct slice block, const struct hpack_limits *l,
                               hpack_each_fn *each, void *context) must_check;

/*
 * The constants of HPACK (RFC 7541 appendices A and B) and its integers, for the files hpack*.c.
 */

enum {
    HPACK_STATIC_FIELDS = 61,
    HPACK_STATUS_FIRST = 8, /* index of the first field ":status", and of the last */
    HPACK_STATUS_LAST = 14,
    HUFFMAN_SYMBOLS = 257,
    HUFFMAN_EOS = 256,
    HUFFMAN_BITS_MAX = 30,
};

extern const struct hpack_field hpack_static[HPACK_STATIC_FIELDS];

/* Tables for decoding, by the length of a code. */
struct huffman {
    uint64_t limit[HUFFMAN_BITS_MAX + 1];
    uint32_t first_code[HUFFMAN_BITS_MAX + 1];
    uint32_t first_index[HUFFMAN_BITS_MAX + 1];
    uint16_t symbols[HUFFMAN_SYMBOLS]; /* by length, then by code */
};
void huffman_fill(struct huffman *h);

/* Table for encoding, by symbol: the code, right-aligned, and its length in bits. */
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
