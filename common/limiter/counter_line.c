/* SPDX-License-Identifier: Apache-2.0
 *
 * The order in which verbs are recognised, and what counts as a word and as a number, are the
 * original's. Numbers saturate where the original's wrap around.
 */
#include "common/limiter/counter_line.h"
#include "common/base/text.h"

/* ---- lines ---- */

static void skip(struct slice *in, size_t n)
{
    in->p += n;
    in->len -= n;
}

/* With its newline; SIZE_MAX: there is none yet. */
static size_t line_bytes(struct slice in)
{
    const char *end = in.len != 0 ? memchr(in.p, '\n', in.len) : NULL;

    return end != NULL ? (size_t)(end - in.p) + 1 : SIZE_MAX;
}

enum counter_cut counter_line_cut(struct slice *in, bool *skipping, struct slice *line)
{
    size_t bytes = line_bytes(*in);

    if (*skipping) {
        *skipping = bytes == SIZE_MAX;
        skip(in, *skipping ? in->len : bytes);
        bytes = line_bytes(*in);
    }
    if (bytes == SIZE_MAX && in->len < COUNTER_LINE_MAX)
        return CUT_REST;
    if (bytes == SIZE_MAX) {
        *skipping = true;
        skip(in, in->len);
        return CUT_LONG;
    }
    *line = (struct slice){in->p, bytes - 1};
    skip(in, bytes);
    if (bytes > COUNTER_LINE_MAX)
        return CUT_LONG;
    if (line->len != 0 && line->p[line->len - 1] == '\r')
        --line->len;
    return CUT_LINE;
}

/* ---- words ---- */

/* The next word of *REST, which may be empty; only blanks part words. */
static struct slice take_word(struct slice *rest)
{
    while (rest->len != 0 && rest->p[0] == ' ')
        skip(rest, 1);
    return slice_cut(rest, ' ');
}

static bool all_digits(struct slice s)
{
    for (size_t i = 0; i < s.len; ++i) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
    }
    return s.len != 0;
}

/* Digits only; anything else is 0, and what is over UINT32_MAX is that. */
static uint32_t number_of(struct slice word)
{
    uint64_t n = 0;

    if (!all_digits(word))
        return 0;
    for (size_t i = 0; i < word.len && n <= UINT32_MAX; ++i)
        n = n * 10 + (uint64_t)(word.p[i] - '0');
    return n <= UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

/* Milliseconds of ".25", its dot taken off; what is not 0 is at least one, as 0 would not wait. */
static uint64_t fraction_ms(struct slice digits)
{
    uint64_t us = 0;
    uint64_t unit_us = 100000;
    bool any = false;

    for (size_t i = 0; i < digits.len; ++i) {
        us += (uint64_t)(digits.p[i] - '0') * unit_us;
        unit_us /= 10;
        any = any || digits.p[i] != '0';
    }
    return any && us < 1000 ? 1 : us / 1000;
}

static uint64_t timeout_of(struct slice word, bool fractions)
{
    struct slice fraction = word;
    struct slice whole = slice_cut(&fraction, '.');
    bool has_dot = whole.len != word.len;

    if (!has_dot)
        return (uint64_t)number_of(word) * 1000;
    if (!fractions || !all_digits(whole) || !all_digits(fraction))
        return 0;
    return (uint64_t)number_of(whole) * 1000 + fraction_ms(fraction);
}

/* ---- commands ---- */

static void parse_acquire(struct slice words, bool fractions, struct counter_line *out)
{
    out->verb = VERB_ACQUIRE;
    out->key = take_word(&words);
    out->workers = number_of(take_word(&words));
    out->maxqueue = number_of(take_word(&words));
    out->timeout_ms = timeout_of(take_word(&words), fractions);
    out->slots = number_of(take_word(&words));
    out->well_formed = out->key.len != 0 && out->workers != 0 && out->maxqueue != 0;
}

/* Whether LINE starts with PREFIX, which is taken off then. */
static bool take_prefix(struct slice *line, struct slice prefix)
{
    if (!slice_starts(*line, prefix))
        return false;
    skip(line, prefix.len);
    return true;
}

void counter_line_parse(struct slice line, bool fractions, struct counter_line *out)
{
    struct slice rest = slice_cut(&line, '\0');

    *out = (struct counter_line){.verb = VERB_NONE};
    if (take_prefix(&rest, SLICE_LIT("ACQ4ME "))) {
        out->kind = COUNTER_ME;
        parse_acquire(rest, fractions, out);
    } else if (take_prefix(&rest, SLICE_LIT("ACQ4ANY "))) {
        out->kind = COUNTER_ANY;
        parse_acquire(rest, fractions, out);
    } else if (slice_starts(rest, SLICE_LIT("RELEASE"))) {
        out->verb = VERB_RELEASE;
    } else if (take_prefix(&rest, SLICE_LIT("STATS "))) {
        out->verb = VERB_STATS;
        out->what = rest;
    }
}
