/* SPDX-License-Identifier: Apache-2.0
 *
 * HPACK (RFC 7541): a decoder and an encoder of the field sections of an HTTP/2 connection, which
 * owns them. Plain computation; one thread at a time.
 */
#pragma once

#include "common/base/text.h"
#include "common/wire/http1_head.h"

enum {
    HPACK_TABLE_BYTES = 4096,  /* SETTINGS_HEADER_TABLE_SIZE: the default */
    HPACK_FIELD_OVERHEAD = 32, /* of a field, in the table and in a list (RFC 7541 section 4.1) */
    HPACK_ENTRIES_MAX = HPACK_TABLE_BYTES / HPACK_FIELD_OVERHEAD,
};

struct hpack_field {
    struct slice name, value;
};

/* ---- decoding ---- */

/*
 * F is borrowed for the call. *CHECKED is stored with the field in the dynamic table, false at
 * first: that the field has been found valid. NULL: it is neither there nor added to it.
 */
typedef void hpack_each_fn(void *context, const struct hpack_field *f, bool *checked);

/*
 * The decoder is given limits: it stops before a small block becomes a large list of fields. Its
 * memory is bounded by the dynamic table, HPACK_TABLE_BYTES, and by the longest string in a block.
 */
struct hpack {
    struct hpack_entry **entries; /* the oldest first */
    size_t room, count;
    size_t bytes, capacity;
};

struct hpack_limits {
    size_t list_bytes; /* names, values and HPACK_FIELD_OVERHEAD each */
    size_t fields;
};

void hpack_init(struct hpack *h);
void hpack_fini(struct hpack *h);
/*
 * Decode a whole header block. EACH gets its fields in order, up to a fault. After
 * FAULT_HTTP2_COMPRESSION or FAULT_HEADERS_TOO_LARGE (over the limits) the connection cannot
 * continue.
 */
enum request_fault hpack_decode(struct hpack *h, struct slice block, const struct hpack_limits *l,
                                hpack_each_fn *each, void *context) must_check;

/* ---- encoding ---- */

enum {
    HPACK_SETS = 16, /* of entries; an entry is searched in the set that its hash selects */
    HPACK_WAYS = 4,
    HPACK_SEEN_BITS = 1024, /* a field sets one of them */
};

/* An entry of the dynamic table. Its name and value are adjacent in the encoder's ring. */
struct hpack_indexed {
    uint32_t at;     /* its position: the size of the entries that were inserted before [bytes] */
    uint32_t number; /* insertions before it */
    uint32_t hash;
    uint16_t name_len, value_len;
};

/*
 * It follows the table size that its peer announces. Memory: at most HPACK_TABLE_BYTES on the heap,
 * and none before the first field is inserted.
 */
struct hpack_encoder {
    size_t capacity;       /* of the peer's table, as last signaled [bytes] */
    size_t limit, lowest;  /* announced by the peer: the last value, the lowest since a block */
    uint32_t total, floor; /* the next entry's position; entries before FLOOR are evicted */
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

/* Append the pseudo-header field ":status", 100..999. */
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
