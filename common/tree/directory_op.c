/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations on single nodes of a directory tree. Directories and files are renamed into place, so
 * that a watch sees the old or the new. A writer holds a lock on the node's directory from its
 * comparison of the version to the rename; readers need none. No symbolic link is followed below
 * the root, and a regular file is a provider as long as its lock is held.
 */
#include "common/base/file.h"
#include "common/tree/directory.h"
#include "common/tree/group_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

enum {
    NODE_FILE_MODE = 0600, /* until it is complete */
    /* Between two tries for a directory's lock, which is held for one small write. */
    LOCK_PAUSE_MS = 2,
};

/* The path of the node in the file system, and of FILE in it. */
static char *path_of(const struct tree_op *op, const char *file)
{
    const struct directory *t = container_of(op->tree, struct directory, base);

    return xasprintf("%s%s%s", t->root, op->at, file);
}

/* Adds errno, which is about this node alone when it is about permissions. */
static enum err fail(const struct tree_op *op, const char *what)
{
    bool denied = errno == EACCES || errno == EPERM;

    diag_add(op->diag, NULL, 0, 0, "%s: cannot %s: %s%s", tree_path_shown(op->at), what,
             strerror(errno), denied ? " (are you in the group of the tree's owner?)" : "");
    return denied ? ERR_UNSUPPORTED : ERR_SYSTEM;
}

/* ---- which directory ---- */

/* Not hidden, and not the node's own file. */
static bool is_node_name(struct slice name)
{
    return name.len != 0 && name.len < PROVIDER_NAME_ROOM && name.p[0] != '.' &&
           !slice_is(name, PROPERTIES_FILE);
}

