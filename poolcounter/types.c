/* SPDX-License-Identifier: Apache-2.0 */
#include "poolcounter/types.h"

#include <stdlib.h>

void types_init(struct types *t, size_t max)
{
    *t = (struct types){.max = max};
}

void types_fini(struct types *t)
{
    map_for_each_safe (struct type_entry, entry, &t->map, node) {
        map_remove(&t->map, &entry->node);
        free(entry);
    }
}

struct type_entry *types_get(struct types *t, struct slice name)
{
    struct type_entry *entry =
        map_entry(map_find(&t->map, name.p, name.len), struct type_entry, node);

    if (entry != NULL)
        return entry;
    if (name.len == 0 || map_count(&t->map) >= t->max)
        return &t->others;
    entry = malloc(sizeof(*entry) + name.len);
    if (entry == NULL)
        return &t->others;
    char *bytes = (char *)(entry + 1);
    memcpy(bytes, name.p, name.len);
    *entry = (struct type_entry){.name = {bytes, name.len}};
    if (!map_try_add(&t->map, &entry->node, bytes, name.len)) {
        free(entry);
        return &t->others;
    }
    return entry;
}
