/* SPDX-License-Identifier: Apache-2.0
 *
 * The daemon's YAML file, read and checked whole, or the defaults where there is none. Owned by who
 * read it. Constant once read; any thread.
 */
#ifndef RLB_POOLCOUNTER_CONFIGURATION_H
#define RLB_POOLCOUNTER_CONFIGURATION_H

#include "common/limiter/counter.h"
#include "common/net/addr.h"
#include "common/program/privileges.h"
#include "poolcounter/settings.h"

enum {
    /* Bytes of a type's name in the configuration: a part of a key, which a line bounds. */
    TYPE_NAME_MAX = 255,
    /* Entries of `types`: as many as a table takes. */
    TYPES_CONFIGURED_MAX = COUNTER_LIMITED_MAX,
    /* Addresses listened at: -l, `listen`, or inherited. */
    LISTENERS_MAX = 64,
};

struct type_limit {
    char *name;
    struct counter_limits limits;
};

struct configuration {
    struct config yaml;
    struct poolcounter_settings s;
    struct privileges rights; /* of `user` */
    struct admin_config admin;
    struct addr listen[LISTENERS_MAX];
    size_t nlisten;
    unsigned listen_mode;
    struct type_limit *types;
    size_t ntypes;
};

/* Read FILE; NULL: all defaults. Every problem goes to D; NULL when there is any. */
struct configuration *configuration_read(const char *file, struct diag *d);
/* The same from memory; FILE is for messages. */
struct configuration *configuration_parse(const char *file, struct slice text, struct diag *d);
/* NULL is fine. */
void configuration_destroy(struct configuration *c);

#endif
