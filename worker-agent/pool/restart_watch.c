/* SPDX-License-Identifier: Apache-2.0
 *
 *   inotify ──► touched, at most every scan_ms ──► scan, on the thread ──► on_scanned ──► one_shot
 *   poll ──────────────────────────────────────────┘                            │ restart.txt
 * changed restart, at most every settle_ms ◄───┘
 *
 * Events carry no state; they only state which directory is to be checked.
 */
#include "worker-agent/pool/restart_watch.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/event/worker_thread.h"

#define RESTART_FILE "restart.txt"
#define ALWAYS_RESTART_FILE "always_restart.txt"

enum restart_presence {
    RESTART_GONE,
    RESTART_THERE,
    RESTART_UNKNOWN, /* could not be checked: unchanged */
};

/* Identifies a version of restart.txt. */
struct restart_file {
    int64_t mtime_ns;
    ino_t ino; /* 0: none */
    dev_t dev;
};

struct restart_found {
    enum restart_presence restart, always;
    struct restart_file file; /* restart.txt */
    int64_t now_ns;           /* wall clock before the scan */
    bool open_to_all;         /* the directory is world-writable: its files are ignored */
    int wd; /* inotify watch of the directory or of its nearest existing ancestor; -1: none */
    char awaited[NAME_MAX + 1]; /* the entry awaited in that ancestor; "": wd is the directory's */
    int watch_error;            /* errno if WD is -1; 0: inotify is not available */
};

struct restart_watch {
    struct loop *loop;
    struct restart_times times;
    struct worker_thread *thread;
    int inotify; /* -1: none */
    struct watch *readable;
    struct timer poll;
    struct list directories;
    bool blind; /* inotify does not cover all of them; logged */
};

struct restart_directory {
    struct list node;
    struct restart_watch *watch;
    char *path;
    int64_t since_ns;
    struct restart_events events;
    void *context;
    /* The scan: while it is in progress, FOUND and PATH belong to the thread. */
    struct worker_job job;
    struct restart_found found;
    bool scanning;
    bool removed;              /* the result is not needed any more: freed after the scan */
    bool again;                /* touched since the scan began */
    bool missed;               /* touched while SOON ran */
    struct timer soon;         /* running: scanned, and not again until it expires */
    bool pending;              /* restart.txt has changed while SETTLE ran */
    struct timer settle;       /* running: a restart was reported, and none until it expires */
    struct restart_found last; /* found by the previous scan */
    bool known;                /* scanned before */
    bool one_shot;
    struct restart_file seen; /* the last restart.txt */
};

static int64_t to_ns(const struct timespec *t)
{
    return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

int64_t restart_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return to_ns(&now);
}

/* ---- one scan of a directory, on the thread ---- */

/* One mask for directories and ancestors: the kernel has one watch of a path that is both. */
#define WATCHED                                                                                    \
    (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_CLOSE_WRITE | IN_ATTRIB |            \
     IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK)

/* Watches PATH or its nearest existing ancestor. Returns false only in the latter case. */
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

/* The presence of a file that cannot be checked, from errno. */
static enum restart_presence presence_of_errno(void)
{
    return errno == ENOENT || errno == ENOTDIR ? RESTART_GONE : RESTART_UNKNOWN;
}

static enum restart_presence file_at(const char *directory, const char *name, struct stat *st)
{
    char *path = xasprintf("%s/%s", directory, name);
    enum restart_presence p = RESTART_GONE;

    /* A link would show its target's time of change, which the directory's user may not know. */
    if (lstat(path, st) != 0)
        p = presence_of_errno();
    else if (S_ISREG(st->st_mode))
        p = RESTART_THERE;
    free(path);
    return p;
}

/* Sets a watch for the directory in inotify, unless there is none, and then checks it for the
 * files, so that a change in between is reported by inotify. May block. */
static void scan_directory(struct worker_job *j)
{
    /* A directory created while its ancestor's watch is being set is not reported by inotify. */
    enum { TRIES = 3 };
    struct restart_directory *f = container_of(j, struct restart_directory, job);
    struct restart_found *out = &f->found;
    struct stat directory;
    struct stat st;
    int there = -1;

    *out = (struct restart_found){.wd = -1};
    out->now_ns = restart_now_ns();
    for (int i = 0; i < TRIES; ++i) {
        bool whole = f->watch->inotify < 0 || watch_nearest(f->path, f->watch->inotify, out);

        there = stat(f->path, &directory);
        if (whole || there != 0)
            break;
    }
    if (there != 0) {
        out->restart = out->always = presence_of_errno();
        return;
    }
    if ((directory.st_mode & S_IWOTH) != 0) {
        out->open_to_all = true;
        out->restart = RESTART_UNKNOWN;
        return;
    }
    out->always = file_at(f->path, ALWAYS_RESTART_FILE, &st);
    out->restart = file_at(f->path, RESTART_FILE, &st);
    if (out->restart == RESTART_THERE) {
        out->file = (struct restart_file){
            .mtime_ns = to_ns(&st.st_mtim), .ino = st.st_ino, .dev = st.st_dev};
    }
}

