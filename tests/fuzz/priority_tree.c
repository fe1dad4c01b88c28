/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations on a tree, four bytes each: what, which stream, on which it depends, weight. A turn is
 * of an active stream, and there is one as long as any stream is active. All streams that are
 * active have turns in the end.
 */
#include "common/h2o/priority_tree.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

enum { IDS = 32, OPERATION_BYTES = 4 };

struct stream {
    struct priority_entry *entry;
    bool active, reserved;
};

static struct stream streams[IDS];

static bool any_active(void)
{
    bool any = false;

    for (unsigned id = 0; id < IDS; ++id)
        any = any || (streams[id].entry != NULL && streams[id].active);
    return any;
}

static struct stream *check_turn(struct priority_tree *t)
{
    struct stream *s = priority_tree_next(t);

    ASSERT((s != NULL) == any_active());
    if (s != NULL)
        ASSERT(s->active);
    return s;
}

static void prioritize(struct priority_tree *t, unsigned id, const struct priority *p)
{
    struct stream *s = &streams[id];

    bool had_entry = s->entry != NULL || s->reserved;
    bool has_entry = priority_tree_change(t, id, p, false);

    ASSERT(has_entry == had_entry);
    if (!has_entry)
        s->reserved = priority_tree_change(t, id, p, true);
}

static void open_or_close(struct priority_tree *t, unsigned id, const struct priority *p)
{
    struct stream *s = &streams[id];

    if (s->entry != NULL)
        priority_tree_close(t, s->entry);
    s->entry = s->entry == NULL ? priority_tree_open(t, id, p, s) : NULL;
    s->active = s->reserved = false;
}

static void operate(struct priority_tree *t, const uint8_t *op)
{
    unsigned id = 1 + op[1] % (IDS - 1);
    struct priority p = {
        .dependency = op[2] % IDS, .weight = (uint16_t)(op[3] + 1), .exclusive = op[2] >= 128};
    struct stream *s = &streams[id];

    if (p.dependency == id)
        p.dependency = 0;
    switch (op[0] % 5) {
    case 0:
        open_or_close(t, id, op[0] < 200 || s->reserved ? &p : NULL);
        break;
    case 1:
        prioritize(t, id, &p);
        break;
    case 2:
        if (s->entry != NULL)
            priority_tree_activate(s->entry);
        s->active = s->entry != NULL;
        break;
    case 3:
        if (s->entry != NULL)
            priority_tree_deactivate(s->entry);
        s->active = false;
        break;
    default:
        (void)check_turn(t);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct priority_tree *t = priority_tree_create();
    struct stream *s;

    memset(streams, 0, sizeof(streams));
    for (; size >= OPERATION_BYTES; size -= OPERATION_BYTES, data += OPERATION_BYTES)
        operate(t, data);
    while ((s = check_turn(t)) != NULL) {
        priority_tree_deactivate(s->entry);
        s->active = false;
    }
    for (unsigned id = 0; id < IDS; ++id) {
        if (streams[id].entry != NULL)
            priority_tree_close(t, streams[id].entry);
    }
    priority_tree_destroy(t);
    return 0;
}
