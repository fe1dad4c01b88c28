/* SPDX-License-Identifier: Apache-2.0
 *
 * The agent's YAML file, completely read and checked. Owned by the caller of agent_config_read().
 * Each group borrows its application's part, which must outlive the group. Constant once read; any
 * thread.
 */
#ifndef RLB_AGENT_CONFIG_AGENT_CONFIG_H
#define RLB_AGENT_CONFIG_AGENT_CONFIG_H

#include "common/net/networks.h"
#include "common/tls/tls_listener.h"
#include "worker-agent/config/app_config.h"

enum {
    APPS_MAX = 1000,
    /* Bytes of the 107 of a path that a unix socket in state_dir/run needs: "/run/", 16 hex digits,
       "/s". */
    STATE_DIR_MAX = 107 - 5 - 16 - 2,
};

struct supervisor_rights;

struct agent_config {
    struct config yaml;
    struct agent_settings s;
    enum setting_origin *origins; /* of each row of agent_table */
    char *host_path; /* the host's node in the tree; NULL: its name cannot be a node's */
    struct admin_config admin;
    struct privileges own; /* of the agent itself: setting user */
    struct networks allow;
    struct tls_listener *tls; /* NULL: plain; front_create and front_configure take it out */
    struct app_config **apps;
    size_t napps;
    struct supervisor_rights *users; /* NULL: the agent has no user, or root */
};

/* Every problem goes to D; NULL when there was any. */
struct agent_config *agent_config_read(const char *file, struct diag *d);
void agent_config_destroy(struct agent_config *c);
const struct app_config *agent_config_app(const struct agent_config *c, const char *name);

#endif
