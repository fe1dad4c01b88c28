/* SPDX-License-Identifier: Apache-2.0
 *
 * One application: its settings (YAML and tree), its slots, its figures. Owned by the pool. Control
 * loop only.
 */
#ifndef RLB_AGENT_POOL_APP_GROUP_H
#define RLB_AGENT_POOL_APP_GROUP_H

#include "common/base/log.h"
#include "common/tree/live_settings.h"
#include "worker-agent/config/agent_config.h"
#include "worker-agent/pool/front_door.h"
#include "worker-agent/pool/pool_core.h"
#include "worker-agent/process/failures.h"
#include "worker-agent/process/process_usage.h"

struct app_pool;
struct http_listener;
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
    struct core_group core;
    struct slot **slots; /* as many as were ever wanted; the core uses the first max_processes */
    unsigned nslots;
    struct core_slot **core_slots; /* theirs */
    struct slot_address address;   /* as at start */
    bool has_address;
    bool started;              /* further slots are made as they are wanted */
    struct addr *attach;       /* as many as slots, as at start; NULL: spawned */
    struct core attach_core;   /* with attach: processes of others are in no budget */
    uint64_t replace_delay_ms; /* of the last back-off; 0: none */
    struct over_memory over_memory;
    uint64_t max_memory_bytes; /* the limit that that is about */
    /* The application's own addresses, as at start. */
    struct front_door door;
    struct addr *doors;
    struct http_listener **listeners;
    size_t ndoors;
    struct failures failures;              /* of its processes, by slot */
    struct restart_folder *restart_folder; /* NULL: none is watched */
    int64_t oldest_ns; /* wall clock: when the oldest process that was adopted was started */
    struct snapshot *snapshot; /* of its node in the tree; NULL: no tree */
    struct settings_watch *watch;
};

struct app_group *app_group_create(struct app_pool *pool, const struct app_config *c);
/* Slots and the application's own addresses listen. False: logged. */
bool app_group_listen(struct app_group *g);
void app_group_stop_listening(struct app_group *g);
/* Register, watch the tree, start what is always there. After adoption. */
void app_group_start(struct app_group *g);
void app_group_configure(struct app_group *g, const struct app_config *c);
/* The host's budget is another; core_tick() is the caller's. */
void app_group_budget_changed(struct app_group *g);
/* It has adopted a process that was started AGE_MS ago. Before app_group_start. */
void app_group_has_older(struct app_group *g, uint64_t age_ms);
/* Every process is replaced, one after the other, by one that starts from now on. */
void app_group_restart(struct app_group *g);
/* Whether each request gets a process that is started for it. */
void app_group_set_one_shot(struct app_group *g, bool one_shot);
/* No process has it any more. */
void app_group_destroy(struct app_group *g);

static inline void group_count(const struct app_group *g, enum agent_stat row)
{
    stat_add(g->cell, row, 1);
}

#endif
