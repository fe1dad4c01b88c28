/* SPDX-License-Identifier: Apache-2.0 */
#include "poolcounter/sources.h"

#include <stdlib.h>

static bool key_of(const struct sockaddr *a, struct in6_addr *out)
{
    if (a->sa_family == AF_INET6) {
        *out = ((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
        return true;
    }
    if (a->sa_family != AF_INET)
        return false;
    *out = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
    memcpy(&out->s6_addr[12], &((const struct sockaddr_in *)(const void *)a)->sin_addr, 4);
    return true;
}

struct source_entry *sources_join(struct sources *s, const struct sockaddr *a)
{
    struct in6_addr key;

    if (!key_of(a, &key))
        return NULL;
    struct source_entry *entry =
        map_entry(map_find(&s->map, &key, sizeof(key)), struct source_entry, node);
    if (entry == NULL) {
        entry = malloc(sizeof(*entry));
        if (entry == NULL)
            return NULL;
        *entry = (struct source_entry){.key = key};
        if (!map_try_add(&s->map, &entry->node, &entry->key, sizeof(entry->key))) {
            free(entry);
            return NULL;
        }
    }
    ++entry->clients;
    return entry;
}

void sources_leave(struct sources *s, struct source_entry *entry)
{
    if (entry == NULL || --entry->clients != 0)
        return;
    map_remove(&s->map, &entry->node);
    free(entry);
}
