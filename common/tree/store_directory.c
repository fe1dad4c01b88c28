/* SPDX-License-Identifier: Apache-2.0
 *
 * A directory tree, read and edited. Folders come into place whole, files by rename, so that who
 * watches sees the old or the new. A writer holds a lock on the node's folder from its look at the
 * version to the rename; readers need none. As in tree_directory.c no symbolic link is followed
 * below the root, and a regular file is a provider as long as somebody holds its lock.
 */
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/tree/directory.h"
#include "common/tree/group_folder.h"
#include "common/tree/store_kind.h"
#include "common/wire/node_data.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum {
    NODE_FILE_MODE = 0600, /* until it is whole */
    /* Between two tries for a folder's lock, which is held for one small write. */
    LOCK_PAUSE_NS = 2000000,
};

struct directory_store {
    struct store base;
    unsigned timeout_ms;
    char *root;
};

static struct directory_store *store_of(struct store *s)
{
    return container_of(s, struct directory_store, base);
}

static char *full_path(struct store *s, const char *path)
{
    return xasprintf("%s%s", store_of(s)->root, path);
}

/* Tell of errno, which is about this node alone when it is about permissions. */
static enum err fail(const char *path, const char *what, struct diag *d)
{
    bool denied = errno == EACCES || errno == EPERM;

    diag_add(d, NULL, 0, 0, "%s: cannot %s: %s%s", store_shown(path), what, strerror(errno),
             denied ? " (are you in the group of the tree's owner?)" : "");
    return denied ? ERR_UNSUPPORTED : ERR_SYSTEM;
}

static enum err directory_open(struct slice place, const struct store_options *o,
                               struct store **out, struct diag *d)
{
    if (place.p[0] != '/' || slice_find(place, '\0') != SIZE_MAX) {
        diag_add(d, NULL, 0, 0, "tree 'directory:%.*s': want an absolute path", SLICE_FMT(place));
        return ERR_SYNTAX;
    }
    struct directory_store *s = xcalloc(1, sizeof(*s));
    while (place.len > 1 && place.p[place.len - 1] == '/')
        --place.len;
    s->base.kind = &store_directory;
    s->base.top = "";
    s->timeout_ms = o->timeout_ms;
    /* "/" is written as nothing, for every path begins with one. */
    s->root = xslicedup(place.len > 1 ? place : SLICE_NULL);
    *out = &s->base;
    return ERR_OK;
}

static void directory_close(struct store *base)
{
    struct directory_store *s = store_of(base);

    free(s->root);
    free(s);
}

/* ---- which folder ---- */

/* Names that are no nodes: hidden ones, and the node's own file. */
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

/* Whether every folder above the last name of PATH is one. The root may be a symbolic link. */
static bool way_is_clear(struct store *s, const char *path)
{
    bool clear = true;

    for (const char *end = path; clear && *end != '\0' && (end = strchr(end + 1, '/')) != NULL;) {
        char *above = xasprintf("%s%.*s", store_of(s)->root, (int)(end - path), path);

        clear = is_folder(above);
        free(above);
    }
    for (struct slice rest = slice_of(path); clear && rest.len > 1;) {
        rest = (struct slice){rest.p + 1, rest.len - 1};
        size_t at = slice_find(rest, '/');
        size_t len = at != SIZE_MAX ? at : rest.len;

        clear = is_node_name((struct slice){rest.p, len});
        rest = (struct slice){rest.p + len, rest.len - len};
    }
    return clear;
}

static bool node_exists(struct store *s, const char *path)
{
    char *full = full_path(s, path);
    struct stat st;
    bool exists = path[0] == '\0'
                      ? stat(full[0] != '\0' ? full : "/", &st) == 0 && S_ISDIR(st.st_mode)
                      : way_is_clear(s, path) && is_folder(full);

    free(full);
    return exists;
}

/* ---- reading ---- */

