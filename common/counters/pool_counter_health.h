/* SPDX-License-Identifier: Apache-2.0
 *
 * What the clients of all loops share about their pool counter daemons: whether a daemon responds,
 * whether it knows `slots`, and the number of connections to it. A daemon exists while
 * some client refers to it. The owner outlives the clients. Any thread; one lock.
 *
 * Waiting for a lock is silent whether the daemon works or hangs. So a client that has asked and
 * has received nothing, and of which no other loop has received anything either, sends a probe over
 * another connection: STATS UPTIME, to which every daemon responds at once. One loop probes at a
 * time, for all.
 *
 * A daemon that fails POOL_COUNTER_FAILURES_MAX times in a row is suspended: no loop
 * sends it requests. After that it is probed; if the probe fails, it is suspended for twice as
 * long, at most POOL_COUNTER_SUSPENSION_MAX_MS. Any response, also to what was sent earlier, ends
 * the suspension.
 */
#pragma once

#include "common/base/err.h"
#include "common/net/addr.h"

enum {
    POOL_COUNTER_SERVERS_MAX = 64,      /* maximum number of servers of a client */
    POOL_COUNTER_SERVER_NAME_MAX = 255, /* maximum length of a server's name */
    /* Number of consecutive failures after which a daemon is suspended: one may be a lost
     * packet, two a restart. */
    POOL_COUNTER_FAILURES_MAX = 3,
    POOL_COUNTER_SUSPENSION_FIRST_MS = 500,
    /* Maximum duration of a suspension. */
    POOL_COUNTER_SUSPENSION_MAX_MS = 10000,
    POOL_COUNTER_CONNECTIONS_MAX = 4096, /* default limit of connections of all loops to a daemon */
    /* Maximum number of types of keys that are stored per daemon, to warn once for each that
     * `slots` are ignored: those of an application's rules. */
    POOL_COUNTER_SLOTS_TYPES_MAX = 64,
};

struct pool_counter_server_address {
    struct slice
        name; /* determines the keys of the server; 1..POOL_COUNTER_SERVER_NAME_MAX bytes, unique */
    struct addr addr;
};

/*
 * ERR_TOO_LARGE: too many. ERR_RANGE: a name is empty or too long. ERR_SYNTAX: one that is not all
 * visible ASCII. ERR_EXISTS: a name twice.
 */
enum err pool_counter_servers_check(const struct pool_counter_server_address *servers,
                                    size_t n) must_check;

struct pool_counter_health;
struct pool_counter_daemon;

/* NAME is that of the application, for log lines; it is copied. */
struct pool_counter_health *pool_counter_health_create(const char *name);
/* There must be no reference to a daemon. NULL is allowed. */
void pool_counter_health_destroy(struct pool_counter_health *h);
/* Sets the limit of connections to each daemon, at least 1. Connections above a lowered limit
 * are not closed. */
void pool_counter_health_set_connections(struct pool_counter_health *h, unsigned max);

/* Returns the daemon NAME at A, with a reference that pool_counter_daemon_put() releases. */
struct pool_counter_daemon *pool_counter_daemon_get(struct pool_counter_health *h,
                                                    struct slice name, const struct addr *a);
void pool_counter_daemon_put(struct pool_counter_daemon *d);

/* ---- connections ---- */

/*
 * Counts a connection, until pool_counter_daemon_release(). Returns false if the limit is reached,
 * which is logged. With BEYOND, the limit is ignored.
 */
bool pool_counter_daemon_reserve(struct pool_counter_daemon *d, bool beyond) must_check;
void pool_counter_daemon_release(struct pool_counter_daemon *d);

/* Adds DELTA to the number of idle connections. */
void pool_counter_daemon_count_idle(struct pool_counter_daemon *d, int delta);

/* ---- whether it responds ---- */

struct pool_counter_daemon_state {
    unsigned connections, idle; /* of all loops; CONNECTIONS includes the idle ones */
    bool suspended;             /* requests are not sent to it */
    uint64_t suspensions;       /* number of suspensions so far */
    uint64_t suspended_ms;      /* remaining time of the suspension */
    uint64_t responded_ms;      /* monotonic time of the last response on any loop */
};
struct pool_counter_daemon_state pool_counter_daemon_read(struct pool_counter_daemon *d,
                                                          uint64_t now_ms);
/* Returns the state of daemon NAME at A; all zero if it is unknown. */
struct pool_counter_daemon_state pool_counter_health_view(struct pool_counter_health *h,
                                                          struct slice name, const struct addr *a,
                                                          uint64_t now_ms);

/*
 * Returns true if the caller must send a probe now: no response for SILENT_MS, or a suspension is
 * over; and no other loop probes. pool_counter_daemon_responded or _failed reports the result, if
 * there is one; pool_counter_daemon_end_probe must follow in any case.
 */
bool pool_counter_daemon_begin_probe(struct pool_counter_daemon *d, uint64_t silent_ms,
                                     uint64_t now_ms) must_check;
/* Ends a probe. No effect on the state that its response or failure has set. */
void pool_counter_daemon_end_probe(struct pool_counter_daemon *d);
/* Records a response. Returns true if the daemon was suspended until now. */
bool pool_counter_daemon_responded(struct pool_counter_daemon *d, uint64_t now_ms);
/* Records a missing or invalid response. PROBE: to a probe; other failures are ignored during a
 * suspension. Returns the duration of the suspension that begins, or 0. */
uint64_t pool_counter_daemon_failed(struct pool_counter_daemon *d, bool probe, uint64_t now_ms);

/* ---- slots ---- */

/*
 * Must be called when a request with `slots` for keys of TYPE is sent. Returns true if the caller
 * must ask the daemon whether it knows them, and report the response by pool_counter_daemon_slots.
 * Warns, once per daemon and type, if it does not.
 */
bool pool_counter_daemon_needs_slots(struct pool_counter_daemon *d, struct slice type) must_check;
enum pool_counter_slots {
    POOL_COUNTER_SLOTS_UNKNOWN,
    POOL_COUNTER_SLOTS_KNOWN,
    POOL_COUNTER_SLOTS_IGNORED
};
void pool_counter_daemon_slots(struct pool_counter_daemon *d, enum pool_counter_slots s);
