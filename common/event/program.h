/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts this program as a new child process. The executable is looked up by the name that this
 * process was started with, so that a replaced file is the one that runs. To be called on the
 * loop's thread; other threads may exist.
 */
#ifndef RLB_EVENT_PROGRAM_H
#define RLB_EVENT_PROGRAM_H

#include <sys/resource.h>
#include <sys/types.h>

#include "common/base/err.h"

struct program_options {
    const char *const *args; /* after its name; NULL-terminated */
    struct rlimit nofile;    /* its limit of descriptors */
    /* A descriptor that it gets, as number 3, and an environment variable to hold that number; or
       -1. It gets no other but 0, 1, 2. */
    int pass;
    const char *variable;
};

struct program {
    pid_t pid;
    int pidfd; /* readable when it has ended */
};

/* Where a program called NAME (argv[0]) is now: NAME itself or found in PATH. NULL: nowhere. The
 * caller frees it. */
char *program_find(const char *name, const char *path);
/* Errors: ERR_NOT_FOUND, ERR_SYSTEM (errno says). That it cannot be executed is its exit 127. */
enum err program_start(const struct program_options *o, struct program *out) must_check;
/*
 * Wait for it (KILL: after SIGKILL; else it has ended), and say how it ended, in OUT. Closes pidfd.
 */
int program_end(struct program *p, bool kill_it, char out[40]);

#endif
