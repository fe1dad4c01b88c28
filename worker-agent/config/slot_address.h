/* SPDX-License-Identifier: Apache-2.0
 *
 * The setting `address`: where an application's slots listen.
 *   127.0.0.1:9000+        slot n at port 9000+n (n from 0); [::1]:9000+ likewise
 *   127.0.0.1:0+           each slot at a free port
 *   unix:/run/shop/slot+   the slot's number in place of the one '+'
 *   127.0.0.1:9000         without '+': for an application with one slot
 * Values; any thread.
 */
#ifndef RLB_AGENT_CONFIG_SLOT_ADDRESS_H
#define RLB_AGENT_CONFIG_SLOT_ADDRESS_H

#include "common/net/addr.h"
#include "worker-agent/config/settings.h"

struct slot_address {
    struct addr base;   /* host and first port; unset for unix */
    char *unix_pattern; /* "unix:/run/x-+.sock", or NULL */
    bool numbered;      /* has its '+' */
};

/*
 * Parses the address pattern TEXT, which must provide addresses for NSLOTS slots. On error, WHY is
 * set to the reason. Errors: ERR_SYNTAX, ERR_RANGE (ports run out), ERR_TOO_LARGE (unix path),
 * ERR_UNSUPPORTED (a host name, or an address that cannot be connected to).
 */
enum err slot_address_parse(struct slice text, unsigned nslots, struct slot_address *out,
                            char why[160]) must_check;
void slot_address_fini(struct slot_address *a);
/* Number of slots that it provides addresses for, at most APP_SLOTS_MAX. */
unsigned slot_address_room(const struct slot_address *a);
/* The address of slot N < slot_address_room(). */
void slot_address_of(const struct slot_address *a, unsigned n, struct addr *out);

#endif
