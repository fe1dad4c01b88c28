/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets the watch before checking, so that a change in between is reported by inotify.
 */
#include "worker-agent/pool/restart_look.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>

/* The same for folders and ancestors: a folder of one application may be another's ancestor, and
 * the kernel has one watch per folder. */
#define WATCHED                                                                                    \
    (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_CLOSE_WRITE | IN_ATTRIB |            \
     IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK)

static int64_t ns_of(struct timespec t)
{
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Set a watch on PATH or its nearest existing ancestor. Whether on PATH itself. */
static bool watch_nearest(const char *path, int inotify, struct restart_found *out)
{
    char *at = xstrdup(path);
    char *slash = NULL;

    out->awaited[0] = '\0';
    out->wd = inotify_add_watch(inotify, at, WATCHED);
    /* ENOSPC, ENOMEM: no more watches; further up it is the same. */
    while (out->wd < 0 && errno != ENOSPC && errno != ENOMEM &&
           (slash = strrchr(at, '/')) != NULL) {
        snprintf(out->awaited, sizeof(out->awaited), "%s", slash + 1);
        *slash = '\0';
        out->wd = inotify_add_watch(inotify, slash == at ? "/" : at, WATCHED);
    }
    out->watch_error = out->wd < 0 ? errno : 0;
    free(at);
    return out->wd < 0 || out->awaited[0] == '\0';
}

/* What errno says of a file that cannot be looked at. */
static enum restart_presence absence(void)
{
    return errno == ENOENT || errno == ENOTDIR ? RESTART_GONE : RESTART_UNKNOWN;
}

static enum restart_presence file_at(const char *folder, const char *name, struct stat *st)
{
    char *path = xasprintf("%s/%s", folder, name);
    enum restart_presence p = RESTART_GONE;

    if (stat(path, st) != 0)
        p = absence();
    else if (S_ISREG(st->st_mode))
        p = RESTART_THERE;
    free(path);
    return p;
}

void restart_look(const char *path, int inotify, struct restart_found *out)
{
    /* A directory created while the watch on its ancestor is being set is not reported by inotify.
     */
    enum { TRIES = 3 };
    struct timespec now;
    struct stat folder;
    struct stat st;
    int there = -1;

    *out = (struct restart_found){.wd = -1};
    clock_gettime(CLOCK_REALTIME, &now);
    out->now_ns = ns_of(now);
    for (int i = 0; i < TRIES; ++i) {
        bool whole = inotify < 0 || watch_nearest(path, inotify, out);

        there = stat(path, &folder);
        if (whole || there != 0)
            break;
    }
    if (there != 0) {
        out->restart = out->always = absence();
        return;
    }
    if ((folder.st_mode & S_IWOTH) != 0) {
        out->open_to_all = true;
        out->restart = RESTART_UNKNOWN;
        return;
    }
    out->always = file_at(path, ALWAYS_RESTART_FILE, &st);
    out->restart = file_at(path, RESTART_FILE, &st);
    if (out->restart == RESTART_THERE) {
        out->mtime_ns = ns_of(st.st_mtim);
        out->ino = st.st_ino;
        out->dev = st.st_dev;
    }
}
