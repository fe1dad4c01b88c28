/* SPDX-License-Identifier: Apache-2.0
 *
 * A member is a key and, behind '=', a value with parameters. Only `u`, an integer, and `i`, a
 * boolean, are evaluated. Of other values the extent matters alone: it ends at a comma that is in
 * no string and in no inner list.
 */
#include "common/wire/priority_field.h"

#include "common/base/text.h"

static bool is_key_first(char c)
{
    return (c >= 'a' && c <= 'z') || c == '*';
}

static bool is_key_byte(char c)
{
    return is_key_first(c) || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

/* The bytes of *REST up to the comma that ends a member; they are removed there, with the comma.
 * False: a string or an inner list is not closed, or no member follows the comma. */
static bool take_member(struct slice *rest, struct slice *member)
{
    bool quoted = false;
    bool listed = false;
    size_t n = 0;

    for (; n < rest->len && (quoted || listed || rest->p[n] != ','); ++n) {
        char c = rest->p[n];

        if (quoted && c == '\\')
            ++n; /* the next byte is escaped */
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && (c == '(' || c == ')'))
            listed = c == '(';
    }
    if (quoted || listed || n > rest->len || n + 1 == rest->len)
        return false;
    *member = slice_trim((struct slice){rest->p, n});
    *rest = n < rest->len ? (struct slice){rest->p + n + 1, rest->len - n - 1} : SLICE_LIT("");
    return true;
}

/* Without a value a member is true. */
static bool apply_member(struct slice member, struct urgency base, struct urgency *u)
{
    size_t n = 0;

    if (member.len == 0 || !is_key_first(member.p[0]))
        return false;
    while (n < member.len && is_key_byte(member.p[n]))
        ++n;
    struct slice key = {member.p, n};
    struct slice value = {member.p + n, member.len - n};
    value = slice_cut(&value, ';'); /* parameters are ignored */
    value = slice_trim(value);
    if (value.len == 1 || (value.len != 0 && value.p[0] != '='))
        return false;
    if (slice_is(key, "u")) {
        bool valid = value.len == 2 && value.p[1] >= '0' && value.p[1] < '0' + URGENCY_LEVELS;

        u->level = valid ? (uint8_t)(value.p[1] - '0') : base.level;
    } else if (slice_is(key, "i")) {
        bool valid = value.len == 0 || slice_is(value, "=?1") || slice_is(value, "=?0");

        u->incremental = valid ? !slice_is(value, "=?0") : base.incremental;
    }
    return true;
}

struct urgency priority_field_parse(struct slice value, struct urgency base)
{
    struct urgency u = base;
    struct slice rest = value;
    struct slice member;

    while (rest.len != 0) {
        if (!take_member(&rest, &member) || !apply_member(member, base, &u))
            return base;
    }
    return u;
}
