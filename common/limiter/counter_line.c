/* SPDX-License-Identifier: Apache-2.0
 *
 * The order in which verbs are recognised, and what counts as a word and as a number, are the
 * original's. Numbers saturate where the original's wrap around.
 */
#include "common/limiter/counter_line.h"
#include "common/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define XXH_INLINE_ALL
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wcast-qual"
#pragma GCC diagnostic ignored "-Wundef"
#include <xxhash.h>
#pragma GCC diagnostic pop

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

/* ---- requests ---- */

enum { HASH_DIGITS = 32, MARK_BYTES = 2, CUT_BYTES = MARK_BYTES + HASH_DIGITS };

/* No escaped byte looks like it. */
static const char mark[MARK_BYTES] = {'%', '~'};

/* As much of KEY as fits, whole bytes of it only. */
static size_t escape_beginning(struct slice key, char *out, size_t max)
{
    size_t n = 0;

    for (size_t i = 0; i < key.len; ++i) {
        size_t more = percent_encode((struct slice){key.p + i, 1}, out + n, max - n);

        if (more == SIZE_MAX)
            break;
        n += more;
    }
    return n;
}

size_t counter_key_escape(struct slice key, char out[COUNTER_KEY_WIRE_MAX])
{
    char digits[HASH_DIGITS + 1];
    size_t n = percent_encode(key, out, COUNTER_KEY_WIRE_MAX);

    if (n == 0) {
        memcpy(out, mark, MARK_BYTES);
        return MARK_BYTES;
    }
    if (n != SIZE_MAX)
        return n;
    XXH128_hash_t hash = XXH3_128bits(key.p, key.len);
    snprintf(digits, sizeof(digits), "%016" PRIx64 "%016" PRIx64, (uint64_t)hash.high64,
             (uint64_t)hash.low64);
    n = escape_beginning(key, out, COUNTER_KEY_WIRE_MAX - CUT_BYTES);
    memcpy(out + n, mark, MARK_BYTES);
    memcpy(out + n + MARK_BYTES, digits, HASH_DIGITS);
    return n + CUT_BYTES;
}

size_t counter_acquire_print(const struct counter_acquire_line *l,
                             char out[COUNTER_REQUEST_LINE_MAX])
{
    const char *verb = l->kind == COUNTER_ME ? "ACQ4ME" : "ACQ4ANY";
    char slots[16] = "";

    ASSERT(l->word.len != 0);
    ASSERT(l->word.len <= COUNTER_KEY_WIRE_MAX);
    ASSERT(l->workers != 0);
    ASSERT(l->maxqueue != 0);
    if (l->slots != 0)
        snprintf(slots, sizeof(slots), " %" PRIu32, l->slots);
    int n =
        snprintf(out, COUNTER_REQUEST_LINE_MAX, "%s %.*s %" PRIu32 " %" PRIu32 " %" PRIu32 "%s\n",
                 verb, SLICE_FMT(l->word), l->workers, l->maxqueue, l->timeout_s, slots);
    ASSERT(n > 0);
    ASSERT(n < COUNTER_REQUEST_LINE_MAX);
    return (size_t)n;
}

/* ---- replies ---- */

static bool is_text(struct slice s)
{
    for (size_t i = 0; i < s.len; ++i) {
        if (s.p[i] < 0x20 || s.p[i] > 0x7e)
            return false;
    }
    return s.len != 0;
}

static bool parse_word(struct slice line, struct counter_reply *out)
{
    static const struct {
        const char *word;
        enum counter_reply_kind kind;
    } words[] = {
        {"LOCKED", COUNTER_REPLY_LOCKED},         {"DONE", COUNTER_REPLY_DONE},
        {"QUEUE_FULL", COUNTER_REPLY_QUEUE_FULL}, {"TIMEOUT", COUNTER_REPLY_TIMEOUT},
        {"LOCK_HELD", COUNTER_REPLY_LOCK_HELD},   {"RELEASED", COUNTER_REPLY_RELEASED},
        {"NOT_LOCKED", COUNTER_REPLY_NOT_LOCKED},
    };

    for (size_t i = 0; i < ARRAY_LEN(words); ++i) {
        if (slice_is(line, words[i].word)) {
            *out = (struct counter_reply){.kind = words[i].kind};
            return true;
        }
    }
    return false;
}

