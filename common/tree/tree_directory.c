/* SPDX-License-Identifier: Apache-2.0
 *
 * A tree in a directory of one machine, watched by inotify. Every folder on the way from the root
 * to a node is watched, so that one that is removed, renamed or made anew is noticed wherever it
 * happens; while the root itself is missing, its nearest existing ancestor is. Below the root no
 * symbolic link is followed: node links are for that. Events never carry truth: they mark folders,
 * files and spots as stale. A lost event (IN_Q_OVERFLOW) marks everything; so does a slow timer,
 * for what inotify cannot see.
 */
#include "common/base/log.h"
#include "common/tree/directory.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

/* IN_EXCL_UNLINK: the close of a file that was replaced or unlinked says nothing about its name. */
#define FOLDER_EVENTS                                                                              \
    (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_CLOSE_WRITE | IN_ATTRIB |            \
     IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK)
#define ANCHOR_EVENTS (IN_CREATE | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)
#define GONE_EVENTS (IN_IGNORED | IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT)

enum { ALL_PARTS = PART_NODE | PART_PROVIDERS | PART_CHILDREN };

static struct directory *directory_of(struct tree *base)
{
    return container_of(base, struct directory, base);
}

/* ---- folders ---- */

struct dir *dir_get(struct directory *t, const char *path)
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

/* Two folders can have one watch for a moment, while one is renamed to the other. */
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
    /* Fails when the folder is gone, and the watch with it. */
    (void)inotify_rm_watch(d->tree->inotify, id);
}

void dir_put(struct dir *d)
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

static void touch(struct dir *d, unsigned parts)
{
    if (d->spot != NULL)
        tree_spot_touch(d->spot, parts);
}

static bool lies_in(const struct dir *d, const struct dir *above)
{
    size_t len = strlen(above->path);

    return strncmp(d->path, above->path, len) == 0 && (d->path[len] == '\0' || d->path[len] == '/');
}

/* Folder TOP came, went or changed hands: so did all in it. */
static void top_changed(struct dir *top)
{
    map_for_each (struct dir, d, &top->tree->dirs, in_tree) {
        if (!lies_in(d, top))
            continue;
        all_stale(d);
        touch(d, ALL_PARTS);
        dir_entries_touched(d, NULL);
    }
}

static void everything_changed(struct directory *t, bool reread)
{
    map_for_each (struct dir, d, &t->dirs, in_tree) {
        all_stale(d);
        d->reread = d->reread || reread;
        touch(d, ALL_PARTS);
        dir_entries_touched(d, NULL);
    }
}

/* ---- existence ---- */

static void go_blind(struct directory *t, const char *what)
{
    if (t->blind)
        return;
    t->blind = true;
    log_warn(NULL, "tree-not-watched",
             "path=%s problem=\"%s: %s\" hint=\"looked at every %d ms; raise fs.inotify limits\"",
             t->root, what, strerror(errno), VERIFY_BLIND_MS);
}

static int add_watch(struct directory *t, const char *path, uint32_t events)
{
    if (t->inotify < 0)
        return -1;
    int id = inotify_add_watch(t->inotify, path, events);
    if (id < 0 && (errno == ENOSPC || errno == ENOMEM))
        go_blind(t, "inotify_add_watch");
    return id;
}

static void drop_anchor(struct directory *t)
{
    if (t->anchor >= 0)
        (void)inotify_rm_watch(t->inotify, t->anchor);
    t->anchor = -1;
}

/* Watch the nearest existing folder above the missing root. */
static void set_anchor(struct directory *t)
{
    char *path = xstrdup(t->root);
    char *slash;
    int id = -1;

    while (id < 0 && (slash = strrchr(path, '/')) != NULL) {
        *slash = '\0';
        id = add_watch(t, slash == path ? "/" : path, ANCHOR_EVENTS);
    }
    free(path);
    if (id != t->anchor)
        drop_anchor(t);
    t->anchor = id;
}

static bool look_up(struct dir *d, struct stat *st)
{
    /* The root may be a link: who runs the program names it. Nobody else's links count. */
    int r = d->parent == NULL ? stat(d->full, st) : lstat(d->full, st);

    return r == 0 && S_ISDIR(st->st_mode);
}

static void dir_vanished(struct dir *d)
{
    drop_watch(d);
    d->exists = false;
    if (d->parent != NULL)
        return;
    set_anchor(d->tree);
    struct stat st;
    /* It may have come before the anchor held; then no event says so. */
    if (look_up(d, &st))
        d->stale = true;
}

