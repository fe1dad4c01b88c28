/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes of a directory tree: the contents of a directory are read into its node; and operations on
 * single nodes. Any member of the group may have written them: sizes, numbers and types of files
 * are checked. A provider exists while its file is locked. The kernel reports the close of a file
 * shortly before it drops the lock, so a close is followed by a few more checks.
 *
 * Directories and files are renamed into place, so that a watch sees the old or the new. A writer
 * holds a lock on the node's directory from its comparison of the version to the rename; readers
 * need none. No symbolic link is followed below the root.
 */
#include "common/base/file.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/tree/directory.h"
#include "common/tree/provider_file.h"
#include "common/tree/tree_op.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum {
    NODE_FILE_MODE = 0600, /* until it is complete */
    /* Between two tries for a directory's lock, which is held for one small write. */
    LOCK_PAUSE_MS = 2,
};

/* A provider's file as last seen. */
struct seen_provider {
    struct map_node in_dir;
    bool live;
    bool changed; /* something happened to it: to be checked */
    bool reread;  /* its content may be new */
    bool closing; /* a writer closed it; its lock may go any moment */
    struct stat seen;
    json_t *properties;
    char name[PROVIDER_NAME_ROOM]; /* the provider's */
    char file[];
};

static void path_in(const char *full, const char *file, char out[PATH_MAX])
{
    int len = snprintf(out, PATH_MAX, "%s/%s", full, file);

    /* directory_check() bounds the root. */
    ASSERT(len < PATH_MAX);
}

/* ---- members ---- */

static void member_destroy(struct dir *d, struct seen_provider *m)
{
    map_remove(&d->members, &m->in_dir);
    json_decref(m->properties);
    free(m);
}

static void members_clear(struct dir *d)
{
    map_for_each_safe (struct seen_provider, m, &d->members, in_dir)
        member_destroy(d, m);
}

/* The member FILE, made if need be. NULL: no provider's name, or too many. */
static struct seen_provider *member_get(struct dir *d, const char *file)
{
    struct seen_provider *m;
    char name[PROVIDER_NAME_ROOM];
    size_t len = strlen(file);

    m = map_entry(map_find(&d->members, file, len), struct seen_provider, in_dir);
    if (m != NULL)
        return m;
    if (strcmp(file, PROPERTIES_FILE) == 0 || !provider_name_decode(file, name))
        return NULL;
    if (map_count(&d->members) == TREE_CHILDREN_MAX) {
        log_warn(NULL, "tree-too-many-registrations", "path=%s limit=%d", d->full,
                 TREE_CHILDREN_MAX);
        return NULL;
    }
    m = xcalloc(1, sizeof(*m) + len + 1);
    memcpy(m->file, file, len + 1);
    memcpy(m->name, name, sizeof(name));
    m->properties = json_object();
    map_add(&d->members, &m->in_dir, m->file, len);
    return m;
}

void dir_member_touched(struct dir *d, const char *file, bool closed)
{
    if (d->node == NULL || (d->node->parts & PART_PROVIDERS) == 0)
        return;
    struct seen_provider *m = member_get(d, file);
    if (m == NULL)
        return;
    m->changed = m->reread = true;
    if (closed) {
        m->closing = true;
        d->recheck_ms = 1;
        timer_stop(&d->recheck);
    }
}

