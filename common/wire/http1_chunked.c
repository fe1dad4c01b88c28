/* SPDX-License-Identifier: Apache-2.0
 *
 * Byte by byte between runs of data:
 *
 *     SIZE -> [extension] -> SIZE_LF -> DATA -> DATA_CR -> DATA_LF -> SIZE ...
 *                               | size 0
 *                               v
 *             TRAILER_START -> trailer -> TRAILER_LF -> TRAILER_START ...
 *                    | CR
 *                    v
 *                 END_LF -> ENDED
 *
 *     extension, response   [BLANK] -> [EXTENSION]
 *     extension, request    [EXT_NAME -> [EXT_VALUE -> TOKEN | QUOTED <-> ESCAPED,
 *                           QUOTED -> QUOTED_END]] ...
 *     trailer, response     TRAILER
 *     trailer, request      TRAILER_NAME -> TRAILER_VALUE
 */
#include "common/wire/http1_chunked.h"
#include "common/wire/http1_bytes.h"

enum {
    DIGITS_MAX = 16, /* leading zeros count, so that they end, too */
    /* Responses: a size with its extensions, of which those in use are a few dozen bytes; trailers,
     * as large a part of a message as heads usually are. */
    LINE_MAX_BYTES = 4096,
    RESPONSE_TRAILER_MAX = 16384,
    /* Requests, per body. Legitimate clients do not use extensions; they serve to make the server
     * read many bytes per byte of data. */
    EXTENSION_BYTES_MAX = 4096,
    TRAILER_BYTES_MAX = 8192,
    TRAILERS_MAX = 32,
};

enum state {
    SIZE, /* zero, so that a zeroed decoder is at the start */
    BLANK,
    EXTENSION,
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
    TRAILER,
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

static enum err enter(struct http1_chunked *d, enum state state)
{
    d->state = state;
    return ERR_OK;
}

static enum err expect(struct http1_chunked *d, char b, char wanted, enum state next)
{
    return b == wanted ? enter(d, next) : ERR_SYNTAX;
}

static enum err stay_if(bool good)
{
    return good ? ERR_OK : ERR_SYNTAX;
}

static enum err enter_if(bool good, struct http1_chunked *d, enum state next)
{
    return good ? enter(d, next) : ERR_SYNTAX;
}

/* ---- sizes ---- */

static enum err on_size(struct http1_chunked *d, char b, bool strict)
{
    int digit = ascii_hex_digit(b);

