/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the directory tree: one struct dir per folder that somebody looks at or registers in, and
 * per folder on the way there. What inotify says only marks things stale; they are read when
 * somebody looks.
 *   directory.c       the backend: folders, inotify, staleness, our own providers
 *   directory_node.c  what a folder says, into its spot; operations on single nodes
 */
#ifndef RLB_TREE_DIRECTORY_H
#define RLB_TREE_DIRECTORY_H

#include "common/tree/provider_file.h"
#include "common/tree/tree_backend.h"

#define PROPERTIES_FILE "properties.json"
/* What a provider's file is called before it is in place. */
#define NEW_FILE_PREFIX ".new-"

enum {
    /* A properties.json that vanished or broke may be in the middle of being replaced. */
    DOUBT_MS = 100,
    /* Everything is checked anew so often, for what inotify cannot tell (a renamed ancestor). */
    VERIFY_MS = 5000,
    /* The same when inotify has no room for us. */
    VERIFY_BLIND_MS = 500,
    /* A closed file's lock goes an instant after the event: look again after 1, 4, 16, ... ms, up
       to this. */
    RECHECK_MS_MAX = 1024,
    /* Unfinished files of crashed owners are cleared at this age. */
    NEW_FILE_AGE_S = 10,
};

struct member;

struct directory {
    struct tree base;
    char *root;
    struct map dirs; /* by path */
    int inotify;     /* -1 when there is none */
    struct watch *readable;
    int anchor; /* watch on the nearest existing ancestor while the root is missing; -1 */
    bool blind; /* some folder could not be watched */
    struct timer verify;
};

struct dir {
    struct map_node in_tree;
    struct directory *tree;
    struct dir *parent; /* counted in its users; NULL for the root */
    unsigned users;
    struct list entries; /* our own providers here */
    struct tree_spot *spot;
    int watch; /* inotify's; -1 */
    dev_t dev;
    ino_t ino;
    bool exists;
    bool stale;      /* exists, watch: to be looked up anew */
    bool data_stale; /* properties.json */
    bool children_stale;
    bool rescan;        /* all providers: still there, still locked */
    bool reread;        /* and their contents, whatever their times say */
    struct timer doubt; /* see DOUBT_MS */
    bool doubt_over;
    struct map members; /* provider files, by file name */
    struct list dirty;  /* of members that something happened to */
    struct timer recheck;
    unsigned recheck_ms;
    char *full; /* path in the file system */
    char path[];
};

/* ---- directory_node.c ---- */
void dir_read_init(struct dir *d);
void dir_read_fini(struct dir *d);
/* Fill D's spot in with what it wants to know. D is up to date. */
void dir_read(struct dir *d);
/* Something happened to FILE in D; CLOSED: a writer closed it. */
void dir_member_touched(struct dir *d, const char *file, bool closed);

/* As tree_backend.h says. */
void directory_read(struct tree_op *op);
void directory_write(struct tree_op *op);
void directory_create(struct tree_op *op);
void directory_remove(struct tree_op *op);
void directory_reset_acl(struct tree_op *op);
void directory_abandon(struct tree_op *op);

#endif