static bool is_folder(const char *full)
{
    struct stat st;

    return lstat(full, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Whether the first LEN bytes of the path are a node. The root may be a symbolic link. */
static bool node_exists(const struct tree_op *op, size_t len)
{
    const struct directory *t = container_of(op->tree, struct directory, base);
    struct stat st;

    if (stat(t->root, &st) != 0 || !S_ISDIR(st.st_mode))
        return false;
    for (size_t at = 0; at < len;) {
        size_t name = at + 1;

        for (at = name; at < len && op->at[at] != '/';)
            ++at;
        char *full = xasprintf("%s%.*s", t->root, (int)at, op->at);
        bool exists = is_node_name((struct slice){op->at + name, at - name}) && is_folder(full);
        free(full);
        if (!exists)
            return false;
    }
    return true;
}

/* The bytes of the path above its last name. */
static size_t above(const struct tree_op *op)
{
    return (size_t)(strrchr(op->at, '/') - op->at);
}

/* ---- reading ---- */

/* Equal bytes are the same version. */
static uint64_t version_of(struct slice bytes)
{
    return map_hash(bytes.p, bytes.len);
}

static void set_data(struct tree_op *op, struct slice bytes)
{
    tree_record_set_data(&op->record, bytes);
    op->record.version = version_of(bytes);
}

/* The bytes of the node's own file; none when there is no such file. */
static enum err read_bytes(const struct tree_op *op, struct text *out)
{
    char *file = path_of(op, "/" PROPERTIES_FILE);
    const char *path = tree_path_shown(op->at);
    struct stat st;
    int fd = -1;
    enum err e = plain_file_open(file, &fd, &st);

    if (e == ERR_OK)
        e = plain_file_read(fd, NODE_BYTES_MAX, out);
    if (e == ERR_NOT_FOUND)
        e = ERR_OK;
    else if (e == ERR_SYSTEM)
        e = fail(op, "read " PROPERTIES_FILE);
    else if (e == ERR_UNSUPPORTED)
        diag_add(op->diag, NULL, 0, 0, "%s: " PROPERTIES_FILE " is no regular file", path);
    else if (e == ERR_TOO_LARGE)
        diag_add(op->diag, NULL, 0, 0, "%s: " PROPERTIES_FILE " has more than %d bytes", path,
                 NODE_BYTES_MAX);
    if (fd >= 0)
        close(fd);
    free(file);
    return e;
}

/* The path is no directory: it may be a provider's file. */
static enum err read_provider(struct tree_op *op)
{
    struct text bytes = {0};
    struct stat st;
    int fd = -1;

    if (op->at[0] == '\0' || !node_exists(op, above(op)))
        return ERR_NOT_FOUND;
    char *full = path_of(op, "");
    enum err e = is_node_name(slice_of(strrchr(op->at, '/') + 1)) ? plain_file_open(full, &fd, &st)
                                                                  : ERR_NOT_FOUND;
    /* Another kind of file, or one of a process that has exited, is nothing. */
    if (e == ERR_UNSUPPORTED || (e == ERR_OK && !provider_file_held(fd)))
        e = ERR_NOT_FOUND;
    else if (e == ERR_OK)
        e = plain_file_read(fd, NODE_BYTES_MAX, &bytes);
    if (e == ERR_SYSTEM)
        e = fail(op, "read it");
    else if (e == ERR_TOO_LARGE)
        diag_add(op->diag, NULL, 0, 0, "%s: more than %d bytes", op->at, NODE_BYTES_MAX);
    if (e == ERR_OK)
        set_data(op, text_slice(&bytes));
    op->record.provider = true;
    text_fini(&bytes);
    if (fd >= 0)
        close(fd);
    free(full);
    return e;
}

/* Whether the entry NAME of FULL is a directory, or a file that a provider holds. */
static bool is_child(const char *full, const char *name)
{
    char decoded[PROVIDER_NAME_ROOM];
    char *path = xasprintf("%s/%s", full, name);
    struct stat st;
    int fd = -1;
    bool yes = is_folder(path);

    if (!yes && provider_name_decode(name, decoded) && plain_file_open(path, &fd, &st) == ERR_OK) {
        yes = provider_file_held(fd);
        close(fd);
    }
    free(path);
    return yes;
}

static enum err read_children(struct tree_op *op)
{
    struct tree_record *r = &op->record;
    char *full = path_of(op, "");
    DIR *folder = opendir(full);
    struct dirent *entry;
    enum err e = ERR_OK;

    if (folder == NULL)
        e = errno == ENOENT ? ERR_NOT_FOUND : fail(op, "list it");
    while (e == ERR_OK && (entry = readdir(folder)) != NULL) {
        if (!is_node_name(slice_of(entry->d_name)) || !is_child(full, entry->d_name))
            continue;
        if (r->nchildren == TREE_CHILDREN_MAX) {
            diag_add(op->diag, NULL, 0, 0, "%s: more than %d children", tree_path_shown(op->at),
                     TREE_CHILDREN_MAX);
            e = ERR_TOO_LARGE;
        } else {
            tree_record_add_child(r, entry->d_name);
        }
    }
    if (folder != NULL)
        closedir(folder);
    free(full);
    tree_record_sort(r);
    return e;
}

void directory_read(struct tree_op *op)
{
    struct text bytes = {0};

    if (!node_exists(op, strlen(op->at))) {
        tree_op_finish(op, read_provider(op));
        return;
    }
    enum err e = read_bytes(op, &bytes);
    if (e == ERR_OK) {
        set_data(op, text_slice(&bytes));
        e = read_children(op);
    }
    text_fini(&bytes);
    tree_op_finish(op, e);
}

/* ---- writing ---- */

/* BYTES into FULL/properties.json, by way of a hidden file: others are taken for providers. */
static bool put_file(const char *full, struct slice bytes)
{
    char *hidden = xasprintf("%s/" NEW_FILE_PREFIX "properties-%ld", full, (long)getpid());
    char *file = xasprintf("%s/" PROPERTIES_FILE, full);
    int fd = file_open_new(hidden, NODE_FILE_MODE);
    bool ok = false;

    if (fd >= 0) {
        ok = group_file_share(fd, hidden) && file_write_all(fd, bytes) && fsync(fd) == 0;
        ok = close(fd) == 0 && ok && rename(hidden, file) == 0;
        if (!ok) {
            int saved = errno;

            unlink(hidden);
            errno = saved;
        }
    }
    free(file);
    free(hidden);
    return ok;
}

/* The directory is locked. */
static enum err write_locked(struct tree_op *op)
{
    char *full = path_of(op, "");
    struct text now = {0};
    enum err e = op->version != NULL ? read_bytes(op, &now) : ERR_OK;
    struct slice bytes = tree_op_bytes(op);

    if (e == ERR_OK && op->version != NULL && version_of(text_slice(&now)) != *op->version)
        e = ERR_BUSY;
    /* To a watch an empty file is not JSON. */
    if (e == ERR_OK && !put_file(full, bytes.len != 0 ? bytes : SLICE_LIT("{}")))
        e = fail(op, "write " PROPERTIES_FILE);
    /* Some file systems cannot; the rename is then as durable as they make it. */
    if (e == ERR_OK)
        (void)fsync(op->fd);
    text_fini(&now);
    free(full);
    return e;
}

/* Others hold the lock for one write, unless they are stopped. */
static void try_lock(struct timer *timer)
{
    struct tree_op *op = container_of(timer, struct tree_op, again);
    bool locked = op->fd >= 0 && flock(op->fd, LOCK_EX | LOCK_NB) == 0;

    if (!locked && op->fd >= 0 && (errno == EWOULDBLOCK || errno == EINTR)) {
        timer_start(op->tree->loop, &op->again, LOCK_PAUSE_MS);
        return;
    }
    enum err e = locked ? write_locked(op) : fail(op, "lock its folder");
    if (op->fd >= 0)
        close(op->fd);
    tree_op_finish(op, e);
}

void directory_write(struct tree_op *op)
{
    if (!node_exists(op, strlen(op->at))) {
        enum err e = read_provider(op);

        if (e == ERR_OK) {
            diag_add(op->diag, NULL, 0, 0, "%s: belongs to the process that registered it", op->at);
            e = ERR_UNSUPPORTED;
        }
        tree_op_finish(op, e);
        return;
    }
    char *full = path_of(op, "");
    op->fd = open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(full);
    timer_init(&op->again, try_lock);
    try_lock(&op->again);
}

void directory_abandon(struct tree_op *op)
{
    close(op->fd);
    errno = ETIMEDOUT;
    (void)fail(op, "lock its folder");
}

/* ---- creating ---- */

/* A directory with BYTES as its properties, if any, at FULL, which comes into being complete. */
static bool put_folder(const char *full, struct slice bytes)
{
    const char *last = strrchr(full, '/');
    char *hidden =
        xasprintf("%.*s/" NEW_FILE_PREFIX "node-%ld", (int)(last - full), full, (long)getpid());
    bool ok = group_folder_make(hidden);
    int saved;

    if (ok) {
        ok = (bytes.len == 0 || put_file(hidden, bytes)) &&
             renameat2(AT_FDCWD, hidden, AT_FDCWD, full, RENAME_NOREPLACE) == 0;
        /* Where the flag is not known: a directory replaces at most an empty one. */
        if (!ok && (errno == EINVAL || errno == ENOSYS))
            ok = rename(hidden, full) == 0;
    }
    saved = errno;
    if (!ok) {
        char *file = xasprintf("%s/" PROPERTIES_FILE, hidden);

        unlink(file);
        rmdir(hidden);
        free(file);
    }
    free(hidden);
    errno = saved;
    return ok;
}

static enum err create_root(const struct tree_op *op)
{
    char *full = path_of(op, "");
    struct slice bytes = tree_op_bytes(op);
    bool ok = group_folder_make_all(full) && (bytes.len == 0 || put_file(full, bytes));
    enum err e = ok ? ERR_OK : fail(op, "make it");

    free(full);
    return e;
}

static enum err create_below(const struct tree_op *op)
{
    if (!node_exists(op, above(op)))
        return ERR_NOT_FOUND;
    if (!is_node_name(slice_of(strrchr(op->at, '/') + 1))) {
        diag_add(op->diag, NULL, 0, 0,
                 "%s: no name for a node here: it is hidden, taken, or longer than %d bytes",
                 op->at, PROVIDER_NAME_ROOM - 1);
        return ERR_UNSUPPORTED;
    }
    char *full = path_of(op, "");
    enum err e = ERR_OK;
    if (!put_folder(full, tree_op_bytes(op)))
        e = errno == EEXIST || errno == ENOTEMPTY ? ERR_EXISTS : fail(op, "make it");
    free(full);
    return e;
}

void directory_create(struct tree_op *op)
{
    if (node_exists(op, strlen(op->at)))
        tree_op_finish(op, ERR_EXISTS);
    else
        tree_op_finish(op, op->at[0] == '\0' ? create_root(op) : create_below(op));
}

/* ---- removing ---- */

/* Deletes files that are not held: of providers that have ended, and unfinished ones. */
static void clear_folder(const char *full)
{
    DIR *folder = opendir(full);
    struct dirent *entry;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (strcmp(entry->d_name, PROPERTIES_FILE) == 0)
            continue;
        char *path = xasprintf("%s/%s", full, entry->d_name);
        struct stat st;

        if (lstat(path, &st) == 0 && S_ISREG(st.st_mode)) {
            /* One that is held stays, and with it the directory. */
            enum err unused = provider_file_clear(path);
            (void)unused;
        }
        free(path);
    }
    if (folder != NULL)
        closedir(folder);
}

/*
 * A provider may come at any moment. Its file keeps the directory from being removed; the
 * properties, which had to be deleted first, are put back then.
 */
void directory_remove(struct tree_op *op)
{
    char *full = path_of(op, "");
    char *file = path_of(op, "/" PROPERTIES_FILE);
    struct text bytes = {0};
    enum err e = node_exists(op, strlen(op->at)) ? read_bytes(op, &bytes) : ERR_NOT_FOUND;

    if (e == ERR_OK) {
        clear_folder(full);
        bool had = unlink(file) == 0;
        if (rmdir(full) != 0) {
            int saved = errno;

            if (had && !put_file(full, text_slice(&bytes)))
                (void)fail(op, "put back " PROPERTIES_FILE);
            errno = saved;
            e = saved == ENOTEMPTY || saved == EEXIST ? ERR_BUSY : fail(op, "remove it");
        }
    }
    text_fini(&bytes);
    free(file);
    free(full);
    tree_op_finish(op, e);
}

void directory_reset_acl(struct tree_op *op)
{
    diag_add(op->diag, NULL, 0, 0, "%s: a directory's permissions are its owner's: chmod, chown",
             tree_path_shown(op->at));
    tree_op_finish(op, ERR_UNSUPPORTED);
}
