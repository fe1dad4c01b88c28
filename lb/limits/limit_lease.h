/* SPDX-License-Identifier: Apache-2.0
 *
 * One request's lease on one limit: requested, waiting, held, released. Owned by its
 * exchange and used on the exchange's loop only. Its counter_lease is in a table that all loops
 * share, so that another thread may grant it; the result is then sent to the owner's loop as a
 * message. A lease that is released while that message is in flight stays in memory until the
 * message has arrived.
 *
 *   where: local     the counter's own table
 *   where: daemon    the daemon; with mode any, first a coalescing lease: of those on this load
 *                    balancer that need the same key one asks the daemon, the others wait for it
 *
 *   limit_lease_acquire -> LOCKED; QUEUE_FULL, TIMEOUT or UNREACHABLE: nothing is held; or WAIT
 *     WAIT -> on_result: any result but WAIT; NO_ROOM: no free connection to the daemon
 */
#pragma once

#include "common/counters/pool_counter_client.h"
#include "lb/limits/limit.h"

struct limit_lease {
    struct list node; /* used by the owner: in the leases of the exchange */
    void *owner;      /* the exchange; NULL while only a posted message is awaited */
    struct loop *loop;
    struct pool_counter_client *client; /* client of this loop, or NULL */
    const struct limit *limit;          /* borrowed; not used after the lease was released */
    struct limit_counter *counter;      /* counted reference */
    /* Reports the result of a wait, on the loop, and never inside a call of this interface. */
    void (*on_result)(struct limit_lease *c, enum counter_result r);

    /* Private to limit_lease.c. */
    struct counter_lease lease; /* in the counter's table: under its mutex */
    bool posted;                /* the message is in flight; under the mutex of the counter */
    struct limit_lease *next_reported; /* list of leases to post */
    struct loop_message message;
    struct pool_counter_call call;
    struct timer timer;
    enum counter_kind kind;
    bool coalescing;   /* the lease is in the counter's table `coalescing` */
    bool immediate;    /* used by the owner: the first request must not wait */
    unsigned rounds;   /* how often it waited for its variant */
    uint64_t begun_us; /* time of the first request */
    uint64_t since_us, due_us;
    uint64_t waited_us; /* waiting time so far */
    struct slice key;   /* in ROOM */
    char room[LIMIT_KEY_MAX];
};

/* Creates a lease for KEY of LIMIT, with a reference to its counter. */
struct limit_lease *limit_lease_create(const struct limit *limit, struct slice key,
                                       enum counter_kind kind, struct loop *l,
                                       struct pool_counter_client *client);

/*
 * Requests the lease. WAIT: C may wait, up to the limit's timeout since its first request;
 * otherwise the result is TIMEOUT if it would have to (of a daemon: with its response). A shadow
 * limit's lease becomes LOCKED whatever the limits are, or UNREACHABLE.
 */
enum counter_result limit_lease_acquire(struct limit_lease *c, bool wait);
/*
 * After DONE: requests the lease again for the remaining time, in order to do the work. ANY: the
 * response was of another variant, so that C waits for one of its own, too, at most
 * RESPONSE_STORE_VARIANTS_MAX times.
 */
enum counter_result limit_lease_again(struct limit_lease *c, bool any);
/*
 * Releases the lease in any state; C must not be used afterwards.
 *   done  the work is done: with mode any, all waiters for the key are notified; otherwise the
 *         lease of the next waiter is granted
 */
void limit_lease_release(struct limit_lease *c, bool done);

/*
 * Sets the counter's own limits, which override those in the waiters' requests. Notifies the
 * waiters that can now proceed. Any thread.
 */
void limit_counter_set(struct limit_counter *c, struct counter_limits limits);
