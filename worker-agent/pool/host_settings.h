/* SPDX-License-Identifier: Apache-2.0
 *
 * The settings of the whole host: the top of the file, overridden by the host's node of the tree
 * for LIVE settings. Owned by the pool; the tree outlives it. Control loop only.
 */
#ifndef RLB_AGENT_POOL_HOST_SETTINGS_H
#define RLB_AGENT_POOL_HOST_SETTINGS_H

#include "common/tree/live_settings.h"
#include "worker-agent/config/agent_config.h"

struct host_settings;

struct host_settings_options {
    struct loop *loop;
    struct tree *tree;     /* NULL: none; then the file is all there is */
    const char *tree_url;  /* NULL: none; borrowed */
    const char *state_dir; /* where tree.json stores the last contents of the node; borrowed */
    uint64_t wait_ms;      /* how long the tree may take to answer at a start */
    /* An effective value has changed. Called inside host_settings_start() and
     * host_settings_configure(), or when the tree changes. */
    void (*changed)(void *context);
    void *context;
};

/* As C, read at the start, has it. C is borrowed for the call. */
struct host_settings *host_settings_create(const struct host_settings_options *o,
                                           const struct agent_config *c);
/*
 * Follow the node. Its values cached by a previous run are effective at once, and not only after
 * the tree has failed to answer in time: under a smaller maximum of the file, processes that have
 * just been taken over would be ended unnecessarily.
 */
void host_settings_start(struct host_settings *h);
/* Applies a re-read configuration. */
void host_settings_configure(struct host_settings *h, const struct agent_config *c);
/* NULL is fine. */
void host_settings_destroy(struct host_settings *h);

/* The effective settings; the pointer never changes. NODEs are NULL. */
const struct agent_settings *host_settings_now(const struct host_settings *h);
void host_settings_counts(const struct host_settings *h, struct live_settings_counts *out);
/* Members "path" (null: the host has no node) and those of live_settings_describe(). */
void host_settings_describe(const struct host_settings *h, struct json_writer *w);

#endif
