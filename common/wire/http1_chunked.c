/* SPDX-License-Identifier: Apache-2.0
 *
 * The chunked coding, byte by byte between runs of data:
 *
 *     SIZE -> [BLANK] -> [EXTENSION] -> SIZE_LF -> DATA -> DATA_CR -> DATA_LF -> SIZE ...
 *                                          | size 0
 *                                          v
 *                        TRAILER_START -> TRAILER -> TRAILER_LF -> TRAILER_START ...
 *                                | CR
 *                                v
 *                             END_LF -> ENDED
 *
 * Every line ends in CRLF. A size line and all trailers together are bounded, or a peer could send
 * either for ever.
 */
#include "common/wire/http1_head.h"

#include "common/base/text.h"

enum {
    CHUNK_LINE_MAX = 4096,     /* a size with its extensions; those in use are a few dozen bytes */
    CHUNK_TRAILER_MAX = 16384, /* as large a part of a message as heads usually are */
    CHUNK_DIGITS_MAX = 16,     /* leading zeros count, so that they end, too */
};

enum chunk_state {
    CHUNK_SIZE, /* zero, so that a zeroed decoder is at the start */
    CHUNK_BLANK,
    CHUNK_EXTENSION,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    CHUNK_TRAILER_START,
    CHUNK_TRAILER,
    CHUNK_TRAILER_LF,
    CHUNK_END_LF,
    CHUNK_ENDED,
};

static bool is_control(char c)
{
    return ((unsigned char)c < 0x20 && c != '\t') || c == 0x7f;
}

static enum err enter(struct http1_chunked *d, enum chunk_state state)
{
    d->state = state;
    return ERR_OK;
}

static enum err expect(struct http1_chunked *d, char c, char wanted, enum chunk_state next)
{
    return c == wanted ? enter(d, next) : ERR_SYNTAX;
}

/* LINE_BYTES counts digits only while we are in CHUNK_SIZE. */
static enum err on_size(struct http1_chunked *d, char c)
{
    int digit = ascii_hex_digit(c);

    if (digit >= 0) {
        if (d->line_bytes == CHUNK_DIGITS_MAX || d->left > INT64_MAX >> 4)
            return ERR_TOO_LARGE;
        d->left = d->left << 4 | (uint64_t)digit;
        ++d->line_bytes;
        return ERR_OK;
    }
    if (d->line_bytes == 0)
        return ERR_SYNTAX;
    if (c == '\r')
        return enter(d, CHUNK_SIZE_LF);
    if (c == ';')
        return enter(d, CHUNK_EXTENSION);
    return c == ' ' || c == '\t' ? enter(d, CHUNK_BLANK) : ERR_SYNTAX;
}

/* Blanks after the size: padding that some servers write, or the way to an extension. */
static enum err on_blank(struct http1_chunked *d, char c)
{
    if (c == '\r')
        return enter(d, CHUNK_SIZE_LF);
    if (c == ';')
        return enter(d, CHUNK_EXTENSION);
    if (c != ' ' && c != '\t')
        return ERR_SYNTAX;
    return ++d->line_bytes > CHUNK_LINE_MAX ? ERR_TOO_LARGE : ERR_OK;
}

static enum err on_dropped(struct http1_chunked *d, char c, unsigned max, enum chunk_state after_cr)
{
    if (c == '\r')
        return enter(d, after_cr);
    if (is_control(c))
        return ERR_SYNTAX;
    return ++d->line_bytes > max ? ERR_TOO_LARGE : ERR_OK;
}

static enum err on_size_lf(struct http1_chunked *d, char c)
{
    d->line_bytes = 0;
    return expect(d, c, '\n', d->left != 0 ? CHUNK_DATA : CHUNK_TRAILER_START);
}

static enum err on_trailer_start(struct http1_chunked *d, char c)
{
    if (c == '\r')
        return enter(d, CHUNK_END_LF);
    d->state = CHUNK_TRAILER;
    return on_dropped(d, c, CHUNK_TRAILER_MAX, CHUNK_TRAILER_LF);
}

/* One byte of anything but data. */
static enum err on_byte(struct http1_chunked *d, char c)
{
    switch ((enum chunk_state)d->state) {
    case CHUNK_SIZE:
        return on_size(d, c);
    case CHUNK_BLANK:
        return on_blank(d, c);
    case CHUNK_EXTENSION:
        return on_dropped(d, c, CHUNK_LINE_MAX, CHUNK_SIZE_LF);
    case CHUNK_SIZE_LF:
        return on_size_lf(d, c);
    case CHUNK_DATA_CR:
        return expect(d, c, '\r', CHUNK_DATA_LF);
    case CHUNK_DATA_LF:
        return expect(d, c, '\n', CHUNK_SIZE);
    case CHUNK_TRAILER_START:
        return on_trailer_start(d, c);
    case CHUNK_TRAILER:
        return on_dropped(d, c, CHUNK_TRAILER_MAX, CHUNK_TRAILER_LF);
    case CHUNK_TRAILER_LF:
        return expect(d, c, '\n', CHUNK_TRAILER_START);
    case CHUNK_END_LF:
        return expect(d, c, '\n', CHUNK_ENDED);
    case CHUNK_DATA:
    case CHUNK_ENDED:
        break;
    }
    UNREACHABLE();
}

static struct slice take_data(struct http1_chunked *d, struct slice from)
{
    size_t len = from.len < d->left ? from.len : (size_t)d->left;

    d->left -= len;
    if (d->left == 0)
        d->state = CHUNK_DATA_CR;
    return (struct slice){from.p, len};
}

enum err http1_chunked_decode(struct http1_chunked *d, struct slice bytes, struct slice *data,
                              size_t *used)
{
    size_t i = 0;

    *data = (struct slice){bytes.p, 0};
    *used = 0;
    while (d->state != CHUNK_ENDED && i < bytes.len) {
        if (d->state == CHUNK_DATA) {
            *data = take_data(d, (struct slice){bytes.p + i, bytes.len - i});
            *used = i + data->len;
            return ERR_OK;
        }
        enum err e = on_byte(d, bytes.p[i]);
        if (e != ERR_OK)
            return e;
        ++i;
    }
    *used = i;
    return d->state == CHUNK_ENDED ? ERR_NOT_FOUND : ERR_OK;
}

enum response_fault http1_chunked_fault(const struct http1_chunked *d)
{
    switch ((enum chunk_state)d->state) {
    case CHUNK_SIZE:
    case CHUNK_BLANK:
        return RESPONSE_FAULT_CHUNK_SIZE;
    case CHUNK_EXTENSION:
        return RESPONSE_FAULT_CHUNK_EXTENSION;
    case CHUNK_SIZE_LF:
    case CHUNK_TRAILER_LF:
    case CHUNK_END_LF:
        return RESPONSE_FAULT_BARE_LINE_END;
    case CHUNK_DATA:
    case CHUNK_DATA_CR:
    case CHUNK_DATA_LF:
        return RESPONSE_FAULT_CHUNK_END;
    case CHUNK_TRAILER_START:
    case CHUNK_TRAILER:
        return RESPONSE_FAULT_TRAILER;
    case CHUNK_ENDED:
        break;
    }
    return RESPONSE_FAULT_NONE;
}
