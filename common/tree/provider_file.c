/* SPDX-License-Identifier: Apache-2.0
 *
 * Which process may change the name in place, and why that is safe:
 *   owner     holds the lock; replaces its own file by rename, and unlinks it
 *   claimant  renames with RENAME_NOREPLACE, so it never replaces another file
 *   clearer   gets the lock only of a dead owner's file. While it holds the lock, no other process
 *             may unlink that name, and no claimant can replace it: so there cannot be a race
 *             between checking that it is the same file and unlinking it
 */
#include "common/tree/provider_file.h"
#include "common/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

/* ---- access of a group ---- */

enum { DIRECTORY_MODE = 0770, FILE_MODE = 0660, PROVIDER_MODE = 0600, CLAIM_TRIES = 4 };

/* Returns the group of the directory that contains PATH if that group may write to it; otherwise
 * (gid_t)-1, with which fchown does not change the group. */
static gid_t group_around(const char *path)
{
    struct stat st;
    char *copy = xstrdup(path);
    bool known = stat(dirname(copy), &st) == 0;

    free(copy);
    return known && (st.st_mode & S_IWGRP) != 0 ? st.st_gid : (gid_t)-1;
}

bool group_directory_make(const char *path)
{
    if (mkdir(path, DIRECTORY_MODE) != 0)
        return false;
    /* Another member of the group may have replaced it by a link already, which is not followed. */
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool ok = (fchown(fd, (uid_t)-1, group_around(path)) == 0 || errno == EPERM) &&
              fchmod(fd, DIRECTORY_MODE) == 0;
    int saved = errno;
    close(fd);
    errno = saved;
    return ok;
}

bool group_directory_make_all(const char *full)
{
    char *path = xstrdup(full);
    bool ok = true;

    for (char *slash = strchr(path + 1, '/'); ok && slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        ok = group_directory_make(path) || errno == EEXIST;
        *slash = '/';
    }
    free(path);
    return ok && (group_directory_make(full) || errno == EEXIST);
}

bool group_file_share(int fd, const char *path)
{
    if (fchown(fd, (uid_t)-1, group_around(path)) != 0 && errno != EPERM)
        return false;
    return fchmod(fd, FILE_MODE) == 0;
}

/* ---- providers ---- */

bool provider_name_encode(const char *name, char out[PROVIDER_NAME_ROOM])
{
    size_t n = 0;
    /* Neither hidden, nor "." or "..", nor the node's own file. */
    bool escape_first = name[0] == '.' || strcmp(name, "properties.json") == 0;

    for (size_t i = 0; name[i] != '\0'; ++i) {
        unsigned char c = (unsigned char)name[i];
        bool plain = c > 0x20 && c < 0x7f && c != '%' && c != '/' && !(i == 0 && escape_first);

        if (n + (plain ? 1 : 3) >= PROVIDER_NAME_ROOM)
            return false;
        if (plain)
            out[n++] = (char)c;
        else
            n += (size_t)snprintf(out + n, 4, "%%%02X", c);
    }
    out[n] = '\0';
    return n != 0;
}

bool provider_name_decode(const char *file, char out[PROVIDER_NAME_ROOM])
{
    char again[PROVIDER_NAME_ROOM];
    size_t n = percent_decode(slice_of(file), out, PROVIDER_NAME_ROOM - 1);

    out[n] = '\0';
    /* One name has one file: whatever else decodes to it is not ours. Invalid escapes are copied,
     * and "%00" cuts the name short: neither is encoded like FILE. */
    return provider_name_encode(out, again) && strcmp(again, file) == 0;
}

/* ---- locks ---- */

static bool lock_now(int fd)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    return fcntl(fd, F_OFD_SETLK, &whole) == 0;
}

bool provider_file_held(int fd)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    /* Without support of locks by the file system, every owner counts as alive. */
    return fcntl(fd, F_OFD_GETLK, &whole) != 0 || whole.l_type != F_UNLCK;
}

bool provider_file_in_place(int fd, const char *path)
{
    struct stat st;
    struct stat there;

    return fd >= 0 && fstat(fd, &st) == 0 && lstat(path, &there) == 0 &&
           st.st_dev == there.st_dev && st.st_ino == there.st_ino;
}

/* As provider_file_clear, but read-only: opening for writing would be an event for all watches. */
static enum err name_taken(const char *path)
{
    struct stat st;
    int fd;
    enum err e = plain_file_open(path, &fd, &st);

