/* SPDX-License-Identifier: Apache-2.0
 *
 * Pool counters: named limits. Per key at most `workers` hold it, `maxqueue` hold or wait; per type
 * of key at most `slots` hold one. The rules of PoolCounter's protocol, without its wire: the
 * daemon and the load balancer count with this same code. Plain computation: no I/O, time is an
 * argument, one thread at a time. A table owns keys and types; a struct counter_lock is embedded in
 * whoever asks, and owned there.
 *
 *               acquire: LOCKED                       release, leave
 *   FREE ------------------------------------> HELD -----------------> FREE
 *     |  acquire: WAIT           woken: LOCKED  ^
 *     +-----------------> WAITING --------------+
 *                            | woken: DONE; expire; release, leave
 *                            +-----------------------------------> FREE
 *
 * Who waits is in its key's queue, one for each kind. Those of them who wait because of `slots`
 * alone, while their key has room, are in their type's line too. Who holds none waits for none: a
 * waiter takes no slot. A holder that leaves makes room for its own key's next waiter; when there
 * is none, for the oldest in its type's line whose key has room. Limits belong to the request, as
 * in the original: each acquire is judged by its own, and is not judged again when it is woken.
 * Those set by counter_limit bind always, and are lowered and raised while locks are held.
 *
 * A key has the type of the ask that made it, for as long as it has a lock; the type in later asks
 * is not looked at, nor are `slots` when it has none. A type exists while it has a key or limits.
 * It takes about as much memory as a key: where nothing of a type will be limited, ask without.
 *
 * Every call is O(1), amortised, but for: DONE to n waiters, n; counter_limit, n log n in the
 * waiters of the type; and, while more is held than a lowered `slots` allows, a leaver whose key
 * has waiters: those, and the type's line. Keys are in a split_map (map.h), so that no call waits
 * for the growth of a table.
 */
#ifndef RLB_LIMITER_COUNTER_H
#define RLB_LIMITER_COUNTER_H

#include "common/base/err.h"
#include "common/base/list.h"

enum {
    COUNTER_NAME_MAX = 65535,  /* bytes of a key, and of a type */
    COUNTER_LIMITED_MAX = 4096 /* types with limits of their own */
};

enum counter_kind {
    COUNTER_ME,  /* to do the work itself */
    COUNTER_ANY, /* to do it, or to use what another one has done */
    COUNTER_KINDS,
};

enum counter_state { COUNTER_FREE, COUNTER_HELD, COUNTER_WAITING };

enum counter_answer {
    COUNTER_LOCKED,     /* it is held */
    COUNTER_WAIT,       /* it is queued; it comes in a WOKEN list, or is taken out again */
    COUNTER_DONE,       /* in a WOKEN list only: another has done the work; nothing is held */
    COUNTER_QUEUE_FULL, /* held and waiting are `maxqueue` */
    COUNTER_TIMEOUT,    /* would have to wait, and may not */
    COUNTER_NO_ROOM,    /* the table is full (keys or waiters), or memory; or a name is too long */
};

struct counter_key;

/* Zeroed, it is free. Not moved while it is not, or is in a WOKEN list. 64 bytes: one line. */
struct counter_lock {
    struct list in_key;  /* while waiting: its key's queue. In a WOKEN list after that */
    struct list in_type; /* while it waits: one of its type's lists. While held: the holders */
    struct counter_key *key;
    uint64_t since_us; /* held since, or waiting since */
    uint32_t workers;
    uint32_t slots;
    uint64_t order : 56; /* which came first, of all waiters of a table */
    uint8_t kind : 1;    /* enum counter_kind */
    uint8_t state : 2;   /* enum counter_state */
    uint8_t woken : 2;   /* in a WOKEN list: COUNTER_LOCKED or COUNTER_DONE */
    uint8_t in_line : 1; /* whether in_type is its type's line */
};

