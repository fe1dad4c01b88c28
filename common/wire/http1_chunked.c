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
 *     trailer, response     TRAILER_VALUE
 *     trailer, request      TRAILER_NAME -> TRAILER_VALUE
 */
#include "common/wire/http1_chunked.h"
#include "common/wire/http1_bytes.h"

enum {
    DIGITS_MAX = 16, /* leading zeros count, so that they end, too */
    /*
     * Extensions: of all chunks of a request, as legitimate clients do not use them, and they make
     * the server read many bytes per byte of data; of one chunk of a response, where those in use
     * have a few dozen bytes, padding included.
     */
    EXTENSION_BYTES_MAX = 4096,
    /* Trailers of a response: as large a part of a message as heads usually are. */
    RESPONSE_TRAILER_MAX = 16384,
    TRAILER_BYTES_MAX = 8192, /* the same of a request */
    TRAILERS_MAX = 32,        /* of a request */
};

enum state {
    START, /* zero, so that a zeroed decoder is at the start; then as SIZE */
    SIZE,
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
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_LF,
    END_LF,
    ENDED,
    /* Rows of the table only: of requests. */
    STRICT_SIZE,
    STRICT_TRAILER_START,
    ROWS,
};

enum byte_class {
    CONTROL,
    LF,
    CR,
    QUOTE,
    BACKSLASH,
    SPACE,
    SEMICOLON,
    EQUALS,
    COLON,
    TOKEN,
    OTHER,
    CLASSES
};
#define TEXT QUOTE... OTHER

/* The state after a byte of each class; 0: not allowed there. Digits of a size are none of these.
 */
static const uint8_t next_states[ROWS][CLASSES] = {
    [SIZE] = {[CR] = SIZE_LF, [SEMICOLON] = EXTENSION, [SPACE] = BLANK},
    [STRICT_SIZE] = {[CR] = SIZE_LF, [SEMICOLON] = EXT_NAME_START},
    /* Padding that some servers write, or before an extension. */
    [BLANK] = {[CR] = SIZE_LF, [SEMICOLON] = EXTENSION, [SPACE] = BLANK},
    [EXTENSION] = {[CR] = SIZE_LF, [TEXT] = EXTENSION},
    [EXT_NAME_START] = {[TOKEN] = EXT_NAME},
    [EXT_NAME] = {[CR] = SIZE_LF,
                  [SEMICOLON] = EXT_NAME_START,
                  [EQUALS] = EXT_VALUE_START,
                  [TOKEN] = EXT_NAME},
    [EXT_VALUE_START] = {[QUOTE] = EXT_QUOTED, [TOKEN] = EXT_TOKEN},
    [EXT_TOKEN] = {[CR] = SIZE_LF, [SEMICOLON] = EXT_NAME_START, [TOKEN] = EXT_TOKEN},
    [EXT_QUOTED] =
        {[QUOTE] = EXT_QUOTED_END, [BACKSLASH] = EXT_ESCAPED, [SPACE... OTHER] = EXT_QUOTED},
    [EXT_ESCAPED] = {[TEXT] = EXT_QUOTED},
    [EXT_QUOTED_END] = {[CR] = SIZE_LF, [SEMICOLON] = EXT_NAME_START},
    [SIZE_LF] = {[LF] = DATA},
    [DATA_CR] = {[CR] = DATA_LF},
    [DATA_LF] = {[LF] = SIZE},
    [TRAILER_START] = {[CR] = END_LF, [TEXT] = TRAILER_VALUE},
    [STRICT_TRAILER_START] = {[CR] = END_LF, [TOKEN] = TRAILER_NAME},
    [TRAILER_NAME] = {[COLON] = TRAILER_VALUE, [TOKEN] = TRAILER_NAME},
    [TRAILER_VALUE] = {[CR] = TRAILER_LF, [TEXT] = TRAILER_VALUE},
    [TRAILER_LF] = {[LF] = TRAILER_START},
    [END_LF] = {[LF] = ENDED},
};

static enum byte_class chunked_class_of(char b)
{
    static const char special[] = "\n\r\"\\ ;=:"; /* from LF to COLON */

    if (http1_token_bytes[(unsigned char)b])
        return TOKEN;
    const char *at = memchr(special, b == '\t' ? ' ' : b, sizeof(special) - 1);
    if (at != NULL)
        return LF + (enum byte_class)(at - special);
    return http1_is_text((struct slice){&b, 1}) ? OTHER : CONTROL;
}

/* One byte of anything but data. On an error the state stays that in which the byte was read. */
static enum err on_byte(struct http1_chunked *d, char b, bool strict)
{
    if (d->state == START)
        d->state = SIZE;
    if (d->state == SIZE) {
        int digit = ascii_hex_digit(b);

        if (digit < 0 && d->digits == 0)
            return ERR_SYNTAX;
        if (digit >= 0) {
            if (d->digits == DIGITS_MAX || d->left > INT64_MAX >> 4)
                return ERR_TOO_LARGE;
            d->left = d->left << 4 | (uint64_t)digit;
            ++d->digits;
            return ERR_OK;
        }
    }
    unsigned row = d->state;
    if (strict && (row == SIZE || row == TRAILER_START))
        row = row == SIZE ? STRICT_SIZE : STRICT_TRAILER_START;
    unsigned next = next_states[row][chunked_class_of(b)];
    if (next == 0)
        return ERR_SYNTAX;
    if (next >= BLANK && next <= EXT_QUOTED_END && ++d->extension_bytes > EXTENSION_BYTES_MAX)
        return ERR_TOO_LARGE;
    if (next == TRAILER_NAME || next == TRAILER_VALUE) {
        if (strict && d->state == TRAILER_START && ++d->trailers > TRAILERS_MAX)
            return ERR_TOO_LARGE;
        if (++d->trailer_bytes > (strict ? TRAILER_BYTES_MAX : RESPONSE_TRAILER_MAX))
            return ERR_TOO_LARGE;
    }
    if (d->state == SIZE_LF) {
        d->digits = 0;
        if (!strict)
            d->extension_bytes = 0;
        /* Each size but the last has been followed by its bytes: the sum cannot overflow. */
        d->data_bytes += d->left;
        if (d->left == 0)
            next = TRAILER_START;
    }
    d->state = next;
    return ERR_OK;
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
    if (d->state == TRAILER_START || d->state == TRAILER_VALUE)
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