/* What a writer compares: the same bytes are the same version. */
static uint64_t fnv1a(struct slice s)
{
    uint64_t h = 0xcbf29ce484222325U;

    for (size_t i = 0; i < s.len; ++i)
        h = (h ^ (unsigned char)s.p[i]) * 0x100000001b3U;
    return h;
}

/* The bytes of FULL, a regular file; none when there is no such file. */
static enum err read_bytes(const char *path, const char *full, struct text *out, struct diag *d)
{
    struct stat st;
    int fd = -1;
    enum err e = plain_file_open(full, &fd, &st);

    if (e == ERR_NOT_FOUND)
        return ERR_OK;
    if (e == ERR_OK)
        e = plain_file_read(fd, NODE_BYTES_MAX, out);
    if (e == ERR_SYSTEM)
        e = fail(path, "read " PROPERTIES_FILE, d);
    else if (e == ERR_UNSUPPORTED)
        diag_add(d, NULL, 0, 0, "%s: " PROPERTIES_FILE " is no regular file", store_shown(path));
    else if (e == ERR_TOO_LARGE)
        diag_add(d, NULL, 0, 0, "%s: " PROPERTIES_FILE " has more than %d bytes", store_shown(path),
                 NODE_BYTES_MAX);
    if (fd >= 0)
        close(fd);
    return e;
}

static void set_properties(struct store_node *n, struct slice bytes)
{
    char why[JSON_WHY_ROOM];

    n->properties = node_data_decode(bytes, why);
    n->problem = why[0] != '\0' ? xstrdup(why) : NULL;
    n->version = fnv1a(bytes);
}

/* PATH is no folder: it may be a provider's file. */
static enum err read_provider(struct store *s, const char *path, struct store_node *out,
                              struct diag *d)
{
    char *full = full_path(s, path);
    struct text bytes = {0};
    struct stat st;
    int fd = -1;
    enum err e = way_is_clear(s, path) ? plain_file_open(full, &fd, &st) : ERR_NOT_FOUND;

    /* Something else, or of somebody who has ended, is nothing. */
    if (e == ERR_UNSUPPORTED || (e == ERR_OK && !provider_file_held(fd)))
        e = ERR_NOT_FOUND;
    else if (e == ERR_OK)
        e = plain_file_read(fd, NODE_BYTES_MAX, &bytes);
    if (e == ERR_SYSTEM)
        e = errno == ENOTDIR ? ERR_NOT_FOUND : fail(path, "read it", d);
    else if (e == ERR_TOO_LARGE)
        diag_add(d, NULL, 0, 0, "%s: more than %d bytes", path, NODE_BYTES_MAX);
    if (e == ERR_OK)
        set_properties(out, text_slice(&bytes));
    out->provider = true;
    text_fini(&bytes);
    if (fd >= 0)
        close(fd);
    free(full);
    return e;
}

/* Whether the entry NAME of FULL is a folder, or a file that a provider holds. */
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

static enum err read_children(const char *path, const char *full, struct store_node *out,
                              struct diag *d)
{
    DIR *folder = opendir(full);
    struct dirent *entry;

    if (folder == NULL)
        return errno == ENOENT ? ERR_NOT_FOUND : fail(path, "list it", d);
    while ((entry = readdir(folder)) != NULL) {
        if (!is_node_name(slice_of(entry->d_name)) || !is_child(full, entry->d_name))
            continue;
        if (out->nchildren == TREE_CHILDREN_MAX) {
            diag_add(d, NULL, 0, 0, "%s: more than %d children", store_shown(path),
                     TREE_CHILDREN_MAX);
            closedir(folder);
            return ERR_TOO_LARGE;
        }
        store_node_add_child(out, entry->d_name);
    }
    closedir(folder);
    store_node_sort(out);
    return ERR_OK;
}

