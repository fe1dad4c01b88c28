/* SPDX-License-Identifier: Apache-2.0
 *
 * The limits of one application as they change: those of YAML, each overlaid by the node
 * limits/NAME of the application's node, and those that only the tree has. The effective
 * settings are published in the application's snapshot. Owned by the application's membership;
 * control thread. A counter that is still held outlives it.
 *
 * And the status of limits: what each one counts, the daemons as the loops' clients see
 * them, and the stored responses. Counters that no limit names any more are not included, though
 * requests may still hold them. Views are copies. The view of a counter's table is consistent: it
 * is copied under the counter's mutex, without allocating or writing. The metrics beside it (struct
 * limit_figures) are read one by one.
 */
#pragma once

#include "common/base/json.h"
#include "common/counters/pool_counter_health.h"
#include "common/tree/snapshot.h"
#include "lb/config/configuration.h"
#include "lb/core/application.h"
#include "lb/limits/limit.h"

struct limits_live;

/* Makes the limits of YAML effective. PATH is the application's node; "": the root; copied. */
struct limits_live *limits_live_create(struct application *a, const struct limit_configs *yaml,
                                       const char *path);
/* The application has no limits after this; leases in progress continue. L may be NULL. */
void limits_live_destroy(struct limits_live *l);
/*
 * Follow the tree T from now on, and store its values in M; both must be valid until
 * limits_live_stop.
 *   wait_ms  how long the tree may take to respond; then the values of M become effective
 */
void limits_live_start(struct limits_live *l, struct tree *t, struct snapshot *m, uint64_t wait_ms);
/* Harmless when not started. */
void limits_live_stop(struct limits_live *l);
/* SIGHUP: limits are added, changed and removed at the end of this turn. */
void limits_live_set_yaml(struct limits_live *l, const struct limit_configs *yaml);
/* The application's own settings have changed. */
void limits_live_settings_changed(struct limits_live *l);
/* Member "limits" of the application's status: a list, in the order they are acquired. */
void limits_live_describe(const struct limits_live *l, struct json_writer *w);

/* ---- status ---- */

enum { LIMIT_TOP_KEYS = 10 /* rows of the table of keys: what fits a page */ };

/* A key that requests have waited for. */
struct limit_key_view {
    size_t len;
    char key[LIMIT_KEY_MAX];
    uint64_t waited_us; /* at most this, and at least this less over_us */
    uint64_t over_us;
    uint64_t waits;
};

struct limit_keys_view {
    struct limit_key_view longest;             /* the key held longest; length 0: none is held */
    struct limit_key_view top[LIMIT_TOP_KEYS]; /* most waited for first */
    size_t n;
};

struct limit_view {
#define LIMIT_FIGURE(member, ...) uint64_t member;
#include "lb/core/limit_figure.def"
    uint64_t daemon_held, daemon_waiting; /* of HELD and WAITING: at the daemon */
};

/*
 * What LIMIT's counter counts.
 *   keys    NULL: not required
 *   now_us  monotonic
 * Cost: O(TOPK_ENTRIES log of them) under the counter's mutex with KEYS, else O(1).
 */
void limit_view(const struct limit *limit, uint64_t now_us, struct limit_view *out,
                struct limit_keys_view *keys);

/* A daemon, over all loops. */
struct limit_daemon_view {
    struct slice name; /* borrowed from the settings */
    struct addr addr;
    struct pool_counter_daemon_state now;
};

/* The daemons of A's settings, to OUT, which has room for POOL_COUNTER_SERVERS_MAX. Returns how
 * many. */
size_t limit_daemons(const struct application *a, struct limit_daemon_view *out);

/* Member "figures" of counter NAME: its effective settings and counts; null: no effective limit. */
void limit_status_put(const struct application *a, const char *name, struct json_writer *w);
/* "pool_counter_servers" and "stored_responses", members of the application's object. */
void limit_status_describe(const struct application *a, struct json_writer *w);
