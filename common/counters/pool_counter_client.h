/* SPDX-License-Identifier: Apache-2.0
 *
 * Locks at pool counter daemons (docs/reference/protocols.md, docs/guide/poolcounter.md). A client
 * and its calls belong to one loop and its thread. A struct pool_counter_call is embedded in and
 * owned by its requester; the client must outlive every call that is not free. The client owns
 * servers and connections.
 *
 *           acquire                responded: LOCKED              release, leave
 *     FREE ---------> ASKED ------------------------> HELD -----------------------> FREE
 *                       | responded: any other           | the connection dies: lost
 *                       | leave                         v          release, leave
 *                       +----------> FREE              LOST -----------------------> FREE
 *
 * The protocol allows no second request while one waits, and requires releases in LIFO order.
 * Therefore each call that waits or holds has a connection of its own. Connections without a call
 * are kept idle for reuse.
 *
 * All clients that know the same servers by name assign a key to the same server. A key
 * never fails over: while its server is away, the key is UNREACHABLE, because a second server
 * counting the same key would double its limit. A server that fails repeatedly or hangs is not used
 * for a while; clients share this state (common/counters/pool_counter_health.h).
 */
#pragma once

#include "common/counters/counter.h"
#include "common/counters/pool_counter_health.h"
#include "common/event/loop.h"

struct pool_counter_client;
struct pool_counter_conn;

/* Reason for which a call was UNREACHABLE. */
enum pool_counter_trouble {
    POOL_COUNTER_TROUBLE_NONE,
    POOL_COUNTER_TROUBLE_NO_SERVER, /* no servers are set */
    POOL_COUNTER_TROUBLE_SUSPENDED, /* the server is suspended after failures, and was not tried */
    POOL_COUNTER_TROUBLE_CONNECT,   /* refused, no route */
    POOL_COUNTER_TROUBLE_CONNECT_TIMEOUT, /* not connected within connect_timeout_ms, or the
                                        time-out of the call */
    POOL_COUNTER_TROUBLE_CLOSED,          /* closed or reset before the response */
    POOL_COUNTER_TROUBLE_SILENT,          /* no response although one is due at once */
    POOL_COUNTER_TROUBLE_FAULT,           /* an invalid response, or "ERROR ..." */
    POOL_COUNTER_TROUBLE_SYSTEM,          /* out of descriptors or ports */
    POOL_COUNTER_TROUBLES,
};

struct pool_counter_client_settings {
    uint64_t connect_timeout_ms; /* 0: 100 */
    /* Time-out of responses that are due at once: to calls that must not wait, and RELEASED. 0:
     * 250 */
    uint64_t response_timeout_ms;
    uint64_t idle_ms;  /* an idle connection is closed after this long. 0: 60,000 */
    unsigned max_idle; /* idle connections to each server. 0: 64 */
    struct pool_counter_health
        *health; /* shared with other clients, outlives this one; never NULL */
};

enum pool_counter_call_state {
    POOL_COUNTER_CALL_FREE,
    POOL_COUNTER_CALL_ASKED, /* `responded` will be called */
    POOL_COUNTER_CALL_HELD,
    POOL_COUNTER_CALL_LOST, /* was held, and is lost with its connection */
};

/* An all-zero call is free. The owner sets `responded`, and `lost` if required, before acquiring.
 * It must not be moved while it is not free. */
struct pool_counter_call {
    /*
     * Once for each acquire, never inside a call of this interface, never after leave. The call is
     * HELD when R is LOCKED, else FREE; it may be used again, or freed with what it is in.
     */
    void (*responded)(struct pool_counter_call *c, enum counter_result r);
    /*
     * May be NULL. The lock of a HELD call is lost because its connection has died: another client
     * may hold it now. The call is LOST. It still requires pool_counter_client_release or
     * pool_counter_client_leave, which may be called from this callback and only make it FREE.
     */
    void (*lost)(struct pool_counter_call *c);

    /* Modified by the client only. */
    enum pool_counter_call_state state;
    enum pool_counter_trouble why; /* reason of the last UNREACHABLE */

    /* Private to the client. */
    struct pool_counter_client *client;
    struct pool_counter_conn
        *conn; /* its connection; NULL while LATER is pending, and if FREE or LOST */
    struct timer deadline;
    struct loop_deferred later; /* reports a response that is known at once */
    enum counter_result result; /* the response that LATER reports */
    struct counter_request ask; /* with the escaped key, which is owned while ASKED */
    uint64_t due_ms;            /* monotonic */
};

/* Counts since the client was created. */
struct pool_counter_client_stats {
    uint64_t opened;      /* connections, including failed attempts */
    uint64_t reused;      /* calls on an idle connection */
    uint64_t repeated;    /* calls repeated because an idle connection was closed */
    uint64_t suspensions; /* number of times that this client has suspended a server */
    uint64_t probes;      /* probes sent to servers */
    uint64_t lost;        /* locks lost with their connection */
    uint64_t unreleased;  /* RELEASEs without a response, which the daemon may have processed */
};

/* It has no servers until pool_counter_client_set_servers. */
struct pool_counter_client *
pool_counter_client_create(struct loop *l, const struct pool_counter_client_settings *s);
/* Closes all connections. Every call must be free. NULL is allowed. */
void pool_counter_client_destroy(struct pool_counter_client *c);

/*
 * Replaces the servers, which are copied; those of the same name and address are not affected. Idle
 * connections to a removed server are closed; calls that wait or hold there continue to their end.
 * Any number of calls may be in progress. Names must be distinct and within bounds: callers that
 * take them from external input must have validated them with pool_counter_servers_check.
 */
void pool_counter_client_set_servers(struct pool_counter_client *c,
                                     const struct pool_counter_server_address *servers, size_t n);

/* Changes the time-outs; 0 is not replaced by a default. Calls in progress are not affected. */
void pool_counter_client_set_timeouts(struct pool_counter_client *c, uint64_t connect_timeout_ms,
                                      uint64_t response_timeout_ms);

/*
 * Requests ASK->key, which is escaped on the wire, and cut with a hash when too long. CALL must be
 * FREE; ASK is borrowed for the duration of this function. `responded` is called within
 * ASK->timeout_ms, or within response_timeout_ms if that is 0, whatever the daemon does; not with
 * WAIT. The daemon receives the time-out in whole seconds, rounded up; a wait that ends earlier on
 * our side is ended by closing its connection. Only resumelb-poolcounter knows slots.
 */
void pool_counter_client_acquire(struct pool_counter_client *c, struct pool_counter_call *call,
                                 const struct counter_request *ask);

/*
 * The work is done: waiters for its result (kind ANY) get DONE. CALL must be HELD or LOST, and is
 * FREE afterwards. Does not block; the daemon's RELEASED is awaited asynchronously.
 */
void pool_counter_client_release(struct pool_counter_call *call);

/*
 * Abandons CALL without the work being done: a waiter leaves the queue, a holder's place goes to
 * the next waiter, and no waiter gets DONE. CALL may be in any state, and is FREE afterwards. Once
 * the request was sent, its connection is closed: the protocol has no other way to abandon a call.
 */
void pool_counter_client_leave(struct pool_counter_call *call);

const struct pool_counter_client_stats *
pool_counter_client_stats(const struct pool_counter_client *c);