/* ---- watches ---- */

static void drop_watch(struct restart_watch *w, int wd)
{
    const struct restart_directory *f;

    if (wd < 0)
        return;
    list_for_each_entry (f, &w->directories, node) {
        if (f->last.wd == wd)
            return;
    }
    /* Fails if the directory was removed, and the watch with it. */
    (void)inotify_rm_watch(w->inotify, wd);
}

static void watching_failed(struct restart_watch *w, const char *what, int error)
{
    if (w->blind)
        return;
    w->blind = true;
    log_warn(NULL, "restart-files-not-watched",
             "reason=\"%s: %s\" action=\"scan every %llu ms\" hint=\"raise fs.inotify limits\"",
             what, strerror(error), (unsigned long long)w->times.poll_blind_ms);
}

/* ---- scans ---- */

static void start_scan(struct restart_directory *f)
{
    if (f->scanning) {
        f->again = true;
        return;
    }
    f->scanning = true;
    f->again = false;
    worker_thread_add(f->watch->thread, &f->job, 0);
}

static void on_touched(struct restart_directory *f)
{
    f->missed = timer_running(&f->soon);
    if (f->missed)
        return;
    timer_start(f->watch->loop, &f->soon, f->watch->times.scan_ms);
    start_scan(f);
}

static void on_soon(struct timer *t)
{
    struct restart_directory *f = container_of(t, struct restart_directory, soon);

    if (f->missed)
        on_touched(f);
}

static void report_restart(struct restart_directory *f)
{
    f->pending = timer_running(&f->settle);
    if (f->pending)
        return;
    timer_start(f->watch->loop, &f->settle, f->watch->times.settle_ms);
    f->events.restart(f->context);
}

static void on_settled(struct timer *t)
{
    struct restart_directory *f = container_of(t, struct restart_directory, settle);

    if (f->pending)
        report_restart(f);
}

static void on_scanned(struct worker_job *j, bool dropped)
{
    struct restart_directory *f = container_of(j, struct restart_directory, job);
    const struct restart_found *found = &f->found;
    const struct restart_file *file = &found->file;
    struct restart_found old = f->last;

    f->scanning = false;
    if (f->removed) {
        if (!dropped)
            drop_watch(f->watch, found->wd);
        free(f->path);
        free(f);
        return;
    }
    f->last = *found;
    if (old.wd != found->wd)
        drop_watch(f->watch, old.wd);
    if (found->wd < 0 && found->watch_error != 0)
        watching_failed(f->watch, "inotify_add_watch", found->watch_error);
    if (found->open_to_all && !old.open_to_all) {
        log_warn(NULL, "restart-directory-insecure",
                 "directory=%s action=\"ignore restart.txt and always_restart.txt\" "
                 "hint=\"chmod o-w\"",
                 f->path);
    }
    /* A file that disappears briefly and reappears unchanged is the same file. */
    bool changed =
        found->restart == RESTART_THERE && (f->seen.mtime_ns != file->mtime_ns ||
                                            f->seen.ino != file->ino || f->seen.dev != file->dev);
    if (changed)
        f->seen = *file;
    /* The first file found may have been handled already. */
    changed &= f->known || (file->mtime_ns > f->since_ns && file->mtime_ns <= found->now_ns);
    if (found->restart != RESTART_UNKNOWN)
        f->known = true;
    if (changed)
        report_restart(f);
    if (found->always != RESTART_UNKNOWN && f->one_shot != (found->always == RESTART_THERE)) {
        f->one_shot = !f->one_shot;
        f->events.one_shot(f->context, f->one_shot);
    }
    if (f->again)
        start_scan(f);
}

/* ---- inotify and the poll ---- */

