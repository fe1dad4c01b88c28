/* SPDX-License-Identifier: Apache-2.0
 *
 * RFC 7541. The dynamic table is a ring of entries, each one piece of memory; with 32 bytes counted
 * for each, 4096 bytes of table are at most 128 of them.
 */
#include "common/wire/http2/hpack.h"

#include <pthread.h>
#include <stdlib.h>

/*
 * The static table of RFC 7541 appendix A, and the Huffman code of appendix B. That is canonical:
 * the lengths of the codes are sufficient, as codes of one length follow each other in the order of
 * the symbols, and shorter ones come first (Schwartz and Kallick, 1964).
 */

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

enum {
    INTEGER_MAX = 1 << 27, /* far above every length and index that can be right */
    INTEGER_BYTES_MAX = 5,
    /* The shortest code has 5 bits, so decoded a string is at most 8/5 as long. */
    HUFFMAN_SHORTEST = 5,
    ENTRIES_FIRST = 16,
};

struct hpack_entry {
    struct hpack_mark mark;
    size_t name_len, value_len;
    size_t name_index; /* in the static table, or 0 */
    char bytes[];
};

static struct huffman huffman;
static pthread_once_t huffman_once = PTHREAD_ONCE_INIT;

static void fill_huffman(void)
{
    huffman_fill(&huffman);
}

void hpack_init(struct hpack *h)
{
    *h = (struct hpack){.capacity = HPACK_TABLE_BYTES};
    pthread_once(&huffman_once, fill_huffman);
}

/* ---- the dynamic table ---- */

static size_t ring_index(const struct hpack *h, size_t age)
{
    ASSERT(h->room != 0);
    return (h->newest + h->room - age) % h->room;
}

static size_t entry_bytes(const struct hpack_entry *e)
{
    return e->name_len + e->value_len + HPACK_FIELD_OVERHEAD;
}

static void evict_to(struct hpack *h, size_t bytes)
{
    while (h->bytes > bytes) {
        ASSERT(h->count != 0);
        struct hpack_entry **oldest = &h->entries[ring_index(h, --h->count)];
        h->bytes -= entry_bytes(*oldest);
        free(*oldest);
        *oldest = NULL;
    }
}

/* Most tables hold few. */
static void make_room(struct hpack *h)
{
    size_t room = h->room == 0 ? ENTRIES_FIRST : 2 * h->room;

    if (h->count < h->room)
        return;
    ASSERT(room <= HPACK_ENTRIES_MAX);
    struct hpack_entry **entries = xcalloc(room, sizeof(struct hpack_entry *));
    for (size_t i = 0; i < h->count; ++i)
        entries[i] = h->entries[ring_index(h, h->count - 1 - i)];
    free(h->entries);
    h->entries = entries;
    h->room = room;
    h->newest = h->count != 0 ? h->count - 1 : 0;
}

/* F may be of an entry that is evicted to make room: it is copied first. */
static void insert(struct hpack *h, const struct hpack_field *f, const struct hpack_origin *o)
{
    size_t bytes = f->name.len + f->value.len + HPACK_FIELD_OVERHEAD;

    if (bytes > h->capacity) {
        evict_to(h, 0); /* not an error: section 4.4 */
        return;
    }
    struct hpack_entry *e = xmalloc(sizeof(*e) + f->name.len + f->value.len);
    e->mark = *o->mark;
    e->name_index = o->name_index;
    e->name_len = f->name.len;
    e->value_len = f->value.len;
    if (f->name.len != 0)
        memcpy(e->bytes, f->name.p, f->name.len);
    if (f->value.len != 0)
        memcpy(e->bytes + f->name.len, f->value.p, f->value.len);
    evict_to(h, h->capacity - bytes);
    make_room(h);
    h->newest = (h->newest + 1) % h->room;
    ASSERT(h->entries[h->newest] == NULL);
    h->entries[h->newest] = e;
    ++h->count;
    h->bytes += bytes;
}

void hpack_fini(struct hpack *h)
{
    evict_to(h, 0);
    free(h->entries);
    h->entries = NULL;
    h->room = 0;
}

static bool look_up(const struct hpack *h, size_t index, struct hpack_field *out,
                    struct hpack_origin *o)
{
    if (index == 0 || index > HPACK_STATIC_FIELDS + h->count)
        return false;
    if (index <= HPACK_STATIC_FIELDS) {
        *out = hpack_static[index - 1];
        *o = (struct hpack_origin){.name_index = index, .whole = true};
        return true;
    }
    struct hpack_entry *e = h->entries[ring_index(h, index - HPACK_STATIC_FIELDS - 1)];
    *o = (struct hpack_origin){.name_index = e->name_index, .mark = &e->mark};
    out->name = (struct slice){e->bytes, e->name_len};
    out->value = (struct slice){e->bytes + e->name_len, e->value_len};
    return true;
}

/* ---- integers and strings ---- */

/* One block while it is decoded. */
struct decoding {
    struct hpack *table;
    const struct hpack_limits *limits;
    struct slice left;
    struct text name, value; /* of strings that were Huffman-coded */
    size_t list_bytes, fields;
};

static unsigned first_byte(const struct decoding *d)
{
    return (unsigned char)d->left.p[0];
}

static void skip(struct slice *s, size_t n)
{
    s->p += n;
    s->len -= n;
}

