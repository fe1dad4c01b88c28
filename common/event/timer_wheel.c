/* SPDX-License-Identifier: Apache-2.0
 *
 * A hierarchical timing wheel with bitmaps. A due time is a number to the base 64; a timer is
 * stored at the level of the highest digit in which its due time differs from the current tick, in
 * the slot of that digit:
 *
 *     due  = 3 . 17 . 42      tick = 3 . 11 . 60      ->  level 1, slot 17
 *
 * So no slot is ever behind the tick, all timers of a level are due before those of higher levels,
 * and the next event is the lowest bit of the lowest level in use. When the tick reaches a slot of
 * a higher level, its timers are moved to a lower level: at most WHEEL_LEVELS times for each timer.
 * Source: Varghese and Lauck, "Hashed and hierarchical timing wheels", 1987, scheme 7. Slots are
 * selected by absolute time instead of by distance, so indexes do not wrap around.
 */
#include "common/event/timer_wheel.h"

void timer_wheel_init(struct timer_wheel *w, uint64_t now_ms)
{
    w->tick_ms = now_ms;
    w->next_ms = UINT64_MAX;
    list_init(&w->due);
    for (size_t level = 0; level < WHEEL_LEVELS; ++level) {
        w->used[level] = 0;
        for (size_t slot = 0; slot < WHEEL_SLOTS; ++slot)
            list_init(&w->slots[level][slot]);
    }
}

void timer_wheel_add(struct timer_wheel *w, struct timer *t)
{
    if (t->due_ms <= w->tick_ms) {
        list_push_back(&w->due, &t->node);
        return;
    }
    unsigned highest = 63 - (unsigned)__builtin_clzll(t->due_ms ^ w->tick_ms);
    unsigned level = highest / WHEEL_BITS;
    unsigned shift = level * WHEEL_BITS;
    unsigned slot = (unsigned)(t->due_ms >> shift) & (WHEEL_SLOTS - 1);
    uint64_t begins_ms = t->due_ms >> shift << shift;
    list_push_back(&w->slots[level][slot], &t->node);
    w->used[level] |= (uint64_t)1 << slot;
    if (begins_ms < w->next_ms)
        w->next_ms = begins_ms;
}

/* Returns the first slot with members, or NULL. next_ms becomes the time at which it begins, or
 * UINT64_MAX. Clears the bits of empty slots. */
static struct list *next_slot(struct timer_wheel *w)
{
    for (unsigned level = 0; level < WHEEL_LEVELS; ++level) {
        while (w->used[level] != 0) {
            unsigned slot = (unsigned)__builtin_ctzll(w->used[level]);
            unsigned shift = level * WHEEL_BITS;
            if (list_empty(&w->slots[level][slot])) {
                w->used[level] &= w->used[level] - 1;
                continue;
            }
            /* The digits of the tick above this level; shifting by 64 or more is undefined. */
            uint64_t above = shift + WHEEL_BITS < 64
                                 ? w->tick_ms >> (shift + WHEEL_BITS) << (shift + WHEEL_BITS)
                                 : 0;
            w->next_ms = above | (uint64_t)slot << shift;
            return &w->slots[level][slot];
        }
    }
    w->next_ms = UINT64_MAX;
    return NULL;
}

void timer_wheel_advance(struct timer_wheel *w, uint64_t now_ms)
{
    struct list *slot;
    struct timer *t;

    while (w->next_ms <= now_ms && (slot = next_slot(w)) != NULL && w->next_ms <= now_ms) {
        struct list members;

        list_take(&members, slot);
        w->tick_ms = w->next_ms;
        while ((t = list_pop_entry(&members, struct timer, node)) != NULL)
            timer_wheel_add(w, t);
    }
    if (now_ms > w->tick_ms)
        w->tick_ms = now_ms;
}

uint64_t timer_wheel_next(struct timer_wheel *w, bool exact)
{
    uint64_t due_ms = UINT64_MAX;
    unsigned seen = 0;
    const struct timer *t;

    if (!list_empty(&w->due))
        return w->tick_ms;
    struct list *slot = next_slot(w);
    if (slot == NULL || !exact)
        return w->next_ms;
    list_for_each_entry (t, slot, node) {
        if (++seen > WHEEL_SEARCH_MAX)
            return w->next_ms;
        if (t->due_ms < due_ms)
            due_ms = t->due_ms;
    }
    return due_ms;
}
