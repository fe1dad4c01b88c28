/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/parts.h"

#include <math.h>
#include <stdlib.h>

/* ---- randomness: splitmix64, a counter and a mixing function ---- */

static const uint64_t INCREMENT = 0x9E3779B97F4A7C15ULL;

uint64_t draw_mix(uint64_t a, uint64_t b)
{
    return hash_mixed(hash_mixed(a + INCREMENT) + b);
}

struct draw draw_of(uint64_t seed)
{
    return (struct draw){hash_mixed(seed + INCREMENT)};
}

uint64_t draw_bits(struct draw *d)
{
    d->state += INCREMENT;
    return hash_mixed(d->state);
}

uint32_t draw_below(struct draw *d, uint32_t n)
{
    return (uint32_t)((draw_bits(d) >> 32) * n >> 32);
}

double draw_unit(struct draw *d)
{
    return (double)(draw_bits(d) >> 11) * 0x1p-53;
}

double draw_gauss(struct draw *d)
{
    /* Box and Muller; 1 - u is never 0. */
    double radius = sqrt(-2 * log(1 - draw_unit(d)));

    return radius * cos(2 * M_PI * draw_unit(d));
}

double draw_exponential(struct draw *d)
{
    return -log(1 - draw_unit(d));
}

/* ---- events: a binary heap ---- */

void event_queue_fini(struct event_queue *q)
{
    free(q->heap);
    *q = (struct event_queue){0};
}

static bool is_before(const struct queued_event *a, const struct queued_event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

void event_queue_add(struct event_queue *q, uint64_t at_ns, void *what)
{
    struct queued_event e = {.at_ns = at_ns, .order = q->next_order++, .what = what};

    q->heap = xgrow(q->heap, q->n + 1, &q->room, sizeof(q->heap[0]));
    size_t i = q->n++;
    while (i != 0 && is_before(&e, &q->heap[(i - 1) / 2])) {
        q->heap[i] = q->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    q->heap[i] = e;
}

const struct queued_event *event_queue_peek(const struct event_queue *q)
{
    return q->n != 0 ? &q->heap[0] : NULL;
}

struct queued_event event_queue_take(struct event_queue *q)
{
    ASSERT(q->n != 0);
    struct queued_event first = q->heap[0];
    struct queued_event last = q->heap[--q->n];
    size_t i = 0;

    for (size_t child; (child = 2 * i + 1) < q->n; i = child) {
        if (child + 1 < q->n && is_before(&q->heap[child + 1], &q->heap[child]))
            ++child;
        if (!is_before(&q->heap[child], &last))
            break;
        q->heap[i] = q->heap[child];
    }
    if (q->n != 0)
        q->heap[i] = last;
    return first;
}

/* ---- texts as numbers ---- */

struct name {
    struct map_node node;
    uint32_t number;
    uint64_t uses;
    char bytes[];
};

void names_fini(struct names *t)
{
    map_clear(&t->by_text);
    for (uint32_t i = 0; i < t->n; ++i)
        free(t->all[i]);
    free(t->all);
    *t = (struct names){0};
}

struct slice names_get(const struct names *t, uint32_t i)
{
    ASSERT(i < t->n);
    return map_key(&t->all[i]->node);
}

uint64_t names_uses(const struct names *t, uint32_t i)
{
    ASSERT(i < t->n);
    return t->all[i]->uses;
}

bool names_intern(struct names *t, struct slice s, uint32_t *out)
{
    struct name *name = map_entry(map_find(&t->by_text, s.p, s.len), struct name, node);

    if (name == NULL) {
        if (t->n == NAMES_MAX)
            return false;
        t->all = xgrow(t->all, t->n + 1, &t->room, sizeof(t->all[0]));
        name = xcalloc(1, sizeof(*name) + s.len);
        if (s.len != 0)
            memcpy(name->bytes, s.p, s.len);
        name->number = t->n;
        map_add(&t->by_text, &name->node, name->bytes, s.len);
        t->all[t->n++] = name;
    }
    ++name->uses;
    *out = name->number;
    return true;
}
