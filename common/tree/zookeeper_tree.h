/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the ZooKeeper tree: one struct zk_node per path that somebody looks at, and per provider
 * below one. Events say only that something may have changed; what a read brings is the truth, and
 * each read sets the watch for the next change.
 *   tree_zookeeper.c    the backend: sessions that come and go, spots filled in
 *   zookeeper_read.c    which node is read when: pace, order, and those that break the connection
 *   zookeeper_node.c    what was read: properties, lists, providers
 *   zookeeper_entry.c   our own providers
 *   zookeeper_op.c      operations on single nodes
 */
#ifndef RLB_TREE_ZOOKEEPER_TREE_H
#define RLB_TREE_ZOOKEEPER_TREE_H

#include "common/base/limits.h"
#include "common/tree/tree_backend.h"
#include "common/tree/zookeeper_session.h"

enum {
    /* Reads under way at once: what a session carries well; the rest waits in line. */
    ZK_READS_MAX = 256,
    /* A node that broke the connection twice is left alone so long. */
    ZK_QUARANTINE_MS = 60000,
    /* What is below these cannot have broken it: the client's limit is 1 MiB a packet. */
    ZK_LARGE_BYTES = 512 * 1024,
    ZK_LARGE_CHILDREN = 2000,
    /* Between two tries of a read or write that the server refuses (permissions). */
    ZK_RETRY_MS = 2000,
    /* What is watched is read anew so often: servers keep the changes of a node to themselves that
       we may not read, and say nothing when we may again. */
    ZK_VERIFY_MS = 30000,
    /* Between two sessions, when the first did not last; doubled up to the second, with jitter. */
    ZK_REOPEN_MS_MIN = 100,
    ZK_REOPEN_MS_MAX = 10000,
    /* Without a word from any server for so long, whoever has just started us is told. */
    ZK_FIRST_WORD_MS = 3000,
    /* A session that was away for so many times its time-out is over, whoever says so. */
    ZK_GIVE_UP_TIMES = 2,
    /* What we write to a node: a server takes 1 MiB less a byte in one packet, path included. */
    ZK_DATA_MAX = NODE_BYTES_MAX - 16 * 1024,
    /* How long the end of a program waits for the server to hear of it. */
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
    bool begun;         /* it was connected once */
    int64_t id;         /* of the session last connected to; 0 before the first */
    uint64_t lost_ms;   /* when the connection was lost last */
    uint64_t opened_ms; /* when the session was opened */
    struct timer reopen, verify, give_up, first_word;
    unsigned reopen_ms;   /* the last pause; 0: none yet */
    struct map nodes;     /* by path within the tree */
    struct map entries;   /* by path within the tree */
    struct list ops;      /* tree_op->in_tree: not finished */
    struct list wanted;   /* reads in line */
    struct list suspects; /* those that may have broken the connection, to be read alone */
    unsigned reading;     /* calls of reads under way */
    bool alone;           /* one of them is a suspect's */
    bool loss_seen;       /* one was lost since one last came back: the next ones are no suspects */
    struct tree_status counts;
};

enum zk_read_kind { ZK_READ_DATA, ZK_READ_CHILDREN };

/* One thing that is read again and again. */
struct zk_read {
    enum zk_read_kind kind;
    struct zk_node *node;
    struct list line; /* in wanted or suspects */
    struct zk_call *call;
    bool again; /* changed while it was read */
    bool quarantined;
    unsigned strikes;    /* connections that broke while it was first in line */
    struct zk_stat seen; /* when it was put into quarantine */
    uint64_t started_ms;
    struct timer pause; /* until it may be read again */
};

struct zk_node {
    struct map_node in_tree;
    struct zookeeper *tree;
    struct tree_spot *spot;  /* whom it is for; NULL: only for */
    struct zk_node *list_of; /* the node whose provider it is; NULL: none */
    struct list in_list;
    struct zk_read data, children;
    /* What was read last. */
    bool known, exists;
    uint64_t birth;
    json_t *properties; /* NULL: what is there does not parse, or cannot be read; PROBLEM says */
    char *problem;
    bool children_known;
    struct name_set *names; /* NULL: cannot be read */
    struct list members;    /* nodes of its providers */
    size_t nmembers, unread;
    bool members_read;
    bool complete; /* all members were read once; from then on they come one by one */
    bool changed;  /* some member: the spot's providers are to be made anew */
    bool marked;   /* scratch: in the list just read */
    char path[];
};

/* PATH as the server has it: the tree is all of it. */
static inline const char *zk_server_path(const char *path)
{
    return path[0] != '\0' ? path : "/";
}

/* ---- zookeeper_read.c ---- */
void zk_read_init(struct zk_read *r, enum zk_read_kind kind, struct zk_node *n);
void zk_read_fini(struct zk_read *r);
/* The session has ended, and R's call with it: it is wanted anew. */
void zk_read_drop(struct zk_read *r);
/* R is to be read (again), at once where it was not just now. */
void zk_read_want(struct zk_read *r);
/* Begin what may begin now. */
void zk_reads_begin(struct zookeeper *t);

/* ---- zookeeper_node.c ---- */
struct zk_node *zk_node_get(struct zookeeper *t, const char *path);
/* When neither a spot nor a list holds N, it goes. */
void zk_node_put(struct zk_node *n);
/* A read came back with something to say: what was read, or that it is refused or missing. */
void zk_node_data(struct zk_node *n, const struct zk_call *c);
void zk_node_children(struct zk_node *n, struct zk_call *c);
/* R's part of N cannot be had, for the reason WHY: what was there before stays. */
void zk_node_unreadable(struct zk_read *r, const char *why);
/* Fill in N's spot. */
void zk_node_show(struct zk_node *n);

/* ---- zookeeper_entry.c ---- */
struct tree_entry *zk_enter(struct tree *base, const char *path, const char *name,
                            const json_t *properties);
void zk_entry_set(struct tree_entry *e, const json_t *properties);
bool zk_entry_held(const struct tree_entry *e);
void zk_leave(struct tree_entry *e);
/* The session has ended, and all its nodes with it. */
void zk_entries_ended(struct zookeeper *t);
/* The session goes on after a break (SAME), or a new one has begun. */
void zk_entries_connected(struct zookeeper *t, bool same);
void zk_entries_changed(struct zookeeper *t, const char *path);
void zk_entries_free(struct zookeeper *t);

/* ---- zookeeper_op.c ---- */
/* Reads and writes begin by a look at the node. */
void zk_op_look(struct tree_op *op);
void zk_op_act(struct tree_op *op);
void zk_op_abandon(struct tree_op *op);
void zk_ops_connected(struct zookeeper *t);
/* The session has ended, and all calls with it. */
void zk_ops_ended(struct zookeeper *t);

/* A provider's NAME as a node's name: '/' and '%' as %XX. False: cannot be one. */
bool zk_name_encode(const char *name, char out[TREE_PATH_MAX + 1]);
/* And back; other '%' stay as they are. OUT has room for strlen(NAME) + 1. */
void zk_name_decode(const char *name, char *out);

#endif
