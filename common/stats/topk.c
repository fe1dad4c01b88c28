/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries are found by the hash of their key, and the least of them is the root of a binary heap:
 * with weights, a sum may leap over many others, so the paper's list of buckets would not be O(1).
 * The number of entries is fixed, and their memory is allocated at creation. The memory of an
 * entry's key stays with it when the key is replaced, and only grows.
 */
#include "common/stats/topk.h"

#include <stdlib.h>

#include "common/base/map.h"

struct topk_entry {
    struct split_node node; /* of topk.keys; KEY follows it */
    char *key;
    size_t room; /* allocated bytes of key */
    size_t at;   /* index in the heap */
    uint64_t sum, over, count;
};

struct topk {
    struct topk_entry *entries;
    struct split_map keys;
    struct topk_entry **heap; /* no entry is larger than its children, at 2i+1 and 2i+2 */
    size_t n, max;
    size_t key_max;
};

struct topk *topk_create(size_t entries, size_t key_max)
{
    struct topk *top = xcalloc(1, sizeof(*top));

    ASSERT(entries >= 1);
    top->max = entries;
    top->key_max = key_max;
    top->entries = xcalloc(entries, sizeof(*top->entries));
    top->heap = xcalloc(entries, sizeof(struct topk_entry *));
    split_map_init(&top->keys, 0);
    return top;
}

void topk_destroy(struct topk *top)
{
    if (top == NULL)
        return;
    for (size_t i = 0; i < top->max; ++i) {
        if (i < top->n)
            split_map_remove(&top->keys, &top->entries[i].node);
        free(top->entries[i].key);
    }
    split_map_fini(&top->keys);
    free(top->entries);
    free(top->heap);
    free(top);
}

static void topk_set(struct topk *top, struct topk_entry *e, size_t at)
{
    top->heap[at] = e;
    e->at = at;
}

static void move_down(struct topk *top, struct topk_entry *e)
{
    size_t at = e->at;

    for (size_t child = 0; (child = 2 * at + 1) < top->n; at = child) {
        if (child + 1 < top->n && top->heap[child + 1]->sum < top->heap[child]->sum)
            ++child;
        if (top->heap[child]->sum >= e->sum)
            break;
        topk_set(top, top->heap[child], at);
    }
    topk_set(top, e, at);
}

static struct topk_entry *topk_find(const struct topk *top, struct slice key)
{
    struct split_node *node = split_map_find(&top->keys, key);

    return node != NULL ? container_of(node, struct topk_entry, node) : NULL;
}

/* Adds an entry for KEY, which has none. Returns NULL if out of memory. */
static struct topk_entry *add_entry(struct topk *top, struct slice key)
{
    bool full = top->n == top->max;
    struct topk_entry *e = full ? top->heap[0] : &top->entries[top->n];

    if (e->key == NULL || key.len > e->room) {
        char *p = realloc(e->key, key.len + 1); /* an empty key needs memory as well */
        if (p == NULL)
            return NULL;
        e->key = p;
        e->room = key.len;
    }
    /* The entry with the smallest sum is replaced; that sum is the maximum error of the new one. */
    if (full)
        split_map_remove(&top->keys, &e->node);
    memcpy(e->key, key.p, key.len);
    if (!split_map_add(&top->keys, &e->node, key.len))
        return NULL; /* possible for the first entry only */
    e->over = e->sum;
    e->count = 0;
    if (full)
        return e;
    size_t at = top->n++;
    for (; at > 0 && top->heap[(at - 1) / 2]->sum > e->sum; at = (at - 1) / 2)
        topk_set(top, top->heap[(at - 1) / 2], at);
    topk_set(top, e, at);
    return e;
}

void topk_add(struct topk *top, struct slice key, uint64_t weight)
{
    if (weight == 0)
        return;
    if (key.len > top->key_max)
        key.len = top->key_max;
    if (key.p == NULL)
        key.p = "";
    struct topk_entry *e = topk_find(top, key);

    if (e == NULL)
        e = add_entry(top, key);
    if (e == NULL)
        return;
    e->sum += weight;
    ++e->count;
    move_down(top, e);
}

void topk_halve(struct topk *top)
{
    /* Halving does not change the order of the sums. */
    for (size_t i = 0; i < top->n; ++i) {
        top->entries[i].sum /= 2;
        top->entries[i].over /= 2;
    }
}

uint64_t topk_total(const struct topk *top)
{
    uint64_t total = 0;

    for (size_t i = 0; i < top->n; ++i)
        total += top->entries[i].sum;
    return total;
}

/* Sorts by descending sum; of equal sums, the one with the smaller error first. */
static int compare_rows(const void *a, const void *b)
{
    const struct topk_row *x = a;
    const struct topk_row *y = b;

    if (x->sum != y->sum)
        return x->sum < y->sum ? 1 : -1;
    return (x->over > y->over) - (x->over < y->over);
}

size_t topk_read(const struct topk *top, struct topk_row *rows, size_t n)
{
    struct topk_row *all = xcalloc(top->max, sizeof(*all));

    for (size_t i = 0; i < top->n; ++i) {
        const struct topk_entry *e = &top->entries[i];

        all[i] = (struct topk_row){
            .key = {e->key, e->node.len}, .sum = e->sum, .over = e->over, .count = e->count};
    }
    qsort(all, top->n, sizeof(*all), compare_rows);
    if (n > top->n)
        n = top->n;
    if (n != 0)
        memcpy(rows, all, n * sizeof(*rows));
    free(all);
    return n;
}

void topk_resize(struct topk *top, size_t entries)
{
    struct topk *other = topk_create(entries, top->key_max);
    struct topk_row *rows = xcalloc(top->n + 1, sizeof(*rows));
    size_t n = topk_read(top, rows, entries);

    for (size_t i = 0; i < n; ++i) {
        struct topk_entry *e = add_entry(other, rows[i].key);

        if (e == NULL)
            continue;
        e->sum = rows[i].sum;
        e->over = rows[i].over;
        e->count = rows[i].count;
        move_down(other, e);
    }
    free(rows);
    struct topk old = *top;
    *top = *other;
    *other = old;
    topk_destroy(other);
}
