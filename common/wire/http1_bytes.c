/* SPDX-License-Identifier: Apache-2.0
 *
 * Values are checked a word at a time; HTAB is a control character that is allowed in them.
 */
#include "common/wire/http1_bytes.h"

const bool http1_token_bytes[256] = {
    ['!'] = true,         ['#'] = true,         ['$'] = true,         ['%'] = true, ['&'] = true,
    ['\''] = true,        ['*'] = true,         ['+'] = true,         ['-'] = true, ['.'] = true,
    ['^'] = true,         ['_'] = true,         ['`'] = true,         ['|'] = true, ['~'] = true,
    ['0' ... '9'] = true, ['A' ... 'Z'] = true, ['a' ... 'z'] = true,
};

const bool http1_target_bytes[256] = {
    ['!'] = true,
    ['$' ... ';'] = true,
    ['='] = true,
    ['?' ... '~'] = true,
};

static bool is_text_bytewise(const char *p, size_t len)
{
    for (size_t i = 0; i < len; ++i) {
        unsigned char c = (unsigned char)p[i];

        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

/* Of each byte the top bit where it is a control character, and of no other: no carries here. */
static uint64_t exact_controls(uint64_t word)
{
    uint64_t low = word & EACH_BYTE(0x7f);
    uint64_t deleted = (word ^ EACH_BYTE(0x7f)) & EACH_BYTE(0x7f);
    uint64_t text = (low + EACH_BYTE(0x80 - 0x20)) & (deleted + EACH_BYTE(0x7f));

    return ~(text | word) & EACH_BYTE(0x80);
}

bool http1_is_text(struct slice s)
{
    size_t i = 0;

    for (; i + 8 <= s.len; i += 8) {
        if (exact_controls(load_word(s.p + i)) != 0 && !is_text_bytewise(s.p + i, 8))
            return false;
    }
    return is_text_bytewise(s.p + i, s.len - i);
}

uint64_t http1_marks_words(const char *p)
{
    uint64_t marks = 0;

    /* The product's top byte has a bit of each byte. */
    for (unsigned i = 0; i < 64; i += 8)
        marks |= (exact_controls(load_word(p + i)) >> 7) * UINT64_C(0x0102040810204080) >> 56 << i;
    return marks;
}

uint64_t http1_few_marks(const char *p, size_t n)
{
    char room[64] = {0};

    if (n != 0)
        memcpy(room, p, n);
    return http1_marks_words(room) & ((UINT64_C(1) << n) - 1);
}

size_t http1_token_length(struct slice s)
{
    size_t n = 0;

#ifdef __SSE2__
    /* Nearly all names are letters, digits and '-', and shorter than sixteen bytes. */
    if (s.len >= 16)
        n = (size_t)__builtin_ctz(~http1_word16(http1_load16(s.p)));
#endif
    return http1_token_length_bytes(s, n);
}

bool http1_is_token(struct slice s)
{
    return s.len != 0 && http1_token_length(s) == s.len;
}

bool http1_split_header(struct slice line, struct slice *name, struct slice *value)
{
    struct slice rest = line;

    *name = slice_cut(&rest, ':');
    *value = slice_trim(rest);
    return rest.p != NULL && http1_is_token(*name) && http1_is_text(*value);
}

bool http1_list_has(struct slice value, struct slice token)
{
    struct slice rest = value;

    while (rest.len != 0) {
        if (slice_eq_nocase(slice_trim(slice_cut(&rest, ',')), token))
            return true;
    }
    return false;
}

bool http1_note_options(struct slice value, struct http1_options *o)
{
    struct slice rest = value;

    while (rest.len != 0) {
        struct slice option = slice_trim(slice_cut(&rest, ','));

        if (slice_eq_nocase(option, SLICE_LIT("close"))) {
            o->close = true;
        } else if (slice_eq_nocase(option, SLICE_LIT("keep-alive"))) {
            o->keep_alive = true;
        } else if (option.len != 0) {
            if (o->n == CONNECTION_OPTIONS_MAX)
                return false;
            o->others[o->n++] = option;
        }
    }
    return true;
}

bool http1_options_have(const struct http1_options *o, struct slice name)
{
    for (size_t i = 0; i < o->n; ++i) {
        if (slice_eq_nocase(o->others[i], name))
            return true;
    }
    return false;
}
