/* SPDX-License-Identifier: Apache-2.0 */
#include "poolcounter/settings.h"

static const struct setting_row program_rows[] = {
#define PROGRAM(...) SETTINGS_ROW(struct poolcounter_settings, __VA_ARGS__)
#include "poolcounter/settings.def"
};
static const struct setting_row admin_rows[] = {
#define ADMIN(...) SETTINGS_ROW(struct admin_settings, __VA_ARGS__)
#include "poolcounter/settings.def"
};
static const struct setting_row type_rows[] = {
#define TYPE(...) SETTINGS_ROW(struct type_settings, __VA_ARGS__)
#include "poolcounter/settings.def"
};

const struct settings_table poolcounter_table = {"PROGRAM", "the top of the file", program_rows,
                                                 ARRAY_LEN(program_rows),
                                                 sizeof(struct poolcounter_settings)};
const struct settings_table admin_table = {"ADMIN", "admin", admin_rows, ARRAY_LEN(admin_rows),
                                           sizeof(struct admin_settings)};
const struct settings_table type_table = {"TYPE", "types.NAME", type_rows, ARRAY_LEN(type_rows),
                                          sizeof(struct type_settings)};
