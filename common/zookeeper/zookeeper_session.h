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
#pragma once

#include "common/base/text.h"
#include "common/event/loop.h"
#include "common/tree/node_data.h"

#include <zookeeper/zookeeper.h>

struct zk_session;

/* Constant; borrowed until zk_session_close. None is called inside a function below. */
struct zk_session_events {
    /* Connected to a server; calls may be made. ID: of the session, new or continued. */
    void (*connected)(void *context, int64_t id);
    /* Outstanding calls return ZCONNECTIONLOSS; the session may continue later. */
    void (*disconnected)(void *context);
    /* Expired, rejected, or never begun. It must be closed; WHY is a short text. */
    void (*ended)(void *context, const char *why);
    /* A watched node has changed; the watch has ended. EVENT: the library's ZOO_CHANGED_EVENT,
     * ZOO_CHILD_EVENT, ...; several changes may be reported as one. */
    void (*changed)(void *context, const char *path, int event);
};

struct zk_session_options {
    const char *hosts;    /* "host:port,host:port", as the library takes them */
    unsigned timeout_ms;  /* requested; the server may grant another */
    const char *identity; /* USER:PASSWORD of the configuration, or NULL */
    /* USER:PASSWORD known to this process alone: the owner of nodes that end with the session. */
    const char *creator;
};

/* Copies O. Connects, and reconnects, without further calls. Must be closed. */
struct zk_session *zk_session_open(struct loop *l, const struct zk_session_options *o,
                                   const struct zk_session_events *events, void *context);
/*
 * No callback runs after this call. WAIT_MS: how long to wait until the server knows of the end of
 * the session (0: not at all; a thread of its own then continues to notify it).
 */
void zk_session_close(struct zk_session *s, unsigned wait_ms);

struct zk_call;
typedef void (*zk_done_fn)(struct zk_call *c);

/* A completed call. Borrowed for the callback. */
struct zk_call {
    struct loop_message message; /* the session's */
    struct list outstanding;     /* likewise */
    struct zk_session *session;
    zk_done_fn done; /* NULL: ignored */
    void *context;
    /* The library's ZOK, ZNONODE, ... ZCONNECTIONLOSS: the connection or the session has ended, so
     * it may or may not have been done. */
    int result;
    struct Stat stat; /* of data, exists */
    struct text data; /* of data */
    json_t *names;    /* of children: a set (node_data.h) of the first TREE_CHILDREN_MAX of them */
    size_t nthere;    /* how many there are in all */
    char *path;
};

/*
 * Each begins a call, which completes once, later, by DONE (unless the session is closed before).
 * PATH is a node's, from the root. WATCH: the next change of the node, or of the list, is reported
 * (ZK_EXISTS: also its creation; the others: only if the node exists).
 */
enum zk_part { ZK_DATA, ZK_CHILDREN, ZK_EXISTS };
struct zk_call *zk_read(struct zk_session *s, enum zk_part part, const char *path, bool watch,
                        zk_done_fn done, void *context);
/* OWN: the node ends with the session, and only this process may write it. */
struct zk_call *zk_create(struct zk_session *s, const char *path, struct slice data, bool own,
                          zk_done_fn done, void *context);
/* VERSION: that the node must have; -1: any. */
struct zk_call *zk_set(struct zk_session *s, const char *path, struct slice data, int32_t version,
                       zk_done_fn done, void *context);
struct zk_call *zk_delete(struct zk_session *s, const char *path, zk_done_fn done, void *context);
/* The node's permissions become those of a new node that stays. */
struct zk_call *zk_reset_acl(struct zk_session *s, const char *path, zk_done_fn done,
                             void *context);
/* DONE of C will not be called; the call itself is not cancelled. NULL is allowed. */
void zk_call_forget(struct zk_call *c);
