/* SPDX-License-Identifier: Apache-2.0
 *
 * However a stream is cut into reads, it has the same lines; each is within bounds, and what is
 * read of it is too.
 */
#include "common/counters/pool_counter_line.h"
#include "common/base/text.h"
#include "tests/fuzz/fuzz.h"

enum { LINES_MAX = 20000 };

static void check_line(struct slice line, bool fractions)
{
    struct pool_counter_line l;

    ASSERT(line.len < POOL_COUNTER_LINE_MAX);
    ASSERT(slice_find(line, '\n') == SIZE_MAX);
    pool_counter_line_parse(line, fractions, &l);
    ASSERT(l.ask.key.len < POOL_COUNTER_LINE_MAX);
    ASSERT(l.what.len < POOL_COUNTER_LINE_MAX);
    ASSERT(slice_find(l.ask.key, ' ') == SIZE_MAX);
    ASSERT(slice_find(l.ask.key, '\0') == SIZE_MAX);
    ASSERT(l.ask.timeout_ms <= (uint64_t)UINT32_MAX * 1000 + 999);
    if (l.well_formed) {
        ASSERT(l.verb == VERB_ACQUIRE);
        ASSERT(l.ask.key.len != 0);
        ASSERT(l.ask.workers != 0);
        ASSERT(l.ask.maxqueue != 0);
    }
    /* Fractions are invalid without the option. */
    if (!fractions)
        ASSERT(l.ask.timeout_ms % 1000 == 0);
}

/* A hash of all lines, and of those too long, in order; reads of at most STEP bytes. */
static uint64_t walk(const uint8_t *data, size_t size, size_t step, bool fractions)
{
    char kept[POOL_COUNTER_LINE_MAX + LINES_MAX];
    size_t nkept = 0;
    bool skipping = false;
    uint64_t hash = 1469598103934665603U;

    for (size_t at = 0; at < size; at += step) {
        size_t n = size - at < step ? size - at : step;
        struct slice in = {kept, nkept + n};
        struct slice line = SLICE_NULL;
        enum pool_counter_cut cut;

        memcpy(kept + nkept, data + at, n);
        while ((cut = pool_counter_line_cut(&in, &skipping, &line)) != CUT_REST) {
            if (cut == CUT_LINE)
                check_line(line, fractions);
            for (size_t i = 0; cut == CUT_LINE && i < line.len; ++i)
                hash = (hash ^ (uint8_t)line.p[i]) * 1099511628211U;
            hash = (hash ^ (cut == CUT_LINE ? 256U : 257U)) * 1099511628211U;
        }
        ASSERT(in.len < POOL_COUNTER_LINE_MAX);
        nkept = in.len;
        memmove(kept, in.p, nkept);
    }
    return hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > LINES_MAX)
        return 0;
    bool fractions = (data[0] & 1) != 0;
    uint64_t whole = walk(data, size, size, fractions);

    ASSERT(walk(data, size, 1, fractions) == whole);
    ASSERT(walk(data, size, 1 + data[0] % 97U, fractions) == whole);
    return 0;
}