static enum err directory_read(struct store *s, const char *path, struct store_node *out,
                               struct diag *d)
{
    if (!node_exists(s, path))
        return path[0] != '\0' ? read_provider(s, path, out, d) : ERR_NOT_FOUND;

    char *full = full_path(s, path);
    char *file = xasprintf("%s/" PROPERTIES_FILE, full);
    struct text bytes = {0};
    enum err e = read_bytes(path, file, &bytes, d);
    if (e == ERR_OK) {
        set_properties(out, text_slice(&bytes));
        e = read_children(path, full[0] != '\0' ? full : "/", out, d);
    }
    text_fini(&bytes);
    free(file);
    free(full);
    return e;
}

/* ---- writing ---- */

/*
 * PROPERTIES as a file has them: a lone string is put into JSON, which programs that watch insist
 * on, unless it is no text.
 */
static enum err encode(const char *path, const json_t *properties, struct text *out, struct diag *d)
{
    const json_t *v = json_object_get(properties, NODE_STRING_VALUE);

    if (json_object_size(properties) == 1 && json_is_string(v)) {
        struct text json = {0};
        json_t *again = NULL;

        json_print(properties, &json);
        bool text = json_parse(text_slice(&json), NODE_BYTES_MAX, &again, NULL) == ERR_OK &&
                    json_equal(again, properties);
        if (text)
            text_add(out, text_slice(&json));
        json_decref(again);
        text_fini(&json);
        if (text)
            return ERR_OK;
    }
    return store_encode(path, properties, NODE_BYTES_MAX, out, d);
}

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

/* Open FULL, locked; -1: errno says. Others hold the lock for one write, unless they are stopped.
 */
static int lock_folder(const char *full, unsigned timeout_ms)
{
    const struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};
    uint64_t deadline = clock_mono_us() / 1000 + timeout_ms;
    int fd = open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EINTR)
            continue;
        if (errno != EWOULDBLOCK || clock_mono_us() / 1000 > deadline) {
            int saved = errno == EWOULDBLOCK ? ETIMEDOUT : errno;

            close(fd);
            errno = saved;
            return -1;
        }
        nanosleep(&pause, NULL);
    }
    return fd;
}

/* With the folder FULL locked as FD. */
static enum err write_locked(const char *path, const char *full, int fd, struct slice bytes,
                             const uint64_t *version, struct diag *d)
{
    char *file = xasprintf("%s/" PROPERTIES_FILE, full);
    struct text now = {0};
    enum err e = version != NULL ? read_bytes(path, file, &now, d) : ERR_OK;

    if (e == ERR_OK && version != NULL && fnv1a(text_slice(&now)) != *version)
        e = ERR_BUSY;
    if (e == ERR_OK && !put_file(full, bytes))
        e = fail(path, "write " PROPERTIES_FILE, d);
    /* Some file systems cannot; the rename is then as durable as they make it. */
    if (e == ERR_OK)
        (void)fsync(fd);
    text_fini(&now);
    free(file);
    return e;
}

static enum err directory_write(struct store *s, const char *path, const json_t *properties,
                                const uint64_t *version, struct diag *d)
{
    struct text bytes = {0};

    if (!node_exists(s, path)) {
        struct store_node n = {0};
        enum err e = path[0] != '\0' ? read_provider(s, path, &n, d) : ERR_NOT_FOUND;

        store_node_fini(&n);
        if (e == ERR_OK) {
            diag_add(d, NULL, 0, 0, "%s: belongs to the process that registered it", path);
            e = ERR_UNSUPPORTED;
        }
        return e;
    }
    char *full = full_path(s, path);
    enum err e = encode(path, properties, &bytes, d);
    /* An empty file is no JSON to who watches. */
    if (e == ERR_OK && bytes.len == 0)
        text_add(&bytes, SLICE_LIT("{}"));
    int fd = e == ERR_OK ? lock_folder(full[0] != '\0' ? full : "/", store_of(s)->timeout_ms) : -1;
    if (e == ERR_OK)
        e = fd >= 0 ? write_locked(path, full, fd, text_slice(&bytes), version, d)
                    : fail(path, "lock its folder", d);
    if (fd >= 0)
        close(fd);
    free(full);
    text_fini(&bytes);
    return e;
}

