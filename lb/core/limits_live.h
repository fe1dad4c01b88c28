/* SPDX-License-Identifier: Apache-2.0
 *
 * The pool counters of one application as they change: those of YAML, each overlaid by the node
 * pool-counters/NAME of the application's node, and those that only the tree has. The effective
 * settings are published in the application's snapshot. Owned by the application's membership;
 * control thread. A counter that is still held outlives it.
 */
#ifndef RLB_LB_CORE_LIMITS_LIVE_H
#define RLB_LB_CORE_LIMITS_LIVE_H

#include "common/base/json.h"
#include "common/tree/snapshot.h"
#include "lb/config/configuration.h"
#include "lb/core/application.h"

struct limits_live;

/*
 * Makes the rules of YAML effective.
 *   path  the application's node, "" is the tree's root; copied
 */
struct limits_live *limits_live_create(struct application *a, const struct limit_configs *yaml,
                                       const char *path);
/* The application has no pool counters after this; claims in progress continue. L may be NULL. */
void limits_live_destroy(struct limits_live *l);
/*
 * Follow the tree T from now on, and store its values in M; both must be valid until
 * limits_live_stop.
 *   wait_ms  how long the tree may take to answer; then the values of M become effective
 */
void limits_live_start(struct limits_live *l, struct tree *t, struct snapshot *m, uint64_t wait_ms);
/* Harmless when not started. */
void limits_live_stop(struct limits_live *l);
/* SIGHUP: rules are added, changed and removed at the end of this turn. */
void limits_live_set_yaml(struct limits_live *l, const struct limit_configs *yaml);
/* The application's own settings have changed. */
void limits_live_settings_changed(struct limits_live *l);
/* Member "limits" of the application's status: a list, in the order they are acquired. */
void limits_live_describe(const struct limits_live *l, struct json_writer *w);

#endif
