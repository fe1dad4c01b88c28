/* SPDX-License-Identifier: Apache-2.0
 *
 * The set-group-ID bit of directories would have the same effect, but chmod clears it, and it
 * cannot be set again under RestrictSUIDSGID= of a unit. So each file and directory is given its
 * group by chown, which only root or a member of the group can do: other users must be in the
 * group.
 */
#include "common/tree/group_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/text.h"

enum { FOLDER_MODE = 0770, FILE_MODE = 0660 };

/* The group of the folder that PATH is in, where its group may write to it; (gid_t)-1: as it is. */
static gid_t group_around(const char *path)
{
    struct stat st;
    char *copy = xstrdup(path);
    bool known = stat(dirname(copy), &st) == 0;

    free(copy);
    return known && (st.st_mode & S_IWGRP) != 0 ? st.st_gid : (gid_t)-1;
}

bool group_folder_make(const char *path)
{
    if (mkdir(path, FOLDER_MODE) != 0)
        return false;
    /* Another member of the group may have replaced it by a link already, which is not followed. */
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool ok = (fchown(fd, (uid_t)-1, group_around(path)) == 0 || errno == EPERM) &&
              fchmod(fd, FOLDER_MODE) == 0;
    int saved = errno;
    close(fd);
    errno = saved;
    return ok;
}

bool group_folder_make_all(const char *full)
{
    char *path = xstrdup(full);
    bool ok = true;

    for (char *p = path + 1; ok; ++p) {
        char c = *p;

        if (c != '/' && c != '\0')
            continue;
        *p = '\0';
        ok = group_folder_make(path) || errno == EEXIST;
        *p = c;
        if (c == '\0')
            break;
    }
    free(path);
    return ok;
}

bool group_file_share(int fd, const char *path)
{
    if (fchown(fd, (uid_t)-1, group_around(path)) != 0 && errno != EPERM)
        return false;
    return fchmod(fd, FILE_MODE) == 0;
}
