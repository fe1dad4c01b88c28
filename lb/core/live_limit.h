/* SPDX-License-Identifier: Apache-2.0
 *
 * One pool counter's settings as they change: YAML's, overlaid by its node in the tree, or the
 * node's alone. Owned by the application's limits_live; control thread.
 */
#ifndef RLB_LB_CORE_LIVE_LIMIT_H
#define RLB_LB_CORE_LIVE_LIMIT_H

#include "common/base/log.h"
#include "common/base/map.h"
#include "common/tree/live_settings.h"
#include "lb/config/configuration.h"
#include "lb/core/application.h"

/* Where YAML has it, when it does not. */
#define LIVE_LIMIT_NOWHERE SIZE_MAX

struct live_limit {
    struct log_subject subject;
    struct map_node node; /* in its owner's table, by name */
    struct application *app;
    char *name;
    char *path; /* the node's, for people */
    char *part; /* of the snapshot */
    struct live_settings *engine;
    struct live_settings_counts told; /* what the figures have of its counts */
    struct settings_watch *watch;     /* NULL: no tree */
    struct snapshot *snapshot;
    size_t place;     /* in YAML's list, or LIVE_LIMIT_NOWHERE */
    struct text page; /* YAML's */
    bool listed;      /* its node is among the tree's */
    bool recalled;    /* the snapshot had it; its engine has not taken that yet */
    bool crowded_out; /* beyond LIMIT_RULES_MAX */
    bool (*away)(struct application *a);
    void (*changed)(void *context);
    void *context;
};

struct live_limit_options {
    struct application *app;
    const char *name;                    /* copied */
    const char *parent;                  /* the path of the node above its own; copied */
    bool (*away)(struct application *a); /* whether the tree cannot be reached */
    void (*changed)(void *context);      /* something about it has; not inside of these calls */
    void *context;
};

/* YAML NULL: it does not have one. */
struct live_limit *live_limit_create(const struct live_limit_options *o,
                                     const struct limit_config *yaml, size_t place);
/* FORGET: its part of the snapshot is deleted as well. NULL is allowed. */
void live_limit_destroy(struct live_limit *r, bool forget);
/* YAML was read again; CONFIG is NULL if it does not have this counter. */
void live_limit_set_yaml(struct live_limit *r, const struct limit_config *config, size_t place);
/* Follow the node NODE_PATH from now on; T and M outlive that. */
void live_limit_watch(struct live_limit *r, struct tree *t, const char *node_path,
                      struct snapshot *m, uint64_t wait_ms);
void live_limit_unwatch(struct live_limit *r);

/* In force. */
const struct counter_settings *live_limit_now(const struct live_limit *r);
/*
 * Returns why the rule does not count anything, or NULL if it does. A rule that only the tree has
 * counts only if its node sets `workers`, and `key` or a pattern to match, all of them valid: an
 * overlay that is left after its YAML rule was removed must not become a rule for all requests.
 */
const char *live_limit_idle_reason(const struct live_limit *r);
/* Neither YAML nor the tree has it, nor is anything held. */
bool live_limit_is_over(const struct live_limit *r);
/* An object of the status page. */
void live_limit_describe(const struct live_limit *r, struct json_writer *w);

#endif