static bool parse_text(struct slice line, const char *prefix, enum counter_reply_kind kind,
                       struct counter_reply *out)
{
    struct slice start = slice_of(prefix);

    if (!slice_starts(line, start))
        return false;
    struct slice text = {line.p + start.len, line.len - start.len};
    if (!is_text(text))
        return false;
    *out = (struct counter_reply){.kind = kind, .text = text};
    return true;
}

bool counter_reply_unknown_stat(struct slice bytes)
{
    return slice_is(bytes, "ERROR WRONG_STAT");
}

enum err counter_reply_parse(struct slice bytes, struct counter_reply *out, size_t *used)
{
    size_t newline = slice_find(bytes, '\n');

    if (newline == SIZE_MAX && bytes.len < COUNTER_REPLY_LINE_MAX)
        return ERR_NOT_FOUND;
    if (newline >= COUNTER_REPLY_LINE_MAX)
        return ERR_TOO_LARGE;
    struct slice line = {bytes.p, newline};
    if (!parse_word(line, out) && !parse_text(line, "ERROR ", COUNTER_REPLY_ERROR, out) &&
        !parse_text(line, "uptime: ", COUNTER_REPLY_UPTIME, out) &&
        !parse_text(line, "slots: ", COUNTER_REPLY_SLOTS, out))
        return ERR_SYNTAX;
    *used = newline + 1;
    return ERR_OK;
}

/* ---- the servers of keys ---- */

/*
 * The points of all servers, sorted; a key belongs to the first point at or behind its own hash,
 * the ring's beginning following its end.
 */

/* Of the keys; point I of a server is its name hashed with the seed I + 1. Part of what load
 * balancers agree on: never to be changed. */
static const uint64_t KEY_SEED = 0;

struct point {
    uint64_t at;
    uint32_t server;
};

struct hash_ring {
    size_t n;
    struct point points[];
};

static int compare_names(struct slice a, struct slice b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len != 0 ? memcmp(a.p, b.p, len) : 0;

    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

/* By place; by name if two servers collide, so that the result does not depend on the order in
 * which servers are given. */
static int compare_points(const void *x, const void *y, void *names)
{
    const struct point *a = x;
    const struct point *b = y;
    const struct slice *name = names;

    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    return compare_names(name[a->server], name[b->server]);
}

struct hash_ring *hash_ring_create(const struct slice *names, size_t n)
{
    size_t npoints = n * HASH_RING_POINTS;
    struct hash_ring *r = xmalloc(sizeof(*r) + npoints * sizeof(r->points[0]));

    r->n = npoints;
    for (size_t i = 0; i < npoints; ++i) {
        size_t server = i / HASH_RING_POINTS;
        uint64_t seed = i % HASH_RING_POINTS + 1;

        r->points[i] = (struct point){
            .at = XXH3_64bits_withSeed(names[server].p, names[server].len, seed),
            .server = (uint32_t)server,
        };
    }
    /* A comparison takes no const context; it does not write. */
    qsort_r(r->points, npoints, sizeof(r->points[0]), compare_points,
            (void *)(uintptr_t)(const void *)names);
    return r;
}

void hash_ring_destroy(struct hash_ring *r)
{
    free(r);
}

size_t hash_ring_find(const struct hash_ring *r, struct slice key)
{
    uint64_t at = XXH3_64bits_withSeed(key.p, key.len, KEY_SEED);
    size_t from = 0;
    size_t to = r->n;

    if (r->n == 0)
        return SIZE_MAX;
    while (from < to) {
        size_t middle = from + (to - from) / 2;

        if (r->points[middle].at < at)
            from = middle + 1;
        else
            to = middle;
    }
    return r->points[from == r->n ? 0 : from].server;
}
