/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference parser for the lines and fields of a head: reads byte by byte and follows the rules
 * literally. Fuzz targets compare it with the parsers that examine many bytes at once.
 */
#pragma once

#include "common/wire/http1_head.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

enum plain_end {
    PLAIN_WHOLE, /* up to the blank line */
    PLAIN_CUT,
    PLAIN_BAD, /* a line that is not text and CRLF, or not a valid field */
};

enum { PLAIN_FIELDS_MAX = RESPONSE_HEADERS_MAX };

struct plain_head {
    size_t nfields; /* all; only the first PLAIN_FIELDS_MAX are stored */
    size_t bytes;   /* valid if PLAIN_WHOLE */
    struct {
        struct slice name, value;
    } fields[PLAIN_FIELDS_MAX];
};

/* RFC 9110 section 5.6.2: tchar. */
static bool plain_is_token_byte(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool plain_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* The line at P, of at most LEN bytes. */
static enum plain_end plain_line(const char *p, size_t len, struct slice *line)
{
    size_t n = 0;

    while (n < len && (plain_is_blank(p[n]) || ((unsigned char)p[n] > ' ' && p[n] != 0x7f)))
        ++n;
    if (n == len || (p[n] == '\r' && n + 1 == len))
        return PLAIN_CUT;
    if (p[n] != '\r' || p[n + 1] != '\n')
        return PLAIN_BAD;
    *line = (struct slice){p, n};
    return PLAIN_WHOLE;
}

/* PADDED: blanks between name and colon are removed (RFC 9112 section 5.1: of a response only). */
static bool plain_field(struct slice line, bool padded, struct slice *name, struct slice *value)
{
    size_t n = 0;

    while (n < line.len && plain_is_token_byte(line.p[n]))
        ++n;
    *name = (struct slice){line.p, n};
    while (padded && n < line.len && plain_is_blank(line.p[n]))
        ++n;
    if (name->len == 0 || n == line.len || line.p[n] != ':')
        return false;
    *value = (struct slice){line.p + n + 1, line.len - n - 1};
    while (value->len != 0 && plain_is_blank(value->p[0]))
        *value = (struct slice){value->p + 1, value->len - 1};
    while (value->len != 0 && plain_is_blank(value->p[value->len - 1]))
        --value->len;
    return true;
}

/* The head at the start of BYTES; the contents of its first line are not checked. */
static enum plain_end plain_head(struct slice bytes, bool padded, struct plain_head *out)
{
    struct slice name;
    struct slice value;
    size_t at = 0;

    out->nfields = 0;
    for (bool first = true;; first = false) {
        struct slice line;
        enum plain_end e = plain_line(bytes.p + at, bytes.len - at, &line);

        if (e != PLAIN_WHOLE)
            return e;
        at += line.len + 2;
        if (first)
            continue;
        if (line.len == 0)
            break;
        if (!plain_field(line, padded, &name, &value))
            return PLAIN_BAD;
        if (out->nfields < PLAIN_FIELDS_MAX) {
            out->fields[out->nfields].name = name;
            out->fields[out->nfields].value = value;
        }
        ++out->nfields;
    }
    out->bytes = at;
    return PLAIN_WHOLE;
}

/* N fields that were read otherwise are the first of PLAIN's. */
static void plain_same_fields(const struct plain_head *plain, const struct message_field *fields,
                              size_t n)
{
    for (size_t i = 0; i < n; ++i) {
        ASSERT(fields[i].name.p == plain->fields[i].name.p);
        ASSERT(fields[i].name.len == plain->fields[i].name.len);
        ASSERT(fields[i].value.p == plain->fields[i].value.p);
        ASSERT(fields[i].value.len == plain->fields[i].value.len);
        /* A field that Connection lists belongs to the connection. */
        ASSERT(fields[i].kind == http_field_of(fields[i].name) || fields[i].kind == FIELD_HOP);
    }
}
