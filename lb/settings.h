/* SPDX-License-Identifier: Apache-2.0
 *
 * The load balancer's settings as structs, made of settings.def, and the immutable snapshots in which
 * an application's live ones are published. A snapshot is reference counted; each loop holds the one it
 * works with and changes it between turns (application.h).
 */
#ifndef RLB_LB_SETTINGS_H
#define RLB_LB_SETTINGS_H

#include "common/base/settings.h"
#include "lb/pool.h"

struct program_settings {
#define PROGRAM(...) SETTINGS_FIELD(__VA_ARGS__)
#include "lb/settings.def"
};
struct listen_settings {
#define LISTEN(...) SETTINGS_FIELD(__VA_ARGS__)
#include "lb/settings.def"
};
struct tls_settings {
#define TLS(...) SETTINGS_FIELD(__VA_ARGS__)
#include "lb/settings.def"
};
struct admin_settings {
#define ADMIN(...) SETTINGS_FIELD(__VA_ARGS__)
#include "lb/settings.def"
};
/* Scopes APPLICATION and POOL in one struct: in the tree they stand side by side. */
struct app_settings {
#define APPLICATION(...) SETTINGS_FIELD(__VA_ARGS__)
#define POOL(...) SETTINGS_FIELD(__VA_ARGS__)
#include "lb/settings.def"
};
struct worker_settings {
#define WORKER(...) SETTINGS_FIELD(__VA_ARGS__)
#include "lb/settings.def"
};

extern const struct settings_table program_table, listen_table, tls_table, admin_table, application_table, pool_table,
    worker_table;

enum { FORWARDED_SET, FORWARDED_APPEND, FORWARDED_OFF };
enum { RESUME_FROM_AUTO, RESUME_FROM_STREAM, RESUME_FROM_MEASURE };

struct app_snapshot {
    _Atomic unsigned refs;
    struct app_settings s;
};
void app_snapshot_unref(struct app_snapshot *s);

#endif
