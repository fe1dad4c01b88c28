/* SPDX-License-Identifier: Apache-2.0 */
#include "common/wire/trace_context.h"

#include <ctype.h>

enum { KEY_MAX = 256, VALUE_MAX = 256, TENANT_MAX = 241, SYSTEM_MAX = 14 };

static const char hex_digits[] = "0123456789abcdef";

/* Lower case only. */
static bool is_hex(const char *p, size_t n)
{
    for (size_t i = 0; i < n; ++i) {
        if (!(p[i] >= '0' && p[i] <= '9') && !(p[i] >= 'a' && p[i] <= 'f'))
            return false;
    }
    return true;
}

bool trace_parent_parse(struct slice value, struct trace_parent *out)
{
    static const char zeros[] = "00000000000000000000000000000000";
    const char *p = value.p;

    if (value.len < TRACE_PARENT_LEN || value.len > TRACE_PARENT_BYTES_MAX)
        return false;
    if (!is_hex(p, 2) || memcmp(p, "ff", 2) == 0 || p[2] != '-' || p[35] != '-' || p[52] != '-')
        return false;
    if (value.len > TRACE_PARENT_LEN && (memcmp(p, "00", 2) == 0 || p[TRACE_PARENT_LEN] != '-'))
        return false;
    if (!is_hex(p + 3, TRACE_ID_LEN) || memcmp(p + 3, zeros, TRACE_ID_LEN) == 0 ||
        !is_hex(p + 36, SPAN_ID_LEN) || memcmp(p + 36, zeros, SPAN_ID_LEN) == 0 ||
        !is_hex(p + 53, 2))
        return false;
    memcpy(out->trace_id, p + 3, TRACE_ID_LEN);
    memcpy(out->span_id, p + 36, SPAN_ID_LEN);
    out->flags = (unsigned)ascii_hex_digit(p[53]) << 4 | (unsigned)ascii_hex_digit(p[54]);
    return true;
}

void trace_parent_print(const struct trace_parent *p, char out[TRACE_PARENT_LEN])
{
    memcpy(out, "00-", 3);
    memcpy(out + 3, p->trace_id, TRACE_ID_LEN);
    out[35] = '-';
    memcpy(out + 36, p->span_id, SPAN_ID_LEN);
    out[52] = '-';
    out[53] = hex_digits[p->flags >> 4 & 15];
    out[54] = hex_digits[p->flags & 15];
}

/* The rest of a key behind its first character. */
static bool is_key_rest(struct slice s)
{
    for (size_t i = 0; i < s.len; ++i) {
        unsigned char c = (unsigned char)s.p[i];

        if (!islower(c) && !isdigit(c) && (c == '\0' || strchr("_-*/", c) == NULL))
            return false;
    }
    return true;
}

/* Section 3.3.1.3.1: a simple key, or TENANT@SYSTEM. */
static bool is_key(struct slice key)
{
    struct slice system = key;
    struct slice tenant = slice_cut(&system, '@');

    if (key.len == 0 || key.len > KEY_MAX || tenant.len == 0 || !is_key_rest(tenant))
        return false;
    if (tenant.len == key.len)
        return islower((unsigned char)key.p[0]);
    return tenant.len <= TENANT_MAX && isalnum((unsigned char)tenant.p[0]) && system.len != 0 &&
           system.len <= SYSTEM_MAX && islower((unsigned char)system.p[0]) && is_key_rest(system);
}

bool trace_state_valid(struct slice value, size_t *members)
{
    if (value.len > TRACE_STATE_BYTES_MAX)
        return false;
    while (value.len != 0) {
        struct slice member = slice_trim(slice_cut(&value, ','));

        /* An empty one is allowed, and means nothing. */
        if (member.len == 0)
            continue;
        struct slice text = member;
        struct slice key = slice_cut(&text, '=');

        if (!is_key(key) || text.len == 0 || text.len > VALUE_MAX)
            return false;
        /* Section 3.3.1.3.2; blanks at its ends have been taken off. */
        for (size_t i = 0; i < text.len; ++i) {
            if (text.p[i] < 0x20 || text.p[i] > 0x7e || text.p[i] == ',' || text.p[i] == '=')
                return false;
        }
        if (++*members > TRACE_STATE_MEMBERS_MAX)
            return false;
    }
    return true;
}
