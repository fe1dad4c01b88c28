/* SPDX-License-Identifier: Apache-2.0
 *
 * What a back end of the tree implements, and what it fills in; and links between nodes: from a
 * path to the node that it means, and from property links to values. Operations (tree_op.h) and the
 * tree itself are above it. A node is identified by its real path, without links; the tree owns it,
 * and the back end updates it while it is observed. A follower, which is embedded in a watch, a
 * registration or an operation, records every node that its result depends on, and is notified of a
 * change of any of them. Everything here is on the tree's loop.
 *
 *   watch, registration ── follower ── use ──► node ◄── backend (a directory, ZooKeeper)
 */
#pragma once

#include "common/base/list.h"
#include "common/base/map.h"
#include "common/event/loop.h"
#include "common/tree/node_data.h"

enum {
    /* A node's path, from the root of the tree. The path of a service has a few names. */
    TREE_PATH_MAX = 512,
    /* Steps in following links for one watch: its own links, property links and theirs. */
    TREE_STEPS_MAX = 256,
    /* Maximum number of links in a row; more are treated as a loop. */
    TREE_TRAIL_MAX = 32,
    /* Between two evaluations of one watch: bounds the cost of a burst of changes. */
    TREE_PAUSE_MS = 20,
    /* Providers and child nodes of one node that are read. */
    TREE_CHILDREN_MAX = 10000,
    /* Time-out of a ZooKeeper session, unless configured. */
    TREE_SESSION_MS = 10000,
    /* The properties of one provider, of which there are usually a dozen short ones. */
    PROVIDER_BYTES_MAX = 64 * 1024,
};

/* PATH for messages: that of the root is "". */
static inline const char *tree_path_shown(const char *path)
{
    return path[0] != '\0' ? path : "/";
}

/* Parts of a node. */
enum tree_part { PART_NODE = 1, PART_PROVIDERS = 2, PART_CHILDREN = 4 };

struct tree_backend;
struct tree_options;
struct tree_status;

/* The base of each backend's tree. */
struct tree {
    const struct tree_backend *backend;
    struct loop *loop;
    /* The node that the URL names, "" or "/a/b": paths of watches and registrations begin there.
     * Links lead anywhere in the tree. Borrowed from the backend. */
    const char *top;
    struct map nodes;   /* by path */
    size_t watches;     /* with registrations and operations; they must end first */
    struct list broken; /* follower->in_broken: each has a link that does not resolve */
};

struct tree_node {
    struct map_node in_tree;
    struct tree *tree;
    struct list uses;   /* by followers */
    unsigned parts;     /* all that were ever needed */
    bool touched;       /* may have changed: refresh() before use */
    void *backend_node; /* private to the back end */
    bool known;         /* false: not read yet; what follows is invalid */
    bool exists;        /* now */
    bool parses;        /* now */
    uint64_t birth;     /* differs after it was created again; 0: unknown */
    json_t *properties; /* the last good ones, links and all; never NULL */
    char *problem;      /* why it does not parse; owned */
    json_t *providers;  /* NULL: cannot be read */
    json_t *children;   /* NULL: cannot be read */
    char path[];        /* "" or "/a/b" */
};

struct tree_entry;
struct tree_op;

