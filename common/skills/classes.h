/* SPDX-License-Identifier: Apache-2.0
 *
 * A bounded table of classes. Clients choose the names of classes and can invent any number of
 * them; the table decides which classes are retained. Embedded in its owner (the pool, a
 * meter), which enlarges each entry to store its own data of the class. One thread at a time.
 *
 * An entry is either *known* or *on probation*; each state is a list, least recently requested
 * first.
 *
 *     first request              second request, in a later sweep
 *     ------------> on probation -------------------------------> known
 *                        |                                          |
 *                        | table full:                              | room for known full:
 *                        v the least recent is dropped              v the least recent is dropped
 *
 * Nine tenths of the room are for known classes, the rest for those on probation, which may also
 * use the room that known classes do not need yet. So a flood of new classes drops only classes on
 * probation. A sweep is as many requests as probation has room: a burst of requests from one client
 * makes no class known, while a class requested once per sweep becomes known regardless of other
 * requests. To displace a known class, others must fill its nine tenths, with two requests each:
 * with room for 100,000, one request in 180,000 is enough to stay. Every function takes O(1) time,
 * except fini.
 */
#pragma once

#include "common/base/list.h"
#include "common/base/map.h"

/* First member of the owner's entry. The name's bytes follow the owner's entry in memory. */
struct class_entry {
    struct map_node by_name;
    struct list node;
    uint32_t sweep; /* sweep in which it was first requested */
    bool known;
};

/* Called for each removed entry before it is freed. Must not modify the table. */
typedef void (*class_drop_fn)(void *owner, struct class_entry *e);

struct classes {
    struct map by_name;
    struct list known;     /* least recently requested first */
    struct list probation; /* least recently requested first */
    size_t n;
    size_t nknown;
    size_t max;
    size_t entry_bytes; /* size of the owner's entry */
    size_t sweep_left;  /* requests until the next sweep */
    uint32_t sweep;
    class_drop_fn drop;
    void *owner;
};

/* ENTRY_BYTES is the size of the owner's entry. MAX must be at least 1. DROP may be NULL. */
void classes_init(struct classes *t, size_t entry_bytes, size_t max, class_drop_fn drop,
                  void *owner);
void classes_fini(struct classes *t);
/* Changes the limit, and drops entries above it. */
void classes_set_max(struct classes *t, size_t max);

static inline struct slice class_name(const struct class_entry *e)
{
    return map_key(&e->by_name);
}

/* The look-up key of a class, computed once for all tables of classes. */
static inline uint64_t class_hash(struct slice cls)
{
    return map_hash(cls.p != NULL ? cls.p : "", cls.len);
}
/* Returns the entry of CLS, or NULL. Does not count as a request. */
struct class_entry *classes_find(const struct classes *t, struct slice cls);
/* The same with HASH, the class_hash() of CLS. */
struct class_entry *classes_find_hashed(const struct classes *t, struct slice cls, uint64_t hash);
/* Adds CLS, which must not be in the table, on probation. The memory after the class_entry is
 * zeroed. May drop another entry. */
struct class_entry *classes_add(struct classes *t, struct slice cls) cold_;
/* Counts a request. E is the entry of its class, or NULL if there is none. May drop an entry
 * other than E. */
void classes_request(struct classes *t, struct class_entry *e);
/* Makes E, if it is on probation, the last one there to be dropped, although it was not
 * requested. */
void classes_refresh(struct classes *t, struct class_entry *e);
/* Makes E known without a second request, if that drops no entry. */
void classes_trust(struct classes *t, struct class_entry *e);
void classes_remove(struct classes *t, struct class_entry *e) noinline_;
/* Returns the entry after E, or the first one if E is NULL; NULL after the last one. Known
 * classes come first, then those on probation, each with the most recently requested first. */
struct class_entry *classes_next(const struct classes *t, const struct class_entry *e);
