/* SPDX-License-Identifier: Apache-2.0
 *
 * The daemon's YAML file, completely read and checked, or the defaults if there is none. Owned by
 * the caller of configuration_read. Constant after that; any thread.
 */
#pragma once

#include "common/config/settings.h"
#include "common/counters/counter.h"
#include "common/net/addr.h"
#include "common/program/program_config.h"

enum {
    /* Maximum length of a type's name in the configuration [bytes]: part of a key, which is limited
     * by the line. */
    TYPE_NAME_MAX = 255,
    /* Maximum number of entries of `types`, limited by the table. */
    TYPES_CONFIGURED_MAX = COUNTER_LIMITED_MAX,
    /* Maximum number of listening addresses: -l, `listen`, or inherited. */
    LISTENERS_MAX = 64,
};

/* The settings of settings.def. */
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

struct type_limit {
    char *name;
    struct counter_limits limits;
};

struct poolcounter_config {
    struct config yaml;
    struct poolcounter_settings s;
    struct admin_config admin;
    struct addr listen[LISTENERS_MAX];
    size_t nlisten;
    unsigned listen_mode;
    struct type_limit *types;
    size_t ntypes;
};

/* Reads FILE (NULL: all defaults), or, if TEXT is not NULL, that; FILE is then used in messages.
 * Adds every problem to D; returns NULL if there is any. */
struct poolcounter_config *configuration_read(const char *file, const struct slice *text,
                                              struct diag *d);
/* CONFIG, a struct poolcounter_config, may be NULL. */
void configuration_destroy(void *config);

/*
 * The original's options besides those that all programs take: -l, which may be given several
 * times, and -p. A value, all zero at first; any thread.
 */
struct command_line {
    const char *addresses[LISTENERS_MAX]; /* of each -l */
    size_t naddresses;
    uint16_t port; /* 0: the default */
    bool has_port;
    struct addr listen[LISTENERS_MAX];
    size_t nlisten; /* 0: neither -l nor -p is given */
};

/* Handles -l or -p. Returns false if it is invalid. */
bool command_line_option(void *line, int letter, const char *value);
/* Fills `listen` after all options. Returns false if one is not a valid address, after printing
 * that to stderr. */
bool command_line_finish(void *line);
