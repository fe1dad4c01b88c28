/* SPDX-License-Identifier: Apache-2.0 */
#include "poolcounter/settings.h"

static const struct setting_row poolcounter_rows[] = {
#define PROGRAM(...) SETTINGS_ROW(struct poolcounter_settings, __VA_ARGS__)
#include "poolcounter/settings.def"
};
static const struct setting_row admin_rows[] = {
#define ADMIN(...) SETTINGS_ROW(struct admin_settings, __VA_ARGS__)
#include "common/program/admin_settings.def"
};
static const struct setting_row type_rows[] = {
#define TYPE(...) SETTINGS_ROW(struct type_settings, __VA_ARGS__)
#include "poolcounter/settings.def"
};

#define TABLE(...) SETTINGS_TABLE_OF(poolcounter_tables, POOLCOUNTER_TABLES, __VA_ARGS__)
TABLE(poolcounter, "PROGRAM", "the top of the file", struct poolcounter_settings);
TABLE(admin, "ADMIN", "admin", struct admin_settings);
TABLE(type, "TYPE", "types.NAME", struct type_settings);

const struct settings_table *const poolcounter_tables[POOLCOUNTER_TABLES] = {
    &poolcounter_table, &admin_table, &type_table};