    if (digit >= 0) {
        if (d->digits == DIGITS_MAX || d->left > INT64_MAX >> 4)
            return ERR_TOO_LARGE;
        d->left = d->left << 4 | (uint64_t)digit;
        ++d->digits;
        return ERR_OK;
    }
    if (d->digits == 0)
        return ERR_SYNTAX;
    if (b == '\r')
        return enter(d, SIZE_LF);
    if (b == ';')
        return enter(d, strict ? EXT_NAME_START : EXTENSION);
    return enter_if(!strict && http1_is_blank(b), d, BLANK);
}

static enum err on_size_lf(struct http1_chunked *d, char b, bool strict)
{
    d->digits = 0;
    if (!strict)
        d->extension_bytes = 0;
    /* Each size but the last has been followed by its bytes, so the sum has room. */
    d->data_bytes += d->left;
    return expect(d, b, '\n', d->left != 0 ? DATA : TRAILER_START);
}

/* ---- responses ---- */

/* Blanks after the size are padding that some servers write, or precede an extension. */
static enum err on_blank(struct http1_chunked *d, char b)
{
    if (b == '\r')
        return enter(d, SIZE_LF);
    if (b == ';')
        return enter(d, EXTENSION);
    if (!http1_is_blank(b))
        return ERR_SYNTAX;
    return d->digits + ++d->extension_bytes > LINE_MAX_BYTES ? ERR_TOO_LARGE : ERR_OK;
}

static enum err on_any_extension(struct http1_chunked *d, char b)
{
    if (b == '\r')
        return enter(d, SIZE_LF);
    if (!is_text_byte(b))
        return ERR_SYNTAX;
    return d->digits + ++d->extension_bytes > LINE_MAX_BYTES ? ERR_TOO_LARGE : ERR_OK;
}

static enum err on_any_trailer(struct http1_chunked *d, char b)
{
    if (b == '\r')
        return enter(d, TRAILER_LF);
    if (!is_text_byte(b))
        return ERR_SYNTAX;
    return ++d->trailer_bytes > RESPONSE_TRAILER_MAX ? ERR_TOO_LARGE : ERR_OK;
}

/* ---- requests ---- */

/* Bytes permitted after a complete extension. */
static enum err end_extension(struct http1_chunked *d, char b)
{
    return b == '\r' ? enter(d, SIZE_LF) : expect(d, b, ';', EXT_NAME_START);
}

static enum err on_extension(struct http1_chunked *d, char b)
{
    if (++d->extension_bytes > EXTENSION_BYTES_MAX)
        return ERR_TOO_LARGE;
    switch ((enum state)d->state) {
    case EXT_NAME_START:
        return enter_if(is_token_byte(b), d, EXT_NAME);
    case EXT_NAME:
        if (is_token_byte(b))
            return ERR_OK;
        return b == '=' ? enter(d, EXT_VALUE_START) : end_extension(d, b);
    case EXT_VALUE_START:
        if (b == '"')
            return enter(d, EXT_QUOTED);
        return enter_if(is_token_byte(b), d, EXT_TOKEN);
    case EXT_TOKEN:
        return is_token_byte(b) ? ERR_OK : end_extension(d, b);
    case EXT_QUOTED:
        if (b == '"')
            return enter(d, EXT_QUOTED_END);
        if (b == '\\')
            return enter(d, EXT_ESCAPED);
        return stay_if(is_text_byte(b));
    case EXT_ESCAPED:
        return enter_if(is_text_byte(b), d, EXT_QUOTED);
    default:
        return end_extension(d, b);
    }
}

static enum err on_trailer(struct http1_chunked *d, char b)
{
    if (++d->trailer_bytes > TRAILER_BYTES_MAX)
        return ERR_TOO_LARGE;
    if (d->state == TRAILER_NAME)
        return is_token_byte(b) ? ERR_OK : expect(d, b, ':', TRAILER_VALUE);
    if (b == '\r')
        return enter(d, TRAILER_LF);
    return stay_if(is_text_byte(b));
}

/* ---- both ---- */

static enum err on_trailer_start(struct http1_chunked *d, char b, bool strict)
{
    if (b == '\r')
        return enter(d, END_LF);
    if (strict) {
        if (++d->trailers > TRAILERS_MAX)
            return ERR_TOO_LARGE;
        return enter_if(is_token_byte(b), d, TRAILER_NAME);
    }
    d->state = TRAILER;
    return on_any_trailer(d, b);
}

/* One byte of anything but data. On an error the state stays that in which the byte was read. */
static enum err on_byte(struct http1_chunked *d, char b, bool strict)
{
    switch ((enum state)d->state) {
    case SIZE:
        return on_size(d, b, strict);
    case BLANK:
        return on_blank(d, b);
    case EXTENSION:
        return on_any_extension(d, b);
    case EXT_NAME_START:
    case EXT_NAME:
    case EXT_VALUE_START:
    case EXT_TOKEN:
    case EXT_QUOTED:
    case EXT_ESCAPED:
    case EXT_QUOTED_END:
        return on_extension(d, b);
    case SIZE_LF:
        return on_size_lf(d, b, strict);
    case DATA_CR:
        return expect(d, b, '\r', DATA_LF);
    case DATA_LF:
        return expect(d, b, '\n', SIZE);
    case TRAILER_START:
        return on_trailer_start(d, b, strict);
    case TRAILER:
        return on_any_trailer(d, b);
    case TRAILER_NAME:
    case TRAILER_VALUE:
        return on_trailer(d, b);
    case TRAILER_LF:
        return expect(d, b, '\n', TRAILER_START);
    case END_LF:
        return expect(d, b, '\n', ENDED);
    case DATA:
    case ENDED:
        break;
    }
    UNREACHABLE();
}

static size_t take_data(struct http1_chunked *d, size_t len)
{
    size_t n = len < d->left ? len : (size_t)d->left;

    d->left -= n;
    if (d->left == 0)
        d->state = DATA_CR;
    return n;
}

enum err http1_chunked_decode(struct http1_chunked *d, struct slice bytes, struct slice *data,
                              size_t *used)
{
    size_t i = 0;

    *data = (struct slice){bytes.p, 0};
    *used = 0;
    while (d->state != ENDED && i < bytes.len) {
        if (d->state == DATA) {
            *data = (struct slice){bytes.p + i, take_data(d, bytes.len - i)};
            *used = i + data->len;
            return ERR_OK;
        }
        enum err e = on_byte(d, bytes.p[i], false);
        if (e != ERR_OK)
            return e;
        ++i;
    }
    *used = i;
    return d->state == ENDED ? ERR_NOT_FOUND : ERR_OK;
}

enum response_fault http1_chunked_fault(const struct http1_chunked *d)
{
    if (d->state == SIZE || d->state == BLANK)
        return RESPONSE_FAULT_CHUNK_SIZE;
    if (d->state == EXTENSION)
        return RESPONSE_FAULT_CHUNK_EXTENSION;
    if (d->state == DATA_CR || d->state == DATA_LF)
        return RESPONSE_FAULT_CHUNK_END;
    if (d->state == TRAILER_START || d->state == TRAILER)
        return RESPONSE_FAULT_TRAILER;
    return RESPONSE_FAULT_BARE_LINE_END;
}

/* The fault of byte B, for which on_byte() has returned E. */
static enum request_fault fault_of(const struct http1_chunked *d, char b, enum err e)
{
    enum request_fault fault = FAULT_BARE_LINE_END;

    if (d->state == SIZE)
        fault = FAULT_CHUNK_SIZE;
    else if (d->state < SIZE_LF)
        fault = FAULT_CHUNK_EXTENSION;
    else if (d->state == DATA_CR)
        fault = FAULT_CHUNK_END;
    else if (d->state >= TRAILER_START && d->state < TRAILER_LF)
        fault = e == ERR_TOO_LARGE ? FAULT_TRAILERS_TOO_LARGE : FAULT_TRAILER;
    return b == '\n' && e == ERR_SYNTAX ? FAULT_BARE_LINE_END : fault;
}

enum request_fault http1_chunked_take(struct http1_chunked *d, char *bytes, size_t len,
                                      size_t *used, size_t *data, bool *ended)
{
    enum request_fault f = FAULT_NONE;
    size_t i = 0;

    *data = 0;
    while (f == FAULT_NONE && d->state != ENDED && i < len) {
        if (d->state == DATA) {
            size_t n = take_data(d, len - i);

            memmove(bytes + *data, bytes + i, n);
            *data += n;
            i += n;
            continue;
        }
        char b = bytes[i++];
        enum err e = on_byte(d, b, true);
        if (e != ERR_OK)
            f = fault_of(d, b, e);
    }
    *used = i;
    *ended = d->state == ENDED;
    return f;
}
