/* SPDX-License-Identifier: Apache-2.0
 *
 * One application: its settings (YAML and tree), its slots, its figures. Owned by the pool. Control
 * loop only.
 */
#ifndef RLB_AGENT_APP_GROUP_H
#define RLB_AGENT_APP_GROUP_H

#include "common/base/log.h"
#include "common/tree/settings_watch.h"
#include "worker-agent/agent_config.h"
#include "worker-agent/agent_stats.h"
#include "worker-agent/failures.h"

struct app_pool;
struct slot;

struct app_group {
    struct log_subject subject;
    struct app_pool *pool;
    const struct app_config *config; /* of the newest configuration */
    const struct app_settings *s;    /* in force: live's */
    struct live_settings *live;
    struct live_settings_counts told; /* what the figures have of its counts */
    char *name;
    char *path;      /* in the tree, as at start */
    char *advertise; /* host under which slots are registered, as at start; or NULL */
    struct stats *stats;
    struct stats_cell *cell;
    struct slot **slots;
    unsigned nslots;
    unsigned nmin;
    struct failures failures;   /* of its processes, by slot */
    struct addr *attach;        /* nslots, as at start; NULL: spawned */
    struct tree_memory *memory; /* of its node in the tree; NULL: no tree */
    struct settings_watch *watch;
};

struct app_group *app_group_create(struct app_pool *pool, const struct app_config *c);
/* Slots listen. False: logged. */
bool app_group_listen(struct app_group *g);
/* Register, watch the tree, start what is always there. After adoption. */
void app_group_start(struct app_group *g);
void app_group_configure(struct app_group *g, const struct app_config *c);
/* No process has it any more. */
void app_group_destroy(struct app_group *g);

static inline void group_count(const struct app_group *g, enum agent_stat row)
{
    stat_add(g->cell, row, 1);
}

#endif