static bool concerns_directory(const struct restart_directory *f, const struct inotify_event *ev)
{
    if (f->last.wd != ev->wd)
        return false;
    /* The directory itself was removed or moved, or has other permissions. */
    if (ev->len == 0)
        return true;
    if (f->last.awaited[0] != '\0')
        return strcmp(ev->name, f->last.awaited) == 0;
    return strcmp(ev->name, RESTART_FILE) == 0 || strcmp(ev->name, ALWAYS_RESTART_FILE) == 0;
}

static void on_restart_readable(void *context)
{
    struct restart_watch *w = context;
    /* A few hundred events a turn; while more remain, the descriptor stays readable. */
    _Alignas(struct inotify_event) char buf[16384];
    ssize_t n = read(w->inotify, buf, sizeof(buf));

    for (ssize_t at = 0; at < n;) {
        const struct inotify_event *ev = (const void *)(buf + at);
        struct restart_directory *f;

        list_for_each_entry (f, &w->directories, node) {
            if ((ev->mask & IN_Q_OVERFLOW) == 0 && !concerns_directory(f, ev))
                continue;
            if ((ev->mask & IN_IGNORED) != 0)
                f->last.wd = -1;
            on_touched(f);
        }
        at += (ssize_t)(sizeof(*ev) + ev->len);
    }
}

static void on_poll(struct timer *t)
{
    struct restart_watch *w = container_of(t, struct restart_watch, poll);
    struct restart_directory *f;

    timer_start(w->loop, t, w->blind ? w->times.poll_blind_ms : w->times.poll_ms);
    list_for_each_entry (f, &w->directories, node) {
        /* Scans of a directory that hangs must not accumulate and run when it recovers. */
        if (!f->scanning)
            start_scan(f);
    }
}

/* ---- life ---- */

const struct restart_times restart_times_default = {
    .settle_ms = 1000, .poll_ms = 5000, .poll_blind_ms = 1000, .scan_ms = 50};

struct restart_watch *restart_watch_create(struct loop *l, const struct restart_times *times)
{
    struct restart_watch *w = xcalloc(1, sizeof(*w));

    w->loop = l;
    w->times = *times;
    list_init(&w->directories);
    w->thread = worker_thread_create(l);
    w->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (w->inotify < 0)
        watching_failed(w, "inotify_init1", errno);
    else
        w->readable = watch_start(l, w->inotify, on_restart_readable, w);
    timer_init(&w->poll, on_poll);
    on_poll(&w->poll);
    return w;
}

void restart_watch_destroy(struct restart_watch *w)
{
    if (w == NULL)
        return;
    ASSERT(list_empty(&w->directories));
    timer_stop(&w->poll);
    watch_stop(w->readable);
    /* A thread that is left behind may still have the descriptor: it stays open then. */
    if (worker_thread_destroy(w->thread, WORKER_THREAD_PATIENCE_MS)) {
        if (w->inotify >= 0)
            close(w->inotify);
        free(w);
    }
}

/* The path to watch; NULL if DIR is relative to "/". */
static char *directory_path(const char *root, const char *dir)
{
    if (dir[0] == '/')
        return xstrdup(dir);
    if (strcmp(root, "/") == 0)
        return NULL;
    return xasprintf("%s/%s", root, dir);
}

struct restart_directory *restart_directory_add(struct restart_watch *w, const char *root,
                                                const char *dir, int64_t since_ns,
                                                const struct restart_events *e, void *context)
{
    char *path = directory_path(root, dir);
    struct restart_directory *f;

    if (path == NULL)
        return NULL;
    f = xcalloc(1, sizeof(*f));
    f->watch = w;
    f->path = path;
    f->since_ns = since_ns;
    f->events = *e;
    f->context = context;
    f->last.wd = -1;
    f->job.work = scan_directory;
    f->job.done = on_scanned;
    timer_init(&f->soon, on_soon);
    timer_init(&f->settle, on_settled);
    list_push_back(&w->directories, &f->node);
    start_scan(f);
    return f;
}

void restart_directory_remove(struct restart_directory *f)
{
    if (f == NULL)
        return;
    timer_stop(&f->soon);
    timer_stop(&f->settle);
    list_remove(&f->node);
    drop_watch(f->watch, f->last.wd);
    f->removed = true;
    if (f->scanning)
        return;
    free(f->path);
    free(f);
}

bool restart_directory_is(const struct restart_directory *f, const char *root, const char *dir)
{
    char *path = directory_path(root, dir);
    const char *has = f != NULL ? f->path : NULL;
    bool same = path == NULL || has == NULL ? path == has : strcmp(path, has) == 0;

    free(path);
    return same;
}
