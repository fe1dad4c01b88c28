/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelbctl tree: one verb, one function. A command is the command line, the open tree with its
 * loop, and what is to be printed; owned by the command while it runs. Main thread.
 */
#pragma once

#include "common/tree/tree.h"
#include "common/tree/tree_op.h"
#include "ctl/cli/ctl.h"
#include "ctl/tree/tree_text.h"

/* The treatment of nodes that are in the tree but not in the text. */
enum tree_trim { TREE_TRIM_REPORT, TREE_TRIM_DELETE, TREE_TRIM_IGNORE };

/* Properties changed by one `set`. */
enum { TREE_CHANGES_MAX = 1000 };

struct tree_command {
    struct ctl_options o; /* the timeout is of one operation, the connection included */
    const char *url;
    const char *auth_file; /* first line USER:PASSWORD; or NULL */
    bool ephemeral;        /* export: providers, too */
    bool dry_run;          /* import: print only */
    bool reset_acl;        /* import, set: permissions of new nodes */
    bool create;           /* set: a node that does not exist */
    enum tree_trim trim;
    const char *output; /* export: a file; NULL: stdout */
    const char *unset[TREE_CHANGES_MAX];
    size_t nunset;
    char **words; /* after the verb; NULL at the end */
    size_t nwords;
    struct loop *loop;
    struct tree *tree;
};

int tree_import(struct tree_command *c);
int tree_diff(struct tree_command *c);
int tree_set(struct tree_command *c);
int tree_get(struct tree_command *c);

/*
 * One operation on one node, as tree_op.h specifies; each runs the loop until it is done, or until
 * the timeout. PATH is from the root of the tree, links are not followed.
 */
enum err tree_command_read(struct tree_command *c, const char *path,
                           struct tree_record *out) must_check;
/* VERSION, PROPERTIES: NULL where KIND has none. */
enum err tree_command_change(struct tree_command *c, enum tree_op_kind kind, const char *path,
                             const json_t *properties, const uint64_t *version) must_check;
/* The node that PATH means, links followed. ERR_NOT_FOUND: OUT is where it would be. */
enum err tree_command_resolve(struct tree_command *c, const char *path,
                              char out[TREE_PATH_MAX + 1]) must_check;

/* The node that WORD (NULL: the root) means. ERR_NOT_FOUND: OUT is where it would be; that is an
 * error in the diag only if it MUST_EXIST. */
enum err tree_command_path(struct tree_command *c, const char *word, bool must_exist,
                           char out[TREE_PATH_MAX + 1]) must_check;
