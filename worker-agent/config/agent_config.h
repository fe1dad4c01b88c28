/* SPDX-License-Identifier: Apache-2.0
 *
 * The agent's YAML file, completely read and checked, and what an application's processes are
 * started with: the command, its environment, and {port} and {socket} in them. Owned by the caller
 * of agent_config_read(). Each group borrows its application's part, which must outlive the group.
 * Constant once read; any thread.
 */
#pragma once

#include <jansson.h>

#include "common/net/networks.h"
#include "common/program/privileges.h"
#include "common/tls/tls_listener.h"
#include "worker-agent/config/settings.h"
#include "worker-agent/config/supervisor_rights.h"

enum {
    APPS_MAX = 1000,
    /* Bytes of an application's name, which is used as a directory, a node and a log field. */
    APP_NAME_MAX = 64,
    /* Words of a command; variables; bytes of all of them as JSON, with what is inherited. */
    APP_WORDS_MAX = 1000,
    APP_WORDS_BYTES_MAX = 128 * 1024,
    /* The 107 bytes of a unix socket's path without "/run/", 16 hex digits, and "/s". */
    STATE_DIR_MAX = 107 - 5 - 16 - 2,
};

/* The agent's own files in state_dir, beside the directories of applications, which must have other
 * names. Agents and supervisors of other versions use the same names. */
#define AGENT_LOCK_NAME "agent.lock"
#define HOST_MEMORY_NAME "tree.json"
#define SUPERVISOR_SOCKET_NAME "supervisor.sock"
#define SUPERVISOR_LOCK_NAME "supervisor.lock"
#define SUPERVISOR_RUN_NAME "run"

/* How a process gets its listening socket. */
enum listen_mode {
    LISTEN_INHERITED_UNIX,
    LISTEN_INHERITED_TCP,
    LISTEN_BY_PORT,  /* {port} */
    LISTEN_BY_SOCKET /* {socket} */
};

struct env_var {
    char *name, *value;
};

struct app_config {
    char *name;
    struct agent_app_settings s;
    enum setting_origin *origins; /* of each row of app_table */
    struct env_var *env;          /* what the file gives */
    size_t nenv;
    struct slot_address address;
    bool has_address;
    struct addr *listen_addrs; /* its own addresses: `listen` */
    size_t nlisten_addrs;
    unsigned nslots;     /* at start */
    struct addr *attach; /* nslots of them, or NULL */
    enum listen_mode listen;
    char *path;             /* in the tree */
    struct privileges user; /* of its processes; not required: the supervisor's. uid is set */
    const char *login;      /* the user's name; NULL: the user that started the agent */
    char *home_directory;   /* of the user, or NULL */
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
    struct tls_listener *tls; /* NULL: plain; front_create takes ownership */
    struct app_config **apps;
    size_t napps;
    struct supervisor_rights *users; /* NULL: the agent has no user, or root */
};

/* Returns NULL after any error; all are added to D. Ownership passes to the caller. */
struct agent_config *agent_config_read(const char *file, struct diag *d);
void agent_config_destroy(struct agent_config *c);
const struct app_config *agent_config_app(const struct agent_config *c, const char *name);

/* The number of slots that C has addresses for; no limit without addresses. */
unsigned app_config_room(const struct app_config *c);
/* Returns the number of slots of C's application with settings S. Not applicable with attach. */
unsigned app_config_slots(const struct app_config *c, const struct agent_app_settings *s,
                          unsigned host_max);

/* ---- the command ---- */

/* Sets c->listen and checks the bounds. Returns false with the reason in WHY. */
bool command_check(struct app_config *c, char why[SETTINGS_WHY_ROOM]);
/* A hash of everything that processes are started with: an adopted one with another is replaced. */
void command_spec(const struct app_config *c, char out[FINGERPRINT_LEN + 1]);
/* New lists of texts: the words; and "NAME=value" of the whole environment. */
json_t *command_words(const struct app_config *c);
json_t *command_environment(const struct app_config *c);
/* A copy of WORD with each PLACE ("{port}") replaced. */
char *command_replace(const char *word, const char *place, const char *with);
