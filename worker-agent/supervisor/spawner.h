/* SPDX-License-Identifier: Apache-2.0
 *
 * The supervisor's processes: starting one (new listening socket, clean descriptors, user,
 * environment, exec), and the existing ones. Single-threaded process only; blocks for a fork.
 */
#pragma once

#include <jansson.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "common/base/limits.h"
#include "common/base/list.h"
#include "worker-agent/config/agent_config.h"
#include "worker-agent/config/supervisor_rights.h"

enum {
    SUPERVISOR_VERSION = 2,
    /* Processes of one supervisor. */
    SUPERVISOR_PROCESSES_MAX = 4096,
    /* The cause of death of a process, or the reason of a start error. */
    SUPERVISOR_WHY_MAX = 200,
};

/* The "how" of a process that exited with status 0. */
#define SUPERVISOR_EXIT_SUCCESS "exit 0"

struct spawn_request {
    char id[INSTANCE_MAX + 1]; /* the instance, at least 16 bytes */
    char application[APP_NAME_MAX + 1];
    char spec[FINGERPRINT_LEN + 1];
    unsigned slot;
    enum listen_mode listen;
    json_t *words, *env; /* lists of texts, borrowed from the message; as is root */
    const char *root;
    struct privileges user; /* not required: the supervisor's */
    uint64_t stop_timeout_ms;
};

/* Copies member NAME of M. Returns false if it is not a text that fits. */
bool message_text(const json_t *m, const char *name, char *out, size_t room);
/* The message of a request (new), and back; WHY has the reason why a message is invalid. */
json_t *spawn_request_message(const struct app_config *c, unsigned slot, const char *id,
                              uint64_t stop_timeout_ms);
bool spawn_request_parse(json_t *message, struct spawn_request *out, char why[SUPERVISOR_WHY_MAX]);

/* The supervisor's state of a spawned process. */
struct spawned {
    pid_t pid;
    char address[ADDR_TEXT_MAX]; /* where it serves */
    char *path;                  /* unix socket to unlink at its end, or NULL */
    char *directory;             /* to remove after that, or NULL */
    int listen_fd;               /* -1: it binds itself */
    int output_fd;               /* read ends: stdout and stderr; */
    int error_fd;                /* the reason why exec failed */
};

struct spawner {
    char *run_dir;
    pid_t supervisor;
    mode_t umask;         /* for the processes: what the agent had, as the supervisor has its own */
    struct rlimit nofile; /* for the processes, too */
    unsigned last_ports[64]; /* of the last processes with {port}: not used again yet */
    unsigned next_port;
    /* The users that processes may have; NULL: all that the process can switch to. */
    const struct supervisor_rights *rights;
};

/* Starts a process. On error, WHY has the reason; ERR_UNSUPPORTED: the user is not permitted. */
enum err spawner_start(struct spawner *s, const struct spawn_request *r, struct spawned *out,
                       char why[SUPERVISOR_WHY_MAX]) must_check;
/*
 * Must be called after P has died and before it is reaped, while its pid is not reused. Kills the
 * rest of its group, and closes the connections in the backlog of its socket.
 */
void spawner_clean_up(struct spawned *p);

/* ---- the processes that a supervisor has, and how they are signalled ---- */

/*
 * During an upgrade (supervisor.h), the old agent may still have requests at a process (`busy`,
 * which it reports): SIGTERM then waits until these have finished, SIGKILL does not.
 */
struct child { /* one process */
    struct list node;
    char id[INSTANCE_MAX + 1];
    char application[APP_NAME_MAX + 1];
    char spec[FINGERPRINT_LEN + 1];
    char *note;
    unsigned slot;
    uint64_t stop_timeout_ms;
    uint64_t started_ms;
    uint64_t kill_ms;   /* while ending: when SIGTERM turns into SIGKILL */
    uint64_t agent;     /* number of the agent that had it started */
    unsigned busy;      /* requests that the agent before the present one has at it */
    bool term_deferred; /* SIGTERM as soon as it is not busy */
    struct spawned spawned;
};

/* Adds a process with an empty note; ownership of what SPAWNED has passes to it. */
struct child *child_add(struct list *all, const struct spawn_request *r,
                        const struct spawned *spawned, uint64_t agent, uint64_t now_ms);
/* Removes P, which must have been reaped. */
void child_remove(struct child *p);
/* The process with the "id" of MESSAGE, or NULL. */
struct child *child_of_message(const struct list *all, const json_t *message);
struct child *child_of_pid(const struct list *all, pid_t pid);

/* Sends SIGTERM or SIGKILL to its process group. */
void child_signal(struct child *p, int signal_number);
/* Sets the number of requests of the old agent at P. At 0, a deferred SIGTERM is sent. */
void child_set_busy(struct child *p, unsigned busy);

/* The "process" message about P for an agent; the output descriptor is sent with it. */
json_t *child_message(const struct child *p, uint64_t now_ms);

/* Sends SIGTERM to all; children_kill_overdue ends those that exceed their stop_timeout. */
void children_end_all(const struct list *all, uint64_t now_ms);
void children_kill_overdue(const struct list *all, uint64_t now_ms);
