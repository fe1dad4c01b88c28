/* SPDX-License-Identifier: Apache-2.0
 *
 * The stream of a peer: each line is rejected with a reason, or all that is used of it is within
 * bounds. As in the program, a line is the first one until one was accepted as such.
 */
#include "lb/rules/peer_line.h"

#include "common/base/limits.h"
#include "common/skills/resume.h"
#include "tests/fuzz/fuzz.h"

#include <math.h>

static void check_first(const struct peer_line *l)
{
    const char *name;
    json_t *v;

    ASSERT(l->instance.len == PEER_INSTANCE_LEN);
    for (size_t i = 0; i < l->instance.len; ++i)
        ASSERT(ascii_hex_digit(l->instance.p[i]) >= 0 &&
               ascii_lower(l->instance.p[i]) == l->instance.p[i]);
    ASSERT(json_is_object(l->applications));
    json_object_foreach (l->applications, name, v)
        ASSERT(resume_is_fingerprint(json_slice(v)));
}

static void check_counts(const struct peer_line *l)
{
    const char *name;
    json_t *v;

    ASSERT(json_object_size(l->counts) <= JSON_ENTRIES_MAX);
    json_object_foreach (l->counts, name, v) {
        ASSERT(name[0] != '\0' && strlen(name) <= HOME_FROM_MAX);
        ASSERT(json_is_integer(v) && json_integer_value(v) >= 0);
        ASSERT(json_integer_value(v) <= PEER_IN_FLIGHT_MAX);
    }
}

static void check_homes(const struct home_line *l)
{
    ASSERT(l->n <= HOME_LINE_ROWS_MAX);
    for (size_t i = 0; i < l->n; ++i) {
        ASSERT(resume_is_class(l->rows[i].cls));
        ASSERT(l->rows[i].kind < HOME_KINDS);
        ASSERT(l->rows[i].from.len <= HOME_FROM_MAX);
        ASSERT(l->rows[i].used_age_ms <= l->rows[i].since_age_ms);
        ASSERT(l->rows[i].since_age_ms <= HOME_AGE_MAX_MS);
        ASSERT(l->rows[i].rate >= 0 && isfinite(l->rows[i].rate));
    }
}

static void check_line(const struct peer_line *l, bool first)
{
    if (l->kind == PEER_LINE_EMPTY)
        return;
    ASSERT(first == (l->kind == PEER_LINE_FIRST));
    if (l->kind == PEER_LINE_FIRST)
        check_first(l);
    else if (l->kind == PEER_LINE_IN_FLIGHT)
        check_counts(l);
    else if (l->kind == PEER_LINE_HOMES)
        check_homes(&l->homes);
    else if (l->kind == PEER_LINE_WORKER)
        ASSERT(l->worker.len != 0 && l->worker.len <= HOME_FROM_MAX);
    else
        ASSERT(l->kind == PEER_LINE_END);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice stream = {(const char *)data, size};
    bool first = true;

    while (stream.len != 0) {
        char reason[JSON_WHY_ROOM] = "";
        struct peer_line l;
        const char *why = peer_line_read(&l, first, slice_cut(&stream, '\n'), reason);

        if (why != NULL)
            ASSERT(why[0] != '\0');
        else
            check_line(&l, first);
        first &= why != NULL || l.kind != PEER_LINE_FIRST;
        peer_line_fini(&l);
        if (why != NULL)
            return 0;
    }
    return 0;
}
