/* SPDX-License-Identifier: Apache-2.0
 *
 * Idle connections to workers, shared by all loops.
 *
 * A map of backends under a read-write lock, keyed "address#instance", so that a new
 * instance never gets an old connection. Each entry has its own latch, a count of connections
 * against its limit, one LIFO stack of idle connections per loop, one beside the loops, and one
 * FIFO of waiters across loops. Acquiring and releasing never needs the map's lock, because users
 * hold a backend handle. A connection is used by one loop at a time; at the limit an idle one of
 * another loop is handed over by message (export / import), and while loops lack connections,
 * released ones are placed beside the loops, where any of them can take one without a message. No
 * call-outs, logging or system calls under a lock.
 *
 * The pool is independent of HTTP: a connection is any struct that embeds a struct pooled_conn,
 * with the functions of struct conn_pool_ops. Owned by the program; outlives its loops' use of it,
 * and every backend handle. Lock order: map, then one backend. Source of the shape: MariaDB
 * Spider's connection pool redesign (read-write lock over a map of mutex stacks).
 */
#pragma once

#include "common/event/loop.h"

struct conn_pool;
struct conn_backend;

/* Embedded in a connection. While idle it is in its backend's stack of its loop; while in use, in
 * none. */
struct pooled_conn {
    struct list stack_node;
    struct conn_backend *backend; /* set by the pool; the connection counts against its limit */
    uint64_t idle_since_ms;       /* loop_now_ms of the check-in */
    unsigned loop_index;
    uint64_t uses;              /* requests it was checked out for */
    int state;                  /* the pool's, under the backend's latch, as are the next three */
    bool detached;              /* from LOOP_INDEX's loop, and attached to no other one */
    bool marked;                /* to be closed as soon as its loop can */
    struct conn_waiter *waiter; /* the one that it is moved to */
};

struct conn_pool_ops {
    /* On the owning loop: whether an idle connection seems usable (nothing to read, no error). */
    bool (*alive)(struct pooled_conn *c);
    /* On the owning loop: close and free it (end of turn). The pool has forgotten it already. */
    void (*close)(struct pooled_conn *c);
    /* On the owning loop: detach from the loop. False: it cannot be (TLS, bytes pending); it stays.
     */
    bool (*detach)(struct pooled_conn *c);
    /* On the new loop: attach. False: could not; the pool then calls close. */
    bool (*attach)(struct pooled_conn *c, struct loop *l);
};

struct conn_pool_settings {
    uint64_t idle_timeout_ms; /* idle connections older than this are closed; 0 = never */
    size_t max_waiting;       /* waiters per backend without a connection in transit; above it
                                 ERR_QUEUE_FULL */
};

/* LOOPS: the data loops, loops[i] has loop_index i. The array is copied, the loops are borrowed. */
struct conn_pool *conn_pool_create(const struct conn_pool_ops *ops, struct loop *const *loops,
                                   unsigned nloops);
/* After all backends have been released, all connections closed, and the loops destroyed. */
void conn_pool_destroy(struct conn_pool *p);
/*
 * On a data loop, at its end, with nothing waiting or in use there any more: close that loop's idle
 * connections of every backend; later ones close at check-in. No loop may be destroyed before this
 * has returned on each of them, as they post to one another until then.
 */
void conn_pool_close_loop(struct conn_pool *p, struct loop *l);

/*
 * Whether requests that must not run twice need new connections to B: for a minute after
 * conn_restrict, to be called when the worker has ended an idle connection while a request on it
 * may have arrived. Any thread; no lock.
 */
bool conn_is_restricted(const struct conn_backend *b, uint64_t now_ms);
void conn_restrict(struct conn_backend *b, uint64_t now_ms) cold_;
/* On the owning loop: C, which is idle, has ended. Restricts its backend if that was right after
 * its first use: the worker probably closes each connection after its response. */
void conn_ended_idle(const struct pooled_conn *c, uint64_t now_ms) cold_;
/*
 * The entry of "address#instance", made when missing, with these limits; counted, pair with
 * conn_backend_release. Any thread. One that was retired is not found again.
 *   max_connections  over all loops, 0 = unlimited
 */
struct conn_backend *conn_pool_backend(struct conn_pool *p, struct slice address,
                                       struct slice instance, unsigned max_connections,
                                       const struct conn_pool_settings *s);
struct conn_backend *conn_backend_ref(struct conn_backend *b);
void conn_backend_release(struct conn_backend *b);
/* Any thread: new limits; a raised limit serves waiters at once. */
void conn_backend_set(struct conn_backend *b, unsigned max_connections,
                      const struct conn_pool_settings *s);
