/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/supervisor/keeper_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/log.h"
#include "worker-agent/supervisor/keeper_wire.h"

void keeper_files_only(int fd)
{
    ASSERT(fd > 2);
    for (int i = 0; i < 3; ++i) {
        /* The lowest free number is what open() takes. */
        if (fcntl(i, F_GETFD) < 0)
            (void)open("/dev/null", O_RDWR);
    }
    if (fd > 3)
        close_range(3, (unsigned)fd - 1, 0);
    close_range((unsigned)fd + 1, ~0U, 0);
}

bool keeper_files_lock(const char *state_dir, uint64_t wait_ms, int *fd)
{
    char *path = xasprintf("%s/%s", state_dir, KEEPER_LOCK_NAME);

    *fd = file_lock(path, wait_ms);
    if (*fd < 0)
        log_error(NULL, "keeper-lock-failed", "file=%s reason=\"%s\"", path, strerror(errno));
    free(path);
    return *fd >= 0;
}

/* A socket, or a folder with nothing but a socket in it. */
static void remove_leftover(int dir, const char *name)
{
    int folder;

    if (unlinkat(dir, name, 0) == 0 || (errno != EISDIR && errno != EPERM))
        return;
    folder = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (folder >= 0) {
        unlinkat(folder, "s", 0);
        close(folder);
    }
    unlinkat(dir, name, AT_REMOVEDIR);
}

/* FD is what is at PATH, and belongs to our user. */
static bool is_our_folder(const char *path, int fd)
{
    struct stat opened;
    struct stat there;

    if (fstat(fd, &opened) != 0 || lstat(path, &there) != 0)
        return false;
    errno = EPERM;
    return opened.st_dev == there.st_dev && opened.st_ino == there.st_ino &&
           there.st_uid == geteuid();
}

bool keeper_files_run_dir(const char *path)
{
    struct dirent *entry;
    DIR *dir = NULL;
    int fd = -1;

    /* Processes of other users have their sockets in it: they may pass, not look. */
    if (mkdir(path, 0711) != 0 && errno != EEXIST)
        goto failed;
    fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fchown(fd, geteuid(), getegid()) != 0 || fchmod(fd, 0711) != 0 ||
        !is_our_folder(path, fd))
        goto failed;
    dir = fdopendir(fd);
    if (dir == NULL)
        goto failed;
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.')
            remove_leftover(dirfd(dir), entry->d_name);
    }
    closedir(dir);
    return true;
failed:
    log_error(NULL, "keeper-folder-failed", "directory=%s reason=\"%s\"", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return false;
}

/* The agent's group may connect; the user is checked at each connection. */
static bool admit_agent(const char *path, const struct keeper_rights *rights)
{
    if (rights == NULL)
        return chmod(path, 0600) == 0;
    return lchown(path, geteuid(), rights->users[0].gid) == 0 && chmod(path, 0660) == 0;
}

bool keeper_files_listen(const char *path, const struct keeper_rights *rights, int *fd)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    if (strlen(path) >= sizeof(a.sun_path)) {
        errno = ENAMETOOLONG;
        goto failed;
    }
    memcpy(a.sun_path, path, strlen(path) + 1);
    *fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0)
        goto failed;
    unlink(path);
    if (bind(*fd, (struct sockaddr *)&a, sizeof(a)) != 0 || !admit_agent(path, rights) ||
        listen(*fd, 8) != 0)
        goto failed;
    return true;
failed:
    log_error(NULL, "keeper-socket-failed", "file=%s reason=\"%s\"", path, strerror(errno));
    return false;
}

void keeper_files_end_orphans(void)
{
    struct text list = {0};
    char path[64];
    char *end;

    snprintf(path, sizeof(path), "/proc/self/task/%ld/children", (long)getpid());
    if (file_read(path, 65536, &list) != ERR_OK)
        return;
    const char *at = text_cstr(&list);
    for (;;) {
        long pid = strtol(at, &end, 10);

        if (end == at || pid <= 0)
            break;
        kill((pid_t)pid, SIGKILL);
        at = end;
    }
    text_fini(&list);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}
