/* SPDX-License-Identifier: Apache-2.0
 *
 * The setting `allow`: networks whose hosts may connect. A value; any thread.
 */
#ifndef RLB_AGENT_NETWORKS_H
#define RLB_AGENT_NETWORKS_H

#include "common/net/addr.h"

struct network {
    int family; /* AF_INET, AF_INET6 */
    unsigned char bytes[16];
    unsigned bits;
};

struct networks {
    struct network *items;
    size_t n;
    bool loopback; /* 127.0.0.0/8 and ::1 */
};

/* Add "10.0.0.0/8", "fd00::/8", "10.1.2.3" or "loopback". Errors: ERR_SYNTAX; ERR_RANGE: bits set
 * beyond the prefix. */
enum err networks_add(struct networks *n, struct slice text) must_check;
void networks_fini(struct networks *n);
/* Unix peers always; IPv4 within IPv6 as IPv4. */
bool networks_have(const struct networks *n, const struct addr *peer);

#endif
