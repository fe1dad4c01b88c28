/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters: what is in progress, by key. Per key, at most `workers` leases are held, and at most
 * `maxqueue` are held or waiting; per type of key, at most `slots` are held. These are the rules of
 * the PoolCounter protocol without its wire format: the daemon and the load balancer count with the
 * same code. Pure computation without I/O; time is an argument; one thread at a time. A table owns
 * its keys and types. A struct counter_lease is embedded in and owned by its requester.
 *
 *               acquire: LOCKED                       release, leave
 *   FREE ------------------------------------> HELD -----------------> FREE
 *     |  acquire: WAIT           woken: LOCKED  ^
 *     +-----------------> WAITING --------------+
 *                            | woken: DONE; expire; release, leave
 *                            +-----------------------------------> FREE
 *
 * Each key has one FIFO queue per kind of lease. Waiters that wait only because of `slots`, while
 * their key has room, are also in their type's line. A waiter occupies no slot. When a holder
 * leaves, its place goes to the next waiter of its own key; if there is none, to the oldest waiter
 * in its type's line that has room at its key. Limits belong to the request, as in the original:
 * each acquire is judged by its own limits, and is not judged again when it is woken. The limits
 * set by counter_set_limits always apply, and can be changed while leases are held.
 *
 * A key has the type of the request that created it, as long as the key has a lease. The type in
 * later requests is ignored, and so are their `slots` if the key has no type. A type exists while
 * it has a key or limits. A type takes about as much memory as a key: omit it from requests if
 * nothing of that type will be limited.
 *
 * Every call takes amortized O(1) time, with three exceptions. DONE to n waiters takes O(n).
 * counter_set_limits takes O(n log n) in the waiters of the type. While more is held than a lowered
 * `slots` allows, a release or leave of a key with waiters takes time linear in these waiters and
 * in the type's line. Keys are in a split_map (map.h), so that no call waits for a table to grow.
 */
#pragma once

#include "common/base/err.h"
#include "common/base/list.h"

enum {
    COUNTER_NAME_MAX = 65535,  /* maximum length of a key, and of a type */
    COUNTER_LIMITED_MAX = 4096 /* maximum number of types with limits of their own */
};

enum counter_kind {
    COUNTER_ME,  /* to do the work */
    COUNTER_ANY, /* to do the work, or to use the result of another request */
    COUNTER_KINDS,
};

enum counter_state { COUNTER_FREE, COUNTER_HELD, COUNTER_WAITING };

/* Results of a table, of a daemon's client (pool_counter_client.h), and of a limit_lease. */
enum counter_result {
    COUNTER_LOCKED, /* the lease is held */
    /* The lease is queued. Another result follows, from a table in a WOKEN list, unless the wait
     * is ended. */
    COUNTER_WAIT,
    COUNTER_DONE, /* after waiting with kind ANY: another request has done the work; the lease is
                     free */
    COUNTER_QUEUE_FULL, /* `maxqueue` leases are held or waiting */
    COUNTER_TIMEOUT,    /* it must not wait, or has reached its time-out */
    /* The table is full (keys or waiters), memory is exhausted, a name is too long, or the limit
     * of connections to the daemon is reached. */
    COUNTER_NO_ROOM,
    COUNTER_UNREACHABLE, /* not returned by a table: the daemon has not responded */
};
enum { COUNTER_RESULTS = COUNTER_UNREACHABLE + 1 };

struct counter_key;

/* An all-zero lease is free. It must not be moved while it is not free, or is in a WOKEN list.
 * Its 64 bytes are one cache line. */
struct counter_lease {
    struct list in_key; /* while waiting: in the queue of its key; afterwards in a WOKEN list */
    struct list
        in_type; /* while waiting: in a list of its type; while held: in the list of holders */
    struct counter_key *key;
    uint64_t since_us; /* start of holding, or of waiting */
    uint32_t workers;
    uint32_t slots;
    uint64_t order : 56; /* order of arrival among all waiters of a table */
    uint8_t kind : 1;    /* enum counter_kind */
    uint8_t state : 2;   /* enum counter_state */
    uint8_t woken : 2;   /* result while in a WOKEN list: COUNTER_LOCKED or COUNTER_DONE */
    uint8_t in_line : 1; /* IN_TYPE is in the queue of its type */
};

