/* SPDX-License-Identifier: Apache-2.0
 *
 * The dynamic table is not a copy of the peer's. The peer evicts its oldest entries as soon as the
 * sizes of all exceed the capacity, so an entry exists there as long as the sizes of itself and of
 * those after it fit. That is a comparison of two positions in the sequence of all insertions:
 *
 *      0            .floor                          .total
 *      |  evicted  |  entry | entry |    | entry   |
 *                                    ^ .at of an entry; its index counts from the newest
 *
 * The bytes of an entry are at its position in a ring of HPACK_TABLE_BYTES. Existing entries are
 * within the last .capacity bytes of the sequence, therefore they do not overlap there.
 *
 * Entries are found by the hash of name and value. A set has room for HPACK_WAYS of them; another
 * one replaces the oldest, which is then only not referred to any more.
 *
 * A value that never recurs (a request's ID, a length, an entity tag) would evict what does, and
 * costs an insertion on either side. Hence the second occurrence is inserted, not the first. Which
 * fields have occurred is remembered by one bit of each hash: a wrong guess costs an insertion.
 */
#include "common/wire/http2/hpack_encoder.h"

#include "common/base/map.h"
#include "common/base/put.h"
#include "common/wire/http2/hpack.h"

#include <pthread.h>
#include <stdlib.h>

enum {
    RING_FIRST = 512,
    SEEN_MAX = HPACK_SEEN_BITS / 4, /* then they are cleared: a quarter of the guesses is wrong */
    NAME_SLOTS = 128,
    /* First bytes of representations: sections 6.1 to 6.3. */
    INDEXED = 0x80,
    LITERAL_INSERTED = 0x40,
    LITERAL = 0x00,
    LITERAL_NEVER_INDEXED = 0x10,
    SIZE_UPDATE = 0x20,
    HUFFMAN_CODED = 0x80,
};

static struct huffman_code codes[HUFFMAN_EOS];
/* Indices of the static table by the hash of the name: the first of each name; 0 is empty. */
static uint8_t names[NAME_SLOTS];
static uint64_t sensitive; /* a bit for each index */
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

/* ---- the static table ---- */

/* The slot of NAME: that of its index, or the empty one where it would be. */
static size_t name_slot(struct slice name)
{
    size_t at = map_hash(name.p, name.len) % NAME_SLOTS;

    while (names[at] != 0 && !slice_eq(hpack_static[names[at] - 1].name, name))
        at = (at + 1) % NAME_SLOTS;
    return at;
}

static void fill_tables(void)
{
    static const char *const credentials[] = {
        "authorization",       "cookie",     "proxy-authenticate",
        "proxy-authorization", "set-cookie", "www-authenticate",
    };

    huffman_fill_codes(codes);
    for (size_t i = 0; i < HPACK_STATIC_FIELDS; ++i) {
        size_t at = name_slot(hpack_static[i].name);

        if (names[at] == 0)
            names[at] = (uint8_t)(i + 1);
    }
    for (size_t i = 0; i < ARRAY_LEN(credentials); ++i)
        sensitive |= UINT64_C(1) << names[name_slot(slice_of(credentials[i]))];
    ASSERT((sensitive & 1) == 0);
}

/* ---- the dynamic table ---- */

void hpack_encoder_init(struct hpack_encoder *e)
{
    *e = (struct hpack_encoder){
        .capacity = HPACK_TABLE_BYTES,
        .limit = HPACK_TABLE_BYTES,
        .lowest = HPACK_TABLE_BYTES,
        /* After the position of unused places in the sets, which is 0. */
        .total = 1,
        .floor = 1,
    };
    pthread_once(&tables_once, fill_tables);
}

void hpack_encoder_fini(struct hpack_encoder *e)
{
    free(e->ring);
    e->ring = NULL;
}

static void evict(struct hpack_encoder *e)
{
    if (e->total - e->floor > e->capacity)
        e->floor = e->total - e->capacity;
}

/* How many of BYTES at the position AT are before the end of the ring. */
static size_t until_wrap(const struct hpack_encoder *e, uint64_t at, size_t bytes)
{
    size_t left = e->ring_bytes - (at & (e->ring_bytes - 1));

    return bytes < left ? bytes : left;
}

