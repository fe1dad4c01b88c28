/* SPDX-License-Identifier: Apache-2.0
 *
 * Follows links: from a path as somebody names it to the spot that is meant, and from property
 * links to values. A follower remembers every spot that its answer hung on, so that a change of any
 * of them makes it look again. Embedded in a watch or registration; on the tree's loop.
 */
#ifndef RLB_TREE_TREE_FOLLOW_H
#define RLB_TREE_TREE_FOLLOW_H

#include "common/tree/tree_backend.h"

struct follower {
    struct tree *tree;
    void (*touched)(struct follower *f); /* something the last look hung on has changed */
    struct list uses;                    /* what this look hangs on */
    struct list old;                     /* what the last one did, until this one ends */
    unsigned steps;                      /* of this look */
    struct text problem;                 /* the first link met in this look that does not resolve */
    const char *path;                    /* that is followed, from the root; borrowed */
    char *broken;                        /* the problem that follower_report() reported; or NULL */
    struct list in_broken;               /* of the tree, while BROKEN is set */
};

enum found {
    FOUND_NODE,    /* PATH is a node that exists */
    FOUND_MISSING, /* PATH is where it would be */
    FOUND_BAD,     /* links go round, or nowhere; the problem says */
    FOUND_PENDING, /* the backend has not said yet; touched() will come */
};

struct place {
    char path[TREE_PATH_MAX + 1];
    struct tree_spot
        *spot; /* FOUND_NODE, FOUND_MISSING: borrowed until the look after this one ends */
};

/* PATH is borrowed until follower_fini(). */
void follower_init(struct follower *f, struct tree *t, const char *path,
                   void (*touched)(struct follower *f));
void follower_fini(struct follower *f);
/* A look: begin, any number of questions, end (which lets go of what is no longer needed). */
void follower_begin(struct follower *f);
void follower_end(struct follower *f);
/*
 * Log what has changed since the previous report: a link that does not resolve, or that all links
 * resolve again. A link that several followers meet is logged once. Call only if nothing in this
 * look was FOUND_PENDING.
 */
void follower_report(struct follower *f);

/* Which node PATH is. PARTS are wanted of it (and followed) beside its properties. */
enum found follow_path(struct follower *f, const char *path, unsigned parts, struct place *out);
/*
 * The properties of the node at PLACE: without its links, property links followed. One that leads
 * nowhere keeps its value in LAST (may be NULL) and is a problem. A new reference.
 *   pending  set to true when the backend has not said all yet
 */
json_t *follow_properties(struct follower *f, const struct place *place, const json_t *last,
                          bool *pending);

/*
 * BASE + "/" + PATH (or PATH alone where it begins with "/"), without "//", "." and "..".
 * Errors: ERR_RANGE (leaves the tree), ERR_TOO_LARGE.
 */
enum err tree_path_join(const char *base, struct slice path,
                        char out[TREE_PATH_MAX + 1]) must_check;

#endif
