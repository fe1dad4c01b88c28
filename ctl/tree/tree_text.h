/* SPDX-License-Identifier: Apache-2.0
 *
 * A tree as text, in zc.zk's format: one item a line, what is indented deeper belongs to
 * the node above.
 *
 *   /lb : load balancer            a node, and its property `type`
 *     variance = 4                 a property: a value as Python writes it (literal.h)
 *     main -> /ghm/databases/main  a node link: property "main ->"
 *     history => /defaults         a property link: property "history =>"
 *     /providers                   a node below /lb
 *
 * Returned trees are owned by the caller. Pure functions; any thread.
 */
#ifndef RLB_CTL_TREE_TREE_TEXT_H
#define RLB_CTL_TREE_TREE_TEXT_H

#include "common/base/err.h"
#include "common/base/text.h"

#include <jansson.h>

enum {
    /* A file: tens of thousands of nodes, or a few with megabytes of bytes. */
    TREE_TEXT_BYTES_MAX = 64 << 20,
    /* A node of 1 MiB (NODE_BYTES_MAX) with every byte as \xHH. */
    TREE_TEXT_LINE_MAX = (4 << 20) + 4096,
    /* A node's, property's or link's name; a path in a tree has 512 bytes. */
    TREE_TEXT_NAME_MAX = 512,
    TREE_TEXT_NODES_MAX = 100000,
    /* Maximum depth of nodes; functions on trees recurse. */
    TREE_TEXT_DEPTH_MAX = 64,
    /* Maximum number of problems reported at once. */
    TREE_TEXT_PROBLEMS_MAX = 100,
};

struct tree_text_node {
    char *name;         /* "" at the top, which is not a node itself */
    json_t *properties; /* an object; links are properties that end in " ->" and " =>" */
    struct tree_text_node **children; /* sorted by name, once tree_text_sort() ran */
    size_t nchildren, room;
    size_t line, column; /* position in the source text; or 0 */
    char *remark;        /* printed as a comment below it; or NULL */
};

/* A new node, the last child of PARENT; NULL: a top. */
struct tree_text_node *tree_text_add(struct tree_text_node *parent, struct slice name);
/* With all below; NULL is fine. */
void tree_text_destroy(struct tree_text_node *n);
/* The children of N, not of those below, by name. */
void tree_text_sort(struct tree_text_node *n);
/* The child NAME of N, which is sorted; or NULL. */
struct tree_text_node *tree_text_find(const struct tree_text_node *n, const char *name);

/*
 * Read a text; FILE is what D calls it. On ERR_OK *TOP has the nodes at the margin below it, all
 * sorted.
 * Errors: ERR_SYNTAX, ERR_TOO_LARGE, ERR_RANGE; each problem is in D with line and column.
 */
enum err tree_text_parse(struct slice bytes, const char *file, struct tree_text_node **top,
                         struct diag *d) must_check;
/*
 * Append the children of TOP, which are sorted: reads back as the same tree. Items that the format
 * cannot express (a name with blanks, properties of TOP itself) are omitted, with everything below;
 * a comment in their place and a line in LEFT_OUT report it. Returns the number of such items.
 *   left_out  NULL: for display only, nothing is omitted; odd names are in quotes
 */
size_t tree_text_print(const struct tree_text_node *top, struct text *out, struct diag *left_out);

/* ---- one line ---- */

enum tree_text_kind { TREE_TEXT_NODE, TREE_TEXT_PROPERTY, TREE_TEXT_LINK, TREE_TEXT_PROPERTY_LINK };

/*
 * Sets LINE to that of an item: a node NAME (without its '/') and its type (may be empty), a
 * property and its value, a link and its target. Returns false if it does not read back as this
 * item: the format cannot express it.
 */
bool tree_text_make_line(enum tree_text_kind kind, struct slice name, struct slice rest,
                         struct text *line) must_check;
/* What property KEY is, by its end (" ->", " =>"): *NAME is what is before that. */
enum tree_text_kind tree_text_kind_of(const char *key, struct slice *name);

#endif
