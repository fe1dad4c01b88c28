/* SPDX-License-Identifier: Apache-2.0
 *
 * RFC 1035, section 4: a header, questions, records. A name may continue at an earlier one; each
 * jump must lead further back, so that no name is endless.
 */
#include "common/wire/dns_srv.h"

#include "common/base/text.h"

enum {
    HEADER_BYTES = 12,
    QUESTION_BYTES = 4, /* behind its name */
    RECORD_BYTES = 10,  /* behind its name: type, class, TTL, length */
    SRV_BYTES = 6,      /* before its target */
    TYPE_SRV = 33,
    LABEL_MAX = 63,
    POINTER = 0xc0,
};

static unsigned u16_at(struct slice m, size_t at)
{
    return (unsigned)(unsigned char)m.p[at] << 8 | (unsigned char)m.p[at + 1];
}

static uint32_t u32_at(struct slice m, size_t at)
{
    return (uint32_t)u16_at(m, at) << 16 | u16_at(m, at + 2);
}

/*
 * Reads the name at *AT, and moves *AT behind it. OUT (or NULL) gets its text, which is empty if it
 * is longer than DNS_NAME_MAX or has other characters than those of struct dns_srv.
 */
static bool read_name(struct slice m, size_t *at, char *out)
{
    size_t from = *at;
    size_t before = *at; /* a pointer leads before this */
    size_t n = 0;
    bool jumped = false;
    bool usual = true;

    for (;;) {
        if (from >= m.len)
            return false;
        unsigned len = (unsigned char)m.p[from];
        if ((len & POINTER) == POINTER) {
            if (m.len - from < 2)
                return false;
            size_t to = u16_at(m, from) & 0x3fff;
            if (!jumped)
                *at = from + 2;
            jumped = true;
            if (to >= before)
                return false;
            before = from = to;
            continue;
        }
        if (len > LABEL_MAX || m.len - from <= len)
            return false;
        struct slice label = {m.p + from + 1, len};
        from += len + 1;
        if (len == 0)
            break;
        usual = usual && slice_is_word(label, "-_") && n + (n != 0) + len <= DNS_NAME_MAX;
        if (usual && out != NULL) {
            if (n != 0)
                out[n++] = '.';
            memcpy(out + n, label.p, len);
            n += len;
        }
    }
    if (!jumped)
        *at = from;
    if (out != NULL)
        out[usual ? n : 0] = '\0';
    return true;
}

bool dns_srv_parse(struct slice m, struct dns_srv *out, size_t *n, uint32_t *ttl_s)
{
    size_t at = HEADER_BYTES;

    *n = 0;
    *ttl_s = UINT32_MAX;
    if (m.len < HEADER_BYTES)
        return false;
    for (unsigned left = u16_at(m, 4); left > 0; --left) {
        if (!read_name(m, &at, NULL) || m.len - at < QUESTION_BYTES)
            return false;
        at += QUESTION_BYTES;
    }
    for (unsigned left = u16_at(m, 6); left > 0; --left) {
        if (!read_name(m, &at, NULL) || m.len - at < RECORD_BYTES)
            return false;
        unsigned type = u16_at(m, at);
        uint32_t ttl = u32_at(m, at + 4);
        size_t len = u16_at(m, at + 8);
        at += RECORD_BYTES;
        if (m.len - at < len)
            return false;
        /* RFC 2181, section 8: with the top bit set it counts as 0. */
        ttl = ttl > INT32_MAX ? 0 : ttl;
        *ttl_s = ttl < *ttl_s ? ttl : *ttl_s;
        if (type == TYPE_SRV && *n < DNS_SRV_MAX) {
            struct dns_srv *s = &out[*n];
            size_t name = at + SRV_BYTES;

            if (len < SRV_BYTES || !read_name(m, &name, s->target) || name != at + len)
                return false;
            s->priority = (uint16_t)u16_at(m, at);
            s->weight = (uint16_t)u16_at(m, at + 2);
            s->port = (uint16_t)u16_at(m, at + 4);
            *n += s->target[0] != '\0' && s->port != 0;
        }
        at += len;
    }
    return true;
}
