/* SPDX-License-Identifier: Apache-2.0
 *
 * The agent's YAML file, completely read and checked. Owned by the caller of agent_config_read().
 * Each group borrows its application's part, which must outlive the group. Constant once read; any
 * thread.
 */
#ifndef RLB_AGENT_CONFIG_AGENT_CONFIG_H
#define RLB_AGENT_CONFIG_AGENT_CONFIG_H

#include <sys/types.h>

#include "common/net/networks.h"
#include "common/program/privileges.h"
#include "common/tls/tls_listener.h"
#include "worker-agent/config/settings.h"
#include "worker-agent/config/slot_address.h"

enum {
    /* Letters of an application's name: it becomes a folder, a node and a log word. */
    APP_NAME_MAX = 64,
    APPS_MAX = 1000,
    /* Further groups of a user. */
    APP_GROUPS_MAX = 64,
    /* Words of a command; variables of an environment; bytes of all of them as JSON, with what they
       inherit. */
    APP_WORDS_MAX = 1000,
    APP_WORDS_BYTES_MAX = 128 * 1024,
    /* What a unix socket in state_dir/run needs of a path's 107 bytes: "/run/", 16 hex digits,
       "/s". */
    STATE_DIR_MAX = 107 - 5 - 16 - 2,
};

/* How a process comes by its listening socket. */
enum listen_mode {
    LISTEN_INHERITED_UNIX,
    LISTEN_INHERITED_TCP,
    LISTEN_BY_PORT,  /* {port} */
    LISTEN_BY_SOCKET /* {socket} */
};

struct keeper_rights;

struct env_var {
    char *name, *value;
};

struct app_config {
    char *name;
    struct app_settings s;
    enum setting_origin *origins; /* of each row of app_table */
    struct env_var *env;          /* what the file gives */
    size_t nenv;
    struct slot_address address;
    bool has_address;
    struct addr *doors; /* its own addresses: `listen` */
    size_t ndoors;
    unsigned nslots;     /* at start */
    struct addr *attach; /* nslots of them, or NULL */
    enum listen_mode listen;
    char *path; /* in the tree */
    bool switch_user;
    const char *login; /* the user's name; NULL: the user that started the agent */
    char *home;        /* of the user, or NULL */
    uid_t uid;
    gid_t gid;
    gid_t groups[APP_GROUPS_MAX];
    int ngroups;
    char spec[FINGERPRINT_LEN + 1]; /* hash of all that a process is started with */
};

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
    struct keeper_rights *users; /* NULL: the agent has no user, or root */
};

/* Every problem goes to D; NULL when there was any. */
struct agent_config *agent_config_read(const char *file, struct diag *d);
void agent_config_destroy(struct agent_config *c);
const struct app_config *agent_config_app(const struct agent_config *c, const char *name);

#endif
