/* SPDX-License-Identifier: Apache-2.0
 *
 * The order in which verbs are recognised, and what counts as a word and as a number, are the
 * original's. Numbers saturate where the original's wrap around.
 */
#include "common/counters/pool_counter_line.h"
#include "common/base/text.h"

#include <inttypes.h>
#include <stdio.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* ---- lines ---- */

static void skip_bytes(struct slice *in, size_t n)
{
    in->p += n;
    in->len -= n;
}

enum pool_counter_cut pool_counter_line_cut(struct slice *in, bool *skipping, struct slice *line)
{
    size_t end = slice_find(*in, '\n');

    if (*skipping) {
        *skipping = end == SIZE_MAX;
        skip_bytes(in, *skipping ? in->len : end + 1);
        end = slice_find(*in, '\n');
    }
    if (end == SIZE_MAX && in->len < POOL_COUNTER_LINE_MAX)
        return CUT_REST;
    if (end == SIZE_MAX) {
        *skipping = true;
        skip_bytes(in, in->len);
        return CUT_LONG;
    }
    *line = (struct slice){in->p, end};
    skip_bytes(in, end + 1);
    if (end >= POOL_COUNTER_LINE_MAX)
        return CUT_LONG;
    if (line->len != 0 && line->p[line->len - 1] == '\r')
        --line->len;
    return CUT_LINE;
}

/* ---- words ---- */

/* Removes the next word from *REST and returns it; it may be empty. Only spaces separate words. */
static struct slice take_word(struct slice *rest)
{
    while (rest->len != 0 && rest->p[0] == ' ')
        skip_bytes(rest, 1);
    return slice_cut(rest, ' ');
}

/* Whether S has bytes, and all of them are between FIRST and LAST. */
static bool all_between(struct slice s, char first, char last)
{
    for (size_t i = 0; i < s.len; ++i) {
        if (s.p[i] < first || s.p[i] > last)
            return false;
    }
    return s.len != 0;
}

static bool all_digits(struct slice s)
{
    return all_between(s, '0', '9');
}

/* Parses decimal digits. Anything else is 0, and a larger number is UINT32_MAX. */
static uint32_t pool_counter_line_number_of(struct slice word)
{
    uint64_t n = 0;

    if (parse_u64(word, UINT32_MAX, &n))
        return (uint32_t)n;
    return all_digits(word) ? UINT32_MAX : 0;
}

static uint64_t timeout_of(struct slice word, bool fractions)
{
    struct slice fraction = word;
    struct slice whole = slice_cut(&fraction, '.');
    uint64_t ms = 0;
    uint64_t unit_ms = 100;
    bool any = false;

    if (whole.len == word.len)
        return (uint64_t)pool_counter_line_number_of(word) * 1000;
    if (!fractions || !all_digits(whole) || !all_digits(fraction))
        return 0;
    for (size_t i = 0; i < fraction.len; ++i) {
        ms += (uint64_t)(fraction.p[i] - '0') * unit_ms;
        unit_ms /= 10;
        any = any || fraction.p[i] != '0';
    }
    /* A fraction that is not 0 is at least 1 ms, as 0 would not wait. */
    return (uint64_t)pool_counter_line_number_of(whole) * 1000 + (any && ms == 0 ? 1 : ms);
}

/* ---- commands ---- */

/* Whether LINE starts with PREFIX, which is taken off then. */
static bool take_prefix(struct slice *line, struct slice prefix)
{
    if (!slice_starts(*line, prefix))
        return false;
    skip_bytes(line, prefix.len);
    return true;
}

void pool_counter_line_parse(struct slice line, bool fractions, struct pool_counter_line *out)
{
    struct slice rest = slice_cut(&line, '\0');
    bool me = take_prefix(&rest, SLICE_LIT("ACQ4ME "));
    struct counter_request *ask = &out->ask;

    *out = (struct pool_counter_line){.verb = VERB_NONE};
    if (me || take_prefix(&rest, SLICE_LIT("ACQ4ANY "))) {
        out->verb = VERB_ACQUIRE;
        ask->kind = me ? COUNTER_ME : COUNTER_ANY;
        ask->key = take_word(&rest);
        ask->workers = pool_counter_line_number_of(take_word(&rest));
        ask->maxqueue = pool_counter_line_number_of(take_word(&rest));
        ask->timeout_ms = timeout_of(take_word(&rest), fractions);
        ask->slots = pool_counter_line_number_of(take_word(&rest));
        out->well_formed = ask->key.len != 0 && ask->workers != 0 && ask->maxqueue != 0;
    } else if (slice_starts(rest, SLICE_LIT("RELEASE"))) {
        out->verb = VERB_RELEASE;
    } else if (take_prefix(&rest, SLICE_LIT("STATS "))) {
        out->verb = VERB_STATS;
        out->what = rest;
    }
}

/* ---- requests ---- */

enum { HASH_DIGITS = 32, MARK_BYTES = 2, CUT_BYTES = MARK_BYTES + HASH_DIGITS };

/* No escaped byte is equal to it. */
static const char mark[MARK_BYTES] = {'%', '~'};

