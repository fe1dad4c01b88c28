/* SPDX-License-Identifier: Apache-2.0
 *
 * Which processes listen on a TCP port of the loopback address, as /proc reports them. Any local
 * user may bind a port that was free a moment ago. Any thread; reads a few files.
 */
#ifndef RLB_AGENT_PROCESS_PORT_OWNER_H
#define RLB_AGENT_PROCESS_PORT_OWNER_H

#include <sys/types.h>

#include "common/base/base.h"

enum {
    /* Listening sockets of one port that are checked: 127.0.0.1, 0.0.0.0, [::], and several of one
       program (SO_REUSEPORT). More are taken for foreign ones. */
    PORT_LISTENERS_MAX = 256,
};

enum port_owner {
    PORT_OWN,     /* all listeners belong to the process */
    PORT_FOREIGN, /* at least one does not */
    PORT_NONE,    /* no listener found */
    PORT_UNKNOWN, /* PROC cannot be read */
};

/*
 * Checks the listeners that a connection to 127.0.0.1:PORT may reach.
 *   proc     "/proc"
 *   pid      owns a listener if it, a process of its group or of its session, or a descendant has
 *            it open; where their descriptors may not be read, if the listener's user is UID
 *   foreign  on PORT_FOREIGN: the user of the listener
 */
enum port_owner port_owner_find(const char *proc, unsigned port, pid_t pid, uid_t uid,
                                uid_t *foreign);

#endif
