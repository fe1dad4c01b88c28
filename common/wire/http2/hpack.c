/* SPDX-License-Identifier: Apache-2.0
 *
 * RFC 7541: first the tables of both sides, then the decoder, then the encoder.
 */
#include "common/wire/http2/hpack.h"

#include "common/base/bytes.h"
#include "common/base/map.h"
#include "common/wire/http1_bytes.h"

#include <pthread.h>
#include <stdlib.h>

enum {
    HPACK_STATIC_FIELDS = 61,
    HPACK_STATUS_FIRST = 8, /* index of the first field ":status", and of the last */
    HPACK_STATUS_LAST = 14,
    HUFFMAN_SYMBOLS = 257,
    HUFFMAN_EOS = 256,
    HUFFMAN_BITS_MAX = 30,
    /* First bytes of representations: sections 6.1 to 6.3. */
    INDEXED = 0x80,
    LITERAL_INSERTED = 0x40,
    LITERAL = 0x00,
    LITERAL_NEVER_INDEXED = 0x10,
    SIZE_UPDATE = 0x20,
    HUFFMAN_CODED = 0x80, /* of a string: section 5.2 */
    /* The shortest code has 5 bits, so decoded a string is at most 8/5 as long. */
    HUFFMAN_SHORTEST = 5,
};

/*
 * The static table of RFC 7541 appendix A, and the Huffman code of appendix B. That is canonical:
 * the lengths of the codes are sufficient, as codes of one length follow each other in the order of
 * the symbols, and shorter ones come first (Schwartz and Kallick, 1964).
 */

