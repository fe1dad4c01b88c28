/* SPDX-License-Identifier: Apache-2.0
 *
 * At which addresses the tree may register workers: in the networks of the setting
 * provider_networks, and nowhere this process itself listens. Without this, write access to the
 * tree would be access to every service that trusts the load balancer's machine. A value that
 * borrows what it has; control thread.
 */
#pragma once

#include "common/net/networks.h"

struct provider_limits {
    const struct networks *networks; /* NULL: not configured */
    bool remote;            /* not configured: the tree is written by other machines, too */
    const struct addr *own; /* NOWN, at which this process listens; a port of 0 is unknown */
    size_t nown;
};

/* Why no worker may be registered at A, a constant; NULL: it may. May ask the kernel. */
const char *provider_limits_rejection(const struct provider_limits *l, const struct addr *a);
