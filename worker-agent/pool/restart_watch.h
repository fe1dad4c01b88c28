/* SPDX-License-Identifier: Apache-2.0
 *
 * Restarts by files, as in Phusion Passenger: touching restart.txt replaces an application's
 * processes; while always_restart.txt exists, each process serves one request. One watch for all
 * applications, owned by the pool; a directory belongs to one application, and ends before the
 * watch. Control loop; a thread of the watch reads the file systems, so that one that hangs delays
 * nothing else.
 *
 * Only existence, mtime and inode of the files matter; they are not read. In a world-writable
 * directory they are ignored: any user of the host could restart applications. Links are ignored.
 */
#pragma once

#include "common/event/loop.h"

struct restart_times {
    /* Between two restarts: changes of restart.txt within this time are one, at its end. */
    uint64_t settle_ms;
    /* How often directories are scanned in addition to events of inotify: it reports neither
     * changes by other hosts on network file systems nor a changed link in the path. */
    uint64_t poll_ms;
    /* The same while inotify is unavailable. */
    uint64_t poll_blind_ms;
    /* Between two scans of one directory, however often it changes. */
    uint64_t scan_ms;
};

struct restart_watch;
struct restart_directory;

struct restart_events { /* never inside a function below; must not remove a directory */
    /* restart.txt has changed, or was created. */
    void (*restart)(void *context);
    /* always_restart.txt was created (ON) or removed. Initially off. */
    void (*one_shot)(void *context, bool on);
};

extern const struct restart_times restart_times_default;

/* TIMES is copied. Tests use other values than restart_times_default. */
struct restart_watch *restart_watch_create(struct loop *l, const struct restart_times *times);
/* All directories must have been removed. W may be NULL. */
void restart_watch_destroy(struct restart_watch *w);

/*
 * Watches a directory, which need not exist.
 *   root, dir  its path: DIR, or ROOT/DIR when DIR is relative
 *   since_ns   wall clock, the start of the oldest existing process. A restart.txt found by the
 *              first check is regarded as already handled unless it is newer than this
 * Returns NULL and watches nothing if DIR is relative to "/", which is the host's directory and not
 * that of an application.
 */
struct restart_directory *restart_directory_add(struct restart_watch *w, const char *root,
                                                const char *dir, int64_t since_ns,
                                                const struct restart_events *e, void *context);
/* No event is reported after this. F may be NULL. */
void restart_directory_remove(struct restart_directory *f);
/* Whether F watches the directory of ROOT and DIR; F may be NULL. */
bool restart_directory_is(const struct restart_directory *f, const char *root, const char *dir);
/* The current wall clock time in the unit of SINCE_NS. */
int64_t restart_now_ns(void);
