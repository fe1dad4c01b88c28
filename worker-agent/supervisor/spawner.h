/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting one application process, in the supervisor: a fresh listening socket, clean descriptors,
 * user, environment, exec. Single-threaded process only; blocks for a fork.
 */
#ifndef RLB_AGENT_SUPERVISOR_SPAWNER_H
#define RLB_AGENT_SUPERVISOR_SPAWNER_H

#include <jansson.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "common/base/limits.h"
#include "worker-agent/config/app_config.h"
#include "worker-agent/config/supervisor_rights.h"
#include "worker-agent/supervisor/supervisor_wire.h"

struct spawn_request {
    char id[INCARNATION_MAX + 1]; /* the incarnation, at least 16 bytes */
    char application[APP_NAME_MAX + 1];
    char spec[FINGERPRINT_LEN + 1];
    unsigned slot;
    enum listen_mode listen;
    char **words; /* NULL-terminated */
    size_t nwords;
    char **env;
    size_t nenv;
    char *root;
    struct privileges user; /* not wanted: the supervisor's */
    uint64_t stop_timeout_ms;
};

/* The message of a request (new), and back; WHY has the reason why a message is invalid. */
json_t *spawn_request_message(const struct app_config *c, unsigned slot, const char *id,
                              uint64_t stop_timeout_ms);
bool spawn_request_parse(const json_t *message, struct spawn_request *out,
                         char why[SUPERVISOR_WHY_MAX]);
void spawn_request_fini(struct spawn_request *r);

/* The supervisor's state of a spawned process. */
struct spawned {
    pid_t pid;
    char address[ADDR_TEXT_MAX]; /* where it serves */
    char *path;                  /* unix socket to unlink at its end, or NULL */
    char *directory;             /* to remove after that, or NULL */
    int listen_fd;               /* -1: it binds itself */
    int output_fd;               /* read ends: stdout and stderr; */
    int error_fd;                /* and why exec failed */
};

struct spawner {
    char *run_dir;
    pid_t supervisor;
    mode_t umask;         /* for the processes: what the agent had, as the supervisor has its own */
    struct rlimit nofile; /* the same */
    unsigned last_ports[64]; /* given out by {port} lately: not given to the next one */
    unsigned next_port;
    /* The users that processes may have, where the agent has a user that is not ours; NULL: all
       that the process can switch to. */
    const struct supervisor_rights *rights;
};

/* ERR_SYSTEM; ERR_UNSUPPORTED: a user that is not permitted; the reason is in WHY. */
enum err spawner_start(struct spawner *s, const struct spawn_request *r, struct spawned *out,
                       char why[SUPERVISOR_WHY_MAX]) must_check;
/*
 * The process has died (and is not reaped yet, so that its pid is still its own): kill what is left
 * of its group, and see to it that nothing in its socket's backlog is ever accepted.
 */
void spawner_bury(struct spawned *p);

#endif