static bool has_bytes(const struct hpack_encoder *e, uint64_t at, struct slice field)
{
    size_t n = until_wrap(e, at, field.len);

    return memcmp(e->ring + (at & (e->ring_bytes - 1)), field.p, n) == 0 &&
           (n == field.len || memcmp(e->ring, field.p + n, field.len - n) == 0);
}

/* FIELD: a name of NAME_LEN bytes and a value. */
static const struct hpack_indexed *find(const struct hpack_encoder *e, uint64_t hash,
                                        size_t name_len, struct slice field)
{
    const struct hpack_indexed *set = e->entries[hash % HPACK_SETS];

    for (size_t i = 0; i < HPACK_WAYS; ++i) {
        const struct hpack_indexed *entry = &set[i];

        if (entry->hash == hash >> 32 && entry->at >= e->floor && entry->name_len == name_len &&
            entry->name_len + entry->value_len == field.len && has_bytes(e, entry->at, field))
            return entry;
    }
    return NULL;
}

/* Before the first entry wraps, positions in the ring do not depend on its size. */
static void grow_ring(struct hpack_encoder *e, uint64_t end)
{
    size_t bytes = e->ring_bytes != 0 ? e->ring_bytes : RING_FIRST;

    while (bytes < end && bytes < HPACK_TABLE_BYTES)
        bytes *= 2;
    if (bytes != e->ring_bytes)
        e->ring = xrealloc(e->ring, bytes);
    e->ring_bytes = bytes;
}

static void insert(struct hpack_encoder *e, uint64_t hash, size_t name_len, struct slice field)
{
    struct hpack_indexed *set = e->entries[hash % HPACK_SETS];
    struct hpack_indexed *oldest = set;

    for (size_t i = 1; i < HPACK_WAYS; ++i) {
        if (set[i].at < oldest->at)
            oldest = &set[i];
    }
    *oldest = (struct hpack_indexed){.at = e->total,
                                     .number = e->inserted,
                                     .hash = (uint32_t)(hash >> 32),
                                     .name_len = (uint16_t)name_len,
                                     .value_len = (uint16_t)(field.len - name_len)};
    grow_ring(e, e->total + field.len);
    size_t n = until_wrap(e, e->total, field.len);
    memcpy(e->ring + (e->total & (e->ring_bytes - 1)), field.p, n);
    memcpy(e->ring, field.p + n, field.len - n);
    ++e->inserted;
    e->total += field.len + HPACK_FIELD_OVERHEAD;
    evict(e);
}

/* Whether a field of this HASH has probably been sent before. */
static bool was_seen(struct hpack_encoder *e, uint64_t hash)
{
    size_t at = hash >> 8 & (HPACK_SEEN_BITS - 1);
    uint64_t bit = UINT64_C(1) << at % 64;

    if ((e->seen[at / 64] & bit) != 0)
        return true;
    if (e->seen_count == SEEN_MAX) {
        memset(e->seen, 0, sizeof(e->seen));
        e->seen_count = 0;
    }
    e->seen[at / 64] |= bit;
    ++e->seen_count;
    return false;
}

/* ---- writing ---- */

/* S, coded, at TO. Returns its end, or NULL if that is not shorter. */
static char *put_huffman(char *to, struct slice s)
{
    const char *end = to + s.len;
    uint64_t held = 0;
    unsigned bits = 0;

    for (size_t i = 0; i < s.len; ++i) {
        struct huffman_code c = codes[(unsigned char)s.p[i]];

        held = held << c.bits | c.code;
        bits += c.bits;
        if (bits >= 32) {
            if (end - to <= (ptrdiff_t)sizeof(uint32_t))
                return NULL;
            bits -= 32;
            uint32_t word = __builtin_bswap32((uint32_t)(held >> bits));
            memcpy(to, &word, sizeof(word));
            to += sizeof(word);
        }
    }
    if (end - to <= (bits + 7) / 8)
        return NULL;
    for (; bits >= 8; bits -= 8)
        *to++ = (char)(held >> (bits - 8));
    if (bits != 0) /* padded by the first bits of EOS, which are ones */
        *to++ = (char)(held << (8 - bits) | 0xffU >> bits);
    return to;
}

