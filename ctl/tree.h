/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelbctl tree: one verb, one function. A command is what stands on the command line, the open
 * store, and what is to be said; owned by ctl_tree_main for the length of its run. Main thread.
 */
#ifndef RLB_CTL_TREE_H
#define RLB_CTL_TREE_H

#include "common/tree/store.h"
#include "common/wire/tree_text.h"

/* What becomes of nodes that are in the tree and not in the text. */
enum tree_trim { TREE_TRIM_TELL, TREE_TRIM_DELETE, TREE_TRIM_IGNORE };

enum {
    /* Properties changed by one `set`. */
    TREE_CHANGES_MAX = 1000,
};

struct tree_command {
    const char *url;
    struct store_options store_options;
    bool json;      /* print: for programs */
    bool ephemeral; /* export: providers, too */
    bool dry_run;   /* import: tell only */
    bool reset_acl; /* import, set: permissions as of new nodes */
    bool create;    /* set: a node that is not there */
    enum tree_trim trim;
    const char *output; /* export: a file; NULL: stdout */
    const char *unset[TREE_CHANGES_MAX];
    size_t nunset;
    char **words; /* behind the verb; NULL at the end */
    size_t nwords;
    struct store *store; /* open, but for `watch` */
    struct text out;     /* for stdout */
    struct diag diag;    /* for stderr */
};

/* Each: the exit code. What went wrong is in the diag. */
int tree_print(struct tree_command *c);
int tree_export(struct tree_command *c);
int tree_import(struct tree_command *c);
int tree_diff(struct tree_command *c);
int tree_set(struct tree_command *c);
int tree_get(struct tree_command *c);
/* Prints by itself, and goes on until it is ended. */
int tree_watch_changes(struct tree_command *c);

/* The node that WORD (NULL: the root) means. ERR_NOT_FOUND is not told: OUT is where it would be.
 */
enum err tree_command_path(struct tree_command *c, const char *word,
                           char out[TREE_PATH_MAX + 1]) must_check;
/* The same for a node that must be there. */
enum err tree_command_node(struct tree_command *c, const char *word,
                           char out[TREE_PATH_MAX + 1]) must_check;

/* `resumelbctl tree ...`: ARGV[0] is "tree". The exit code. */
int ctl_tree_main(int argc, char **argv);

#endif
