/* SPDX-License-Identifier: Apache-2.0
 *
 * Becoming another user for good. A value; main thread, before any other thread starts.
 */
#ifndef RLB_PROGRAM_PRIVILEGES_H
#define RLB_PROGRAM_PRIVILEGES_H

#include "common/base/err.h"

#include <sys/types.h>

enum {
    /* Groups of one user: as many as NFS takes, four times over. */
    PRIVILEGES_GROUPS_MAX = 64,
};

struct privileges {
    bool wanted; /* false: stay who we are */
    uid_t uid;
    gid_t gid;
    gid_t groups[PRIVILEGES_GROUPS_MAX]; /* gid among them */
    int ngroups;
};

/*
 * The rights of USER in GROUP (NULL: the user's own); no USER: none are wanted.
 *   why  static text, of what is wrong
 * Errors: ERR_NOT_FOUND there is no such user or group; ERR_TOO_LARGE too many groups;
 * ERR_UNSUPPORTED a group without a user.
 */
enum err privileges_find(const char *user, const char *group, struct privileges *out,
                         const char **why) must_check;
/* Whether to have P's rights we must give up others: they are wanted, and not ours yet. */
bool privileges_differ(const struct privileges *p);
/*
 * Supplementary groups, group and user become P's, for good (checked), and no program started from
 * here on gains any (no_new_privs). Nothing happens when they are not wanted, or ours already.
 *   why  static text: the step that failed. The process may be in between then, and should end.
 * Errors: ERR_SYSTEM (errno says).
 */
enum err privileges_drop(const struct privileges *p, const char **why) must_check;

#endif
