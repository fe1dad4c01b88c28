/* SPDX-License-Identifier: Apache-2.0
 *
 * Switching to another user permanently. A value; main thread, before any other thread starts.
 */
#pragma once

#include "common/config/config.h"
#include "common/net/addr.h"

#include <sys/types.h>

enum {
    /* Maximum number of groups of a user: four times the limit of NFS. */
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
 * Looks up the rights of USER with GROUP (NULL: the user's own group). If USER is NULL,
 * OUT->required is false. Returns NULL, or the reason of a failure (static text): the user or the
 * group does not exist, the user is in too many groups, or there is a GROUP but no USER.
 */
const char *privileges_find(const char *user, const char *group, struct privileges *out) must_check;
/* Returns true if P is required and the process has another user or group, in any of its ids. */
bool privileges_differ(const struct privileges *p);
/* Switches to P, by system calls only. Returns NULL, or the failed step, with errno set. */
const char *privileges_switch(const struct privileges *p);

/* ---- the settings `user` and `group` ---- */

/*
 * The user that a program switches to after the steps that require root. The program must call
 * user_rights_find, then bind and create what requires root, then call user_rights_drop, before it
 * starts any thread and reads any input. Failures are logged.
 */

/* Checks the settings `user` and `group` (or NULL) of FILE: sets *OUT, or adds a problem to D. */
void user_rights_check(const struct config *file, const char *user, const char *group,
                       struct privileges *out, struct diag *d);
/*
 * Looks up the rights of USER (NULL: the user is kept, with a warning in the log if it is root).
 *   *change  set to whether user_rights_drop() has to switch
 * Returns false if they do not exist, or the process is not permitted to switch.
 */
bool user_rights_find(const char *user, const char *group, struct privileges *out,
                      bool *change) must_check;
/* Gives a unix socket at A to P's user and group, so that its mode governs access. */
bool user_rights_chown_socket(const struct addr *a, const struct privileges *p) must_check;
/* Creates DIRECTORY (NULL: none) owned by P's user. An existing one keeps its owner. */
bool user_rights_make_directory(const char *directory, unsigned mode,
                                const struct privileges *p) must_check;
/*
 * Switches user, group and supplementary groups to P, those of USER, permanently (checked), and
 * sets no_new_privs for programs started later. No effect if P is not required or already in
 * effect. Returns false on failure: the process may have switched partly, and must exit.
 */
bool user_rights_drop(const char *user, const struct privileges *p) must_check;
