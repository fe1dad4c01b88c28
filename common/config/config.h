/* SPDX-License-Identifier: Apache-2.0
 *
 * A YAML file as a tree of nodes with their positions. Bounded (limits.h: CONFIG_*). The struct
 * config owns the nodes and their texts. Any thread, one at a time. Anchors, aliases, tags and
 * several documents are rejected.
 */
#pragma once

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
    struct config_node *root;     /* a map; an empty file is an empty map */
    struct config_memory *memory; /* of the nodes */
};

/*
 * Reads FILE. All problems, duplicate names included, are added to D; a YAML syntax error ends the
 * search for further problems. Returns false if there were any. OUT is set only if the return value
 * is true.
 */
bool config_read(const char *file, struct config *out, struct diag *d) must_check;
/* The same for a configuration in memory; FILE is used in messages. */
bool config_parse(const char *file, struct slice text, struct config *out,
                  struct diag *d) must_check;
void config_fini(struct config *c);

/*
 * Records that PATH contains a secret: this configuration itself, or a file that it names, such as
 * a private key. PATH is copied; duplicates are ignored.
 */
void config_add_secret_file(const struct config *c, const char *path);
/*
 * Logs a warning for each secret file that others may read. To be called after a configuration was
 * read without problems, once per start, test (-t) and reload.
 */
void config_warn_exposed(const struct config *c);

/* Returns true for a plain "name:", "name: ~" or "name: null", which is as if it were not there. */
bool config_is_null(const struct config_node *n);
/* Returns the value of KEY, or NULL if there is none or MAP is not a map, which was already
 * reported. */
struct config_node *config_get(const struct config_node *map, const char *key);
/*
 * Adds the problem "FILE:LINE:COLUMN: ..." for the node AT; NULL refers to the whole file. After
 * CONFIG_PROBLEMS_MAX problems, further ones are only counted.
 */
void config_complain(const struct config *c, const struct config_node *at, struct diag *d,
                     const char *fmt, ...) printf_like(4, 5);
/* Adds each line of SUB, the problems of what AT describes, to D, with the place AT and PREFIX. */
void config_complain_all(const struct config *c, const struct config_node *at, const char *prefix,
                         const struct diag *sub, struct diag *d);
/*
 * Checks PATH, the value of setting WHAT at AT (NULL: nothing is checked), as a file that the
 * program creates or appends to ("-": standard output). Its directory must exist, and PATH must not
 * be a directory. Write permission is not checked, as it depends on the user that the program runs
 * as.
 */
void config_check_output(const struct config *c, const struct config_node *at, const char *what,
                         const char *path, struct diag *d);
/* The same for a directory, which must also be writable for the current user. If MAY_BE_MISSING,
 * only its parent must exist, as the program creates it. */
void config_check_directory(const struct config *c, const struct config_node *at, const char *what,
                            const char *path, bool may_be_missing, struct diag *d);
