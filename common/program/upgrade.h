/* SPDX-License-Identifier: Apache-2.0
 *
 * Hot upgrade (SIGUSR2), the old process's side: starts the program again, passes it the listening
 * sockets, and drains when the new process accepts. Until then any failure leaves the old process
 * as it was. Embedded in the program; main thread and its loop only.
 *
 *   SIGUSR2           prepared                  ready
 *   -------> STARTING --------> HANDING_OVER --------> HANDED_OVER --- drained ---> exit
 *               |                    |                      |
 *               +---- fails, or late +----> as before <-----+--- it fails, and resume() is set
 *
 * Between the two processes is a socket pair with packets (common/net/packet.h); the new process
 * (inherited.h) finds its end by its number in UPGRADE_VARIABLE.
 *
 *   old process                              new process
 *   lock + descriptor                   ->   (of the state directory, if there is one)
 *   socket {name, number} + socket      ->   (each; without a name: of the admin address)
 *   begin {v}                           ->
 *                                       <-   prepared  (has prepared all that it can)
 *   OP {name, number} + descriptor      ->   (what release() passes)
 *   go                                  ->
 *                                       <-   ready     (it accepts)
 *   OP                                  ->   (what tick() sends)
 *
 * Before `go` the new process has done nothing that has an effect outside, and may be killed.
 */
#pragma once

#include "common/base/err.h"
#include "common/event/loop.h"
#include "common/net/packet.h"

#include <sys/resource.h>
#include <sys/types.h>

/* ---- the new process ---- */

/*
 * This program as a new child process. The executable is looked up by the name that this process
 * was started with, so that a replaced file is the one that runs. Other threads may exist.
 */

struct program {
    pid_t pid;
    int pidfd; /* readable when it has ended */
};

/* Finds NAME (argv[0]) itself or in PATH. Returns NULL if not found; the caller frees it. */
char *program_find(const char *name, const char *path);
/*
 * Starts ARGV with NOFILE as its limit of descriptors. It inherits only the descriptors 0, 1, 2,
 * and PASS as number 3, which is the value of UPGRADE_VARIABLE.
 * Errors: ERR_NOT_FOUND, ERR_SYSTEM (see errno). If it cannot be executed, it exits with 127.
 */
enum err program_start(char *const *argv, const struct rlimit *nofile, int pass,
                       struct program *out) must_check;
/*
 * Waits until P has exited, after SIGKILL if KILL_IT; otherwise it must have exited already.
 * Describes in OUT how it ended, closes pidfd, and returns the wait status.
 */
int program_end(struct program *p, bool kill_it, char out[40]);

/* ---- the upgrade ---- */

#define UPGRADE_VARIABLE "RESUMELB_UPGRADE_FD"

enum { UPGRADE_VERSION = 2 };

enum upgrade_stage {
    UPGRADE_NONE,
    UPGRADE_STARTING,
    UPGRADE_HANDING_OVER, /* the new process is about to accept */
    UPGRADE_HANDED_OVER   /* it accepts */
};

struct upgrade;

/* Callbacks of the program for each stage. Those marked optional may be NULL. */
struct upgrade_ops {
    /* Returns why there can be no upgrade now, or NULL. */
    const char *(*reject)(void *context);
    /* Passes the sockets and the lock, by upgrade_pass(). */
    void (*pass)(void *context, struct upgrade *u);
    /* Optional: whether all files that the new process reads at its start are written. */
    bool (*written)(void *context);
    /* Optional: stop accepting, and release what only one process can own. Without it both
     * processes accept from the same sockets until the new one is ready. */
    void (*release)(void *context, struct upgrade *u);
    /* The new process accepts: stop accepting, finish what there is, exit. */
    void (*drain)(void *context);
    /* With release(): the new process failed; undo release() and, if DRAINING, drain(). */
    void (*resume)(void *context, bool draining);
    /* Optional: called every 10 ms after release(), until upgrade_fini(). */
    void (*tick)(void *context, struct upgrade *u);
};

struct upgrade_options {
    char *const *argv;    /* the program's */
    struct rlimit nofile; /* the new process's */
    uint64_t timeout_ms;  /* for the new process to be ready */
    uint64_t release_ms;  /* the same, from release() on; 0: what is left of timeout_ms */
};

struct upgrade {
    const struct upgrade_ops *ops;
    void *context;
    struct loop *loop;
    enum upgrade_stage stage;
    struct program program;
    struct watch *exited; /* of the program */
    struct packet_queue out;
    struct watch *channel; /* out.fd is -1: none */
    struct timer tick;
    uint64_t until_ms; /* when the new process must be ready; unused after HANDED_OVER */
    uint64_t release_ms;
    bool begun; /* "begin" is sent */
};

void upgrade_init(struct upgrade *u, struct loop *l, const struct upgrade_ops *ops, void *context);
/* Starts an upgrade (SIGUSR2), or logs why there can be none. */
void upgrade_begin(struct upgrade *u, const struct upgrade_options *o);
/* The old process shuts down: ends a new process that is not ready, if there is one. */
void upgrade_abandon(struct upgrade *u);
/* Releases U. The new process, if there is one, continues. U may be all zero. */
void upgrade_fini(struct upgrade *u);

/* Sends OP {name, number} with FD, which the caller still owns. NAME may be NULL, FD -1. */
void upgrade_pass(struct upgrade *u, const char *op, const char *name, int number, int fd);
/* The same with TEXT in a memory file. Logs a warning if that cannot be created. */
void upgrade_pass_text(struct upgrade *u, const char *op, const char *name, int number,
                       struct slice text);