size_t pool_counter_key_escape(struct slice key, char out[POOL_COUNTER_KEY_WIRE_MAX])
{
    char digits[HASH_DIGITS + 1];
    size_t n = percent_encode(key, out, POOL_COUNTER_KEY_WIRE_MAX);
    size_t more = 0;

    if (n == 0) {
        memcpy(out, mark, MARK_BYTES);
        return MARK_BYTES;
    }
    if (n != SIZE_MAX)
        return n;
    XXH128_hash_t hash = XXH3_128bits(key.p, key.len);
    snprintf(digits, sizeof(digits), "%016" PRIx64 "%016" PRIx64, (uint64_t)hash.high64,
             (uint64_t)hash.low64);
    /* As much of KEY as fits, whole bytes of it only. */
    n = 0;
    for (size_t i = 0; i < key.len && more != SIZE_MAX; ++i) {
        more = percent_encode((struct slice){key.p + i, 1}, out + n,
                              POOL_COUNTER_KEY_WIRE_MAX - CUT_BYTES - n);
        n += more != SIZE_MAX ? more : 0;
    }
    memcpy(out + n, mark, MARK_BYTES);
    memcpy(out + n + MARK_BYTES, digits, HASH_DIGITS);
    return n + CUT_BYTES;
}

size_t pool_counter_acquire_print(const struct counter_request *ask,
                                  char out[POOL_COUNTER_REQUEST_LINE_MAX])
{
    const char *verb = ask->kind == COUNTER_ME ? "ACQ4ME" : "ACQ4ANY";
    char slots[16] = "";

    ASSERT(ask->key.len != 0);
    ASSERT(ask->key.len <= POOL_COUNTER_KEY_WIRE_MAX);
    ASSERT(ask->workers != 0);
    ASSERT(ask->maxqueue != 0);
    if (ask->slots != 0)
        snprintf(slots, sizeof(slots), " %" PRIu32, ask->slots);
    int n = snprintf(out, POOL_COUNTER_REQUEST_LINE_MAX,
                     "%s %.*s %" PRIu32 " %" PRIu32 " %" PRIu64 "%s\n", verb, SLICE_FMT(ask->key),
                     ask->workers, ask->maxqueue, ask->timeout_ms / 1000, slots);
    ASSERT(n > 0);
    ASSERT(n < POOL_COUNTER_REQUEST_LINE_MAX);
    return (size_t)n;
}

/* ---- responses ---- */

static const struct {
    struct slice start;
    enum pool_counter_response_kind kind;
    bool text; /* something follows */
} responses[] = {
    {{"LOCKED", 6}, POOL_COUNTER_RESPONSE_LOCKED, false},
    {{"DONE", 4}, POOL_COUNTER_RESPONSE_DONE, false},
    {{"QUEUE_FULL", 10}, POOL_COUNTER_RESPONSE_QUEUE_FULL, false},
    {{"TIMEOUT", 7}, POOL_COUNTER_RESPONSE_TIMEOUT, false},
    {{"LOCK_HELD", 9}, POOL_COUNTER_RESPONSE_LOCK_HELD, false},
    {{"RELEASED", 8}, POOL_COUNTER_RESPONSE_RELEASED, false},
    {{"NOT_LOCKED", 10}, POOL_COUNTER_RESPONSE_NOT_LOCKED, false},
    {{"ERROR ", 6}, POOL_COUNTER_RESPONSE_ERROR, true},
    {{"uptime: ", 8}, POOL_COUNTER_RESPONSE_UPTIME, true},
    {{"slots: ", 7}, POOL_COUNTER_RESPONSE_SLOTS, true},
};

enum err pool_counter_response_parse(struct slice bytes, struct pool_counter_response *out,
                                     size_t *used)
{
    size_t newline = slice_find(bytes, '\n');

    if (newline == SIZE_MAX && bytes.len < POOL_COUNTER_RESPONSE_LINE_MAX)
        return ERR_NOT_FOUND;
    if (newline >= POOL_COUNTER_RESPONSE_LINE_MAX)
        return ERR_TOO_LARGE;
    struct slice line = {bytes.p, newline};
    for (size_t i = 0; i < ARRAY_LEN(responses); ++i) {
        struct slice text = line;

        if (!take_prefix(&text, responses[i].start))
            continue;
        if (responses[i].text ? !all_between(text, 0x20, 0x7e) : text.len != 0)
            return ERR_SYNTAX;
        *out = (struct pool_counter_response){responses[i].kind, text};
        *used = newline + 1;
        return ERR_OK;
    }
    return ERR_SYNTAX;
}

/* ---- the servers of keys ---- */

/*
 * The points of all servers, sorted; a key belongs to the first point at or behind its own hash,
 * the ring's beginning following its end.
 */

/* Seed of the hash of keys; point I of a server is its name, hashed with the seed I + 1. These
 * must never change, because load balancers of different versions must agree on the servers. */
static const uint64_t KEY_SEED = 0;

struct ring_point {
    uint64_t at;
    uint32_t server;
};

struct hash_ring {
    size_t n;
    struct ring_point points[];
};

/* By place; by name if two servers collide, so that the result does not depend on the order in
 * which servers are given. */
static int compare_points(const void *x, const void *y, void *names)
{
    const struct ring_point *a = x;
    const struct ring_point *b = y;
    struct slice s = ((const struct slice *)names)[a->server];
    struct slice t = ((const struct slice *)names)[b->server];

    return a->at != b->at ? compare_u64(a->at, b->at) : slice_compare(s, t);
}

struct hash_ring *hash_ring_create(const struct slice *names, size_t n)
{
    size_t npoints = n * HASH_RING_POINTS;
    struct hash_ring *r = xmalloc(sizeof(*r) + npoints * sizeof(r->points[0]));

    r->n = npoints;
    for (size_t i = 0; i < npoints; ++i) {
        size_t server = i / HASH_RING_POINTS;
        uint64_t seed = i % HASH_RING_POINTS + 1;

        r->points[i] = (struct ring_point){
            .at = XXH3_64bits_withSeed(names[server].p, names[server].len, seed),
            .server = (uint32_t)server,
        };
    }
    /* A comparison takes no const context; it does not write. */
    qsort_r(r->points, npoints, sizeof(r->points[0]), compare_points,
            (void *)(uintptr_t)(const void *)names);
    return r;
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
