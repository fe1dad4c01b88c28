/* SPDX-License-Identifier: Apache-2.0
 *
 * A tree in a directory of one machine, watched by inotify. Every directory on the path from the
 * root to a node is watched, so that its removal, renaming or re-creation is detected at any level;
 * while the root itself is missing, its nearest existing ancestor is watched. Below the root,
 * symbolic links are not followed: node links serve that purpose. Events are only hints: they mark
 * directories, files and nodes as stale. A lost event (IN_Q_OVERFLOW) marks everything as stale; so
 * does a slow timer, for changes that inotify does not report.
 *
 * An entry of our own must have its file in place. Any event for the name or for a directory above
 * makes the entry check, and put the file again if it is missing. While another owner lives, it
 * checks at every event of that name, and on a timer that slows down to one second.
 */
#include "common/tree/directory.h"
#include "common/base/log.h"
#include "common/tree/tree.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

/* IN_EXCL_UNLINK: the close of a file that was replaced or unlinked is irrelevant for its name. */
#define DIRECTORY_EVENTS                                                                           \
    (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_CLOSE_WRITE | IN_ATTRIB |            \
     IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK)
#define ANCHOR_EVENTS (IN_CREATE | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)
#define GONE_EVENTS (IN_IGNORED | IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT)

enum {
    ALL_PARTS = PART_NODE | PART_PROVIDERS | PART_CHILDREN,
    /* Interval of checks while the name is taken: at first short, because the lock of an owner that
     * has just exited is about to be released; doubled up to the second value. */
    TAKEN_MS_MIN = 1,
    TAKEN_MS_MAX = 1000,
    /* After a failure. */
    RETRY_MS_MIN = 20,
    RETRY_MS_MAX = 5000,
};

struct tree_entry {
    struct list in_dir;
    struct dir *dir;
    struct timer check;
    uint64_t checked_ms;
    unsigned delay_ms;        /* of the last retry; 0: none */
    enum err last;            /* of the last try, so that a taken name is logged once */
    bool outdated;            /* the file in place has old properties */
    const struct text *bytes; /* what goes into the file; borrowed */
    int fd;                   /* of the file in place; -1 */
    char *path;               /* of the file */
    char file[PROVIDER_NAME_ROOM];
};

static void entries_touched(struct dir *d, const char *file);

/* ---- directories ---- */

static struct dir *dir_get(struct directory *t, const char *path)
{
    struct dir *d;
    size_t len = strlen(path);

    d = map_entry(map_find(&t->dirs, path, len), struct dir, in_tree);
    if (d != NULL) {
        ++d->users;
        return d;
    }
    d = xcalloc(1, sizeof(*d) + len + 1);
    memcpy(d->path, path, len + 1);
    d->tree = t;
    d->users = 1;
    d->full = xasprintf("%s%s", t->root, path);
    d->watch = -1;
    d->stale = true;
    list_init(&d->entries);
    dir_read_init(d);
    map_add(&t->dirs, &d->in_tree, d->path, len);
    if (len != 0) {
        char *above = xstrdup(path);

        *strrchr(above, '/') = '\0';
        d->parent = dir_get(t, above);
        free(above);
    }
    return d;
}

/* Two directories can have one watch for a moment, while one is renamed to the other. */
static void drop_watch(struct dir *d)
{
    int id = d->watch;

    d->watch = -1;
    if (id < 0)
        return;
    map_for_each (struct dir, other, &d->tree->dirs, in_tree) {
        if (other->watch == id)
            return;
    }
    /* Fails when the directory is gone, and the watch with it. */
    (void)inotify_rm_watch(d->tree->inotify, id);
}

static void dir_put(struct dir *d)
{
    while (d != NULL && --d->users == 0) {
        struct dir *parent = d->parent;

        drop_watch(d);
        map_remove(&d->tree->dirs, &d->in_tree);
        dir_read_fini(d);
        free(d->full);
        free(d);
        d = parent;
    }
}

static void all_stale(struct dir *d)
{
    d->stale = d->data_stale = d->children_stale = d->rescan = true;
}

static void touch_node(struct dir *d, unsigned parts)
{
    if (d->node != NULL)
        tree_node_touch(d->node, parts);
}

/* TOP was created, removed or replaced: marks it and all below as stale. "": all directories. */
static void directory_changed(struct directory *t, const char *top)
{
    size_t len = strlen(top);

    map_for_each (struct dir, d, &t->dirs, in_tree) {
        if (strncmp(d->path, top, len) != 0 || (d->path[len] != '\0' && d->path[len] != '/'))
            continue;
        all_stale(d);
        touch_node(d, ALL_PARTS);
        entries_touched(d, NULL);
    }
}

