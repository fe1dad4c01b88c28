/* SPDX-License-Identifier: Apache-2.0
 *
 * Becoming another user for good. A value; main thread, before any other thread starts.
 */
#ifndef RLB_PROGRAM_PRIVILEGES_H
#define RLB_PROGRAM_PRIVILEGES_H

#include "common/config/config.h"
#include "common/net/addr.h"

#include <sys/types.h>

enum {
    /* Groups of one user: as many as NFS takes, four times over. */
    PRIVILEGES_GROUPS_MAX = 64,
};

struct privileges {
    bool required; /* false: keep the current user */
    uid_t uid;
    gid_t gid;
    gid_t groups[PRIVILEGES_GROUPS_MAX]; /* gid among them */
    int ngroups;
};

/*
 * Looks up the rights of USER in GROUP (NULL: the user's own group). Without USER, none are wanted.
 * Returns NULL, or why there are none (static text): the user or the group does not exist, or the
 * user is in too many groups, or there is a group without a user.
 */
const char *privileges_find(const char *user, const char *group, struct privileges *out) must_check;
/* Whether rights must be given up to have those of P: they are wanted, and differ from ours. */
bool privileges_differ(const struct privileges *p);
/* Takes the rights of P, by system calls only. Returns the failed step (see errno), or NULL. */
const char *privileges_switch(const struct privileges *p);

/* ---- the settings `user` and `group` ---- */

/*
 * The user that a program switches to after the steps that
 * require root. The program must call user_rights_find, then bind and create what requires root,
 * then call user_rights_drop, before it starts any thread and reads any input. Failures are logged.
 */

/* FILE's settings `user` and `group` (or NULL): complains when there are no such; else *OUT. */
void user_rights_check(const struct config *file, const char *user, const char *group,
                       struct privileges *out, struct diag *d);
/*
 * The rights of USER (NULL: none are wanted, which is logged if root runs).
 *   *change  whether they are to be dropped to: wanted, and not ours yet
 * False: they do not exist, or are not permitted.
 */
bool user_rights_find(const char *user, const char *group, struct privileges *out,
                      bool *change) must_check;
/* Gives a unix socket at A to P's user and group, so that its mode governs access. */
bool user_rights_own_socket(const struct addr *a, const struct privileges *p) must_check;
/* Creates DIRECTORY (NULL: none) owned by P's user. An existing one keeps its owner. */
bool user_rights_make_directory(const char *directory, unsigned mode,
                                const struct privileges *p) must_check;
/*
 * Supplementary groups, group and user become those of USER, which has the rights P, for good
 * (checked), and no program started from here on gains any (no_new_privs). Nothing happens when
 * they are not wanted, or ours already. False: the process may be in between, and should end.
 */
bool user_rights_drop(const char *user, const struct privileges *p) must_check;

#endif
