/* SPDX-License-Identifier: Apache-2.0
 *
 * Request heads, each followed by an empty line: the recorded targets are bounded, occur in one of
 * the heads, and are not from a request with personal data.
 */
#include "worker-agent/process/warm_up.h"

#include "common/base/text.h"
#include "tests/fuzz/fuzz.h"

enum { WANTED = 2 };

static size_t counted(const struct warm_targets *w)
{
    struct topk_row rows[256];

    return w->top != NULL ? topk_read(w->top, rows, ARRAY_LEN(rows)) : 0;
}

static void check(const struct warm_targets *w, struct slice all)
{
    struct warm_target top[WARM_TARGETS_MAX];
    size_t n = warm_targets_top(w, top);

    ASSERT(n <= WANTED);
    ASSERT(counted(w) <= (size_t)WANTED * WARM_COUNTERS_EACH);
    for (size_t i = 0; i < n; ++i) {
        const struct warm_target *t = &top[i];

        ASSERT(t->count >= WARM_SEEN_MIN);
        ASSERT(t->host.len != 0 && t->host.len <= WARM_HOST_MAX);
        ASSERT(t->cls.len <= CLASS_BYTES_MAX);
        ASSERT(t->target.len != 0 && t->target.len <= WARM_TARGET_MAX);
        ASSERT(memmem(all.p, all.len, t->host.p, t->host.len) != NULL);
        ASSERT(memmem(all.p, all.len, t->target.p, t->target.len) != NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice all = {(const char *)data, size};
    struct slice rest = all;
    struct warm_targets w = {0};

    /* No head that was sent to a process has one. */
    if (slice_find(all, '\0') != SIZE_MAX)
        return 0;
    warm_targets_resize(&w, WANTED);
    while (rest.len != 0) {
        const char *end = memmem(rest.p, rest.len, "\r\n\r\n", 4);
        size_t len = end != NULL ? (size_t)(end - rest.p) + 4 : rest.len;

        warm_targets_add_head(&w, (struct slice){rest.p, len});
        rest = (struct slice){rest.p + len, rest.len - len};
    }
    check(&w, all);
    warm_targets_resize(&w, 1);
    warm_targets_resize(&w, 0);
    warm_targets_fini(&w);
    return 0;
}
