/* SPDX-License-Identifier: Apache-2.0
 *
 * The live settings of one application: what YAML says, overlaid by its node in the tree. Each bad
 * property is refused alone and keeps its last good value; a node that vanished or broke holds what
 * it said for settings_hold. Owned by the application's membership; control thread.
 */
#ifndef RLB_LB_LIVE_SETTINGS_H
#define RLB_LB_LIVE_SETTINGS_H

#include "common/tree/tree.h"
#include "common/wire/json.h"
#include "lb/application.h"

struct live_settings;

/* CHANGED runs after each publication, on the control thread. */
struct live_settings *live_settings_create(struct application *app, const struct app_settings *yaml,
                                           const enum setting_origin *origins,
                                           void (*changed)(struct application *app));
void live_settings_destroy(struct live_settings *l);
/* SIGHUP: YAML says something else now. LOCAL rows stay as they were. */
void live_settings_set_yaml(struct live_settings *l, const struct app_settings *yaml,
                            const enum setting_origin *origins);
/* The application's node has changed. */
void live_settings_node(struct live_settings *l, const struct tree_node *node);
/* Members "settings", "refused" and "held" of the application's status. */
void live_settings_describe(const struct live_settings *l, struct json_writer *w);

#endif
