/* SPDX-License-Identifier: Apache-2.0
 *
 * What the keeper has in state_dir (lock, socket, folder of sockets), and what it does to the
 * process it runs in. Failures are logged here.
 */
#ifndef RLB_AGENT_SUPERVISOR_KEEPER_FILES_H
#define RLB_AGENT_SUPERVISOR_KEEPER_FILES_H

#include "common/base/base.h"
#include "worker-agent/config/keeper_rights.h"

/* Close everything but 0, 1, 2 (opened on /dev/null where closed) and FD. */
void keeper_files_only(int fd);
/* One keeper per state_dir: waits for the one before at most WAIT_MS. */
bool keeper_files_lock(const char *state_dir, uint64_t wait_ms, int *fd);
/* An empty folder of our own, and no link to another one: sockets that a keeper before us left
 * behind go. Needs the lock. */
bool keeper_files_run_dir(const char *path);
/* Where the next agent connects, which is the first user of RIGHTS, or (NULL) our own. Needs the
 * lock. */
bool keeper_files_listen(const char *path, const struct keeper_rights *rights, int *fd);
/* Kill what application processes have left behind outside of their process groups. */
void keeper_files_end_orphans(void);

#endif