/* ---- existence ---- */

static void watching_failed(struct directory *t, const char *what)
{
    if (t->blind)
        return;
    t->blind = true;
    log_warn(
        NULL, "tree-not-watched",
        "path=%s reason=\"%s: %s\" action=\"scan every %d ms\" hint=\"raise fs.inotify limits\"",
        t->root, what, strerror(errno), VERIFY_BLIND_MS);
}

static int add_watch(struct directory *t, const char *path, uint32_t events)
{
    if (t->inotify < 0)
        return -1;
    int id = inotify_add_watch(t->inotify, path, events);
    if (id < 0 && (errno == ENOSPC || errno == ENOMEM))
        watching_failed(t, "inotify_add_watch");
    return id;
}

static void drop_anchor(struct directory *t)
{
    if (t->anchor >= 0)
        (void)inotify_rm_watch(t->inotify, t->anchor);
    t->anchor = -1;
}

static bool stat_directory(struct dir *d, struct stat *st)
{
    /* The root may be a symbolic link, as the operator configures it. Other links are ignored. */
    int r = d->parent == NULL ? stat(d->full, st) : lstat(d->full, st);

    return r == 0 && S_ISDIR(st->st_mode);
}

static void dir_vanished(struct dir *d)
{
    struct directory *t = d->tree;
    struct stat st;
    char *slash;
    int id = -1;

    drop_watch(d);
    d->exists = false;
    if (d->parent != NULL)
        return;
    /* Watch the nearest existing directory above the missing root. */
    char *path = xstrdup(t->root);
    while (id < 0 && (slash = strrchr(path, '/')) != NULL) {
        *slash = '\0';
        id = add_watch(t, slash == path ? "/" : path, ANCHOR_EVENTS);
    }
    free(path);
    if (id != t->anchor)
        drop_anchor(t);
    t->anchor = id;
    /* It may have appeared before the watch was established; then there is no event. */
    if (stat_directory(d, &st))
        d->stale = true;
}

static void dir_check(struct dir *d)
{
    struct stat st;

    d->stale = false;
    /* Watch first, then check: changes in between cause another event. */
    int id = add_watch(d->tree, d->full,
                       d->parent == NULL ? DIRECTORY_EVENTS : DIRECTORY_EVENTS | IN_DONT_FOLLOW);
    if (id != d->watch)
        drop_watch(d);
    d->watch = id;
    if (!stat_directory(d, &st)) {
        dir_vanished(d);
        return;
    }
    if (d->parent == NULL)
        drop_anchor(d->tree);
    if (!d->exists || d->dev != st.st_dev || d->ino != st.st_ino) {
        all_stale(d);
        d->stale = false;
        d->reread = true;
    }
    d->exists = true;
    d->dev = st.st_dev;
    d->ino = st.st_ino;
}

static void dir_update(struct dir *d)
{
    enum { TRIES = 3 };

    if (d->parent != NULL) {
        dir_update(d->parent);
        if (!d->parent->exists) {
            dir_vanished(d);
            d->stale = true;
            return;
        }
    }
    for (int i = 0; i < TRIES && d->stale; ++i)
        dir_check(d);
}

/* ---- our own providers ---- */

static void retry_entry(struct tree_entry *e, unsigned min_ms, unsigned max_ms)
{
    e->delay_ms = e->delay_ms == 0 ? min_ms : e->delay_ms * 2;
    if (e->delay_ms > max_ms)
        e->delay_ms = max_ms;
    timer_start(e->dir->tree->base.loop, &e->check, e->delay_ms);
}

static void entry_check(struct timer *timer)
{
    struct tree_entry *e = container_of(timer, struct tree_entry, check);
    bool in_place = provider_file_in_place(e->fd, e->path);
    enum err result = ERR_SYSTEM;

    e->checked_ms = loop_now_ms(e->dir->tree->base.loop);
    if (in_place && !e->outdated)
        return;
    if (!in_place && e->fd >= 0) {
        log_warn(NULL, "registration-removed",
                 "file=%s reason=\"the file was removed\" action=\"re-registering\"", e->path);
        provider_file_drop(&e->fd, e->path);
    }
    if (group_directory_make_all(e->dir->full)) {
        /* The directory is watched first, so that a removal of the file is always detected. */
        e->dir->stale = true;
        dir_update(e->dir);
        result = provider_file_put(&e->fd, e->path, text_slice(e->bytes));
    }
    int saved = errno;
    bool is_new = result != e->last;
    e->last = result;
    if (result == ERR_OK) {
        e->outdated = false;
        e->delay_ms = 0;
        log_debug(NULL, "registration-written", "file=%s", e->path);
    } else if (result == ERR_BUSY) {
        if (is_new)
            log_info(NULL, "registration-name-taken",
                     "file=%s action=\"wait for its owner to exit\"", e->path);
        retry_entry(e, TAKEN_MS_MIN, TAKEN_MS_MAX);
    } else {
        log_error(NULL, "registration-failed", "file=%s reason=\"%s\"", e->path, strerror(saved));
        retry_entry(e, RETRY_MS_MIN, RETRY_MS_MAX);
    }
}

