/* SPDX-License-Identifier: Apache-2.0 */
#include "common/net/address_counts.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/base/map.h"

enum { LOG_INTERVAL_MS = 1000 };

struct address_count {
    struct split_node node;
    size_t connections;
    unsigned char key[ADDRESS_KEY_BYTES];
};

struct address_counts {
    pthread_mutex_t lock;
    struct split_map map;
    size_t ipv6_bytes;
    uint64_t reported_ms; /* 0: never */
    uint64_t unreported;
};

struct address_counts *address_counts_create(size_t ipv6_bytes)
{
    struct address_counts *t = xcalloc(1, sizeof(*t));

    t->ipv6_bytes = ipv6_bytes;
    pthread_mutex_init(&t->lock, NULL);
    split_map_init(&t->map,
                   offsetof(struct address_count, key) - offsetof(struct address_count, node));
    return t;
}

void address_counts_destroy(struct address_counts *t)
{
    if (t == NULL)
        return;
    ASSERT(split_map_count(&t->map) == 0);
    split_map_fini(&t->map);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

bool address_key(const struct addr *peer, size_t ipv6_bytes, unsigned char key[ADDRESS_KEY_BYTES])
{
    struct addr a = addr_plain(peer);

    memset(key, 0, ADDRESS_KEY_BYTES);
    if (a.sa.sa_family == AF_INET) {
        key[10] = key[11] = 0xff;
        memcpy(key + 12, &a.in.sin_addr, 4);
    } else if (a.sa.sa_family == AF_INET6) {
        memcpy(key, &a.in6.sin6_addr, ipv6_bytes);
    } else {
        return false;
    }
    return true;
}

bool address_counts_add(struct address_counts *t, const struct addr *peer, size_t max,
                        struct address_count **out)
{
    unsigned char key[ADDRESS_KEY_BYTES];
    struct address_count *one = NULL;

    ASSERT(max != 0);
    *out = NULL;
    if (!address_key(peer, t->ipv6_bytes, key))
        return true;
    pthread_mutex_lock(&t->lock);
    struct split_node *node =
        split_map_find(&t->map, (struct slice){(const char *)key, ADDRESS_KEY_BYTES});
    if (node != NULL) {
        one = container_of(node, struct address_count, node);
    } else if (split_map_count(&t->map) < ADDRESS_COUNTS_MAX) {
        one = xcalloc(1, sizeof(*one));
        memcpy(one->key, key, ADDRESS_KEY_BYTES);
        if (!split_map_add(&t->map, &one->node, ADDRESS_KEY_BYTES)) {
            free(one);
            one = NULL;
        }
    }
    bool good = one == NULL || one->connections < max;
    if (good && one != NULL) {
        ++one->connections;
        *out = one;
    }
    pthread_mutex_unlock(&t->lock);
    return good;
}

void address_counts_remove(struct address_counts *t, struct address_count **one)
{
    struct address_count *leaves = *one;

    *one = NULL;
    if (leaves == NULL)
        return;
    pthread_mutex_lock(&t->lock);
    bool last = --leaves->connections == 0;
    if (last)
        split_map_remove(&t->map, &leaves->node);
    pthread_mutex_unlock(&t->lock);
    if (last)
        free(leaves);
}

size_t address_counts_size(struct address_counts *t)
{
    pthread_mutex_lock(&t->lock);
    size_t n = split_map_count(&t->map);
    pthread_mutex_unlock(&t->lock);
    return n;
}

bool address_counts_should_log(struct address_counts *t, uint64_t now_ms, uint64_t *unreported)
{
    pthread_mutex_lock(&t->lock);
    bool due = t->reported_ms == 0 || now_ms >= t->reported_ms + LOG_INTERVAL_MS;

    *unreported = t->unreported;
    t->unreported = due ? 0 : t->unreported + 1;
    if (due)
        t->reported_ms = now_ms;
    pthread_mutex_unlock(&t->lock);
    return due;
}