/*
 * Any thread: this instance is over. Idle connections close (each on its loop), waiters fail
 * with ERR_NO_WORKER, connections in use close at check-in; the entry goes when empty.
 */
void conn_backend_retire(struct conn_backend *b);

enum conn_result {
    CONN_REUSED,  /* the waiter's conn is an idle connection, now the caller's */
    CONN_OPEN,    /* the caller may open one; it counts already. Pair with conn_opened() or
                     conn_not_opened() */
    CONN_WAIT,    /* queued; the waiter's ready() comes, unless cancelled */
    CONN_REJECTED /* see the waiter's error: ERR_QUEUE_FULL, or ERR_NO_WORKER when retired */
};

/* Embedded in the object that waits; zeroed before first use; must live until ready() is called or
 * conn_cancel has returned. */
struct conn_waiter {
    struct list node; /* the pool's, as are the next three */
    struct loop *loop;
    struct conn_backend *backend;
    uint64_t ticket; /* under the backend's latch; earlier waiters have lower ones */
    /* On the waiter's loop, exactly once, never inside conn_checkout, never after conn_cancel. */
    void (*ready)(struct conn_waiter *w);
    int state;      /* the pool's, under the backend's latch */
    enum err error; /* CONN_REJECTED */
    /* If an idle connection is available at once, only the members below are used. */
    bool fresh;               /* needs a new connection; under the backend's latch */
    bool queued;              /* between CONN_WAIT and ready() or conn_cancel; its loop's */
    enum conn_result result;  /* for ready(): CONN_REUSED, CONN_OPEN or CONN_REJECTED */
    struct pooled_conn *conn; /* CONN_REUSED */
};

struct conn_checkout {
    bool fresh;           /* a new connection, even when idle ones are there */
    uint64_t max_idle_ms; /* idle ones only if for less; 0 = any */
};

/*
 * On loop L: take an idle connection of this loop (the latest of those that were given back before
 * the loop's last wait, else the latest), or the latest of those beside the loops (dead ones are
 * closed), or permission to open one; at the limit, have an idle one handed over from
 * another loop, or wait in the queue. fresh at the limit: an idle connection (of any loop) is
 * closed to make room.
 */
enum conn_result conn_checkout(struct conn_backend *b, struct loop *l,
                               const struct conn_checkout *o, struct conn_waiter *w) must_check;
/* Leaves the queue, if in it. A connection or permission in transit goes to the next waiter. */
void conn_cancel(struct conn_waiter *w);
/* A connection opened with permission: C now belongs to B, in use. */
void conn_opened(struct conn_backend *b, struct pooled_conn *c, struct loop *l);
/* The permission was not used (connect failed, or given up). */
void conn_not_opened(struct conn_backend *b);
/* Returns a connection for reuse; *C is NULL afterwards. The first waiter in the queue, if any,
 * gets it.
 */
void conn_checkin(struct pooled_conn **c, struct loop *l);
/*
 * Must be called by the user of a connection before it closes it. Also for an idle connection that
 * its loop has found dead: the pool removes it from its stack.
 */
void conn_withdraw(struct pooled_conn *c) cold_;
/*
 * As conn_withdraw, for a connection in use that continues as something else (a tunnel): it belongs
 * to the caller alone, but its place stays occupied, as a permission, until conn_not_opened.
 */
void conn_retain_permission(struct pooled_conn *c);
/*
 * To be called on C's loop when C was found dead. Returns true if a user has C, and will find out,
 * or if C is not the pool's. If it returns false, the caller must conn_withdraw C; a waiter that C
 * was promised to may open a new connection instead.
 */
bool conn_in_use(struct pooled_conn *c);
/* To be called periodically (each second) on a data loop: closes this loop's connections that were
 * idle for longer than idle_timeout. */
void conn_pool_recycle(struct conn_pool *p, struct loop *l);
/*
 * On a data loop, when no descriptor is left: closes this loop's oldest idle connection, of any
 * backend. If it has none, the oldest of the next loop that has one will be closed by that loop.
 * O(backends) for each loop examined. Returns true if one has been closed at once.
 */
bool conn_pool_make_room(struct conn_pool *p, struct loop *l);

struct conn_backend_view {
    unsigned in_use, idle, opening, waiting, max_connections;
    unsigned parked; /* of those idle: attached to no loop */
    uint64_t reused, opened, handed_over, waits, rejected;
};
void conn_backend_view(struct conn_backend *b, struct conn_backend_view *out);
