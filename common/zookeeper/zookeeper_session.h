/* SPDX-License-Identifier: Apache-2.0
 *
 * One session with ZooKeeper, used from a loop. The client library runs its callbacks on threads of
 * its own; here they become messages to the loop, in order. All functions below are called, and
 * call back, on the loop's thread only.
 *
 *   loop ── call ──► library's I/O thread ──► server
 *   loop ◄─ message ── library's completion thread ◄──┘
 *
 * One more thread per session opens and closes the library's handle, since both may wait for name
 * servers and for the server. The library reconnects by itself, but a handle never outlives its
 * session: after the end of a session it is closed, and another one opened.
 */
#ifndef RLB_ZOOKEEPER_ZOOKEEPER_SESSION_H
#define RLB_ZOOKEEPER_ZOOKEEPER_SESSION_H

#include "common/base/text.h"
#include "common/event/loop.h"

struct zk_session;
struct zk_call;

/* The kind of change of a node. Several changes may be reported as one. */
enum zk_change { ZK_CHANGED_DATA, ZK_CHANGED_CHILDREN, ZK_CHANGED_BOTH };

/* Never called inside a function below. */
struct zk_session_events {
    /* To a server; calls may be made. ID: the session's, new or the one there was before. */
    void (*connected)(void *context, int64_t id);
    /* Outstanding calls return ZK_LOST; the session may continue later. */
    void (*disconnected)(void *context);
    /* Expired, rejected, or never begun. It must be closed; WHY is a short text. */
    void (*ended)(void *context, const char *why);
    /* A watched node has changed; the watch has ended. */
    void (*changed)(void *context, const char *path, enum zk_change what);
};

struct zk_session_options {
    const char *hosts;    /* "host:port,host:port", as the library takes them */
    unsigned timeout_ms;  /* requested; the server may grant another */
    const char *identity; /* USER:PASSWORD of the configuration, or NULL */
    /* USER:PASSWORD known to this process alone: the owner of nodes that end with the session. */
    const char *creator;
};

/* Copies O. Connects by itself. */
struct zk_session *zk_session_open(struct loop *l, const struct zk_session_options *o,
                                   const struct zk_session_events *events, void *context);
/*
 * No callback runs after this call. WAIT_MS: how long to wait until the server knows of the end of
 * the session (0: not at all; a thread of its own then continues to notify it).
 */
void zk_session_close(struct zk_session *s, unsigned wait_ms);

enum zk_result {
    ZK_OK,
    ZK_NO_NODE,
    ZK_EXISTS,
    ZK_NO_AUTH,
    ZK_BUSY,           /* another version is there, or nodes below it */
    ZK_BELOW_PROVIDER, /* nothing can be below a node that ends with its session */
    ZK_BAD_PATH,       /* not a valid ZooKeeper path */
    ZK_LOST,  /* the connection or the session has ended: it may or may not have been done */
    ZK_FAILED /* otherwise; see zk_call.error */
};

struct zk_stat {
    int64_t birth_zxid;    /* of its creation */
    int64_t data_zxid;     /* of the last change of the data */
    int64_t children_zxid; /* of the last creation or deletion of a child */
    int64_t owner;         /* the session that a node ends with; 0: none */
    int32_t version;       /* of the data */
    int32_t data_length;
    int32_t children;
};

/* A completed call. Borrowed for the callback. */
struct zk_call {
    struct loop_message message; /* the session's */
    struct list under_way;       /* likewise */
    struct zk_session *session;
    void (*done)(struct zk_call *c); /* NULL: ignored */
    void *context;
    enum zk_result result;
    const char *error;     /* a literal; of ZK_OK too */
    struct zk_stat stat;   /* of get, exists */
    struct text data;      /* of get */
    char **names;          /* of children; the first ZK_NAMES_MAX of them */
    size_t nnames, nthere; /* copied, and in all */
    char *path;
};

enum {
    /* Children of one node that are copied. */
    ZK_NAMES_MAX = 20000,
};

/*
 * Each begins a call, which completes once, later, by DONE (unless the session is closed before).
 * PATH is a node's, from the root. WATCH: the next change of the node, or of the list, is reported
 * (exists: also its creation; get and children: only if the node exists).
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
/* DONE of C will not be called; the call itself is not cancelled. NULL is allowed. */
void zk_call_forget(struct zk_call *c);

#endif
