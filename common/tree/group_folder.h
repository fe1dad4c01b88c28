/* SPDX-License-Identifier: Apache-2.0
 *
 * Creates the files and directories of a directory tree with the access that its group needs.
 * Several programs share a tree through a group that may write to it. Whatever one of them creates
 * must be accessible to the others, also if it was created by root (an agent) and another user owns
 * the tree. No state; any thread.
 */
#ifndef RLB_TREE_GROUP_FOLDER_H
#define RLB_TREE_GROUP_FOLDER_H

#include "common/base/base.h"

#include <stdbool.h>

/*
 * Make a folder at PATH, open to its owner and group whatever the umask. Its group is that of the
 * folder it is in, where that is open to its group, and we may give it. False: errno says,
 * EEXIST too.
 */
bool group_folder_make(const char *path) must_check;
/* The same, with what is missing above it; one that is there is as good. */
bool group_folder_make_all(const char *path) must_check;
/* The same for the file FD, which we have just made at PATH. */
bool group_file_share(int fd, const char *path) must_check;

#endif
