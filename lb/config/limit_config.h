/* SPDX-License-Identifier: Apache-2.0
 *
 * `pool_counters` of an application in the configuration file: read and checked, page files
 * included. Owned by the application's configuration.
 */
#ifndef RLB_LB_CONFIG_LIMIT_CONFIG_H
#define RLB_LB_CONFIG_LIMIT_CONFIG_H

#include "lb/settings/settings.h"

struct application_config;
struct configuration;

struct limit_config {
    char *name;
    struct counter_settings s;
    enum setting_origin *origins; /* rows of counter_table, then those of match_table */
    struct text page;             /* what s.page names; empty: nothing */
};

struct limit_configs {
    struct limit_config *items; /* in the file's order */
    size_t n;
};

/* A's pool counters, and its pool_counter_servers; problems to D, each at its place. */
void limit_configs_read(struct configuration *c, struct application_config *a, struct diag *d);
void limit_configs_fini(struct limit_configs *l);

#endif
