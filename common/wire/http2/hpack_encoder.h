/* SPDX-License-Identifier: Apache-2.0
 *
 * An encoder of HPACK (RFC 7541): the field sections that one endpoint of an HTTP/2 connection
 * sends. It follows the table size that its peer announces.
 *
 * Embedded in its connection, which owns it; one thread at a time. Plain computation. Memory: at
 * most HPACK_TABLE_BYTES on the heap, and none before the first field is inserted.
 */
#ifndef RLB_WIRE_HTTP2_HPACK_ENCODER_H
#define RLB_WIRE_HTTP2_HPACK_ENCODER_H

#include "common/wire/http2/hpack.h"

enum {
    HPACK_SETS = 16, /* of entries; an entry is searched in the set that its hash selects */
    HPACK_WAYS = 4,
    HPACK_SEEN_BITS = 1024, /* a field sets one of them */
};

/* An entry of the dynamic table. Its name and value are adjacent in the encoder's ring. */
struct hpack_indexed {
    uint64_t at;     /* size of all entries that were inserted before it [bytes] */
    uint32_t number; /* insertions before it */
    uint32_t hash;
    uint16_t name_len, value_len;
};

struct hpack_encoder {
    size_t capacity;       /* of the peer's table, as last signaled [bytes] */
    size_t limit, lowest;  /* announced by the peer: the last value, the lowest since a block */
    uint64_t total, floor; /* size of all entries ever inserted; entries before FLOOR are evicted */
    uint32_t inserted;     /* entries ever inserted */
    char *ring;            /* an entry's bytes begin at .at modulo RING_BYTES, a power of two */
    size_t ring_bytes;
    struct hpack_indexed entries[HPACK_SETS][HPACK_WAYS];
    uint64_t seen[HPACK_SEEN_BITS / 64]; /* hashes of fields that were sent as literals */
    unsigned seen_count;                 /* bits that are set in it */
};

void hpack_encoder_init(struct hpack_encoder *e);
void hpack_encoder_fini(struct hpack_encoder *e);

/*
 * The peer has announced SETTINGS_HEADER_TABLE_SIZE, any value [bytes]. At most HPACK_TABLE_BYTES
 * of it are used. Call it in the order in which the values were received, between two blocks, once
 * the acknowledgment precedes the next block in the output: that block signals the change.
 */
void hpack_encoder_limit(struct hpack_encoder *e, uint32_t table_bytes);

/*
 * Begin a block: append the dynamic table size updates that are due to BLOCK. Then append the
 * fields. Every block must be sent, whole, in the order of encoding, also that of a stream that is
 * reset: the peer's table changes with each.
 */
void hpack_encoder_begin(struct hpack_encoder *e, struct text *block);

/*
 * Append the pseudo-header field ":status".
 *   status  100..999
 */
void hpack_encoder_status(struct hpack_encoder *e, struct text *block, int status);

/*
 * Append a field. NAME may contain capital letters, which HTTP/2 forbids: they are sent in lower
 * case. Both are borrowed for the call, and any bytes are encoded as they are.
 * A field that carries credentials (RFC 7541 section 7.1.3) is sent as one that must never be
 * indexed: Set-Cookie, Cookie, Authorization, WWW-Authenticate and those of proxies. Another one is
 * inserted into the dynamic table when it is sent for the second time, if its size is at most half
 * of the table's.
 */
void hpack_encoder_field(struct hpack_encoder *e, struct text *block, struct slice name,
                         struct slice value);

#endif