static void dir_look_up(struct dir *d)
{
    struct stat st;

    d->stale = false;
    /* Watch first, then look: what changes in between is told again. */
    int id = add_watch(d->tree, d->full,
                       d->parent == NULL ? FOLDER_EVENTS : FOLDER_EVENTS | IN_DONT_FOLLOW);
    if (id != d->watch)
        drop_watch(d);
    d->watch = id;
    if (!look_up(d, &st)) {
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

void dir_update(struct dir *d)
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
        dir_look_up(d);
}

/* ---- inotify ---- */

static void child_changed(struct dir *d, const char *name)
{
    char path[TREE_PATH_MAX + NAME_MAX + 2];
    struct dir *child;
    int len = snprintf(path, sizeof(path), "%s/%s", d->path, name);

    d->children_stale = true;
    touch(d, PART_CHILDREN);
    child = map_entry(map_find(&d->tree->dirs, path, (size_t)len), struct dir, in_tree);
    if (child != NULL)
        top_changed(child);
}

static void dir_event(struct dir *d, const struct inotify_event *ev)
{
    if ((ev->mask & GONE_EVENTS) != 0) {
        if ((ev->mask & IN_IGNORED) != 0)
            d->watch = -1;
        top_changed(d);
        return;
    }
    if (ev->len == 0) {
        /* Its permissions changed. */
        top_changed(d);
        return;
    }
    if (strcmp(ev->name, PROPERTIES_FILE) == 0) {
        d->data_stale = true;
        touch(d, PART_NODE);
    } else if ((ev->mask & IN_ISDIR) != 0) {
        child_changed(d, ev->name);
    } else if (ev->name[0] != '.') {
        dir_member_touched(d, ev->name, (ev->mask & IN_CLOSE_WRITE) != 0);
        touch(d, PART_PROVIDERS);
        dir_entries_touched(d, ev->name);
    }
}

static void directory_event(struct directory *t, const struct inotify_event *ev)
{
    if ((ev->mask & IN_Q_OVERFLOW) != 0) {
        log_warn(NULL, "tree-events-lost", "path=%s hint=\"reading all anew\"", t->root);
        everything_changed(t, true);
        return;
    }
    if (ev->wd == t->anchor) {
        if ((ev->mask & IN_IGNORED) != 0)
            t->anchor = -1;
        everything_changed(t, false);
        return;
    }
    map_for_each (struct dir, d, &t->dirs, in_tree) {
        if (d->watch == ev->wd)
            dir_event(d, ev);
    }
}

static void on_readable(void *context)
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

static void on_verify(struct timer *timer)
{
    struct directory *t = container_of(timer, struct directory, verify);

    everything_changed(t, false);
    timer_start(t->base.loop, &t->verify, t->blind ? VERIFY_BLIND_MS : VERIFY_MS);
}

/* ---- the backend ---- */

static void directory_observe(struct tree_spot *s)
{
    struct dir *d = dir_get(directory_of(s->tree), s->path);

    d->spot = s;
    s->place = d;
    all_stale(d);
}

static void directory_refresh(struct tree_spot *s)
{
    struct dir *d = s->place;

    dir_update(d);
    s->birth = d->exists ? (uint64_t)d->ino : 0;
    dir_read(d);
}

static void directory_forget(struct tree_spot *s)
{
    struct dir *d = s->place;

    d->spot = NULL;
    timer_stop(&d->doubt);
    timer_stop(&d->recheck);
    dir_put(d);
}

static void directory_status(const struct tree *base, struct tree_status *out)
{
    /* Its first member. */
    const struct directory *t = (const void *)base;

    out->connected = access(t->root, R_OK | X_OK) == 0;
}

static struct slice without_slashes(struct slice place)
{
    while (place.len > 1 && place.p[place.len - 1] == '/')
        --place.len;
    return place;
}

static enum err directory_check(struct slice place, struct diag *d)
{
    /* A node's path, a provider's name and the terminator must fit behind it. */
    enum { ROOT_MAX = PATH_MAX - TREE_PATH_MAX - NAME_MAX - 2 };

    place = without_slashes(place);
    if (place.p[0] != '/' || memchr(place.p, '\0', place.len) != NULL) {
        diag_add(d, NULL, 0, 0, "tree 'directory:%.*s': want an absolute path", SLICE_FMT(place));
        return ERR_SYNTAX;
    }
    if (place.len == 1 || place.len > ROOT_MAX) {
        diag_add(d, NULL, 0, 0, "tree 'directory:%.*s': %s", SLICE_FMT(place),
                 place.len == 1 ? "the root directory cannot be a tree" : "path too long");
        return ERR_SYNTAX;
    }
    return ERR_OK;
}

static enum err directory_open(struct loop *l, struct slice place, const struct tree_options *o,
                               struct tree **out, struct diag *d)
{
    enum err e = directory_check(place, d);

    (void)o;
    if (e != ERR_OK)
        return e;
    struct directory *t = xcalloc(1, sizeof(*t));
    t->base = (struct tree){.backend = &tree_directory, .loop = l, .top = ""};
    list_init(&t->base.broken);
    t->root = xslicedup(without_slashes(place));
    t->anchor = -1;
    t->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (t->inotify < 0)
        go_blind(t, "inotify_init1");
    else
        t->readable = watch_start(l, t->inotify, on_readable, t);
    timer_init(&t->verify, on_verify);
    timer_start(l, &t->verify, t->blind ? VERIFY_BLIND_MS : VERIFY_MS);
    *out = &t->base;
    return ERR_OK;
}

static void directory_close(struct tree *base)
{
    struct directory *t = directory_of(base);

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
    .entry_set = directory_entry_set,
    .entry_held = directory_entry_held,
    .leave = directory_leave,
    .read = directory_read,
    .write = directory_write,
    .create = directory_create,
    .remove = directory_remove,
    .reset_acl = directory_reset_acl,
    .abandon = directory_abandon,
    .data_max = NODE_BYTES_MAX,
    .text_as_json = true,
};
