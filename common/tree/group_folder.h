/* SPDX-License-Identifier: Apache-2.0
 *
 * What a directory tree is made of, as its group needs it. Several programs share a tree by a group
 * that may write to it; whatever one of them makes in there must be the others' too, also where it
 * was made by root (an agent) and the tree is somebody else's. No state; any thread.
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
