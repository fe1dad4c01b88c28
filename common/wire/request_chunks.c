/* SPDX-License-Identifier: Apache-2.0
 *
 * Byte by byte between runs of data:
 *
 *     SIZE -> [EXT_NAME -> [EXT_VALUE -> TOKEN | QUOTED <-> ESCAPED, QUOTED -> QUOTED_END]] ...
 *       -> SIZE_LF -> DATA -> DATA_CR -> DATA_LF -> SIZE
 *             | size 0
 *             v
 *         TRAILER_START -> TRAILER_NAME -> TRAILER_VALUE -> TRAILER_LF -> TRAILER_START ...
 *             | CR
 *             v
 *         END_LF -> ENDED
 */
#include "common/wire/request_chunks.h"
#include "common/wire/http1_bytes.h"

enum {
    DIGITS_MAX = 16, /* leading zeros count, so that they end, too */
    /* Per body. Legitimate clients do not use extensions; they serve to make the server read many
     * bytes per byte of data. */
    EXTENSION_BYTES_MAX = 4096,
    TRAILER_BYTES_MAX = 8192,
    TRAILERS_MAX = 32,
};

enum state {
    SIZE, /* zero, so that a zeroed one is at the start */
    EXT_NAME_START,
    EXT_NAME,
    EXT_VALUE_START,
    EXT_TOKEN,
    EXT_QUOTED,
    EXT_ESCAPED,
    EXT_QUOTED_END,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER_START,
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_LF,
    END_LF,
    ENDED,
};

static bool is_token_byte(char b)
{
    return http1_token_length((struct slice){&b, 1}) == 1;
}

static bool is_text_byte(char b)
{
    return http1_is_text((struct slice){&b, 1});
}

static enum request_fault enter(struct request_chunks *c, enum state state)
{
    c->state = state;
    return FAULT_NONE;
}

static enum request_fault expect_lf(struct request_chunks *c, char b, enum state next)
{
    return b == '\n' ? enter(c, next) : FAULT_BARE_LINE_END;
}

/* What B, where no other byte may stand, is: a line end of its own kind, or just wrong. */
static enum request_fault wrong(char b, enum request_fault fault)
{
    return b == '\n' ? FAULT_BARE_LINE_END : fault;
}

static enum request_fault on_size(struct request_chunks *c, char b)
{
    int digit = ascii_hex_digit(b);

    if (digit >= 0) {
        if (c->digits == DIGITS_MAX || c->left > INT64_MAX >> 4)
            return FAULT_CHUNK_SIZE;
        c->left = c->left << 4 | (uint64_t)digit;
        ++c->digits;
        return FAULT_NONE;
    }
    if (c->digits == 0)
        return wrong(b, FAULT_CHUNK_SIZE);
    if (b == '\r')
        return enter(c, SIZE_LF);
    return b == ';' ? enter(c, EXT_NAME_START) : wrong(b, FAULT_CHUNK_SIZE);
}

/* What may follow a whole extension. */
static enum request_fault end_extension(struct request_chunks *c, char b)
{
    if (b == '\r')
        return enter(c, SIZE_LF);
    return b == ';' ? enter(c, EXT_NAME_START) : wrong(b, FAULT_CHUNK_EXTENSION);
}

static enum request_fault on_extension(struct request_chunks *c, char b)
{
    if (++c->extension_bytes > EXTENSION_BYTES_MAX)
        return FAULT_CHUNK_EXTENSION;
    switch ((enum state)c->state) {
    case EXT_NAME_START:
        return is_token_byte(b) ? enter(c, EXT_NAME) : wrong(b, FAULT_CHUNK_EXTENSION);
    case EXT_NAME:
        if (is_token_byte(b))
            return FAULT_NONE;
        return b == '=' ? enter(c, EXT_VALUE_START) : end_extension(c, b);
    case EXT_VALUE_START:
        if (b == '"')
            return enter(c, EXT_QUOTED);
        return is_token_byte(b) ? enter(c, EXT_TOKEN) : wrong(b, FAULT_CHUNK_EXTENSION);
    case EXT_TOKEN:
        return is_token_byte(b) ? FAULT_NONE : end_extension(c, b);
    case EXT_QUOTED:
        if (b == '"')
            return enter(c, EXT_QUOTED_END);
        if (b == '\\')
            return enter(c, EXT_ESCAPED);
        return is_text_byte(b) ? FAULT_NONE : wrong(b, FAULT_CHUNK_EXTENSION);
    case EXT_ESCAPED:
        return is_text_byte(b) ? enter(c, EXT_QUOTED) : wrong(b, FAULT_CHUNK_EXTENSION);
    default:
        return end_extension(c, b);
    }
}

