/* SPDX-License-Identifier: Apache-2.0
 *
 *   version 1   PROXY TCP4 192.0.2.1 192.0.2.9 51000 443 CRLF
 *               PROXY UNKNOWN [anything] CRLF
 *   version 2   12 bytes of signature | version, command | family, transport | length | addresses |
 *               records: type, length, value ...
 */
#include "common/wire/proxy_line.h"
#include "common/base/text.h"

#include <sys/socket.h>

enum {
    SIGNATURE_BYTES = 12,
    HEAD_BYTES = 16, /* signature, command, family, length */
    RECORD_HEAD_BYTES = 3,
    RECORD_CRC32C = 3,
    RECORD_TLS = 0x20,
    TLS_HEAD_BYTES = 1 + 4, /* client flags, result of the verification */
    TLS_CLIENT = 0x01,      /* client flag: it uses TLS */
    CRC_BYTES = 4,
    COMMAND_LOCAL = 0x20, /* version 2 in the upper half */
    COMMAND_PROXY = 0x21,
    INET_BYTES = 4 + 4 + 2 + 2,
    INET6_BYTES = 16 + 16 + 2 + 2,
    UNIX_BYTES = 108 + 108,
};

static const char signature[SIGNATURE_BYTES + 1] = "\r\n\r\n\0\r\nQUIT\n";
#define TEXT_START SLICE_LIT("PROXY ")

static bool begins_like(struct slice bytes, struct slice start)
{
    size_t n = bytes.len < start.len ? bytes.len : start.len;

    return memcmp(bytes.p, start.p, n) == 0;
}

/* ---- version 1 ---- */

/* 0 to 65535 without leading zeros. */
static bool take_port(struct slice text, uint16_t *out)
{
    uint64_t number;

    if (text.len > 1 && text.p[0] == '0')
        return false;
    if (!parse_u64(text, UINT16_MAX, &number))
        return false;
    *out = (uint16_t)number;
    return true;
}

static enum request_fault check_text(struct slice bytes, struct proxy_line *out)
{
    size_t seen = bytes.len < PROXY_LINE_TEXT_MAX ? bytes.len : PROXY_LINE_TEXT_MAX;
    const char *lf = memchr(bytes.p, '\n', seen);

    if (lf == NULL)
        return seen == PROXY_LINE_TEXT_MAX ? FAULT_PROXY_TOO_LONG : FAULT_NONE;
    if (lf[-1] != '\r')
        return FAULT_PROXY_LINE;
    struct slice rest = {bytes.p + TEXT_START.len, (size_t)(lf - bytes.p) - 1 - TEXT_START.len};
    struct slice protocol = slice_cut(&rest, ' ');

    if (slice_is(protocol, "TCP4"))
        out->family = PROXY_INET;
    else if (slice_is(protocol, "TCP6"))
        out->family = PROXY_INET6;
    else if (!slice_is(protocol, "UNKNOWN"))
        return FAULT_PROXY_LINE;
    if (out->family != PROXY_UNKNOWN) {
        int family = out->family == PROXY_INET ? AF_INET : AF_INET6;
        struct slice source = slice_cut(&rest, ' ');
        struct slice destination = slice_cut(&rest, ' ');
        struct slice port = slice_cut(&rest, ' ');

        if (!parse_ip(source, family, out->source) ||
            !parse_ip(destination, family, out->destination) ||
            !take_port(port, &out->source_port) || !take_port(rest, &out->destination_port))
            return FAULT_PROXY_LINE;
    }
    out->bytes = (size_t)(lf - bytes.p) + 1;
    return FAULT_NONE;
}

/* ---- version 2 ---- */

static unsigned char byte_at(struct slice bytes, size_t i)
{
    return (unsigned char)bytes.p[i];
}

static uint16_t number_at(struct slice bytes, size_t i)
{
    return (uint16_t)(byte_at(bytes, i) << 8 | byte_at(bytes, i + 1));
}

/* CRC-32C (Castagnoli), reflected, bit by bit: a header is short. */
static uint32_t crc32c(uint32_t crc, struct slice bytes)
{
    for (size_t i = 0; i < bytes.len; ++i) {
        crc ^= byte_at(bytes, i);
        for (int bit = 0; bit < 8; ++bit)
            crc = crc >> 1 ^ (0x82f63b78U & (0U - (crc & 1U)));
    }
    return crc;
}

/* Take the record at the start of REST. False: it is not whole. */
static bool take_record(struct slice *rest, unsigned char *type, struct slice *value)
{
    if (rest->len < RECORD_HEAD_BYTES)
        return false;
    size_t len = number_at(*rest, 1);

    if (len > rest->len - RECORD_HEAD_BYTES)
        return false;
    *type = byte_at(*rest, 0);
    *value = (struct slice){rest->p + RECORD_HEAD_BYTES, len};
    *rest = (struct slice){value->p + len, rest->len - RECORD_HEAD_BYTES - len};
    return true;
}

