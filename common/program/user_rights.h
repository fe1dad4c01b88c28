/* SPDX-License-Identifier: Apache-2.0
 *
 * The settings `user` and `group` of a program: the user it switches to after the steps that
 * require root. The program must call user_rights_find, then bind and create what requires root,
 * then call user_rights_drop, before it starts any thread and reads any input. Failures are logged.
 * Main thread.
 */
#ifndef RLB_PROGRAM_USER_RIGHTS_H
#define RLB_PROGRAM_USER_RIGHTS_H

#include "common/config/config.h"
#include "common/net/addr.h"
#include "common/program/privileges.h"

/* FILE's settings `user` and `group` (or NULL): complains when there are no such; else *OUT. */
void user_rights_check(const struct config *file, const char *user, const char *group,
                       struct privileges *out, struct diag *d);
/*
 * The rights of USER (NULL: none are wanted).
 *   *change  whether they are to be dropped to: wanted, and not ours yet
 * False: there are no such, or we may not have them.
 */
bool user_rights_find(const char *user, const char *group, struct privileges *out,
                      bool *change) must_check;
/* Root runs without a user to become: say so. */
void user_rights_warn_of_root(const struct privileges *p);
/* A path at A becomes P's, so that its mode says what the user's group may. Others: nothing. */
bool user_rights_own_socket(const struct addr *a, const struct privileges *p) must_check;
/* Creates FOLDER (NULL: nothing to do) owned by P's user. An existing folder keeps its owner. */
bool user_rights_make_folder(const char *folder, unsigned mode,
                             const struct privileges *p) must_check;
/* Switches permanently to USER, which has the rights P. */
bool user_rights_drop(const char *user, const struct privileges *p) must_check;

#endif
