/* SPDX-License-Identifier: Apache-2.0
 *
 * Open addressing; the table is at most half full.
 */
#include "sim/names.h"

#include <stdlib.h>

#include "common/base/map.h"

enum { FIRST_SLOTS = 64 };

void names_init(struct names *t, uint32_t max)
{
    ASSERT(max < UINT32_MAX / 4);
    *t = (struct names){.max = max, .nslots = FIRST_SLOTS};
    t->slots = xcalloc(FIRST_SLOTS, sizeof(t->slots[0]));
    t->room = FIRST_SLOTS;
    t->begins = xcalloc((size_t)t->room + 1, sizeof(t->begins[0]));
}

void names_fini(struct names *t)
{
    free(t->slots);
    free(t->begins);
    text_fini(&t->bytes);
    *t = (struct names){0};
}

struct slice names_get(const struct names *t, uint32_t i)
{
    ASSERT(i < t->n);
    size_t len = t->begins[i + 1] - t->begins[i];
    return (struct slice){len != 0 ? t->bytes.p + t->begins[i] : "", len};
}

/* The slot of S, or the empty one where it would be. */
static uint32_t *slot_of(const struct names *t, struct slice s)
{
    uint32_t mask = t->nslots - 1;
    uint32_t at = (uint32_t)map_hash(s.p, s.len) & mask;

    while (t->slots[at] != 0 && !slice_eq(names_get(t, t->slots[at] - 1), s))
        at = (at + 1) & mask;
    return &t->slots[at];
}

static void grow(struct names *t)
{
    free(t->slots);
    t->nslots *= 2;
    t->slots = xcalloc(t->nslots, sizeof(t->slots[0]));
    for (uint32_t i = 0; i < t->n; ++i)
        *slot_of(t, names_get(t, i)) = i + 1;
}

bool names_intern(struct names *t, struct slice s, uint32_t *out)
{
    uint32_t *slot = slot_of(t, s);

    if (*slot != 0) {
        *out = *slot - 1;
        return true;
    }
    if (t->n == t->max)
        return false;
    if (t->n == t->room) {
        t->room *= 2;
        t->begins = xrealloc(t->begins, ((size_t)t->room + 1) * sizeof(t->begins[0]));
    }
    text_add(&t->bytes, s);
    *out = t->n++;
    t->begins[t->n] = t->bytes.len;
    *slot = t->n;
    if (t->n * 2 > t->nslots)
        grow(t);
    return true;
}