/* clang-format off */
static const struct hpack_field static_fields[HPACK_STATIC_FIELDS] = {
    {SLICE_LIT(":authority"), SLICE_LIT("")},
    {SLICE_LIT(":method"), SLICE_LIT("GET")},
    {SLICE_LIT(":method"), SLICE_LIT("POST")},
    {SLICE_LIT(":path"), SLICE_LIT("/")},
    {SLICE_LIT(":path"), SLICE_LIT("/index.html")},
    {SLICE_LIT(":scheme"), SLICE_LIT("http")},
    {SLICE_LIT(":scheme"), SLICE_LIT("https")},
    {SLICE_LIT(":status"), SLICE_LIT("200")},
    {SLICE_LIT(":status"), SLICE_LIT("204")},
    {SLICE_LIT(":status"), SLICE_LIT("206")},
    {SLICE_LIT(":status"), SLICE_LIT("304")},
    {SLICE_LIT(":status"), SLICE_LIT("400")},
    {SLICE_LIT(":status"), SLICE_LIT("404")},
    {SLICE_LIT(":status"), SLICE_LIT("500")},
    {SLICE_LIT("accept-charset"), SLICE_LIT("")},
    {SLICE_LIT("accept-encoding"), SLICE_LIT("gzip, deflate")},
    {SLICE_LIT("accept-language"), SLICE_LIT("")},
    {SLICE_LIT("accept-ranges"), SLICE_LIT("")},
    {SLICE_LIT("accept"), SLICE_LIT("")},
    {SLICE_LIT("access-control-allow-origin"), SLICE_LIT("")},
    {SLICE_LIT("age"), SLICE_LIT("")},
    {SLICE_LIT("allow"), SLICE_LIT("")},
    {SLICE_LIT("authorization"), SLICE_LIT("")},
    {SLICE_LIT("cache-control"), SLICE_LIT("")},
    {SLICE_LIT("content-disposition"), SLICE_LIT("")},
    {SLICE_LIT("content-encoding"), SLICE_LIT("")},
    {SLICE_LIT("content-language"), SLICE_LIT("")},
    {SLICE_LIT("content-length"), SLICE_LIT("")},
    {SLICE_LIT("content-location"), SLICE_LIT("")},
    {SLICE_LIT("content-range"), SLICE_LIT("")},
    {SLICE_LIT("content-type"), SLICE_LIT("")},
    {SLICE_LIT("cookie"), SLICE_LIT("")},
    {SLICE_LIT("date"), SLICE_LIT("")},
    {SLICE_LIT("etag"), SLICE_LIT("")},
    {SLICE_LIT("expect"), SLICE_LIT("")},
    {SLICE_LIT("expires"), SLICE_LIT("")},
    {SLICE_LIT("from"), SLICE_LIT("")},
    {SLICE_LIT("host"), SLICE_LIT("")},
    {SLICE_LIT("if-match"), SLICE_LIT("")},
    {SLICE_LIT("if-modified-since"), SLICE_LIT("")},
    {SLICE_LIT("if-none-match"), SLICE_LIT("")},
    {SLICE_LIT("if-range"), SLICE_LIT("")},
    {SLICE_LIT("if-unmodified-since"), SLICE_LIT("")},
    {SLICE_LIT("last-modified"), SLICE_LIT("")},
    {SLICE_LIT("link"), SLICE_LIT("")},
    {SLICE_LIT("location"), SLICE_LIT("")},
    {SLICE_LIT("max-forwards"), SLICE_LIT("")},
    {SLICE_LIT("proxy-authenticate"), SLICE_LIT("")},
    {SLICE_LIT("proxy-authorization"), SLICE_LIT("")},
    {SLICE_LIT("range"), SLICE_LIT("")},
    {SLICE_LIT("referer"), SLICE_LIT("")},
    {SLICE_LIT("refresh"), SLICE_LIT("")},
    {SLICE_LIT("retry-after"), SLICE_LIT("")},
    {SLICE_LIT("server"), SLICE_LIT("")},
    {SLICE_LIT("set-cookie"), SLICE_LIT("")},
    {SLICE_LIT("strict-transport-security"), SLICE_LIT("")},
    {SLICE_LIT("transfer-encoding"), SLICE_LIT("")},
    {SLICE_LIT("user-agent"), SLICE_LIT("")},
    {SLICE_LIT("vary"), SLICE_LIT("")},
    {SLICE_LIT("via"), SLICE_LIT("")},
    {SLICE_LIT("www-authenticate"), SLICE_LIT("")},
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

/* Tables for decoding, by the length of a code. */
static struct {
    uint64_t limit[HUFFMAN_BITS_MAX + 1];
    uint32_t first_code[HUFFMAN_BITS_MAX + 1];
    uint32_t first_index[HUFFMAN_BITS_MAX + 1];
    uint16_t symbols[HUFFMAN_SYMBOLS]; /* by length, then by code */
} huffman;

/* Table for encoding, by symbol: the code, right-aligned, and its length in bits. */
struct huffman_code {
    uint32_t code;
    uint8_t bits;
};
static struct huffman_code codes[HUFFMAN_SYMBOLS];

/* ---- the decoder's table ---- */

/*
 * An array of entries, each one piece of memory, the oldest first; with 32 bytes counted for each,
 * 4096 bytes of table are at most 128 of them.
 */

enum {
    INTEGER_MAX = 1 << 27, /* far above every length and index that can be right */
    INTEGER_BYTES_MAX = 5,
};

struct hpack_entry {
    bool checked;
    size_t name_len, value_len;
    char bytes[];
};

static pthread_once_t tables_once = PTHREAD_ONCE_INIT;
static void fill_tables(void);

void hpack_init(struct hpack *h)
{
    *h = (struct hpack){.capacity = HPACK_TABLE_BYTES};
    pthread_once(&tables_once, fill_tables);
}

static void evict_to(struct hpack *h, size_t bytes)
{
    size_t n = 0;

    for (; h->bytes > bytes; ++n) {
        ASSERT(n < h->count);
        h->bytes -= h->entries[n]->name_len + h->entries[n]->value_len + HPACK_FIELD_OVERHEAD;
        free(h->entries[n]);
    }
    h->count -= n;
    if (n != 0)
        memmove(h->entries, h->entries + n, h->count * sizeof(struct hpack_entry *));
}

/* F may be of an entry that is evicted to make room: it is copied first. */
static void add_entry(struct hpack *h, const struct hpack_field *f, bool checked)
{
    size_t bytes = f->name.len + f->value.len + HPACK_FIELD_OVERHEAD;

    if (bytes > h->capacity) {
        evict_to(h, 0); /* not an error: section 4.4 */
        return;
    }
    struct hpack_entry *e = xmalloc(sizeof(*e) + f->name.len + f->value.len);
    e->checked = checked;
    e->name_len = f->name.len;
    e->value_len = f->value.len;
    (void)put_slice(put_slice(e->bytes, f->name), f->value);
    evict_to(h, h->capacity - bytes);
    ASSERT(h->count < HPACK_ENTRIES_MAX);
    h->entries = xgrow(h->entries, h->count + 1, &h->room, sizeof(struct hpack_entry *));
    h->entries[h->count++] = e;
    h->bytes += bytes;
}

void hpack_fini(struct hpack *h)
{
    evict_to(h, 0);
    free(h->entries);
    h->entries = NULL;
    h->room = 0;
}

/* *CHECKED: the entry's; NULL: of the static table. */
static bool hpack_look_up(const struct hpack *h, size_t index, struct hpack_field *out,
                          bool **checked)
{
    *checked = NULL;
    if (index == 0 || index > HPACK_STATIC_FIELDS + h->count)
        return false;
    if (index <= HPACK_STATIC_FIELDS) {
        *out = static_fields[index - 1];
        return true;
    }
    struct hpack_entry *e = h->entries[h->count - (index - HPACK_STATIC_FIELDS)];
    *checked = &e->checked;
    out->name = (struct slice){e->bytes, e->name_len};
    out->value = (struct slice){e->bytes + e->name_len, e->value_len};
    return true;
}

/* ---- integers and strings ---- */

/* One block while it is decoded. */
struct hpack_decoding {
    struct hpack *table;
    struct slice left;
    struct text name, value; /* of strings that were Huffman-coded */
    size_t list_bytes, fields;
};

static unsigned first_byte(const struct hpack_decoding *d)
{
    return (unsigned char)d->left.p[0];
}

/* Section 5.1: reads the integer with a prefix of BITS bits in the first byte. */
static bool get_integer(struct hpack_decoding *d, unsigned bits, size_t *out)
{
    unsigned all = (1U << bits) - 1;

    if (d->left.len == 0)
        return false;
    size_t v = first_byte(d) & all;
    slice_take(&d->left, 1);
    unsigned byte = v == all ? 0x80 : 0;
    for (unsigned shift = 0; (byte & 0x80) != 0; shift += 7) {
        if (shift == 7 * INTEGER_BYTES_MAX || d->left.len == 0)
            return false;
        byte = first_byte(d);
        slice_take(&d->left, 1);
        v += (size_t)(byte & 0x7f) << shift;
    }
    *out = v;
    return v <= INTEGER_MAX;
}

static bool decode_huffman(struct slice s, struct text *out)
{
    uint64_t held = 0;
    unsigned have = 0;
    size_t at = 0;

    text_clear(out);
    char *to = text_reserve(out, s.len * 8 / HUFFMAN_SHORTEST + 1);
    for (;;) {
        while (have <= HUFFMAN_BITS_MAX && at < s.len) {
            held = held << 8 | (unsigned char)s.p[at++];
            have += 8;
        }
        uint64_t window = have >= HUFFMAN_BITS_MAX ? held >> (have - HUFFMAN_BITS_MAX)
                                                   : held << (HUFFMAN_BITS_MAX - have);
        window &= (1U << HUFFMAN_BITS_MAX) - 1;
        unsigned n = HUFFMAN_SHORTEST;
        while (n <= HUFFMAN_BITS_MAX && window >= huffman.limit[n])
            ++n;
        if (n > have || n > HUFFMAN_BITS_MAX) { /* no code is whole */
            /* What is left must be the start of EOS, shorter than a byte: section 5.2. */
            uint64_t padding = (1U << have) - 1;

            return at == s.len && have < 8 && (held & padding) == padding;
        }
        uint32_t code = (uint32_t)(window >> (HUFFMAN_BITS_MAX - n));
        unsigned symbol = huffman.symbols[huffman.first_index[n] + code - huffman.first_code[n]];
        if (symbol == HUFFMAN_EOS)
            return false;
        to[out->len++] = (char)symbol;
        have -= n;
    }
}

/* Section 5.2. SCRATCH is where a coded one goes. */
static bool get_string(struct hpack_decoding *d, struct text *scratch, struct slice *out)
{
    bool coded = d->left.len != 0 && (first_byte(d) & HUFFMAN_CODED) != 0;
    size_t len;

    if (!get_integer(d, 7, &len) || len > d->left.len)
        return false;
    *out = slice_take(&d->left, len);
    if (!coded)
        return true;
    if (!decode_huffman(*out, scratch))
        return false;
    *out = text_slice(scratch);
    return true;
}

/* ---- fields ---- */

/* Sections 6.1 and 6.2: an index; or that of its name, or 0 and the name, and the value. */
static bool get_field(struct hpack_decoding *d, struct hpack_field *out, bool **checked,
                      bool *inserted)
{
    unsigned byte = first_byte(d);
    bool indexed = (byte & INDEXED) != 0;
    bool *unused;
    size_t index;

    *inserted = (byte & 0xc0) == LITERAL_INSERTED;
    *checked = NULL;
    if (!get_integer(d, indexed ? 7 : *inserted ? 6 : 4, &index))
        return false;
    if (indexed)
        return hpack_look_up(d->table, index, out, checked);
    return (index == 0 ? get_string(d, &d->name, &out->name)
                       : hpack_look_up(d->table, index, out, &unused)) &&
           get_string(d, &d->value, &out->value);
}

enum request_fault hpack_decode(struct hpack *h, struct slice block, const struct hpack_limits *l,
                                hpack_each_fn *each, void *context)
{
    struct hpack_decoding d = {.table = h, .left = block};
    enum request_fault r = FAULT_NONE;

    /* Section 4.2: changes of the table's size come first. At most two mean something. */
    for (int n = 0; d.left.len != 0 && (first_byte(&d) & 0xe0) == SIZE_UPDATE; ++n) {
        size_t bytes;

        if (n == 2 || !get_integer(&d, 5, &bytes) || bytes > HPACK_TABLE_BYTES)
            return FAULT_HTTP2_COMPRESSION;
        h->capacity = bytes;
        evict_to(h, bytes);
    }
    while (r == FAULT_NONE && d.left.len != 0) {
        struct hpack_field f;
        bool fresh = false;
        bool *checked;
        bool inserted;

        /* A size after a field is malformed, too. */
        if ((first_byte(&d) & 0xe0) == SIZE_UPDATE || !get_field(&d, &f, &checked, &inserted)) {
            r = FAULT_HTTP2_COMPRESSION;
            break;
        }
        d.list_bytes += f.name.len + f.value.len + HPACK_FIELD_OVERHEAD;
        if (d.list_bytes > l->list_bytes || ++d.fields > l->fields) {
            r = FAULT_HEADERS_TOO_LARGE;
            break;
        }
        each(context, &f, inserted ? &fresh : checked);
        if (inserted)
            add_entry(h, &f, fresh);
    }
    text_fini(&d.name);
    text_fini(&d.value);
    return r;
}

/* ---- the encoder ---- */

/*
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
 * fields have occurred is stored in one bit of each hash: a wrong guess costs an insertion.
 */

enum {
    ENCODED_INTEGER_MAX = 11, /* bytes of a size_t, the prefix included */
    RING_FIRST = 512,
    SEEN_MAX = HPACK_SEEN_BITS / 4, /* then they are cleared: a quarter of the guesses is wrong */
    NAME_SLOTS = 128,
};

/* Indices of the static table by the hash of the name: the first of each name; 0 is empty. */
static uint8_t names[NAME_SLOTS];
static uint64_t sensitive; /* a bit for each index */

/* ---- names of the static table ---- */

/* The slot of NAME: that of its index, or the empty one where it would be. */
static size_t name_slot(struct slice name)
{
    size_t at = map_hash(name.p, name.len) % NAME_SLOTS;

    while (names[at] != 0 && !slice_eq(static_fields[names[at] - 1].name, name))
        at = (at + 1) % NAME_SLOTS;
    return at;
}

static void fill_tables(void)
{
    static const char *const credentials[] = {
        "authorization",       "cookie",     "proxy-authenticate",
        "proxy-authorization", "set-cookie", "www-authenticate",
    };
    uint32_t code = 0;
    unsigned n = 0;

    for (unsigned bits = 1; bits <= HUFFMAN_BITS_MAX; ++bits) {
        huffman.first_code[bits] = code;
        huffman.first_index[bits] = n;
        for (unsigned s = 0; s < HUFFMAN_SYMBOLS; ++s) {
            if (lengths[s] != bits)
                continue;
            codes[s] = (struct huffman_code){.code = code++, .bits = (uint8_t)bits};
            huffman.symbols[n++] = (uint16_t)s;
        }
        /* Left-aligned: every code of so many bits, or fewer, is below it. */
        huffman.limit[bits] = (uint64_t)code << (HUFFMAN_BITS_MAX - bits);
        code <<= 1;
    }
    ASSERT(n == HUFFMAN_SYMBOLS);
    for (size_t i = 0; i < HPACK_STATIC_FIELDS; ++i) {
        size_t at = name_slot(static_fields[i].name);

        if (names[at] == 0)
            names[at] = (uint8_t)(i + 1);
    }
    for (size_t i = 0; i < ARRAY_LEN(credentials); ++i)
        sensitive |= UINT64_C(1) << names[name_slot(slice_of(credentials[i]))];
    ASSERT((sensitive & 1) == 0);
}

/* ---- the encoder's table ---- */

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

static void evict_entries(struct hpack_encoder *e)
{
    if (e->total - e->floor > e->capacity)
        e->floor = e->total - (uint32_t)e->capacity;
}

/* How many of BYTES at the position AT are before the end of the ring. */
static size_t until_wrap(const struct hpack_encoder *e, uint32_t at, size_t bytes)
{
    size_t left = e->ring_bytes - (at & (e->ring_bytes - 1));

    return bytes < left ? bytes : left;
}

/* FIELD: a name of NAME_LEN bytes and a value. */
static const struct hpack_indexed *hpack_find(const struct hpack_encoder *e, uint64_t hash,
                                              size_t name_len, struct slice field)
{
    const struct hpack_indexed *entry = e->entries[hash % HPACK_SETS];

    for (size_t i = 0; i < HPACK_WAYS; ++i, ++entry) {
        if (entry->hash != hash >> 32 || entry->at < e->floor || entry->name_len != name_len ||
            entry->name_len + entry->value_len != field.len)
            continue;
        size_t n = until_wrap(e, entry->at, field.len);
        if (memcmp(e->ring + (entry->at & (e->ring_bytes - 1)), field.p, n) == 0 &&
            (n == field.len || memcmp(e->ring, field.p + n, field.len - n) == 0))
            return entry;
    }
    return NULL;
}

static void insert_entry(struct hpack_encoder *e, uint64_t hash, size_t name_len,
                         struct slice field)
{
    struct hpack_indexed *set = e->entries[hash % HPACK_SETS];
    struct hpack_indexed *oldest = set;

    /* Positions begin again before they overflow, without a reference to existing entries. */
    if (e->total > UINT32_MAX - 2 * HPACK_TABLE_BYTES) {
        memset(e->entries, 0, sizeof(e->entries));
        e->total = e->floor = 1;
    }
    for (size_t i = 1; i < HPACK_WAYS; ++i) {
        if (set[i].at < oldest->at)
            oldest = &set[i];
    }
    *oldest = (struct hpack_indexed){.at = e->total,
                                     .number = e->inserted,
                                     .hash = (uint32_t)(hash >> 32),
                                     .name_len = (uint16_t)name_len,
                                     .value_len = (uint16_t)(field.len - name_len)};
    /* Before the first entry wraps, positions in the ring do not depend on its size. */
    size_t bytes = e->ring_bytes != 0 ? e->ring_bytes : RING_FIRST;
    while (bytes < e->total + field.len && bytes < HPACK_TABLE_BYTES)
        bytes *= 2;
    if (bytes != e->ring_bytes)
        e->ring = xrealloc(e->ring, bytes);
    e->ring_bytes = bytes;
    size_t n = until_wrap(e, e->total, field.len);
    memcpy(e->ring + (e->total & (e->ring_bytes - 1)), field.p, n);
    memcpy(e->ring, field.p + n, field.len - n);
    ++e->inserted;
    e->total += (uint32_t)field.len + HPACK_FIELD_OVERHEAD;
    evict_entries(e);
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

/* RFC 7541 section 5.1: V at TO, with a prefix of BITS bits after those of KIND. Returns its end.
 */
static inline char *put_integer(char *to, unsigned kind, unsigned bits, size_t v)
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
        return put_slice(put_integer(to, 0, 7, s.len), s);
    size_t n = (size_t)(end - coded);
    char length[ENCODED_INTEGER_MAX];
    size_t length_bytes = (size_t)(put_integer(length, HUFFMAN_CODED, 7, n) - length);
    if (length_bytes != 1)
        memmove(to + length_bytes, coded, n);
    memcpy(to, length, length_bytes);
    return to + length_bytes + n;
}

static void put_size(struct hpack_encoder *e, struct text *block, size_t bytes)
{
    char *to = text_reserve(block, ENCODED_INTEGER_MAX);

    block->len = (size_t)(put_integer(to, SIZE_UPDATE, 5, bytes) - block->p);
    e->capacity = bytes;
    evict_entries(e);
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
    char *to = text_reserve(block, (size_t)3 * ENCODED_INTEGER_MAX + 2 * bytes);
    struct slice field = {to + (size_t)3 * ENCODED_INTEGER_MAX + bytes, bytes};
    char *lower = block->p + (field.p - block->p);
    bool fits = bytes + HPACK_FIELD_OVERHEAD <= e->capacity / 2;
    unsigned kind = LITERAL;

    ascii_lower_copy(lower, name);
    (void)put_slice(lower + name.len, value);
    name.p = lower;
    uint64_t hash = fits ? map_hash(field.p, field.len) : 0;
    const struct hpack_indexed *entry = fits ? hpack_find(e, hash, name.len, field) : NULL;
    if (entry != NULL) {
        size_t index = HPACK_STATIC_FIELDS + (uint32_t)(e->inserted - entry->number);

        block->len = (size_t)(put_integer(to, INDEXED, 7, index) - block->p);
        return;
    }
    size_t name_index = names[name_slot(name)];
    if ((sensitive >> name_index & 1) != 0)
        kind = LITERAL_NEVER_INDEXED;
    else if (fits && was_seen(e, hash))
        kind = LITERAL_INSERTED;
    to = put_integer(to, kind, kind == LITERAL_INSERTED ? 6 : 4, name_index);
    if (name_index == 0)
        to = put_string(to, name);
    to = put_string(to, value);
    block->len = (size_t)(to - block->p);
    if (kind == LITERAL_INSERTED)
        insert_entry(e, hash, name.len, field);
}

void hpack_encoder_status(struct hpack_encoder *e, struct text *block, int status)
{
    char digits[3];

    ASSERT(status >= 100);
    ASSERT(status <= 999);
    (void)put_u64_before(digits + sizeof(digits), (unsigned)status);
    struct slice value = {digits, sizeof(digits)};
    for (size_t i = HPACK_STATUS_FIRST; i <= HPACK_STATUS_LAST; ++i) {
        if (slice_eq(static_fields[i - 1].value, value)) {
            text_add_char(block, (char)(INDEXED | i));
            return;
        }
    }
    hpack_encoder_field(e, block, SLICE_LIT(":status"), value);
}
