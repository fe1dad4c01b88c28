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
#pragma once

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
    /* Maximum depth of nodes, also where a whole tree is walked; functions on trees recurse. */
    TREE_TEXT_DEPTH_MAX = 64,
    /* Maximum number of problems reported at once. */
    TREE_TEXT_PROBLEMS_MAX = 100,
};

/*
 * A tree is {"properties": {...}, "nodes": {NAME: TREE, ...}, "remark": TEXT}, each only if there
 * is something. Links are properties that end in " ->" and " =>"; a remark is printed as a comment.
 * The top is not a node itself.
 */

/* The member "properties" or "nodes" of N, which is made if it is missing. Borrowed. */
json_t *tree_text_member(json_t *n, const char *name);
/* A new node NAME of ABOVE, in place of one of that name. Borrowed. */
json_t *tree_text_add(json_t *above, struct slice name);

/*
 * Read a text; FILE is what D calls it. On ERR_OK *TOP has the nodes at the margin below it, all
 * sorted.
 * Errors: ERR_SYNTAX, ERR_TOO_LARGE, ERR_RANGE; each problem is in D with line and column.
 */
enum err tree_text_parse(struct slice bytes, const char *file, json_t **top,
                         struct diag *d) must_check;
/*
 * Append the nodes of TOP, by name: reads back as the same tree. Items that the format
 * cannot express (a name with blanks, properties of TOP itself) are omitted, with everything below;
 * a comment in their place and a line in LEFT_OUT report it. Returns the number of such items.
 *   left_out  NULL: for display only, nothing is omitted; odd names are in quotes
 */
size_t tree_text_print(const json_t *top, struct text *out, struct diag *left_out);

/* ---- one line ---- */

enum tree_text_kind { TREE_TEXT_NODE, TREE_TEXT_PROPERTY, TREE_TEXT_LINK, TREE_TEXT_PROPERTY_LINK };

/*
 * Sets LINE to that of an item: a node NAME (without its '/') and its type (may be empty), a
 * property and its value, a link and its target. Returns false if it does not read back as this
 * item: the format cannot express it.
 */
bool tree_text_make_line(enum tree_text_kind kind, struct slice name, struct slice rest,
                         struct text *line) must_check;
/* The kind of property KEY, from its end (" ->", " =>"); *NAME is the part before that. */
enum tree_text_kind tree_text_kind_of(const char *key, struct slice *name);