/* Section 5.2: coded if that is shorter. Mostly its length is a single byte. */
static char *put_string(char *to, struct slice s)
{
    char *coded = to + 1;
    char *end = put_huffman(coded, s);

    if (end == NULL)
        return put_slice(hpack_put_integer(to, 0, 7, s.len), s);
    size_t n = (size_t)(end - coded);
    char length[HPACK_INTEGER_MAX];
    size_t length_bytes = (size_t)(hpack_put_integer(length, HUFFMAN_CODED, 7, n) - length);
    if (length_bytes != 1)
        memmove(to + length_bytes, coded, n);
    memcpy(to, length, length_bytes);
    return to + length_bytes + n;
}

static void put_size(struct hpack_encoder *e, struct text *block, size_t bytes)
{
    char *to = text_reserve(block, HPACK_INTEGER_MAX);

    block->len = (size_t)(hpack_put_integer(to, SIZE_UPDATE, 5, bytes) - block->p);
    e->capacity = bytes;
    evict(e);
}

void hpack_encoder_limit(struct hpack_encoder *e, uint32_t table_bytes)
{
    e->limit = table_bytes < HPACK_TABLE_BYTES ? table_bytes : HPACK_TABLE_BYTES;
    if (e->limit < e->lowest)
        e->lowest = e->limit;
}

/* Section 4.2: the lowest size since the last block, then the final one. */
void hpack_encoder_begin(struct hpack_encoder *e, struct text *block)
{
    if (e->lowest < e->capacity)
        put_size(e, block, e->lowest);
    if (e->limit != e->capacity)
        put_size(e, block, e->limit);
    e->lowest = e->limit;
}

void hpack_encoder_field(struct hpack_encoder *e, struct text *block, struct slice name,
                         struct slice value)
{
    size_t bytes = name.len + value.len;
    /* Room for the representation, and behind it for name and value as the table has them. */
    char *to = text_reserve(block, (size_t)3 * HPACK_INTEGER_MAX + 2 * bytes);
    struct slice field = {to + (size_t)3 * HPACK_INTEGER_MAX + bytes, bytes};
    char *lower = block->p + (field.p - block->p);
    bool fits = bytes + HPACK_FIELD_OVERHEAD <= e->capacity / 2;
    unsigned kind = LITERAL;

    ascii_lower_copy(lower, name);
    (void)put_slice(lower + name.len, value);
    name.p = lower;
    uint64_t hash = fits ? map_hash(field.p, field.len) : 0;
    const struct hpack_indexed *entry = fits ? find(e, hash, name.len, field) : NULL;
    if (entry != NULL) {
        size_t index = HPACK_STATIC_FIELDS + (uint32_t)(e->inserted - entry->number);

        block->len = (size_t)(hpack_put_integer(to, INDEXED, 7, index) - block->p);
        return;
    }
    size_t name_index = names[name_slot(name)];
    if ((sensitive >> name_index & 1) != 0)
        kind = LITERAL_NEVER_INDEXED;
    else if (fits && was_seen(e, hash))
        kind = LITERAL_INSERTED;
    to = hpack_put_integer(to, kind, kind == LITERAL_INSERTED ? 6 : 4, name_index);
    if (name_index == 0)
        to = put_string(to, name);
    to = put_string(to, value);
    block->len = (size_t)(to - block->p);
    if (kind == LITERAL_INSERTED)
        insert(e, hash, name.len, field);
}

void hpack_encoder_status(struct hpack_encoder *e, struct text *block, int status)
{
    char digits[3];

    ASSERT(status >= 100);
    ASSERT(status <= 999);
    (void)put_u64_before(digits + sizeof(digits), (unsigned)status);
    struct slice value = {digits, sizeof(digits)};
    for (size_t i = HPACK_STATUS_FIRST; i <= HPACK_STATUS_LAST; ++i) {
        if (slice_eq(hpack_static[i - 1].value, value)) {
            text_add_char(block, (char)(INDEXED | i));
            return;
        }
    }
    hpack_encoder_field(e, block, SLICE_LIT(":status"), value);
}
