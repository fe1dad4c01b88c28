/* SPDX-License-Identifier: Apache-2.0
 *
 * The live settings of one application: the engine of common/tree/live_settings.h over its two
 * tables, its rules across fields, its snapshots and figures. Owned by the application's
 * membership; control thread.
 */
#ifndef RLB_LB_CORE_APPLICATION_LIVE_H
#define RLB_LB_CORE_APPLICATION_LIVE_H

#include "common/tree/live_settings.h"
#include "lb/config/configuration.h"
#include "lb/core/application.h"

struct application_live;

/*
 * PATH: its node in the tree, for people. CHANGED runs after each publication; AWAY is whether
 * the tree cannot be reached. Both on the control thread; the latter may be NULL.
 */
struct application_live *application_live_create(struct application *a,
                                                 const struct application_config *config,
                                                 const char *path,
                                                 void (*changed)(struct application *a),
                                                 bool (*away)(struct application *a));
void application_live_destroy(struct application_live *l);
/* For the tree, the memory, a reload and the status page. */
struct live_settings *application_live_engine(struct application_live *l);
/*
 * Adds to A's metrics the difference between NOW, the counts of live settings, and the counts that
 * were added before (the last parameter), which are then set to NOW.
 */
void application_count_settings(struct application *a, const struct live_settings_counts *now,
                                struct live_settings_counts *reported);
void application_live_describe(const struct application_live *l, struct json_writer *w);

#endif