/* Section 5.1: what the prefix of so many BITS in the first byte begins. */
static bool get_integer(struct decoding *d, unsigned bits, size_t *out)
{
    unsigned all = (1U << bits) - 1;
    unsigned shift = 0;

    if (d->left.len == 0)
        return false;
    size_t v = first_byte(d) & all;
    skip(&d->left, 1);
    if (v == all) {
        for (unsigned i = 0;; ++i) {
            if (i == INTEGER_BYTES_MAX || d->left.len == 0)
                return false;
            unsigned byte = first_byte(d);
            skip(&d->left, 1);
            v += (size_t)(byte & 0x7f) << shift;
            shift += 7;
            if ((byte & 0x80) == 0)
                break;
        }
    }
    *out = v;
    return v <= INTEGER_MAX;
}

/* The code at the start of BITS, which are left-aligned in HUFFMAN_BITS_MAX. 0: none is whole. */
static unsigned match_code(uint64_t bits, unsigned have, unsigned *symbol)
{
    unsigned n = HUFFMAN_SHORTEST;

    while (n <= HUFFMAN_BITS_MAX && bits >= huffman.limit[n])
        ++n;
    if (n > have || n > HUFFMAN_BITS_MAX)
        return 0;
    uint32_t code = (uint32_t)(bits >> (HUFFMAN_BITS_MAX - n));
    *symbol = huffman.symbols[huffman.first_index[n] + code - huffman.first_code[n]];
    return n;
}

/* The rest of a string must be the start of EOS, shorter than a byte: section 5.2. */
static bool is_padding(uint64_t held, unsigned have)
{
    uint64_t mask = (1U << have) - 1;

    return have < 8 && (held & mask) == mask;
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
        unsigned symbol;
        unsigned n = match_code(window & ((1U << HUFFMAN_BITS_MAX) - 1), have, &symbol);
        if (n == 0 || (symbol == HUFFMAN_EOS && n != 0))
            return n == 0 && at == s.len && is_padding(held, have);
        to[out->len++] = (char)symbol;
        have -= n;
    }
}

/* Section 5.2. SCRATCH is where a coded one goes. */
static enum hpack_result get_string(struct decoding *d, struct text *scratch, struct slice *out)
{
    size_t len;

    if (d->left.len == 0)
        return HPACK_MALFORMED;
    bool coded = (first_byte(d) & 0x80) != 0;
    if (!get_integer(d, 7, &len) || len > d->left.len)
        return HPACK_MALFORMED;
    *out = (struct slice){d->left.p, len};
    skip(&d->left, len);
    if (!coded)
        return HPACK_OK;
    if (!decode_huffman(*out, scratch))
        return HPACK_MALFORMED;
    *out = text_slice(scratch);
    return HPACK_OK;
}

/* ---- fields ---- */

static enum hpack_result count_field(struct decoding *d, const struct hpack_field *f)
{
    d->list_bytes += f->name.len + f->value.len + HPACK_FIELD_OVERHEAD;
    ++d->fields;
    return d->list_bytes > d->limits->list_bytes || d->fields > d->limits->fields ? HPACK_TOO_LARGE
                                                                                  : HPACK_OK;
}

/* Section 6.2: the index of its name, or 0 and the name. */
static enum hpack_result get_literal(struct decoding *d, unsigned prefix, struct hpack_field *out,
                                     struct hpack_origin *o)
{
    enum hpack_result r = HPACK_OK;
    size_t index;

    *o = (struct hpack_origin){0};
    if (!get_integer(d, prefix, &index))
        return HPACK_MALFORMED;
    if (index == 0)
        r = get_string(d, &d->name, &out->name);
    else if (!look_up(d->table, index, out, o))
        r = HPACK_MALFORMED;
    *o = (struct hpack_origin){.name_index = o->name_index};
    return r == HPACK_OK ? get_string(d, &d->value, &out->value) : r;
}

static enum hpack_result get_field(struct decoding *d, struct hpack_field *out,
                                   struct hpack_origin *o, bool *keep)
{
    unsigned byte = first_byte(d);
    size_t index;

    *keep = false;
    if ((byte & 0x80) != 0)
        return get_integer(d, 7, &index) && look_up(d->table, index, out, o) ? HPACK_OK
                                                                             : HPACK_MALFORMED;
    *keep = (byte & 0x40) != 0;
    return get_literal(d, *keep ? 6 : 4, out, o);
}

/* Section 4.2: changes of the table's size come first. At most two mean something. */
static bool get_sizes(struct decoding *d)
{
    size_t bytes;

    for (int n = 0; d->left.len != 0 && (first_byte(d) & 0xe0) == 0x20; ++n) {
        if (n == 2 || !get_integer(d, 5, &bytes) || bytes > HPACK_TABLE_BYTES)
            return false;
        d->table->capacity = bytes;
        evict_to(d->table, bytes);
    }
    return true;
}

enum hpack_result hpack_decode(struct hpack *h, struct slice block, const struct hpack_limits *l,
                               hpack_each_fn *each, void *context)
{
    struct decoding d = {.table = h, .limits = l, .left = block};
    enum hpack_result r = get_sizes(&d) ? HPACK_OK : HPACK_MALFORMED;

    while (r == HPACK_OK && d.left.len != 0) {
        struct hpack_field f;
        struct hpack_origin o;
        struct hpack_mark fresh = {0};
        bool keep;

        if ((first_byte(&d) & 0xe0) == 0x20)
            r = HPACK_MALFORMED; /* a size after a field */
        else
            r = get_field(&d, &f, &o, &keep);
        if (r == HPACK_OK)
            r = count_field(&d, &f);
        if (r != HPACK_OK)
            break;
        if (keep)
            o.mark = &fresh;
        each(context, &f, &o);
        if (keep)
            insert(h, &f, &o);
    }
    text_fini(&d.name);
    text_fini(&d.value);
    return r;
}
