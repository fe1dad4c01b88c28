/* SPDX-License-Identifier: Apache-2.0
 *
 * What the programs' configuration files have in common: addresses, the mode of a unix socket, and
 * `admin`.
 */
#pragma once

#include "common/config/config.h"
#include "common/config/setting.h"
#include "common/config/settings.h"
#include "common/net/addr.h"

/* Returns a message for an address that addr_parse() rejected with E. */
const char *config_addr_problem(enum err e);
/* Parses TEXT, the address of setting WHAT at AT. Returns false after adding a problem to D. */
bool config_read_addr(const struct config *file, const struct config_node *at, const char *what,
                      const char *text, struct addr *out, struct diag *d);
/* Returns item I of the list AT, the position of a problem; AT if it is a single value, or NULL. */
const struct config_node *config_item(const struct config_node *at, size_t i);
/* Returns the node of setting NAME in MAP (may be NULL), or OTHERWISE if it is not given. */
const struct config_node *config_node_at(const struct config_node *map, const char *name,
                                         const struct config_node *otherwise);
/* Logs each setting of T that differs between OLD and NEW and needs a restart, except BUT. */
void config_warn_of_restart(const struct settings_table *t, const void *old, const void *new,
                            const char *but);
/*
 * Adds a problem to D if A, item I of the list or value AT of setting WHAT, overlaps one of the N
 * addresses OTHERS of setting OTHER, as a program cannot listen at both.
 */
void config_addr_check_free(const struct config *file, const struct config_node *at, size_t i,
                            const char *what, const struct addr *a, const char *other,
                            const struct addr *others, size_t n, struct diag *d);
/* Converts decimal digits as written (660) to an octal mode. Returns false if one is not octal. */
bool config_octal(int64_t written, unsigned *mode);

/* ---- `admin`: a value, owned by the configuration; constant once read; any thread ---- */

struct admin_settings {
#define ADMIN(...) SETTINGS_FIELD(__VA_ARGS__)
#define ADMIN_ACTIONS(...) SETTINGS_FIELD(__VA_ARGS__)
#include "common/program/admin_settings.def"
};

struct admin_config {
    struct admin_settings s;
    struct addr *addresses;
    size_t n; /* 0: no admin address */
};

/* Reads NODE of FILE (NULL: no admin address) by TABLE, the rows of admin_settings.def; adds
 * problems to D. OUT must be passed to admin_config_fini in any case. */
void admin_config_read(const struct settings_table *table, const struct config *file,
                       const struct config_node *node, struct admin_config *out, struct diag *d);
/* Like config_addr_check_free(), for the admin addresses of C. */
void admin_config_check_free(const struct admin_config *c, const struct config *file,
                             const struct config_node *node, const char *other,
                             const struct addr *others, size_t n, struct diag *d);
bool admin_config_same_addresses(const struct admin_config *a, const struct admin_config *b);
void admin_config_fini(const struct settings_table *table, struct admin_config *c);
