/* SPDX-License-Identifier: Apache-2.0
 *
 * The claim of one request on one pool counter: requested, waiting, held, released. Owned by its
 * exchange and used on the exchange's loop only. Its lock is in a table that all loops share, so
 * that another thread may grant it; the result is then sent to the owner's loop as a message. A
 * claim that is released while that message is in flight stays in memory until the message has
 * arrived.
 *
 *   where: local     the counter's own table
 *   where: daemon    the daemon; with mode any, first a coalescing lock: of those on this load
 *                    balancer that need the same key one asks the daemon, the others wait for it
 *
 *   limit_claim_acquire -> LOCKED; QUEUE_FULL, TIMEOUT or UNREACHABLE: nothing is held; or WAIT
 *     WAIT -> on_result: any answer but WAIT; NO_ROOM: no free connection to the daemon
 */
#ifndef RLB_LB_LIMITS_LIMIT_CLAIM_H
#define RLB_LB_LIMITS_LIMIT_CLAIM_H

#include "common/limiter/counter_client.h"
#include "lb/limits/limit_rule.h"

struct limit_claim {
    struct list node; /* used by the owner: in the claims of the exchange */
    void *owner;      /* the exchange; NULL while only a posted message is awaited */
    struct loop *loop;
    struct counter_client *client; /* client of this loop, or NULL */
    const struct limit_rule *rule; /* borrowed; not used after the claim was released */
    struct limit_counter *counter; /* counted reference */
    /* Reports the result of a wait, on the loop, and never inside a call of this interface. */
    void (*on_result)(struct limit_claim *c, enum counter_answer r);

    /* Private to limit_claim.c. */
    struct counter_lock lock; /* in the counter's table: under its mutex */
    bool posted;              /* the message is in flight; under the mutex of the counter */
    struct limit_claim *next_reported; /* list of claims to post */
    struct loop_message message;
    struct counter_call call;
    struct timer timer;
    enum counter_kind kind;
    bool coalescing;   /* the lock is in the counter's table `coalescing` */
    bool immediate;    /* used by the owner: the first request must not wait */
    unsigned rounds;   /* how often it waited for its variant */
    uint64_t begun_us; /* time of the first request */
    uint64_t since_us, due_us;
    uint64_t waited_us; /* waiting time so far */
    struct slice key;   /* in ROOM */
    char room[LIMIT_KEY_MAX];
};

/* Creates a claim for KEY of RULE, with a reference to its counter. */
struct limit_claim *limit_claim_create(const struct limit_rule *rule, struct slice key,
                                       enum counter_kind kind, struct loop *l,
                                       struct counter_client *client);

/*
 * Requests the lock. WAIT: C may wait, up to the rule's timeout since its first request; otherwise
 * the result is TIMEOUT if it would have to (of a daemon: with its reply). A shadow rule's claim
 * becomes LOCKED whatever the limits are, or UNREACHABLE.
 */
enum counter_answer limit_claim_acquire(struct limit_claim *c, bool wait);
/*
 * After DONE: requests the lock again for the remaining time, in order to do the work. ANY: the
 * response was of another variant, so that C waits for one of its own, too, at most
 * COPIES_VARIANTS_MAX times.
 */
enum counter_answer limit_claim_again(struct limit_claim *c, bool any);
/*
 * Releases the claim in any state; C must not be used afterwards.
 *   done  the work is done: with mode any, all waiters for the key are notified; otherwise the
 *         claim of the next waiter is granted
 */
void limit_claim_release(struct limit_claim *c, bool done);

/*
 * Sets the counter's own limits, which override those in the waiters' requests. Notifies the
 * waiters that can now proceed. Any thread.
 */
void limit_counter_set(struct limit_counter *c, struct counter_limits limits);

#endif
