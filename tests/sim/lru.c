/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries in an array, in a ring by last use, and a table of places that is open to its neighbours;
 * whoever goes leaves its place to the newcomer.
 */
#include "tests/sim/lru.h"

#include <stdlib.h>

struct lru {
    uint64_t *keys;
    uint32_t *next, *prev; /* by last use; entry MAX is the head: next = the oldest */
    uint32_t *table;       /* entry + 1; 0: free */
    size_t mask;
    uint32_t n, max;
};

struct lru *lru_create(size_t objects)
{
    struct lru *c = xcalloc(1, sizeof(*c));
    size_t places = 4;

    while (places < objects * 2)
        places *= 2;
    c->max = (uint32_t)objects;
    c->mask = places - 1;
    c->keys = xcalloc(objects, sizeof(c->keys[0]));
    c->next = xcalloc(objects + 1, sizeof(c->next[0]));
    c->prev = xcalloc(objects + 1, sizeof(c->prev[0]));
    c->table = xcalloc(places, sizeof(c->table[0]));
    lru_clear(c);
    return c;
}

void lru_destroy(struct lru *c)
{
    if (c == NULL)
        return;
    free(c->keys);
    free(c->next);
    free(c->prev);
    free(c->table);
    free(c);
}

void lru_clear(struct lru *c)
{
    c->n = 0;
    c->next[c->max] = c->prev[c->max] = c->max;
    memset(c->table, 0, (c->mask + 1) * sizeof(c->table[0]));
}

static size_t ideal(const struct lru *c, uint64_t key)
{
    key *= 0x9E3779B97F4A7C15ULL;
    return (key ^ key >> 29) & c->mask;
}

static size_t place(const struct lru *c, uint64_t key)
{
    size_t at = ideal(c, key);

    while (c->table[at] != 0 && c->keys[c->table[at] - 1] != key)
        at = (at + 1) & c->mask;
    return at;
}

static void unlink_entry(struct lru *c, uint32_t e)
{
    c->next[c->prev[e]] = c->next[e];
    c->prev[c->next[e]] = c->prev[e];
}

static void link_newest(struct lru *c, uint32_t e)
{
    c->prev[e] = c->prev[c->max];
    c->next[e] = c->max;
    c->next[c->prev[e]] = e;
    c->prev[c->max] = e;
}

/* Whoever stands behind the hole and could stand in it does. */
static void vacate(struct lru *c, size_t hole)
{
    c->table[hole] = 0;
    for (size_t at = (hole + 1) & c->mask; c->table[at] != 0; at = (at + 1) & c->mask) {
        size_t wants = ideal(c, c->keys[c->table[at] - 1]);

        if (((at - wants) & c->mask) < ((at - hole) & c->mask))
            continue;
        c->table[hole] = c->table[at];
        c->table[at] = 0;
        hole = at;
    }
}

bool lru_use(struct lru *c, uint64_t key)
{
    size_t at = place(c, key);
    uint32_t e;

    if (c->table[at] != 0) {
        e = c->table[at] - 1;
        unlink_entry(c, e);
        link_newest(c, e);
        return true;
    }
    if (c->n < c->max) {
        e = c->n++;
    } else {
        e = c->next[c->max];
        unlink_entry(c, e);
        vacate(c, place(c, c->keys[e]));
        at = place(c, key);
    }
    c->keys[e] = key;
    c->table[at] = e + 1;
    link_newest(c, e);
    return false;
}

bool lru_has(const struct lru *c, uint64_t key)
{
    return c->table[place(c, key)] != 0;
}

size_t lru_keys(const struct lru *c, const uint64_t **out)
{
    *out = c->keys;
    return c->n;
}
