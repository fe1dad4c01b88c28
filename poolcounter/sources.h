/* SPDX-License-Identifier: Apache-2.0
 *
 * How many clients each address has. An entry is there while its address has one. Owned by the
 * server. One thread.
 */
#ifndef RLB_POOLCOUNTER_SOURCES_H
#define RLB_POOLCOUNTER_SOURCES_H

#include "common/base/map.h"
#include "common/net/addr.h"

struct source_entry {
    struct map_node node;
    struct in6_addr key; /* IPv4 as ::ffff:a.b.c.d, so that it is the same by either family */
    size_t clients;
};

struct sources {
    struct map map;
};

/*
 * One client more from A. NULL: A is neither IPv4 nor IPv6, or memory is out; not counted then.
 * Pair with sources_leave.
 */
struct source_entry *sources_join(struct sources *s, const struct sockaddr *a);
/* ENTRY may be NULL. */
void sources_leave(struct sources *s, struct source_entry *entry);

#endif
