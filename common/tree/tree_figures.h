/* SPDX-License-Identifier: Apache-2.0
 *
 * What tree_status() tells, as figures for status pages and metrics of any program: one row each.
 * Plain computation.
 */
#ifndef RLB_TREE_TREE_FIGURES_H
#define RLB_TREE_TREE_FIGURES_H

#include "common/tree/tree.h"
#include "common/wire/json.h"

#include <stdio.h>

struct tree_figure {
    const char *name;   /* in /status.json */
    const char *metric; /* without the program's prefix */
    const char *kind, *unit, *doc;
    uint64_t (*of)(const struct tree_status *s);
};

#define TREE_FIGURES 6
extern const struct tree_figure tree_figures[TREE_FIGURES];

/* Rows of a table in Markdown: metric, kind, unit, label, meaning; PREFIX is the program's. */
void tree_figures_describe(const char *prefix, const char *label, FILE *out);
/* Members of what is open in W. */
void tree_status_describe(const struct tree_status *s, struct json_writer *w);

#endif