/*
 * The records of HEADER, from AT on: each whole, and at most one of those that are used. The
 * records within the one about TLS (version, subject, cipher) need only be complete, too.
 */
static enum request_fault read_records(struct slice header, size_t at, bool *tls)
{
    static const char zeros[CRC_BYTES];
    struct slice rest = {header.p + at, header.len - at};
    struct slice value;
    size_t checksum = 0;
    bool seen = false;
    unsigned char type;

    while (rest.len != 0) {
        if (!take_record(&rest, &type, &value))
            return FAULT_PROXY_LINE;
        if (type == RECORD_CRC32C) {
            if (value.len != CRC_BYTES || checksum != 0)
                return FAULT_PROXY_LINE;
            checksum = (size_t)(value.p - header.p);
        } else if (type == RECORD_TLS) {
            if (seen || value.len < TLS_HEAD_BYTES)
                return FAULT_PROXY_LINE;
            seen = true;
            *tls = (byte_at(value, 0) & TLS_CLIENT) != 0;
            struct slice inner = {value.p + TLS_HEAD_BYTES, value.len - TLS_HEAD_BYTES};
            while (inner.len != 0) {
                if (!take_record(&inner, &type, &value))
                    return FAULT_PROXY_LINE;
            }
        }
    }
    if (checksum == 0)
        return FAULT_NONE;
    /* Its own four bytes count as zeros. */
    size_t after = checksum + CRC_BYTES;
    uint32_t announced =
        (uint32_t)number_at(header, checksum) << 16 | (uint32_t)number_at(header, checksum + 2);
    uint32_t crc = crc32c(UINT32_MAX, (struct slice){header.p, checksum});

    crc = crc32c(crc, (struct slice){zeros, CRC_BYTES});
    crc = crc32c(crc, (struct slice){header.p + after, header.len - after});
    return ~crc == announced ? FAULT_NONE : FAULT_PROXY_CHECKSUM;
}

static enum request_fault check_binary(struct slice bytes, struct proxy_line *out)
{
    static const size_t addresses_bytes[] = {
        [PROXY_INET] = INET_BYTES, [PROXY_INET6] = INET6_BYTES, [PROXY_UNIX] = UNIX_BYTES};

    if (bytes.len > 12 && byte_at(bytes, 12) != COMMAND_LOCAL &&
        byte_at(bytes, 12) != COMMAND_PROXY)
        return FAULT_PROXY_LINE;
    if (bytes.len < HEAD_BYTES)
        return FAULT_NONE;
    struct slice header = {bytes.p, HEAD_BYTES + (size_t)number_at(bytes, 14)};

    if (header.len > PROXY_LINE_BINARY_MAX)
        return FAULT_PROXY_TOO_LONG;
    if (bytes.len < header.len)
        return FAULT_NONE;
    out->bytes = header.len;
    /* The rest of the header of a proxy's own connection must be ignored. */
    if (byte_at(header, 12) == COMMAND_LOCAL)
        return FAULT_NONE;
    /* The transport is a stream or datagrams; with no family it is neither. */
    unsigned family = byte_at(header, 13) >> 4;
    unsigned transport = byte_at(header, 13) & 15;
    bool valid = family == PROXY_UNKNOWN
                     ? transport == 0
                     : family <= PROXY_UNIX && (transport == 1 || transport == 2);

    if (!valid || addresses_bytes[family] > header.len - HEAD_BYTES)
        return FAULT_PROXY_LINE;
    out->family = family;
    if (family == PROXY_INET || family == PROXY_INET6) {
        size_t each = family == PROXY_INET ? 4 : 16;

        memcpy(out->source, header.p + HEAD_BYTES, each);
        memcpy(out->destination, header.p + HEAD_BYTES + each, each);
        out->source_port = number_at(header, HEAD_BYTES + 2 * each);
        out->destination_port = number_at(header, HEAD_BYTES + 2 * each + 2);
    }
    /* Without a known address family, addresses of an unknown kind may follow; they are ignored. */
    return family == PROXY_UNKNOWN
               ? FAULT_NONE
               : read_records(header, HEAD_BYTES + addresses_bytes[family], &out->tls);
}

enum request_fault proxy_line_check(struct slice bytes, struct proxy_line *out)
{
    const struct slice binary = {signature, SIGNATURE_BYTES};
    struct proxy_line read = {0};
    enum request_fault f = FAULT_NONE;

    *out = read;
    if (bytes.len == 0)
        return FAULT_NONE;
    if (begins_like(bytes, binary))
        f = check_binary(bytes, &read);
    else if (begins_like(bytes, TEXT_START))
        f = check_text(bytes, &read);
    else
        f = FAULT_PROXY_MISSING;
    if (f == FAULT_NONE)
        *out = read;
    return f;
}
