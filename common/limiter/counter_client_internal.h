/* SPDX-License-Identifier: Apache-2.0
 *
 * Internals of the client for pool counter daemons: connections (socket, lines, timer) and servers
 * (which server owns which connection) in counter_server.c; calls (requests, and how their answers
 * are handled) in counter_client.c. Only these files include this header. One loop's thread.
 */
#ifndef RLB_LIMITER_COUNTER_CLIENT_INTERNAL_H
#define RLB_LIMITER_COUNTER_CLIENT_INTERNAL_H

#include "common/limiter/counter_client.h"
#include "common/limiter/counter_line.h"

/*
 *   CONNECTING -> ASKING -> HELD -> RELEASING -> KEPT -> ASKING ...
 *        |           |                             ^
 *        |           +-- answered, not LOCKED -----+
 *        |           +-- no time left -> EXPIRING -+  or closed
 *        +-- no call needs it any more ------------+
 *        +-- a probe, which a KEPT one may be, too: GREETING -> KEPT
 *        +-- a question for slots: INQUIRING -> closed
 */
enum counter_conn_state {
    COUNTER_CONN_CONNECTING,
    COUNTER_CONN_GREETING,  /* a probe: STATS UPTIME is sent */
    COUNTER_CONN_INQUIRING, /* STATS SLOTS is sent */
    COUNTER_CONN_ASKING,    /* an acquire is sent */
    COUNTER_CONN_HELD,      /* it was LOCKED */
    COUNTER_CONN_RELEASING, /* a RELEASE is sent; no call waits for the answer */
    COUNTER_CONN_EXPIRING,  /* our clock has ended a wait; the daemon's own will any moment */
    COUNTER_CONN_KEPT,
};

struct counter_conn {
    struct list in_server; /* all */
    struct list in_kept;   /* KEPT; the latest first */
    struct counter_server *server;
    struct counter_call *call; /* CONNECTING: or NULL. ASKING, HELD: never NULL. Else NULL */
    struct loop *loop;
    int fd;                         /* -1: no socket could be created, or it is closed */
    struct watch *watch;            /* of FD */
    struct timer timer;             /* of every state but ASKING and HELD */
    struct loop_deferred end_later; /* an attempt that failed at once; ASKING: its server rests */
    struct loop_deferred free_later;
    enum counter_trouble trouble; /* that END_LATER reports */
    uint8_t state;                /* enum counter_conn_state */
    bool reused;                  /* has been kept: it may be dead without our knowing */
    bool probe;                   /* to see whether the daemon responds */
    bool inquiry;                 /* to see whether it knows slots */
    uint64_t expires_ms;          /* ASKING: when the daemon ends the wait, or later */
    size_t in_len;
    char in[COUNTER_REPLY_LINE_MAX];
};

struct counter_server {
    struct list in_retired; /* when no key is its any more; goes with its last connection */
    struct counter_client *client;
    char *name;
    struct addr addr;
    struct counter_daemon *daemon; /* one reference: what all loops know of it */
    uint64_t rests;                /* of the daemon, that this client has acted on */
    struct timer watch;            /* while something is unanswered, or the daemon rests */
    uint64_t asked_ms;             /* the last time that something was sent */
    struct list all, kept;         /* connections */
    unsigned nall, nkept;
    bool retired;
};

struct counter_client {
    struct loop *loop;
    uint64_t connect_timeout_ms, answer_timeout_ms, idle_ms;
    unsigned max_idle;
    struct counter_health *health;
    struct counter_server *servers[COUNTER_SERVERS_MAX];
    size_t nservers;
    struct list retired;
    struct hash_ring *ring;
    size_t calls; /* not FREE */
    struct counter_client_stats stats;
};

/* ---- counter_server.c: connections ---- */

/* Starts connecting; counter_conn_connected or counter_conn_ended is called later. The connection
 * belongs to S. NULL: its daemon has as many as it may have. BEYOND: not counting this one, which
 * is for a probe, or replaces a connection that is dead. */
struct counter_conn *counter_conn_open(struct counter_server *s, bool beyond);
/* Detaches C from its server, which may be freed by this. C is freed at the end of the turn. */
void counter_conn_close(struct counter_conn *c);
/* Like counter_conn_send, for a line that is answered immediately; C is in STATE afterwards. */
bool counter_conn_send_and_await(struct counter_conn *c, enum counter_conn_state state,
                                 struct slice line) must_check;
/* Returns false if the connection is dead, or if the socket does not accept even this much. */
bool counter_conn_send(struct counter_conn *c, struct slice line) must_check;

/* ---- counter_client.c: what a connection reports; each may close C ---- */

void counter_conn_connected(struct counter_conn *c);
void counter_conn_replied(struct counter_conn *c, const struct counter_reply *r);
void counter_conn_ended(struct counter_conn *c, enum counter_trouble why);
void counter_conn_expired(struct counter_conn *c);

/* ---- counter_server.c: servers ---- */

/* The server of the key with the escaped form WORD; NULL if there are no servers. */
struct counter_server *counter_server_of(struct counter_client *c, struct slice word);
/* The latest kept one that seems alive; it is kept no longer. NULL when there is none. */
struct counter_conn *counter_server_take(struct counter_server *s);
/* A request was sent to S that may be answered late: checks whether the daemon responds at all. */
void counter_server_watch(struct counter_server *s);
/* The client's answer time-out has changed: a watch that is running has the new one from now on. */
void counter_server_restart_watch(struct counter_server *s);
/* Applies the shared state of S's daemon: waiting calls end if it is suspended. */
struct counter_daemon_state counter_server_look(struct counter_server *s);
/* Ask S's daemon whether it knows slots, if that is not known. */
void counter_server_inquire(struct counter_server *s, struct slice type);
/* Keep C, or close it when there are enough, or its server has gone. */
void counter_server_keep(struct counter_conn *c);
/* C's daemon has replied; or it has failed to. */
void counter_server_good(struct counter_conn *c);
void counter_server_bad(struct counter_conn *c);
/* For counter_client_destroy. */
void counter_server_drop_all(struct counter_client *c);

#endif
