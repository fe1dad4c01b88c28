/* SPDX-License-Identifier: Apache-2.0
 *
 * A YAML file as a tree of nodes that remember where they stood. Bounded (limits.h: CONFIG_*).
 * Owned by the struct config; nodes and their texts live as long. Any thread, one at a time. No
 * anchors, aliases, tags or several documents: a configuration that needs them is refused.
 */
#ifndef RLB_CONFIG_CONFIG_H
#define RLB_CONFIG_CONFIG_H

#include "common/base/err.h"

enum config_kind { CONFIG_SCALAR, CONFIG_LIST, CONFIG_MAP };

struct config_node {
    enum config_kind kind;
    size_t line, column;        /* from 1 */
    bool quoted;                /* scalar in quotes or a block: a text, never null */
    struct slice text;          /* scalar */
    struct config_node **items; /* list items, or map values */
    struct config_node **keys;  /* map: scalar nodes, in order */
    size_t n;
};

struct config {
    char *file;
    struct config_node *root; /* a map; an empty file is an empty map */
    void *arena;
};

/*
 * Read FILE. Every problem goes to D (duplicate names too; after a YAML syntax error there is no
 * more to find); false when there was any. OUT is filled only on true.
 */
bool config_read(const char *file, struct config *out, struct diag *d) must_check;
/* The same from memory; FILE is for messages. */
bool config_parse(const char *file, struct slice text, struct config *out,
                  struct diag *d) must_check;
void config_fini(struct config *c);

/*
 * PATH holds a secret: this configuration itself, or a file that it names, such as a private key.
 * PATH is copied; duplicates are ignored.
 */
void config_add_secret_file(const struct config *c, const char *path);
/*
 * Write a warning to the log for each secret file that others may read. To be called after a
 * configuration was read without problems, once per start, test (-t) and reload.
 */
void config_warn_exposed(const struct config *c);

/* The value of KEY, or NULL: there is none, or MAP is no map, as whoever expected one has said. */
struct config_node *config_get(const struct config_node *map, const char *key);
/*
 * Add "FILE:LINE:COLUMN: ..." for a node; AT NULL: the file alone. From CONFIG_PROBLEMS_MAX on,
 * problems are only counted.
 */
void config_complain(const struct config *c, const struct config_node *at, struct diag *d,
                     const char *fmt, ...) printf_like(4, 5);
/*
 * PATH of setting WHAT at AT (NULL: nothing to check) is a file that the program makes or appends
 * to ("-": standard output): its folder must exist, and it must not be a folder itself. Whether it
 * may be written is left to the user that the program runs as.
 */
void config_check_output(const struct config *c, const struct config_node *at, const char *what,
                         const char *path, struct diag *d);
/* The same of a folder, which the program makes where MAY_BE_MISSING, but not the one above it. */
void config_check_folder(const struct config *c, const struct config_node *at, const char *what,
                         const char *path, bool may_be_missing, struct diag *d);

#endif
