/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes, and links between them: from a path to the node that it means, and from property links to
 * values. A follower records every node that its result depends on, and is notified of a change of
 * any of them. Embedded in a watch, a registration or an operation; on the tree's loop.
 */
#ifndef RLB_TREE_TREE_FOLLOW_H
#define RLB_TREE_TREE_FOLLOW_H

#include "common/tree/tree_backend.h"

/* ---- nodes: for back ends ---- */

/* PARTS of S may have changed: followers that need them are notified. Not from refresh(). */
void tree_node_touch(struct tree_node *s, unsigned parts);
/* The node has PROPERTIES (ownership is taken), or none that parse: PROBLEM is why (copied). Both
 * NULL: the node does not exist, nor what it had. */
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

enum found {
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
enum found follow_path(struct follower *f, const char *path, unsigned parts,
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

#endif
