/* SPDX-License-Identifier: Apache-2.0 */
#include "common/limiter/counter_reply.h"
#include "common/base/text.h"

#include <inttypes.h>
#include <stdio.h>

#define XXH_INLINE_ALL
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wcast-qual"
#pragma GCC diagnostic ignored "-Wundef"
#include <xxhash.h>
#pragma GCC diagnostic pop

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

struct slice counter_release_line(void)
{
    return SLICE_LIT("RELEASE\n");
}

struct slice counter_uptime_line(void)
{
    return SLICE_LIT("STATS UPTIME\n");
}

struct slice counter_slots_line(void)
{
    return SLICE_LIT("STATS SLOTS\n");
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