static void entry_touched(struct tree_entry *e)
{
    struct loop *l = e->dir->tree->base.loop;
    uint64_t since = loop_now_ms(l) - e->checked_ms;

    /* After an event, a name that is taken is checked frequently again. */
    e->delay_ms = 0;
    timer_start(l, &e->check, since < TREE_PAUSE_MS ? TREE_PAUSE_MS - since : 0);
}

/* FILE (NULL: anything) in D changed: its entries are checked. */
static void entries_touched(struct dir *d, const char *file)
{
    struct tree_entry *e;

    list_for_each_entry (e, &d->entries, in_dir) {
        if (file == NULL || strcmp(e->file, file) == 0)
            entry_touched(e);
    }
}

static struct tree_entry *directory_enter(struct tree *base, const char *path, const char *name,
                                          const struct text *bytes)
{
    struct directory *t = container_of(base, struct directory, base);
    char file[PROVIDER_NAME_ROOM];

    if (!provider_name_encode(name, file)) {
        log_error(NULL, "registration-failed", "path=%s%s name=%s reason=\"%s\"", t->root, path,
                  log_shown(slice_of(name)),
                  name[0] == '\0' ? "empty name" : "name too long for a file");
        return NULL;
    }
    struct tree_entry *e = xcalloc(1, sizeof(*e));
    memcpy(e->file, file, sizeof(file));
    e->fd = -1;
    e->last = ERR_OK;
    e->dir = dir_get(t, path);
    e->path = xasprintf("%s/%s", e->dir->full, e->file);
    e->bytes = bytes;
    list_push_back(&e->dir->entries, &e->in_dir);
    timer_init(&e->check, entry_check);
    timer_start(base->loop, &e->check, 0);
    return e;
}

static void directory_entry_changed(struct tree_entry *e)
{
    e->outdated = true;
    entry_touched(e);
}

static bool directory_entry_held(const struct tree_entry *e)
{
    return provider_file_in_place(e->fd, e->path);
}

static void directory_leave(struct tree_entry *e)
{
    timer_stop(&e->check);
    provider_file_drop(&e->fd, e->path);
    list_remove(&e->in_dir);
    dir_put(e->dir);
    free(e->path);
    free(e);
}

/* ---- inotify ---- */

static void dir_event(struct dir *d, const struct inotify_event *ev)
{
    /* Without a name, its permissions changed. */
    if ((ev->mask & GONE_EVENTS) != 0 || ev->len == 0) {
        if ((ev->mask & IN_IGNORED) != 0)
            d->watch = -1;
        directory_changed(d->tree, d->path);
    } else if (strcmp(ev->name, PROPERTIES_FILE) == 0) {
        d->data_stale = true;
        touch_node(d, PART_NODE);
    } else if ((ev->mask & IN_ISDIR) != 0) {
        char child[TREE_PATH_MAX + NAME_MAX + 2];

        snprintf(child, sizeof(child), "%s/%s", d->path, ev->name);
        d->children_stale = true;
        touch_node(d, PART_CHILDREN);
        directory_changed(d->tree, child);
    } else if (ev->name[0] != '.') {
        dir_member_touched(d, ev->name, (ev->mask & IN_CLOSE_WRITE) != 0);
        touch_node(d, PART_PROVIDERS);
        entries_touched(d, ev->name);
    }
}

static void directory_event(struct directory *t, const struct inotify_event *ev)
{
    if ((ev->mask & IN_Q_OVERFLOW) != 0) {
        log_warn(NULL, "tree-events-lost", "path=%s action=\"re-read everything\"", t->root);
        map_for_each (struct dir, d, &t->dirs, in_tree)
            d->reread = true;
        directory_changed(t, "");
        return;
    }
    if (ev->wd == t->anchor) {
        if ((ev->mask & IN_IGNORED) != 0)
            t->anchor = -1;
        directory_changed(t, "");
        return;
    }
    map_for_each (struct dir, d, &t->dirs, in_tree) {
        if (d->watch == ev->wd)
            dir_event(d, ev);
    }
}

