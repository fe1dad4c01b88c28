/* SPDX-License-Identifier: Apache-2.0
 *
 * Shares one total among clients: so many files, or so many bytes. While it is not used up, one
 * client may have all of it. When it is, a client gets its part from the client that has most: the
 * address that has more than twice as much, of that the connection that has most, of that the
 * largest claim, which is revoked, unless it is the only one. Within one address, connections share
 * in the same way.
 *
 * A struct fair_shares is used by all loops, with one lock, a leaf. A struct fair_loop and its
 * claims belong to one loop. Every operation takes O(log n), for each claim that is revoked.
 */
#pragma once

#include "common/base/map.h"
#include "common/event/loop.h"
#include "common/net/address_counts.h"

#include <pthread.h>

/* The client of a claim. */
struct fair_owner {
    unsigned char address[ADDRESS_KEY_BYTES];
    const void *connection; /* as an identity; freed after its claims only */
};

/* A part of its PARENT, and its own parts as a heap, the heaviest first. */
struct fair_node {
    struct fair_node *parent;
    struct fair_node **parts;
    size_t at; /* index in the parts of PARENT */
    size_t nparts, room;
    uint64_t weight;
};

/* All zero is one without limit. */
struct fair_shares {
    pthread_mutex_t lock;
    struct map accounts; /* of addresses and of their connections */
    struct fair_node all;
    uint64_t settled;     /* weight of claims that are not revoked any more */
    _Atomic uint64_t max; /* 0: no limit */
    _Atomic uint64_t used;
};

struct fair_loop;

/* All zero is an empty one. Embedded in its owner. */
struct fair_claim {
    struct fair_node node; /* its parent is the account of a connection; NULL: has nothing */
    struct fair_loop *loop;
    struct list revoked; /* linked: LOOP will report it */
    uint64_t settled;    /* see fair_settle() */
    bool is_revoked;
};

/* CLIENT may be any address; those of a unix socket are one. */
struct fair_owner fair_owner_of(const struct addr *client, const void *connection);

/* Frees what S has. No claim has anything any more. */
void fair_shares_fini(struct fair_shares *s);

/* REVOKED is called on L for each claim that lost its part; it must end the claim soon. */
struct fair_loop *fair_loop_create(struct fair_shares *s, struct loop *l,
                                   void (*revoked)(struct fair_claim *c)) returns_nonnull_;
/* After all its claims. NULL is allowed. */
void fair_loop_destroy(struct fair_loop *l);

/*
 * Adds up to N to claim C of OWNER, and returns how much was added: less than N if the total is
 * used up and, if REVOKES, OWNER is among those that have most; 0 if C was revoked. Without REVOKES
 * no claim is revoked.
 */
uint64_t fair_take(struct fair_loop *l, struct fair_claim *c, const struct fair_owner *owner,
                   uint64_t n, bool revokes) must_check;
/* Returns N of what C has, or all. C is not settled. */
void fair_give_back(struct fair_claim *c, uint64_t n);
/* Returns all that C has, which is empty then. It is not reported as revoked any more. */
void fair_end(struct fair_claim *c);
/* From now on C is not revoked: it lasts no longer than the server needs. Returns false if it was
 * revoked before, which is not reported any more; the caller must end C soon. */
bool fair_settle(struct fair_claim *c) must_check;
/* Returns how much OWNER's address has apart from C, without what is settled. */
uint64_t fair_others(struct fair_loop *l, const struct fair_claim *c,
                     const struct fair_owner *owner);