struct counter_ask {
    struct slice key;  /* copied */
    struct slice type; /* see counter_type_of; empty: of no type. Copied */
    enum counter_kind kind;
    uint32_t workers;  /* at least 1 */
    uint32_t maxqueue; /* at least 1 */
    uint32_t slots;    /* 0: none but the type's own */
    bool wait;
};

/* 0: no limit but those in the request. */
struct counter_limits {
    uint32_t workers;
    uint32_t slots;
};

/* Sums and counts since the table was made; times in microseconds. */
struct counter_stats {
    uint64_t acquired, released, processed;
    uint64_t done, full, timeouts, timeouts_at_once, given_up, no_room;
    uint64_t processing_us;  /* of processed */
    uint64_t gained_us;      /* per DONE: how long the releaser held; 0 when it held nothing */
    uint64_t waited_me_us;   /* waits that ended in LOCKED */
    uint64_t waited_any_us;  /* the same */
    uint64_t waited_good_us; /* waits that ended in DONE */
    uint64_t wasted_us;      /* waits that expired */
    size_t keys, held, waiting;
};

struct counter_table;

/*
 * MAX_KEYS and MAX_WAITERS are at least 1. NULL: out of memory. Who fails to get memory for a key
 * or a type is told so, and nothing changes.
 */
struct counter_table *counter_table_create(size_t max_keys, size_t max_waiters);
/* Every lock is free. */
void counter_table_destroy(struct counter_table *t);

/* What stands before KEY's first ':', or all of it. */
struct slice counter_type_of(struct slice key);

/*
 * LOCK is free, and in no WOKEN list. LOCKED, WAIT, QUEUE_FULL, TIMEOUT or NO_ROOM; judged in the
 * original's order: `maxqueue`, then room, then whether it may wait; then what the table can take.
 */
enum counter_answer counter_acquire(struct counter_table *t, struct counter_lock *lock,
                                    const struct counter_ask *ask, uint64_t now_us);

/*
 * LOCK is held or waiting, and free after this. The work is done: all of the key's waiters of kind
 * ANY get DONE, then the next one of kind ME gets LOCKED. Given up while it waits: DONE for the
 * key's other waiters of kind ANY, as the original has it. WOKEN: those who got either are added to
 * it, in order, by in_key; their answers are in `woken`. Who reads it takes each one out. One that
 * is released or left before that is taken out by that.
 */
void counter_release(struct counter_table *t, struct counter_lock *lock, uint64_t now_us,
                     struct list *woken);

/*
 * LOCK is held or waiting, and free after this. Its owner is gone, and the work is not done: nobody
 * gets DONE, and a holder's place goes to the key's oldest waiter of kind ME, else of kind ANY.
 */
void counter_leave(struct counter_table *t, struct counter_lock *lock, uint64_t now_us,
                   struct list *woken);

/* LOCK waits; it has waited long enough, and is free after this. */
void counter_expire(struct counter_table *t, struct counter_lock *lock, uint64_t now_us);

/*
 * A type's own limits; they bind whatever a request says. Lowered: nobody loses what it holds, and
 * who leaves is not replaced until there is room. Raised: who may go on now is added to WOKEN.
 * Both 0: the type is as any other again.
 * Errors: ERR_TOO_LARGE when there is no room for another type; ERR_RANGE for a TYPE that is empty
 * or longer than COUNTER_NAME_MAX.
 */
enum err counter_limit(struct counter_table *t, struct slice type, struct counter_limits limits,
                       uint64_t now_us, struct list *woken) must_check;

const struct counter_stats *counter_stats(const struct counter_table *t);
/* Who holds the longest, or NULL. */
const struct counter_lock *counter_oldest(const struct counter_table *t);
/* The key of a lock that is not free. */
struct slice counter_key_of(const struct counter_lock *lock);

/* Asserts every invariant; for tests. O(everything). */
void counter_check(const struct counter_table *t);

#endif