/* ---- making ---- */

/* A folder with BYTES as its properties, if any, at FULL, which comes into being whole. */
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
        /* Where the flag is not known: a folder replaces at most an empty one. */
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

static enum err create_below(struct store *s, const char *path, struct slice bytes, struct diag *d)
{
    char *above = xslicedup((struct slice){path, (size_t)(strrchr(path, '/') - path)});
    bool has_place = node_exists(s, above);
    enum err e = ERR_OK;

    free(above);
    if (!has_place)
        return ERR_NOT_FOUND;
    if (!is_node_name(slice_of(strrchr(path, '/') + 1))) {
        diag_add(d, NULL, 0, 0,
                 "%s: no name for a node here: it is hidden, taken, or longer than %d bytes", path,
                 PROVIDER_NAME_ROOM - 1);
        return ERR_UNSUPPORTED;
    }
    char *full = full_path(s, path);
    if (!put_folder(full, bytes))
        e = errno == EEXIST || errno == ENOTEMPTY ? ERR_EXISTS : fail(path, "make it", d);
    free(full);
    return e;
}

static enum err directory_create(struct store *s, const char *path, const json_t *properties,
                                 struct diag *d)
{
    struct text bytes = {0};

    if (node_exists(s, path))
        return ERR_EXISTS;
    enum err e = encode(path, properties, &bytes, d);
    if (e == ERR_OK && path[0] == '\0') {
        if (!group_folder_make_all(store_of(s)->root) ||
            (bytes.len != 0 && !put_file(store_of(s)->root, text_slice(&bytes))))
            e = fail(path, "make it", d);
    } else if (e == ERR_OK) {
        e = create_below(s, path, text_slice(&bytes), d);
    }
    text_fini(&bytes);
    return e;
}

/* ---- removing ---- */

/* Files that nobody holds go: of providers that have ended, and unfinished ones. */
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
            /* One that is held stays, and with it the folder. */
            enum err unused = provider_file_clear(path);
            (void)unused;
        }
        free(path);
    }
    if (folder != NULL)
        closedir(folder);
}

/*
 * A provider may come at any moment. Its file keeps the folder from being removed; the properties,
 * which had to go first, are put back then.
 */
static enum err directory_remove(struct store *s, const char *path, struct diag *d)
{
    char *full = full_path(s, path);
    char *file = xasprintf("%s/" PROPERTIES_FILE, full);
    struct text bytes = {0};
    enum err e = node_exists(s, path) ? read_bytes(path, file, &bytes, d) : ERR_NOT_FOUND;

    if (e == ERR_OK) {
        clear_folder(full);
        bool had = unlink(file) == 0;
        if (rmdir(full) != 0) {
            int saved = errno;

            if (had && !put_file(full, text_slice(&bytes)))
                (void)fail(path, "put back " PROPERTIES_FILE, d);
            errno = saved;
            e = saved == ENOTEMPTY || saved == EEXIST ? ERR_BUSY : fail(path, "remove it", d);
        }
    }
    text_fini(&bytes);
    free(file);
    free(full);
    return e;
}

static enum err directory_reset_acl(struct store *s, const char *path, struct diag *d)
{
    (void)s;
    diag_add(d, NULL, 0, 0, "%s: a directory's permissions are its owner's: chmod, chown",
             store_shown(path));
    return ERR_UNSUPPORTED;
}

const struct store_kind store_directory = {
    .scheme = "directory",
    .open = directory_open,
    .close = directory_close,
    .read = directory_read,
    .write = directory_write,
    .create = directory_create,
    .remove = directory_remove,
    .reset_acl = directory_reset_acl,
};
