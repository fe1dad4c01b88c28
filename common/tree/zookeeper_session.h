/* SPDX-License-Identifier: Apache-2.0
 *
 * One session with a ZooKeeper, seen from a loop. The client library has threads of its own, on
 * which its callbacks run; here they become messages to the loop, in order, and everything below is
 * called and calls back on the loop's thread only.
 *
 *   loop ── call ──► library's I/O thread ──► server
 *   loop ◄─ message ── library's completion thread ◄──┘
 *
 * A further thread per session opens and closes the library's handle, since both may wait for name
 * servers and for the server. The library tries again to connect by itself, but never outlives a
 * session: one that has ended is closed, and another opened.
 */
#ifndef RLB_TREE_ZOOKEEPER_SESSION_H
#define RLB_TREE_ZOOKEEPER_SESSION_H

#include "common/base/text.h"
#include "common/event/loop.h"

struct zk_session;
struct zk_call;

/* What kind of look a node wants after a change. Several may have become one. */
enum zk_change { ZK_CHANGED_DATA, ZK_CHANGED_CHILDREN, ZK_CHANGED_BOTH };

/* None is called inside a function below. */
struct zk_session_events {
    /* To a server; calls may be made. ID: the session's, new or the one there was before. */
    void (*connected)(void *context, int64_t id);
    /* Calls under way come back as ZK_LOST; the session may go on later. */
    void (*disconnected)(void *context);
    /* For good: expired, refused, or never begun. To be closed; WHY is a short text. */
    void (*ended)(void *context, const char *why);
    /* A watched node has changed; the watch is gone. */
    void (*changed)(void *context, const char *path, enum zk_change what);
};

struct zk_session_options {
    const char *hosts;    /* "host:port,host:port", as the library takes them */
    unsigned timeout_ms;  /* asked for; the server may grant another */
    const char *identity; /* USER:PASSWORD of the configuration, or NULL */
    /* USER:PASSWORD that only this process knows: nodes that end with the session are its own. */
    const char *creator;
};

/* Copies all it is given. It connects by itself. */
struct zk_session *zk_session_open(struct loop *l, const struct zk_session_options *o,
                                   const struct zk_session_events *events, void *context);
/*
 * No callback comes any more. WAIT_MS: how long to wait until the server has been told (0: not at
 * all; then a thread of its own goes on to tell it).
 */
void zk_session_close(struct zk_session *s, unsigned wait_ms);

enum zk_result {
    ZK_OK,
    ZK_NO_NODE,
    ZK_EXISTS,
    ZK_NO_AUTH,
    ZK_BUSY,           /* another version is there, or nodes below it */
    ZK_BELOW_PROVIDER, /* nothing can be below a node that ends with its session */
    ZK_BAD_PATH,       /* not a path that ZooKeeper takes */
    ZK_LOST,  /* the connection broke, or the session ended: it may or may not have been done */
    ZK_FAILED /* otherwise; zk_call.error says how */
};

struct zk_stat {
    int64_t birth_zxid;    /* of its creation */
    int64_t data_zxid;     /* of the last change of the data */
    int64_t children_zxid; /* of the last child that came or went */
    int64_t owner;         /* the session that a node ends with; 0: none */
    int32_t version;       /* of the data */
    int32_t data_length;
    int32_t children;
};

/* A call that has come back. Borrowed for the callback. */
struct zk_call {
    struct loop_message message; /* the session's */
    struct list under_way;       /* likewise */
    struct zk_session *session;
    void (*done)(struct zk_call *c); /* NULL: nobody wants to know */
    void *context;
    enum zk_result result;
    const char *error;     /* a literal; of ZK_OK too */
    struct zk_stat stat;   /* of get, exists */
    struct text data;      /* of get */
    char **names;          /* of children; the first ZK_NAMES_MAX of them */
    size_t nnames, nthere; /* taken over, and in all */
    char *path;
};

enum {
    /* Children of one node that are copied; above it the node is a mistake. */
    ZK_NAMES_MAX = 20000,
};

/*
 * Each begins a call, which comes back once, later, to DONE (unless the session is closed before).
 * PATH is a node's, from the root. WATCH: the next change of the node, or of the list, is told
 * (exists: also its creation; get and children: only where the node is there).
 */
struct zk_call *zk_get(struct zk_session *s, const char *path, bool watch,
                       void (*done)(struct zk_call *c), void *context);
struct zk_call *zk_exists(struct zk_session *s, const char *path, bool watch,
                          void (*done)(struct zk_call *c), void *context);
struct zk_call *zk_children(struct zk_session *s, const char *path, bool watch,
                            void (*done)(struct zk_call *c), void *context);
/* OWN: the node ends with the session, and only this process may write it. */
struct zk_call *zk_create(struct zk_session *s, const char *path, struct slice data, bool own,
                          void (*done)(struct zk_call *c), void *context);
/* VERSION: that the node must have; -1: any. */
struct zk_call *zk_set(struct zk_session *s, const char *path, struct slice data, int32_t version,
                       void (*done)(struct zk_call *c), void *context);
struct zk_call *zk_delete(struct zk_session *s, const char *path, void (*done)(struct zk_call *c),
                          void *context);
/* The node's permissions become those of a new node that stays. */
struct zk_call *zk_reset_acl(struct zk_session *s, const char *path,
                             void (*done)(struct zk_call *c), void *context);
/* Whoever waits for C does so no longer; what it does is done all the same. NULL is fine. */
void zk_call_forget(struct zk_call *c);

#endif