/* A request for a lease. */
struct counter_request {
    struct slice key;  /* any bytes; copied */
    struct slice type; /* see counter_type_of(); empty: no type. Copied; ignored by a client */
    enum counter_kind kind;
    uint32_t workers;    /* at least 1 */
    uint32_t maxqueue;   /* at least 1 */
    uint32_t slots;      /* limit of the key's type; 0: only the type's own limit */
    uint64_t timeout_ms; /* 0: must not wait. A table's owner ends the wait: counter_expire */
};

/* 0: only the limits in requests apply. */
struct counter_limits {
    uint32_t workers;
    uint32_t slots;
};

/* Sums and counts since the table was created; times in microseconds. */
struct counter_stats {
    uint64_t acquired, released, processed;
    uint64_t done, full, timeouts, timeouts_at_once, given_up, no_room;
    uint64_t processing_us; /* time for which processed leases were held */
    uint64_t gained_us;    /* for each DONE, the time for which the releaser held the lease; 0 if it
                              held none */
    uint64_t waited_me_us; /* waiting time that ended in LOCKED */
    uint64_t waited_any_us;  /* the same */
    uint64_t waited_good_us; /* waiting time that ended in DONE */
    uint64_t wasted_us;      /* waiting time that expired */
    size_t keys, held, waiting;
};

struct counter_table;

/*
 * MAX_KEYS and MAX_WAITERS are at least 1. Returns NULL if out of memory. A later call that cannot
 * allocate a key or a type reports that and changes nothing.
 */
struct counter_table *counter_table_create(size_t max_keys, size_t max_waiters);
/* Every lease must be free. */
void counter_table_destroy(struct counter_table *t);

/* Returns the part of KEY before its first ':', or all of KEY if there is none. */
struct slice counter_type_of(struct slice key);

/*
 * Requests LEASE, which must be free and in no WOKEN list. Returns LOCKED, WAIT, QUEUE_FULL,
 * TIMEOUT or NO_ROOM. Checks, in the original's order: `maxqueue`, room, whether it may wait, table
 * limits.
 */
enum counter_result counter_acquire(struct counter_table *t, struct counter_lease *lease,
                                    const struct counter_request *ask, uint64_t now_us);

/*
 * LEASE must be held or waiting, and is free afterwards. If it was held, the work is done: all of
 * the key's waiters of kind ANY get DONE, then the next waiter of kind ME gets LOCKED. If it was
 * waiting, it gives up, and the key's other waiters of kind ANY get DONE, as in the original. Woken
 * leases are appended to WOKEN in order, linked by in_key, with their response in `woken`. The
 * caller removes each lease from WOKEN; releasing or leaving such a lease removes it as well.
 */
void counter_release(struct counter_table *t, struct counter_lease *lease, uint64_t now_us,
                     struct list *woken);

/*
 * LEASE must be held or waiting, and is free afterwards. Its owner has left without doing the work:
 * no waiter gets DONE, and a holder's place goes to the key's oldest waiter of kind ME, or else of
 * kind ANY.
 */
void counter_leave(struct counter_table *t, struct counter_lease *lease, uint64_t now_us,
                   struct list *woken);

/* Ends the wait of LEASE, which must be waiting, because of its time-out. It is free afterwards. */
void counter_expire(struct counter_table *t, struct counter_lease *lease, uint64_t now_us);

/*
 * Sets TYPE's own limits, which apply regardless of the limits in requests. Lowering them takes no
 * held lease away; a holder that leaves is not replaced until there is room. If they are raised,
 * waiters that have room now are appended to WOKEN. Both 0: removes the type's own limits.
 * Errors: ERR_TOO_LARGE if the table cannot take another type; ERR_RANGE if TYPE is empty or longer
 * than COUNTER_NAME_MAX.
 */
enum err counter_set_limits(struct counter_table *t, struct slice type,
                            struct counter_limits limits, uint64_t now_us,
                            struct list *woken) must_check;

const struct counter_stats *counter_stats(const struct counter_table *t);
/* Returns the lease that has been held longest, or NULL. */
const struct counter_lease *counter_oldest(const struct counter_table *t);
/* Returns the key of LEASE, which must not be free. */
struct slice counter_key_of(const struct counter_lease *lease);
