/* SPDX-License-Identifier: Apache-2.0
 *
 * One look at a folder that may hold restart.txt and always_restart.txt, or may not exist. A value;
 * any thread, as it may block.
 */
#ifndef RLB_AGENT_POOL_RESTART_LOOK_H
#define RLB_AGENT_POOL_RESTART_LOOK_H

#include <limits.h>
#include <sys/types.h>

#include "common/base/base.h"

#define RESTART_FILE "restart.txt"
#define ALWAYS_RESTART_FILE "always_restart.txt"

enum restart_presence {
    RESTART_GONE,
    RESTART_THERE,
    RESTART_UNKNOWN, /* could not be looked at: as it was */
};

struct restart_found {
    enum restart_presence restart, always;
    int64_t mtime_ns, now_ns; /* of restart.txt; wall clock before the look */
    ino_t ino;                /* of restart.txt */
    dev_t dev;
    bool open_to_all; /* the directory is world-writable: its files are ignored */
    int wd;           /* inotify watch of the directory or of its nearest existing ancestor */
    char awaited[NAME_MAX + 1]; /* the entry awaited in that ancestor; "": wd is the directory's */
    int watch_error;            /* errno if WD is -1; 0: inotify is not available */
};

/* Sets a watch for PATH, which must be absolute, in INOTIFY (-1: no watch), and checks PATH for
 * restart.txt. */
void restart_look(const char *path, int inotify, struct restart_found *out);

#endif
