/* SPDX-License-Identifier: Apache-2.0
 *
 * Between store.c and the places a tree lives in: what each kind of place implements, one node at a
 * time. What the functions mean, and their errors, are as in store.h.
 */
#ifndef RLB_TREE_STORE_KIND_H
#define RLB_TREE_STORE_KIND_H

#include "common/tree/store.h"

struct store_kind {
    const char *scheme; /* before the ':' of a URL */
    enum err (*open)(struct slice place, const struct store_options *o, struct store **out,
                     struct diag *d);
    void (*close)(struct store *s);
    enum err (*read)(struct store *s, const char *path, struct store_node *out, struct diag *d);
    enum err (*write)(struct store *s, const char *path, const json_t *properties,
                      const uint64_t *version, struct diag *d);
    /* One node. ERR_NOT_FOUND: the one above is missing. The root: what is above it, too. */
    enum err (*create)(struct store *s, const char *path, const json_t *properties, struct diag *d);
    /* One node without anything below it, and no provider; ERR_BUSY otherwise. */
    enum err (*remove)(struct store *s, const char *path, struct diag *d);
    enum err (*reset_acl)(struct store *s, const char *path, struct diag *d);
};

/* The base of each kind's store. */
struct store {
    const struct store_kind *kind;
    const char *top; /* borrowed from the kind's own */
};

extern const struct store_kind store_directory;
extern const struct store_kind store_zookeeper;

/* Another child of N; the list is sorted by store_node_sort(). */
void store_node_add_child(struct store_node *n, const char *name);
void store_node_sort(struct store_node *n);
/*
 * The bytes of PROPERTIES for the node at PATH, at most MAX_BYTES, appended.
 * Errors: ERR_TOO_LARGE, ERR_UNSUPPORTED; both told in D.
 */
enum err store_encode(const char *path, const json_t *properties, size_t max_bytes,
                      struct text *out, struct diag *d) must_check;
/* PATH for messages: "/" for the root. */
static inline const char *store_shown(const char *path)
{
    return path[0] != '\0' ? path : "/";
}

#endif
