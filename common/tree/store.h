/* SPDX-License-Identifier: Apache-2.0
 *
 * A tree as a tool reads and edits it: one question after the other, each waited for. (tree.h is
 * for programs that go on while they watch.) Paths are "" or "/a/b" from the root of the tree,
 * as tree_path_join makes them. Owned by the tool; one thread, which may block.
 *
 * What went wrong goes to a struct diag, but for three errors that are answers: ERR_NOT_FOUND,
 * ERR_EXISTS, ERR_BUSY. ERR_UNSUPPORTED and ERR_TOO_LARGE are about this node alone; after any
 * other error the rest is not worth trying.
 */
#ifndef RLB_TREE_STORE_H
#define RLB_TREE_STORE_H

#include "common/tree/tree_backend.h"

enum {
    /* Unless told otherwise: for a connection, or a folder's lock. */
    STORE_TIMEOUT_MS = 10000,
    /* Nodes below one another, where a whole tree is walked. */
    STORE_DEPTH_MAX = 64,
};

struct store;

struct store_options {
    const char *auth_file; /* first line USER:PASSWORD, a digest identity; or NULL */
    unsigned timeout_ms;   /* for one question, connecting included; 0: STORE_TIMEOUT_MS */
};

/*
 * URL as of tree_open(). Waits until the place answers.
 * Errors: ERR_SYNTAX, ERR_RANGE, ERR_TOO_LARGE, ERR_UNSUPPORTED (the URL, the auth file),
 * ERR_TIMEOUT, ERR_SYSTEM.
 */
enum err store_open(struct slice url, const struct store_options *o, struct store **out,
                    struct diag *d) must_check;
/* NULL is fine. */
void store_close(struct store *s);
/* The node that the URL names, "" or "/a/b": all paths here begin at the root of the tree. */
const char *store_top(const struct store *s);

/* Free with store_node_fini. */
struct store_node {
    json_t *properties; /* links and all; an object. string_value may be no text (node_data.h) */
    char *problem;      /* why what looks like JSON is not; or NULL */
    bool provider;      /* registered by a process, and gone with it */
    uint64_t version;   /* another one after every write */
    char **children;    /* names, sorted: nodes, and providers */
    size_t nchildren;
};
void store_node_fini(struct store_node *n);

/* Errors: ERR_NOT_FOUND. */
enum err store_read(struct store *s, const char *path, struct store_node *out,
                    struct diag *d) must_check;
/*
 * Replace all properties of an existing node.
 *   version  of the node as it was read, or NULL: whatever it is now
 * Errors: ERR_NOT_FOUND, ERR_BUSY (another version is there), ERR_TOO_LARGE, ERR_UNSUPPORTED (a
 * provider's; bytes that are no text; not permitted).
 */
enum err store_write(struct store *s, const char *path, const json_t *properties,
                     const uint64_t *version, struct diag *d) must_check;
/* Make a node, and those above it. Errors: ERR_EXISTS, and as store_write. */
enum err store_create(struct store *s, const char *path, const json_t *properties,
                      struct diag *d) must_check;
/* Give a node the permissions that a new one gets. ERR_UNSUPPORTED where there are none to give. */
enum err store_reset_acl(struct store *s, const char *path, struct diag *d) must_check;

/* What becomes of a node in store_delete(). */
enum store_fate {
    STORE_DELETED,
    STORE_IS_PROVIDER,    /* kept */
    STORE_HOLDS_PROVIDER, /* kept, for the sake of one below */
};
typedef void (*store_fate_fn)(void *context, const char *path, enum store_fate fate);
/*
 * Delete PATH and all below, but no provider and nothing above one. TOLD runs for each, those below
 * first.
 *   dry  only tell what would become of them
 * Errors: ERR_NOT_FOUND, ERR_BUSY (something came below it meanwhile).
 */
enum err store_delete(struct store *s, const char *path, bool dry, store_fate_fn told,
                      void *context, struct diag *d) must_check;

/*
 * The node that PATH means: links on the way are followed, as zc.zk does. ERR_NOT_FOUND: OUT is
 * where it would be. Errors: ERR_RANGE, ERR_TOO_LARGE (a link that leaves the tree, a loop).
 */
enum err store_resolve(struct store *s, const char *path, char out[TREE_PATH_MAX + 1],
                       struct diag *d) must_check;
/*
 * Property NAME of the node at PATH (resolved), through property links: a new reference.
 * Errors: ERR_NOT_FOUND (no such property, or a link that leads nowhere: then D says so),
 * ERR_RANGE (loops).
 */
enum err store_property(struct store *s, const char *path, const char *name, json_t **out,
                        struct diag *d) must_check;

#endif
