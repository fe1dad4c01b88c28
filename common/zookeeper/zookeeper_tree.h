/* SPDX-License-Identifier: Apache-2.0
 *
 * The ZooKeeper back end: one struct zk_node per observed path, and per provider below one. Events
 * only mean that something may have changed; the result of a read is authoritative, and each read
 * sets the watch for the next change.
 *   tree_zookeeper.c    the back end: sessions, nodes, what is read when
 *   zookeeper_entry.c   our own providers
 *   zookeeper_op.c      operations on single nodes
 */
#pragma once

#include "common/base/limits.h"
#include "common/tree/tree.h"
#include "common/tree/tree_backend.h"
#include "common/zookeeper/zookeeper_session.h"

enum {
    /* Outstanding reads; further ones are queued. */
    ZK_READS_MAX = 256,
    /* A node that broke the connection twice is not read for this time. */
    ZK_QUARANTINE_MS = 60000,
    /* Smaller nodes cannot have broken it: the limit of a packet is 1 MiB. */
    ZK_LARGE_BYTES = 512 * 1024,
    ZK_LARGE_CHILDREN = 2000,
    /* Between two tries of a read or write that the server rejects (permissions). */
    ZK_RETRY_MS = 2000,
    /* Interval at which all watched nodes are read: servers report neither changes of a node
       without read permission, nor the return of that permission. */
    ZK_VERIFY_MS = 30000,
    /* Between two sessions that do not last; doubled up to the second value, with jitter. */
    ZK_REOPEN_MS_MIN = 100,
    ZK_REOPEN_MS_MAX = 10000,
    /* Without any connection for this time after the start, a warning is logged. */
    ZK_UNREACHABLE_MS = 3000,
    /* A session without a connection for this multiple of its time-out is given up. */
    ZK_GIVE_UP_TIMES = 2,
    /* Maximum data of a node: a server accepts packets of 1 MiB less a byte, path included. */
    ZK_DATA_MAX = NODE_BYTES_MAX - 16 * 1024,
    /* How long closing waits until the server knows of the end of the session. */
    ZK_CLOSE_WAIT_MS = 1000,
};

struct zookeeper {
    struct tree base;
    char *hosts;
    char *top;      /* of the base */
    char *identity; /* USER:PASSWORD of the configuration; NULL */
    char *creator;  /* the same of this process alone */
    unsigned timeout_ms;
    struct zk_session *session; /* NULL between two */
    bool connected;
    bool begun;         /* has been connected */
    int64_t id;         /* of the session last connected to; 0 before the first */
    uint64_t lost_ms;   /* when the connection was lost last */
    uint64_t opened_ms; /* when the session was opened */
    struct timer reopen, verify, give_up, unreachable;
    unsigned reopen_ms;   /* the last pause; 0: none */
    struct map nodes;     /* by path within the tree */
    struct map entries;   /* by path within the tree */
    struct list ops;      /* tree_op->in_tree: not finished */
    struct list queued;   /* reads that wait */
    struct list suspects; /* those that may have broken the connection, to be read alone */
    unsigned reading;     /* outstanding calls of reads */
    bool alone;           /* one of them is a suspect's */
    bool loss_seen; /* a read was lost since the last success: the next lost ones are no suspects */
    struct tree_status counts;
};

/* Data or children of a node, read repeatedly. */
struct zk_read {
    enum zk_part part; /* ZK_DATA or ZK_CHILDREN */
    struct zk_node *node;
    struct list in_queue; /* in queued or suspects */
    struct zk_call *call;
    bool again; /* has changed during the read */
    bool quarantined;
    unsigned failures; /* connections that broke while it was the first outstanding read */
    struct Stat seen;  /* as of the last check of its size */
    uint64_t started_ms;
    struct timer pause; /* until it may be read again */
};

struct zk_node {
    struct map_node in_tree;
    struct zookeeper *tree;
    struct tree_node *watched; /* NULL: none; the node is then a provider */
    struct zk_node *list_of;   /* the node that has it as provider; NULL: none */
    struct list in_list;
    struct zk_read data, children;
    /* As read last. */
    bool known, exists;
    uint64_t birth;
    json_t *properties; /* NULL: the data do not parse, or cannot be read; see PROBLEM */
    char *problem;
    bool children_known;
    json_t *names;       /* NULL: cannot be read */
    struct list members; /* nodes of its providers */
    size_t unread;
    bool complete; /* all members were read once; from then on they are added one by one */
    bool changed;  /* a member has: the node's providers must be set again */
    bool marked;   /* scratch: in the list just read */
    char path[];
};

/* PATH as the server expects it: the tree is all of the server. */
static inline const char *zk_server_path(const char *path)
{
    return path[0] != '\0' ? path : "/";
}

/* ---- zookeeper_entry.c ---- */
struct tree_entry *zk_enter(struct tree *base, const char *path, const char *name,
                            const struct text *bytes);
void zk_entry_changed(struct tree_entry *e);
bool zk_entry_held(const struct tree_entry *e);
void zk_leave(struct tree_entry *e);
/* The session has ended, and all its nodes with it. */
void zk_entries_ended(struct zookeeper *t);
/* The session has continued (SAME), or a new one has begun. */
void zk_entries_connected(struct zookeeper *t, bool same);
void zk_entries_changed(struct zookeeper *t, const char *path);
void zk_entries_free(struct zookeeper *t);

/* ---- zookeeper_op.c ---- */
void zk_op_begin(struct tree_op *op);
void zk_op_abandon(struct tree_op *op);
void zk_ops_connected(struct zookeeper *t);
/* The session has ended, and all calls with it. */
void zk_ops_ended(struct zookeeper *t);

/* Decodes the name of a provider's node in place. */
void zk_name_decode(char *name);
