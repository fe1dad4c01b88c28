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
    bool wanted; /* false: keep the current user */
    uid_t uid;
    gid_t gid;
    gid_t groups[PRIVILEGES_GROUPS_MAX]; /* gid among them */
    int ngroups;
};

/*
 * Looks up the rights of USER in GROUP (NULL: the user's own group). Without USER, none are wanted.
 *   why  set to a static text on error
 * Errors: ERR_NOT_FOUND if the user or the group does not exist; ERR_TOO_LARGE if the user is in
 * too many groups; ERR_UNSUPPORTED for a group without a user.
 */
enum err privileges_find(const char *user, const char *group, struct privileges *out,
                         const char **why) must_check;
/* Whether rights must be given up to have those of P: they are wanted, and differ from ours. */
bool privileges_differ(const struct privileges *p);
/*
 * Supplementary groups, group and user become P's, for good (checked), and no program started from
 * here on gains any (no_new_privs). Nothing happens when they are not wanted, or ours already.
 *   why  static text: the step that failed. The process may be in between then, and should end.
 * Errors: ERR_SYSTEM (errno says).
 */
enum err privileges_drop(const struct privileges *p, const char **why) must_check;

#endif
