/* SPDX-License-Identifier: Apache-2.0
 *
 * A binary heap of workers that store their positions, so that a key may change at any time. Its
 * first levels contain low keys, although not sorted: a good sample of candidates.
 */
#include <stdlib.h>

#include "routing/homes/homes_internal.h"

static void put(struct homes_heap *h, size_t at, struct homes_worker *w, enum homes_key key)
{
    h->at[at] = w;
    w->pos[key] = at;
}

static void sift_up(struct homes_heap *h, struct homes_worker *w, enum homes_key key)
{
    size_t at = w->pos[key];

    for (; at != 0 && homes_before(w, h->at[(at - 1) / 2], key); at = (at - 1) / 2)
        put(h, at, h->at[(at - 1) / 2], key);
    put(h, at, w, key);
}

static void sift_down(struct homes_heap *h, struct homes_worker *w, enum homes_key key)
{
    size_t at = w->pos[key];

    for (size_t child; (child = 2 * at + 1) < h->n; at = child) {
        if (child + 1 < h->n && homes_before(h->at[child + 1], h->at[child], key))
            ++child;
        if (!homes_before(h->at[child], w, key))
            break;
        put(h, at, h->at[child], key);
    }
    put(h, at, w, key);
}

static void sift(struct homes_heap *h, struct homes_worker *w, enum homes_key key)
{
    sift_up(h, w, key);
    sift_down(h, w, key);
}

void homes_heap_build(struct homes_heap *h, enum homes_key key)
{
    for (size_t i = h->n / 2; i-- != 0;)
        sift_down(h, h->at[i], key);
}

void homes_heap_add(struct homes_heap *h, struct homes_worker *w, enum homes_key key)
{
    enum { FIRST_ROOM = 16 };

    if (h->n == h->room) {
        h->room = h->room != 0 ? h->room * 2 : FIRST_ROOM;
        h->at = xrealloc(h->at, h->room * sizeof(struct homes_worker *));
    }
    put(h, h->n++, w, key);
    sift(h, w, key);
}

void homes_heap_remove(struct homes_heap *h, struct homes_worker *w, enum homes_key key)
{
    ASSERT(h->at[w->pos[key]] == w);
    struct homes_worker *last = h->at[--h->n];
    if (last == w)
        return;
    put(h, w->pos[key], last, key);
    sift(h, last, key);
}

void homes_heap_set(struct homes_heap *h, struct homes_worker *w, enum homes_key key, double value)
{
    double before = w->key[key];

    w->key[key] = value;
    if (value < before)
        sift_up(h, w, key);
    else if (value > before)
        sift_down(h, w, key);
}

void homes_heap_check(const struct homes_heap *h, enum homes_key key)
{
    for (size_t i = 0; i < h->n; ++i) {
        ASSERT(h->at[i]->pos[key] == i);
        ASSERT(i == 0 || !homes_before(h->at[i], h->at[(i - 1) / 2], key));
    }
}
