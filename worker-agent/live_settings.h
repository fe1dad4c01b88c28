/* SPDX-License-Identifier: Apache-2.0
 *
 * An application's settings in force: those of the YAML file, with the LIVE ones that stand in its
 * node of the tree put above them. Embedded in the group. Control loop only.
 *
 * A property that is bad, or not LIVE, is refused alone and keeps its last good value. A check
 * across fields that fails refuses all that changed. A node that vanished or does not parse keeps
 * what it last said for settings_hold.
 */
#ifndef RLB_AGENT_LIVE_SETTINGS_H
#define RLB_AGENT_LIVE_SETTINGS_H

#include "common/tree/tree.h"
#include "worker-agent/settings.h"

struct live_settings {
    struct loop *loop;
    const void *subject;                /* for log lines */
    const struct app_settings *base;    /* YAML; borrowed */
    const enum setting_origin *origins; /* of the base; borrowed */
    struct app_settings now;            /* in force */
    enum setting_origin *now_origins;
    char **refusals; /* for each row why what stands in the tree is not in force; NULL: nothing is
                        wrong */
    json_t *properties; /* what the node last said; NULL: nothing */
    json_t *warned;     /* unknown names we have spoken of */
    struct timer hold;
    bool held;                                /* the node is not there, its last properties hold */
    uint64_t changes, refused;                /* counts */
    void (*changed)(struct live_settings *l); /* something in force has changed; counts too */
};

void live_settings_init(struct live_settings *l, struct loop *loop, const struct app_settings *base,
                        const enum setting_origin *origins);
void live_settings_fini(struct live_settings *l);
/* The YAML file was read anew. */
void live_settings_base(struct live_settings *l, const struct app_settings *base,
                        const enum setting_origin *origins);
/* The tree has spoken. */
void live_settings_node(struct live_settings *l, const struct tree_node *node, uint64_t hold_ms);

#endif