static enum request_fault on_size_lf(struct request_chunks *c, char b)
{
    c->digits = 0;
    /* Each size but the last has been followed by its bytes, so the sum has room. */
    c->data_bytes += c->left;
    return expect_lf(c, b, c->left != 0 ? DATA : TRAILER_START);
}

static enum request_fault on_trailer(struct request_chunks *c, char b)
{
    if (++c->trailer_bytes > TRAILER_BYTES_MAX)
        return FAULT_TRAILERS_TOO_LARGE;
    if (c->state == TRAILER_NAME) {
        if (is_token_byte(b))
            return FAULT_NONE;
        return b == ':' ? enter(c, TRAILER_VALUE) : wrong(b, FAULT_TRAILER);
    }
    if (b == '\r')
        return enter(c, TRAILER_LF);
    return is_text_byte(b) ? FAULT_NONE : wrong(b, FAULT_TRAILER);
}

static enum request_fault on_trailer_start(struct request_chunks *c, char b)
{
    if (b == '\r')
        return enter(c, END_LF);
    if (++c->trailers > TRAILERS_MAX)
        return FAULT_TRAILERS_TOO_LARGE;
    return is_token_byte(b) ? enter(c, TRAILER_NAME) : wrong(b, FAULT_TRAILER);
}

/* One byte of anything but data. */
static enum request_fault on_byte(struct request_chunks *c, char b)
{
    switch ((enum state)c->state) {
    case SIZE:
        return on_size(c, b);
    case EXT_NAME_START:
    case EXT_NAME:
    case EXT_VALUE_START:
    case EXT_TOKEN:
    case EXT_QUOTED:
    case EXT_ESCAPED:
    case EXT_QUOTED_END:
        return on_extension(c, b);
    case SIZE_LF:
        return on_size_lf(c, b);
    case DATA_CR:
        return b == '\r' ? enter(c, DATA_LF) : wrong(b, FAULT_CHUNK_END);
    case DATA_LF:
        return expect_lf(c, b, SIZE);
    case TRAILER_START:
        return on_trailer_start(c, b);
    case TRAILER_NAME:
    case TRAILER_VALUE:
        return on_trailer(c, b);
    case TRAILER_LF:
        return expect_lf(c, b, TRAILER_START);
    case END_LF:
        return expect_lf(c, b, ENDED);
    case DATA:
    case ENDED:
        break;
    }
    UNREACHABLE();
}

static size_t skip_data(struct request_chunks *c, size_t len)
{
    size_t n = len < c->left ? len : (size_t)c->left;

    c->left -= n;
    if (c->left == 0)
        c->state = DATA_CR;
    return n;
}

enum request_fault request_chunks_check(struct request_chunks *c, struct slice bytes, size_t *used,
                                        bool *ended)
{
    enum request_fault f = FAULT_NONE;
    size_t i = 0;

    while (f == FAULT_NONE && c->state != ENDED && i < bytes.len) {
        if (c->state == DATA)
            i += skip_data(c, bytes.len - i);
        else
            f = on_byte(c, bytes.p[i++]);
    }
    *used = i;
    *ended = c->state == ENDED;
    return f;
}

size_t request_chunks_strip(struct request_chunks *c, char *bytes, size_t len)
{
    size_t kept = 0;
    size_t i = 0;

    while (i < len) {
        if (c->state != DATA) {
            enum request_fault f = on_byte(c, bytes[i++]);
            ASSERT(f == FAULT_NONE); /* it was checked */
            continue;
        }
        size_t n = skip_data(c, len - i);
        memmove(bytes + kept, bytes + i, n);
        kept += n;
        i += n;
    }
    return kept;
}