    if (e != ERR_OK)
        return e;
    bool held = provider_file_held(fd);
    close(fd);
    return held ? ERR_BUSY : ERR_OK;
}

enum err provider_file_clear(const char *path)
{
    struct stat st;
    enum err result = name_taken(path);

    if (result == ERR_BUSY || result == ERR_NOT_FOUND)
        return result;
    result = ERR_SYSTEM;
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

    if (fd < 0)
        return errno == ENOENT ? ERR_NOT_FOUND : ERR_SYSTEM;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        errno = EINVAL;
    } else if (!lock_now(fd)) {
        result = errno == EAGAIN || errno == EACCES ? ERR_BUSY : ERR_SYSTEM;
    } else if (!provider_file_in_place(fd, path)) {
        result = ERR_BUSY;
    } else if (unlink(path) == 0) {
        result = ERR_OK;
    }
    int saved = errno;
    close(fd);
    errno = saved;
    return result;
}

/* ---- putting ---- */

bool hidden_path_beside(const char *path, char out[PATH_MAX])
{
    uint64_t number;

    if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
        return false;
    snprintf(out, PATH_MAX, "%.*s/" NEW_FILE_PREFIX "%016llx", (int)(strrchr(path, '/') - path),
             path, (unsigned long long)number);
    return true;
}

/* A hidden file beside PATH, locked and filled; its path goes to TMP. -1: see errno. */
static int make_hidden(const char *path, struct slice bytes, char tmp[PATH_MAX])
{
    if (!hidden_path_beside(path, tmp))
        return -1;
    int fd = open(tmp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, PROVIDER_MODE);
    /* Other members of the group must be able to remove leftovers. */
    if (fd < 0 || (group_file_share(fd, tmp) && lock_now(fd) && file_write_all(fd, bytes)))
        return fd;
    int saved = errno;
    unlink(tmp);
    close(fd);
    errno = saved;
    return -1;
}

/* Move TMP to PATH, over the remains of a dead owner but not over a living one. */
static enum err provider_file_claim(const char *tmp, const char *path)
{
    for (int i = 0; i < CLAIM_TRIES; ++i) {
        if (renameat2(AT_FDCWD, tmp, AT_FDCWD, path, RENAME_NOREPLACE) == 0)
            return ERR_OK;
        /* File systems that do not know the flag: a link does not replace either. */
        if ((errno == EINVAL || errno == ENOSYS) && link(tmp, path) == 0) {
            unlink(tmp);
            return ERR_OK;
        }
        if (errno != EEXIST)
            return ERR_SYSTEM;
        enum err e = provider_file_clear(path);
        if (e != ERR_OK && e != ERR_NOT_FOUND)
            return e;
    }
    return ERR_BUSY;
}

enum err provider_file_put(int *fd, const char *path, struct slice bytes)
{
    char tmp[PATH_MAX];
    bool ours = provider_file_in_place(*fd, path);
    enum err result = ERR_SYSTEM;

    if (!ours && name_taken(path) == ERR_BUSY)
        return ERR_BUSY;
    int fresh = make_hidden(path, bytes, tmp);
    if (fresh < 0)
        return ERR_SYSTEM;
    if (!ours)
        result = provider_file_claim(tmp, path);
    else if (rename(tmp, path) == 0)
        result = ERR_OK;
    if (result == ERR_OK) {
        if (*fd >= 0)
            close(*fd);
        *fd = fresh;
        return ERR_OK;
    }
    int saved = errno;
    unlink(tmp);
    close(fresh);
    errno = saved;
    return result;
}

void provider_file_drop(int *fd, const char *path)
{
    if (*fd < 0)
        return;
    if (provider_file_in_place(*fd, path))
        unlink(path);
    close(*fd);
    *fd = -1;
}

enum err plain_file_open(const char *path, int *fd, struct stat *st)
{
    int got = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

    if (got < 0 && errno == ENOENT)
        return ERR_NOT_FOUND;
    if (got < 0)
        return errno == ELOOP || errno == ENXIO ? ERR_UNSUPPORTED : ERR_SYSTEM;
    if (fstat(got, st) != 0 || !S_ISREG(st->st_mode)) {
        close(got);
        return ERR_UNSUPPORTED;
    }
    *fd = got;
    return ERR_OK;
}