static bool same_content(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* Checks M's file. Returns whether anything about it has changed. */
static bool member_check(struct dir *d, struct seen_provider *m)
{
    char path[PATH_MAX];
    char why[JSON_WHY_ROOM];
    struct text bytes = {0};
    bool was_live = m->live;
    struct stat st;
    int fd = -1;

    m->changed = false;
    path_in(d->full, m->file, path);
    enum err e = plain_file_open(path, &fd, &st);
    if (e == ERR_SYSTEM) {
        /* Unknown at present (no descriptors, no permission): leave it as it was until the next
         * scan. */
        log_warn(NULL, "registration-invalid", "file=%s reason=\"%s\"", path, strerror(errno));
        return false;
    }
    m->live = e == ERR_OK && provider_file_held(fd);
    bool is_new = m->live && (!was_live || m->reread || !same_content(&m->seen, &st));
    if (is_new) {
        enum err read = file_read_from(fd, PROVIDER_BYTES_MAX, &bytes);

        json_decref(m->properties);
        m->properties =
            read == ERR_OK ? node_object_parse(text_slice(&bytes), PROVIDER_BYTES_MAX, why) : NULL;
        if (m->properties == NULL) {
            log_warn(NULL, "registration-invalid", "file=%s reason=\"%s\"", path,
                     read == ERR_OK ? why : err_text(read));
            m->properties = json_object(); /* the provider still exists */
        }
        m->seen = st;
        text_fini(&bytes);
    }
    m->reread = false;
    if (fd >= 0)
        close(fd);
    if (e == ERR_OK && !m->live && provider_file_clear(path) == ERR_SYSTEM)
        log_warn(NULL, "tree-leftover-not-removed", "file=%s reason=\"%s\"", path, strerror(errno));
    return is_new || m->live != was_live;
}

/* Marks all provider files, existing or known. Returns false if D cannot be read. */
static bool scan_members(struct dir *d)
{
    DIR *directory = opendir(d->full);
    struct dirent *entry;
    char path[PATH_MAX];
    struct stat st;

    if (directory == NULL) {
        log_warn(NULL, "tree-unreadable", "path=%s reason=\"%s\"", d->full, strerror(errno));
        return false;
    }
    while ((entry = readdir(directory)) != NULL) {
        path_in(d->full, entry->d_name, path);
        /* An old file that was not in place when its owner died. */
        if (strncmp(entry->d_name, NEW_FILE_PREFIX, strlen(NEW_FILE_PREFIX)) == 0 &&
            lstat(path, &st) == 0 && S_ISREG(st.st_mode) &&
            st.st_mtime + NEW_FILE_AGE_S < time(NULL) && provider_file_clear(path) == ERR_OK)
            log_info(NULL, "tree-leftover-removed", "file=%s", path);
        if (entry->d_name[0] != '.' && (entry->d_type == DT_REG || entry->d_type == DT_UNKNOWN))
            (void)member_get(d, entry->d_name);
    }
    closedir(directory);
    map_for_each (struct seen_provider, m, &d->members, in_dir) {
        m->reread = m->reread || d->reread;
        m->changed = true;
    }
    d->rescan = d->reread = false;
    return true;
}

static void read_members(struct dir *d)
{
    bool changed = d->node->providers == NULL;

    if (d->rescan && !scan_members(d)) {
        tree_set_replace(&d->node->providers, NULL);
        return;
    }
    map_for_each_safe (struct seen_provider, m, &d->members, in_dir) {
        if (!m->changed)
            continue;
        changed = member_check(d, m) || changed;
        if (!m->live)
            member_destroy(d, m);
        else if (m->closing && !timer_running(&d->recheck))
            timer_start(d->tree->base.loop, &d->recheck, d->recheck_ms);
    }
    if (!changed)
        return;
    json_t *set = json_object();
    map_for_each (struct seen_provider, m, &d->members, in_dir) {
        if (m->live)
            json_object_set_nocheck(set, m->name, m->properties);
    }
    tree_set_replace(&d->node->providers, tree_set_sorted(set));
}

static void on_recheck(struct timer *timer)
{
    struct dir *d = container_of(timer, struct dir, recheck);

    d->recheck_ms *= 4;
    map_for_each (struct seen_provider, m, &d->members, in_dir) {
        m->changed = m->changed || m->closing;
        m->closing = m->closing && d->recheck_ms <= RECHECK_MS_MAX;
    }
    tree_node_touch(d->node, PART_PROVIDERS);
}

/* ---- properties ---- */

/* FULL/properties.json. Errors: as of plain_file_open and file_read_from. */
static enum err read_file(const char *full, struct text *out)
{
    char path[PATH_MAX];
    struct stat st;
    int fd = -1;

    path_in(full, PROPERTIES_FILE, path);
    enum err e = plain_file_open(path, &fd, &st);
    if (e != ERR_OK)
        return e;
    e = file_read_from(fd, NODE_BYTES_MAX, out);
    int saved = errno;
    close(fd);
    errno = saved;
    return e;
}

static void read_data(struct dir *d)
{
    struct tree_node *n = d->node;
    char reason[JSON_WHY_ROOM] = "";
    char why[JSON_WHY_ROOM + 64];
    struct text bytes = {0};
    json_t *v = NULL;
    enum err e = read_file(d->full, &bytes);

    d->data_stale = false;
    if (e == ERR_SYSTEM)
        snprintf(reason, sizeof(reason), "%s", strerror(errno));
    else if (e == ERR_TOO_LARGE)
        snprintf(reason, sizeof(reason), "over %d bytes", NODE_BYTES_MAX);
    else if (e == ERR_UNSUPPORTED)
        snprintf(reason, sizeof(reason), "not a regular file");
    else if (e == ERR_OK)
        v = node_object_parse(text_slice(&bytes), NODE_BYTES_MAX, reason);
    /* A node that was never valid has no properties; another one retains them, as if it were gone
     * itself. */
    else if (json_object_size(n->properties) == 0)
        v = json_object();
    else
        snprintf(reason, sizeof(reason), "does not exist");
    snprintf(why, sizeof(why), PROPERTIES_FILE ": %s", reason);
    text_fini(&bytes);
    bool is_new = v == NULL && (n->parses || n->problem == NULL || strcmp(n->problem, why) != 0);
    /* Retain the known state for a moment: editors write in place, or move the old file away before
     * the new one appears; defaults or errors should not be reported in between. */
    if (is_new && n->known && !d->doubt_over) {
        if (!timer_running(&d->doubt))
            timer_start(d->tree->base.loop, &d->doubt, DOUBT_MS);
        return;
    }
    timer_stop(&d->doubt);
    d->doubt_over = false;
    tree_node_set(n, v, v == NULL ? why : NULL);
}

static void on_doubt_over(struct timer *timer)
{
    struct dir *d = container_of(timer, struct dir, doubt);

    d->doubt_over = true;
    d->data_stale = true;
    tree_node_touch(d->node, PART_NODE);
}

/* ---- children ---- */

static bool is_directory(const char *full)
{
    struct stat st;

    return lstat(full, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Not hidden, and not the node's own file. */
static bool is_node_name(struct slice name)
{
    return name.len != 0 && name.len < PROVIDER_NAME_ROOM && name.p[0] != '.' &&
           !slice_is(name, PROPERTIES_FILE);
}

/* The names of the nodes in FULL, which are directories, and, with PROVIDERS, of the files that
 * providers hold: sorted, at most MAX. NULL: see errno. */
static json_t *list_directory(const char *full, bool providers, size_t max)
{
    DIR *directory = opendir(full);
    char decoded[PROVIDER_NAME_ROOM];
    char path[PATH_MAX];
    struct dirent *entry;
    struct stat st;
    int fd = -1;

    if (directory == NULL)
        return NULL;
    json_t *set = json_object();
    while (json_object_size(set) < max && (entry = readdir(directory)) != NULL) {
        if (!is_node_name(slice_of(entry->d_name)))
            continue;
        path_in(full, entry->d_name, path);
        bool listed =
            entry->d_type == DT_DIR || (entry->d_type == DT_UNKNOWN && is_directory(path));
        if (!listed && providers && provider_name_decode(entry->d_name, decoded) &&
            plain_file_open(path, &fd, &st) == ERR_OK) {
            listed = provider_file_held(fd);
            close(fd);
        }
        if (listed)
            json_object_set_new_nocheck(set, entry->d_name, json_null());
    }
    closedir(directory);
    return tree_set_sorted(set);
}

void dir_read(struct dir *d)
{
    struct tree_node *n = d->node;

    if (!d->exists) {
        tree_node_set(n, NULL, NULL);
        members_clear(d);
        return;
    }
    if (d->data_stale)
        read_data(d);
    if ((n->parts & PART_PROVIDERS) != 0)
        read_members(d);
    if ((n->parts & PART_CHILDREN) != 0 && d->children_stale) {
        tree_set_replace(&n->children, list_directory(d->full, false, TREE_CHILDREN_MAX));
        d->children_stale = n->children == NULL;
    }
}

void dir_read_init(struct dir *d)
{
    d->data_stale = d->children_stale = d->rescan = true;
    timer_init(&d->doubt, on_doubt_over);
    timer_init(&d->recheck, on_recheck);
}

void dir_read_fini(struct dir *d)
{
    timer_stop(&d->doubt);
    timer_stop(&d->recheck);
    members_clear(d);
}

/* ==== operations ==== */

/* The path of the node in the file system. */
static void path_of(const struct tree_op *op, char out[PATH_MAX])
{
    const struct directory *t = container_of(op->tree, struct directory, base);

    snprintf(out, PATH_MAX, "%s%s", t->root, op->at);
}

/* Adds errno to OP's diag. Returns ERR_UNSUPPORTED for missing permission, else ERR_SYSTEM. */
static enum err node_fail(const struct tree_op *op, const char *what)
{
    bool denied = errno == EACCES || errno == EPERM;

    diag_add(op->diag, NULL, 0, 0, "%s: cannot %s: %s%s", tree_path_shown(op->at), what,
             strerror(errno), denied ? " (is the user in the group of the tree's owner?)" : "");
    return denied ? ERR_UNSUPPORTED : ERR_SYSTEM;
}

/* Whether the first LEN bytes of the path are a node. The root may be a symbolic link. */
static bool node_exists(const struct tree_op *op, size_t len)
{
    const struct directory *t = container_of(op->tree, struct directory, base);
    char full[PATH_MAX];
    struct stat st;

    if (stat(t->root, &st) != 0 || !S_ISDIR(st.st_mode))
        return false;
    for (size_t at = 0; at < len;) {
        size_t name = at + 1;

        at = name + strcspn(op->at + name, "/");
        snprintf(full, sizeof(full), "%s%.*s", t->root, (int)at, op->at);
        if (!is_node_name((struct slice){op->at + name, at - name}) || !is_directory(full))
            return false;
    }
    return true;
}

/* The bytes of the path above its last name. */
static size_t parent_bytes(const struct tree_op *op)
{
    return (size_t)(strrchr(op->at, '/') - op->at);
}

/* ---- reading ---- */

/* Equal bytes are the same version. */
static void set_data(struct tree_op *op, struct slice bytes)
{
    tree_record_set_data(&op->record, bytes);
    op->record.version = map_hash(bytes.p, bytes.len);
}

/* The bytes of the node's own file; empty if the file does not exist. */
static enum err read_bytes(const struct tree_op *op, const char *full, struct text *out)
{
    enum err e = read_file(full, out);
    if (e == ERR_NOT_FOUND)
        e = ERR_OK;
    else if (e == ERR_SYSTEM)
        e = node_fail(op, "read " PROPERTIES_FILE);
    else if (e == ERR_UNSUPPORTED)
        diag_add(op->diag, NULL, 0, 0, "%s: " PROPERTIES_FILE " is not a regular file",
                 tree_path_shown(op->at));
    else if (e == ERR_TOO_LARGE)
        diag_add(op->diag, NULL, 0, 0, "%s: " PROPERTIES_FILE " has more than %d bytes",
                 tree_path_shown(op->at), NODE_BYTES_MAX);
    return e;
}

/* The path is not a directory: it may be a provider's file. */
static enum err read_provider(struct tree_op *op, const char *full)
{
    struct text bytes = {0};
    struct stat st;
    int fd = -1;

    if (op->at[0] == '\0' || !node_exists(op, parent_bytes(op)) ||
        !is_node_name(slice_of(strrchr(op->at, '/') + 1)))
        return ERR_NOT_FOUND;
    enum err e = plain_file_open(full, &fd, &st);
    /* Another kind of file, or one of a process that has exited, is nothing. */
    if (e == ERR_UNSUPPORTED || (e == ERR_OK && !provider_file_held(fd)))
        e = ERR_NOT_FOUND;
    else if (e == ERR_OK)
        e = file_read_from(fd, NODE_BYTES_MAX, &bytes);
    if (e == ERR_SYSTEM)
        e = node_fail(op, "read it");
    else if (e == ERR_TOO_LARGE)
        diag_add(op->diag, NULL, 0, 0, "%s: more than %d bytes", op->at, NODE_BYTES_MAX);
    else if (e == ERR_OK)
        set_data(op, text_slice(&bytes));
    op->record.provider = true;
    text_fini(&bytes);
    if (fd >= 0)
        close(fd);
    return e;
}

static enum err read_node(struct tree_op *op, const char *full)
{
    json_t **children = &op->record.children;
    struct text bytes = {0};

    if (!node_exists(op, strlen(op->at)))
        return read_provider(op, full);
    enum err e = read_bytes(op, full, &bytes);
    if (e == ERR_OK) {
        set_data(op, text_slice(&bytes));
        *children = list_directory(full, true, TREE_CHILDREN_MAX + 1);
        if (*children == NULL)
            e = errno == ENOENT ? ERR_NOT_FOUND : node_fail(op, "list it");
    }
    if (e == ERR_OK && json_object_size(*children) > TREE_CHILDREN_MAX) {
        diag_add(op->diag, NULL, 0, 0, "%s: more than %d children", tree_path_shown(op->at),
                 TREE_CHILDREN_MAX);
        e = ERR_TOO_LARGE;
    }
    text_fini(&bytes);
    return e;
}

/* ---- changing ---- */

/* Writes BYTES to FULL/properties.json by a hidden file, as others would be taken for providers. */
static bool put_file(const char *full, struct slice bytes)
{
    char hidden[PATH_MAX];
    char file[PATH_MAX];

    path_in(full, PROPERTIES_FILE, file);
    if (!hidden_path_beside(file, hidden))
        return false;
    int fd = file_open_new(hidden, NODE_FILE_MODE);
    if (fd < 0)
        return false;
    bool ok = group_file_share(fd, hidden) && file_write_all(fd, bytes) && fsync(fd) == 0;
    ok = close(fd) == 0 && ok && rename(hidden, file) == 0;
    if (!ok) {
        int saved = errno;

        unlink(hidden);
        errno = saved;
    }
    return ok;
}

/* Locks the directory, then writes. Others hold the lock for one write, unless they are stopped. */
static void write_locked(struct timer *timer)
{
    struct tree_op *op = container_of(timer, struct tree_op, again);
    bool locked = op->fd >= 0 && flock(op->fd, LOCK_EX | LOCK_NB) == 0;
    struct slice bytes = tree_op_bytes(op);
    struct text now = {0};
    char full[PATH_MAX];

    if (!locked && op->fd >= 0 && (errno == EWOULDBLOCK || errno == EINTR)) {
        timer_start(op->tree->loop, &op->again, LOCK_PAUSE_MS);
        return;
    }
    enum err e = locked ? ERR_OK : node_fail(op, "lock its directory");
    path_of(op, full);
    if (e == ERR_OK && op->version != NULL)
        e = read_bytes(op, full, &now);
    if (e == ERR_OK && op->version != NULL && map_hash(now.p, now.len) != *op->version)
        e = ERR_BUSY;
    /* An empty file is invalid JSON for a watch. */
    if (e == ERR_OK && !put_file(full, bytes.len != 0 ? bytes : SLICE_LIT("{}")))
        e = node_fail(op, "write " PROPERTIES_FILE);
    /* A failure is ignored: some file systems do not support fsync of a directory. */
    if (e == ERR_OK)
        (void)fsync(op->fd);
    text_fini(&now);
    if (op->fd >= 0)
        close(op->fd);
    tree_op_finish(op, e);
}

static void write_node(struct tree_op *op, const char *full)
{
    if (!node_exists(op, strlen(op->at))) {
        enum err e = read_provider(op, full);

        if (e == ERR_OK) {
            diag_add(op->diag, NULL, 0, 0, "%s: belongs to the process that registered it", op->at);
            e = ERR_UNSUPPORTED;
        }
        tree_op_finish(op, e);
        return;
    }
    op->fd = open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    timer_init(&op->again, write_locked);
    write_locked(&op->again);
}

void directory_abandon(struct tree_op *op)
{
    close(op->fd);
    errno = ETIMEDOUT;
    (void)node_fail(op, "lock its directory");
}

/* Creates directory FULL with the properties BYTES (may be empty); it appears complete. */
static bool put_directory(const char *full, struct slice bytes)
{
    char hidden[PATH_MAX];
    char file[PATH_MAX];

    if (!hidden_path_beside(full, hidden))
        return false;
    path_in(hidden, PROPERTIES_FILE, file);
    bool made = group_directory_make(hidden) && (bytes.len == 0 || put_file(hidden, bytes));
    bool ok = made && renameat2(AT_FDCWD, hidden, AT_FDCWD, full, RENAME_NOREPLACE) == 0;
    /* Where the flag is not known: a directory replaces at most an empty one. */
    if (made && !ok && (errno == EINVAL || errno == ENOSYS))
        ok = rename(hidden, full) == 0;
    if (!ok) {
        int saved = errno;

        unlink(file);
        rmdir(hidden);
        errno = saved;
    }
    return ok;
}

static enum err create_node(struct tree_op *op, const char *full)
{
    struct slice bytes = tree_op_bytes(op);

    if (node_exists(op, strlen(op->at)))
        return ERR_EXISTS;
    if (op->at[0] == '\0')
        return group_directory_make_all(full) && (bytes.len == 0 || put_file(full, bytes))
                   ? ERR_OK
                   : node_fail(op, "make it");
    if (!node_exists(op, parent_bytes(op)))
        return ERR_NOT_FOUND;
    if (!is_node_name(slice_of(strrchr(op->at, '/') + 1))) {
        diag_add(op->diag, NULL, 0, 0,
                 "%s: not a valid node name here: it is hidden, taken, or longer than %d bytes",
                 op->at, PROVIDER_NAME_ROOM - 1);
        return ERR_UNSUPPORTED;
    }
    if (put_directory(full, bytes))
        return ERR_OK;
    return errno == EEXIST || errno == ENOTEMPTY ? ERR_EXISTS : node_fail(op, "make it");
}

/* Deletes files that are not held: of providers that have ended, and unfinished ones. */
static void clear_directory(const char *full)
{
    DIR *directory = opendir(full);
    struct dirent *entry;

    if (directory == NULL)
        return;
    while ((entry = readdir(directory)) != NULL) {
        char path[PATH_MAX];
        struct stat st;

        path_in(full, entry->d_name, path);
        if (strcmp(entry->d_name, PROPERTIES_FILE) != 0 && lstat(path, &st) == 0 &&
            S_ISREG(st.st_mode)) {
            /* A file that is held remains, so that rmdir fails. */
            enum err unused = provider_file_clear(path);
            (void)unused;
        }
    }
    closedir(directory);
}

/*
 * A provider may register at any time. Its file prevents the removal of the directory; the
 * properties, which had to be deleted first, are restored then.
 */
static enum err remove_node(struct tree_op *op, const char *full)
{
    char file[PATH_MAX];
    struct text bytes = {0};
    enum err e = node_exists(op, strlen(op->at)) ? read_bytes(op, full, &bytes) : ERR_NOT_FOUND;

    path_in(full, PROPERTIES_FILE, file);
    if (e == ERR_OK) {
        clear_directory(full);
        bool had = unlink(file) == 0;
        if (rmdir(full) != 0) {
            int saved = errno;

            if (had && !put_file(full, text_slice(&bytes)))
                (void)node_fail(op, "put back " PROPERTIES_FILE);
            errno = saved;
            e = saved == ENOTEMPTY || saved == EEXIST ? ERR_BUSY : node_fail(op, "remove it");
        }
    }
    text_fini(&bytes);
    return e;
}

void directory_begin(struct tree_op *op)
{
    char full[PATH_MAX];

    path_of(op, full);
    switch (op->kind) {
    case TREE_READ:
        tree_op_finish(op, read_node(op, full));
        break;
    case TREE_WRITE:
        write_node(op, full);
        break;
    case TREE_CREATE:
        tree_op_finish(op, create_node(op, full));
        break;
    case TREE_REMOVE:
        tree_op_finish(op, remove_node(op, full));
        break;
    case TREE_RESET_ACL:
        diag_add(op->diag, NULL, 0, 0, "%s: permissions of a directory are set by chmod and chown",
                 tree_path_shown(op->at));
        tree_op_finish(op, ERR_UNSUPPORTED);
        break;
    case TREE_RESOLVE:
        UNREACHABLE();
    }
}
