/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations on single nodes, for tools that read and edit a tree (tree.h is for programs that
 * follow it). The caller owns the struct and must not touch it from tree_op_begin() until done()
 * runs. On the tree's loop; an operation ends before its tree is closed.
 *
 *   tree_op_begin ──► back end: read, write, ... ──► tree_op_finish ──► (loop) ──► done
 */
#pragma once

#include "common/tree/tree_backend.h"

enum tree_op_kind {
    /* Finds the node that PATH means: links on the way are followed. Its path is in AT. With
     * ERR_NOT_FOUND, AT is where the node would be. Other errors: ERR_RANGE (links that loop, or
     * that lead out of the tree). */
    TREE_RESOLVE,
    /* Reads the node into RECORD. Errors: ERR_NOT_FOUND. */
    TREE_READ,
    /* Replaces all properties of an existing node by PROPERTIES. Errors: ERR_NOT_FOUND, ERR_BUSY
     * (it does not have VERSION), ERR_UNSUPPORTED (it is a provider's; PROPERTIES cannot be
     * stored), ERR_TOO_LARGE. */
    TREE_WRITE,
    /* Creates a node with PROPERTIES, and those above it. Errors: ERR_EXISTS, and as TREE_WRITE. */
    TREE_CREATE,
    /* Deletes a node without children that is not a provider. Errors: ERR_NOT_FOUND, ERR_BUSY. */
    TREE_REMOVE,
    /* Gives the node the permissions of a new one. ERR_UNSUPPORTED where a tree has none. */
    TREE_RESET_ACL,
};

/* A node as it is stored. Free with tree_record_fini. */
struct tree_record {
    json_t *properties; /* links and all; an object. string_value may be no text (node_data.h) */
    char *problem;      /* why data that look like JSON are not; or NULL */
    bool provider;      /* registered by a process; ends with it */
    uint64_t version;   /* another one after every write */
    /* Names, sorted: nodes and providers. NULL: none. */
    json_t *children;
};

struct zk_call;

struct tree_op {
    /* Set by the caller. */
    enum tree_op_kind kind;
    const char *path; /* "" or "/a/b" (tree_path_join), from the root of the tree */
    const json_t *properties;
    const uint64_t *version; /* of TREE_WRITE; NULL: any */
    unsigned timeout_ms;     /* 0: none */
    struct diag *diag;       /* what went wrong, unless ERR_NOT_FOUND, ERR_EXISTS or ERR_BUSY */
    void (*done)(struct tree_op *op); /* never inside tree_op_begin() */
    void *context;
    /*
     * The result. Beside the errors of each kind: ERR_UNSUPPORTED (no permission), ERR_TOO_LARGE;
     * both are about this node alone. ERR_TIMEOUT, ERR_SYSTEM: others will not succeed either.
     */
    enum err result;
    struct tree_record record;  /* the caller's from done() on; empty unless ERR_OK */
    char at[TREE_PATH_MAX + 1]; /* for back ends: the node to work on */
    /* Private to the tree. */
    struct tree *tree;
    struct loop_message message;
    struct timer deadline;
    struct follower follower; /* of TREE_RESOLVE */
    bool parents;             /* of TREE_CREATE: those above are being created */
    struct text bytes;        /* of PROPERTIES */
    /* Private to the back end. */
    struct timer again;
    int fd;
    struct list in_tree;
    struct zk_call *call;
    unsigned phase, losses;
};

void tree_op_begin(struct tree *t, struct tree_op *op);
void tree_record_fini(struct tree_record *r);

/* ---- for back ends ---- */
/* OP->at is done, or has failed; what went wrong has been added to its diag. */
void tree_op_finish(struct tree_op *op, enum err e);
/* The data that OP->at is to have. */
struct slice tree_op_bytes(const struct tree_op *op);
/* Sets the properties, and why they are not JSON, from BYTES. */
void tree_record_set_data(struct tree_record *r, struct slice bytes);
