/* SPDX-License-Identifier: Apache-2.0
 *
 * `admin` in the configuration of every server. A value, owned by the configuration; constant once
 * read; any thread.
 */
#ifndef RLB_PROGRAM_ADMIN_CONFIG_H
#define RLB_PROGRAM_ADMIN_CONFIG_H

#include "common/config/config.h"
#include "common/config/settings.h"
#include "common/net/addr.h"

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

/* Read NODE of FILE (NULL: no admin address) by TABLE, of rows of admin_settings.def; problems to
 * D. OUT is to be given to admin_config_fini in any case. */
void admin_config_read(const struct settings_table *table, const struct config *file,
                       const struct config_node *node, struct admin_config *out, struct diag *d);
/* A program cannot listen at an admin address where it already does at one of the N OTHERS, which
 * OTHER names. */
void admin_config_check_free(const struct admin_config *c, const struct config *file,
                             const struct config_node *node, const char *other,
                             const struct addr *others, size_t n, struct diag *d);
bool admin_config_same_addresses(const struct admin_config *a, const struct admin_config *b);
void admin_config_fini(const struct settings_table *table, struct admin_config *c);

#endif
