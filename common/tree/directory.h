/* SPDX-License-Identifier: Apache-2.0
 *
 * The directory back end: one struct dir per directory that is observed or has our registrations,
 * and per directory above. Events of inotify only mark things as stale; they are read when they are
 * used.
 *
 *   directory.c       the back end: directories, inotify, staleness, our own providers
 *   directory_node.c  reads a directory into its node; operations on single nodes
 */
#pragma once

#include "common/base/limits.h"
#include "common/tree/provider_file.h"
#include "common/tree/tree_backend.h"

#define PROPERTIES_FILE "properties.json"

enum {
    /* A properties.json that vanished or broke may be in the middle of being replaced. */
    DOUBT_MS = 100,
    /* Interval of checks of everything, for what inotify does not report (a renamed ancestor). */
    VERIFY_MS = 5000,
    /* The same when inotify is out of watches. */
    VERIFY_BLIND_MS = 500,
    /* The lock of a closed file is released an instant after the event: check again after 1, 4,
       16, ... ms, up to this. */
    RECHECK_MS_MAX = 1024,
    /* Unfinished files of crashed owners are deleted at this age. */
    NEW_FILE_AGE_S = 10,
};

struct directory {
    struct tree base;
    char *root;
    struct map dirs; /* by path */
    int inotify;     /* -1 when there is none */
    struct watch *readable;
    int anchor; /* watch on the nearest existing ancestor while the root is missing; -1 */
    bool blind; /* some directory could not be watched */
    struct timer verify;
};

struct dir {
    struct map_node in_tree;
    struct directory *tree;
    struct dir *parent; /* counted in its users; NULL for the root */
    unsigned users;
    struct list entries; /* our own providers here */
    struct tree_node *node;
    int watch; /* inotify's; -1 */
    dev_t dev;
    ino_t ino;
    bool exists;
    bool stale;      /* exists, watch: to be determined again */
    bool data_stale; /* properties.json */
    bool children_stale;
    bool rescan;        /* check of all providers: do they exist, are they locked? */
    bool reread;        /* and of their contents, even if their times are unchanged */
    struct timer doubt; /* see DOUBT_MS */
    bool doubt_over;
    struct map members; /* provider files, by file name */
    struct timer recheck;
    unsigned recheck_ms;
    char *full; /* path in the file system */
    char path[];
};

/* ---- directory_node.c ---- */
void dir_read_init(struct dir *d);
void dir_read_fini(struct dir *d);
/* Fills in D's node, at least its parts. D is up to date. */
void dir_read(struct dir *d);
/* FILE in D has changed; CLOSED: a writer has closed it. */
void dir_member_touched(struct dir *d, const char *file, bool closed);

/* As described in tree_backend.h. */
void directory_begin(struct tree_op *op);
void directory_abandon(struct tree_op *op);