struct tree_backend {
    const char *scheme;                                       /* before the ':' of a URL */
    bool remote;                                              /* other machines write it, too */
    enum err (*check)(struct slice location, struct diag *d); /* of open()'s location */
    /* Reads open()'s auth file; IDENTITY may be NULL. NULL: none is read. */
    enum err (*read_auth)(const char *file, char **identity, struct diag *d);
    enum err (*open)(struct loop *l, struct slice location, const struct tree_options *o,
                     struct tree **out, struct diag *d);
    void (*close)(struct tree *t);
    void (*status)(const struct tree *t, struct tree_status *out);
    /* Starts to report each change of S by tree_node_touch(), but not from within refresh(). */
    void (*observe)(struct tree_node *s);
    /* Fills in S with what is known now, at least S->parts; may do small file I/O. */
    void (*refresh)(struct tree_node *s);
    void (*forget)(struct tree_node *s);
    /* Registers provider NAME, with the data BYTES, which are borrowed until leave(), in node PATH
     * (a real path ending in "/providers"), and keeps it registered. Parents are created. NULL:
     * NAME is not possible. */
    struct tree_entry *(*enter)(struct tree *t, const char *path, const char *name,
                                const struct text *bytes);
    /* The bytes of E have changed. */
    void (*entry_changed)(struct tree_entry *e);
    bool (*entry_held)(const struct tree_entry *e);
    void (*leave)(struct tree_entry *e);
    /*
     * An operation, of any kind but TREE_RESOLVE, on the node OP->at alone (tree_op.h): ends by
     * tree_op_finish(), also within the call. TREE_CREATE: with tree_op_bytes(); ERR_NOT_FOUND if
     * the node above is missing; of the root, what is above it is created as well.
     */
    void (*begin)(struct tree_op *op);
    /* OP has timed out: the back end drops it, and adds to its diag what it was waiting for. */
    void (*abandon)(struct tree_op *op);
    size_t data_max;   /* bytes of a node's data */
    bool text_as_json; /* a lone text is stored as JSON */
};

extern const struct tree_backend tree_directory;
extern const struct tree_backend tree_zookeeper;

/* ---- nodes: for back ends ---- */

/* Notifies followers that PARTS of S may have changed. Must not be called from refresh(). */
void tree_node_touch(struct tree_node *s, unsigned parts);
/* Sets PROPERTIES (ownership passes to S), or, if they do not parse, the reason PROBLEM (copied).
 * Both NULL: neither the node nor its providers and children exist. */
void tree_node_set(struct tree_node *s, json_t *properties, const char *problem);

/* ---- links ---- */

struct follower {
    struct tree *tree;
    struct timer evaluate;
    unsigned pause_ms;     /* between two evaluations */
    uint64_t evaluated_ms; /* when the last one began */
    unsigned evaluation;   /* its number */
    struct list uses;      /* nodes that it depends on */
    unsigned steps;        /* of this evaluation */
    struct text problem;   /* the first link in it that does not resolve */
    const char *path;      /* that is followed, from the root; borrowed */
    char *broken;          /* the problem that follower_report() reported; or NULL */
    struct list in_broken; /* of the tree, while BROKEN is set */
};

enum tree_found {
    FOUND_NODE,    /* the node exists */
    FOUND_MISSING, /* it does not; this is where it would be */
    FOUND_BAD,     /* links loop or are invalid; see the problem */
    FOUND_PENDING, /* not read yet; another evaluation follows */
};

/*
 * PATH is borrowed until follower_fini(). EVALUATE is called soon, and whenever a node that the
 * last result depends on may have changed; at once after a quiet time, else PAUSE_MS after the last
 * evaluation.
 */
void follower_init(struct follower *f, struct tree *t, const char *path, unsigned pause_ms,
                   void (*evaluate)(struct timer *timer));
void follower_fini(struct follower *f);
/* An evaluation: begin, any number of follow_...(), end (which releases unused nodes). */
void follower_begin(struct follower *f);
void follower_end(struct follower *f);
/*
 * Logs what has changed since the previous report: a link that does not resolve, or that all links
 * resolve again. A link of several followers is logged once. Call only if nothing in this
 * evaluation was FOUND_PENDING.
 */
void follower_report(struct follower *f);

/*
 * Finds the node that PATH means. PARTS of it are needed beside its properties. FOUND_NODE,
 * FOUND_MISSING: *OUT is the node, borrowed until the next evaluation ends.
 */
enum tree_found follow_path(struct follower *f, const char *path, unsigned parts,
                            const struct tree_node **out);
/*
 * The properties of N, without its links, with property links followed. One that does not resolve
 * keeps its value in LAST (may be NULL) and is a problem. Returns a new reference.
 *   pending  set to true if not all has been read yet
 */
json_t *follow_properties(struct follower *f, const struct tree_node *n, const json_t *last,
                          bool *pending);

/*
 * BASE + "/" + PATH (or PATH alone where it begins with "/"), without "//", "." and "..".
 * Errors: ERR_RANGE (leaves the tree), ERR_TOO_LARGE.
 */
enum err tree_path_join(const char *base, struct slice path,
                        char out[TREE_PATH_MAX + 1]) must_check;
