/* SPDX-License-Identifier: Apache-2.0
 *
 * Figures by type, and what the status pages show, copied on the server's thread, so that they are
 * made on another one.
 */
#include "poolcounter/server_internal.h"

#include <stdlib.h>

/* ---- types ---- */

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

/* ---- the snapshot ---- */

static void put_client_address(const struct client *c, char out[ADDR_TEXT_MAX])
{
    struct sockaddr_storage storage = {0};
    socklen_t len = sizeof(storage);
    struct addr a = {.len = 0};

    if (getpeername(c->fd, (struct sockaddr *)&storage, &len) == 0) {
        a.len = len < (socklen_t)sizeof(a.un) ? len : (socklen_t)sizeof(a.un);
        memcpy(&a.sa, &storage, a.len);
    }
    (void)addr_format(&a, out);
}

static void put_oldest(const struct server *s, struct server_snapshot *out)
{
    const struct counter_lock *lock = counter_oldest(s->table);

    if (lock == NULL)
        return;
    const struct client_lock *cl =
        (const struct client_lock *)((const char *)lock - offsetof(struct client_lock, lock));
    struct slice key = counter_key_of(lock);
    out->has_oldest = true;
    out->oldest_us = s->now_us - lock->since_us;
    out->oldest_key_bytes = key.len < sizeof(out->oldest_key) ? key.len : sizeof(out->oldest_key);
    memcpy(out->oldest_key, key.p, out->oldest_key_bytes);
    put_client_address(cl->client, out->oldest_client);
}

/* Their place in NAMES, which is not moved: there is room for all. */
static struct slice put_name(struct server_snapshot *out, struct slice name)
{
    size_t at = out->names.len;

    text_add(&out->names, name);
    return (struct slice){out->names.p + at, name.len};
}

static void put_types(struct server *s, struct server_snapshot *out)
{
    out->types = xcalloc(map_count(&s->types.map) + 1, sizeof(*out->types));
    map_for_each (struct type_entry, entry, &s->types.map, node)
        out->types[out->ntypes++] =
            (struct type_row){.name = put_name(out, entry->name), .figures = entry->figures};
    out->types[out->ntypes++] = (struct type_row){.figures = s->types.others.figures};
}

static void put_names(struct server *s, struct server_snapshot *out)
{
    struct topk_row rows[SNAPSHOT_KEYS_MAX];
    size_t bytes = 0;

    out->nkeys = topk_read(s->top, rows, SNAPSHOT_KEYS_MAX);
    for (size_t i = 0; i < out->nkeys; ++i)
        bytes += rows[i].key.len;
    map_for_each (struct type_entry, entry, &s->types.map, node)
        bytes += entry->name.len;
    (void)text_reserve(&out->names, bytes + 1);
    put_types(s, out);
    for (size_t i = 0; i < out->nkeys; ++i) {
        out->keys[i] = (struct key_row){
            .name = put_name(out, rows[i].key),
            .waited_us = rows[i].sum,
            .over_us = rows[i].over,
            .waits = rows[i].count,
        };
    }
}

void server_snapshot(struct server *s, struct server_snapshot *out)
{
    *out = (struct server_snapshot){
        .counters = *counter_stats(s->table),
        .uptime_us = s->now_us - s->started_us,
        .clients = s->nclients,
        .addresses = map_count(&s->sources.map),
    };
    put_oldest(s, out);
    put_names(s, out);
}

void server_snapshot_fini(struct server_snapshot *snapshot)
{
    free(snapshot->types);
    text_fini(&snapshot->names);
}
