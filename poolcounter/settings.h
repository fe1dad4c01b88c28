/* SPDX-License-Identifier: Apache-2.0
 *
 * The daemon's settings as structs, made of settings.def. Plain values, owned by the configuration
 * that was read (configuration.h). Any thread.
 */
#ifndef RLB_POOLCOUNTER_SETTINGS_H
#define RLB_POOLCOUNTER_SETTINGS_H

#include "common/config/settings.h"
#include "common/program/admin_config.h"

struct poolcounter_settings {
#define PROGRAM(...) SETTINGS_FIELD(__VA_ARGS__)
#include "poolcounter/settings.def"
};
struct type_settings {
#define TYPE(...) SETTINGS_FIELD(__VA_ARGS__)
#include "poolcounter/settings.def"
};

extern const struct settings_table poolcounter_table, admin_table, type_table;
/* All of them, in the order of the manual. */
#define POOLCOUNTER_TABLES 3
extern const struct settings_table *const poolcounter_tables[POOLCOUNTER_TABLES];

#endif