static void on_directory_readable(void *context)
{
    struct directory *t = context;
    /* A few hundred events a turn; the rest keeps the descriptor readable. */
    _Alignas(struct inotify_event) char buf[16384];
    ssize_t n = read(t->inotify, buf, sizeof(buf));

    for (ssize_t at = 0; at < n;) {
        const struct inotify_event *ev = (const void *)(buf + at);

        directory_event(t, ev);
        at += (ssize_t)(sizeof(*ev) + ev->len);
    }
}

static void on_directory_verify(struct timer *timer)
{
    struct directory *t = container_of(timer, struct directory, verify);

    directory_changed(t, "");
    timer_start(t->base.loop, &t->verify, t->blind ? VERIFY_BLIND_MS : VERIFY_MS);
}

/* ---- the backend ---- */

static void directory_observe(struct tree_node *s)
{
    struct dir *d = dir_get(container_of(s->tree, struct directory, base), s->path);

    d->node = s;
    s->backend_node = d;
    all_stale(d);
}

static void directory_refresh(struct tree_node *s)
{
    struct dir *d = s->backend_node;

    dir_update(d);
    s->birth = d->exists ? (uint64_t)d->ino : 0;
    dir_read(d);
}

static void directory_forget(struct tree_node *s)
{
    struct dir *d = s->backend_node;

    d->node = NULL;
    timer_stop(&d->doubt);
    timer_stop(&d->recheck);
    dir_put(d);
}

static void directory_status(const struct tree *base, struct tree_status *out)
{
    /* BASE is the first member. */
    const struct directory *t = (const void *)base;

    out->connected = access(t->root, R_OK | X_OK) == 0;
}

static struct slice without_slashes(struct slice location)
{
    while (location.len > 1 && location.p[location.len - 1] == '/')
        --location.len;
    return location;
}

static enum err directory_check(struct slice location, struct diag *d)
{
    /* A node's path, a provider's name and the terminator must fit behind it. */
    enum { ROOT_MAX = PATH_MAX - TREE_PATH_MAX - NAME_MAX - 2 };

    const char *why = NULL;

    location = without_slashes(location);
    if (location.p[0] != '/' || memchr(location.p, '\0', location.len) != NULL)
        why = "expected an absolute path";
    else if (location.len == 1)
        why = "the root directory cannot be a tree";
    else if (location.len > ROOT_MAX)
        why = "path too long";
    else
        return ERR_OK;
    diag_add(d, NULL, 0, 0, "tree 'directory:%.*s': %s", SLICE_FMT(location), why);
    return ERR_SYNTAX;
}

static enum err directory_open(struct loop *l, struct slice location,
                               unused_ const struct tree_options *o, struct tree **out,
                               struct diag *d)
{
    enum err e = directory_check(location, d);

    if (e != ERR_OK)
        return e;
    struct directory *t = xcalloc(1, sizeof(*t));
    t->base = (struct tree){.backend = &tree_directory, .loop = l, .top = ""};
    list_init(&t->base.broken);
    t->root = xslicedup(without_slashes(location));
    t->anchor = -1;
    t->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (t->inotify < 0)
        watching_failed(t, "inotify_init1");
    else
        t->readable = watch_start(l, t->inotify, on_directory_readable, t);
    timer_init(&t->verify, on_directory_verify);
    timer_start(l, &t->verify, t->blind ? VERIFY_BLIND_MS : VERIFY_MS);
    *out = &t->base;
    return ERR_OK;
}

static void directory_close(struct tree *base)
{
    struct directory *t = container_of(base, struct directory, base);

    ASSERT(t->dirs.first == NULL);
    timer_stop(&t->verify);
    watch_stop(t->readable);
    if (t->inotify >= 0)
        close(t->inotify);
    free(t->root);
    free(t);
}

const struct tree_backend tree_directory = {
    .scheme = "directory",
    .check = directory_check,
    .open = directory_open,
    .close = directory_close,
    .status = directory_status,
    .observe = directory_observe,
    .refresh = directory_refresh,
    .forget = directory_forget,
    .enter = directory_enter,
    .entry_changed = directory_entry_changed,
    .entry_held = directory_entry_held,
    .leave = directory_leave,
    .begin = directory_begin,
    .abandon = directory_abandon,
    .data_max = NODE_BYTES_MAX,
    .text_as_json = true,
};
