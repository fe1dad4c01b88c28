/* SPDX-License-Identifier: Apache-2.0
 *
 * The classes that live at a slot's process, as load balancers have said with their requests, for
 * all of them to know (common/skills/home_records.h), and for one that was restarted. They are of
 * one life of the process, as its caches are, and kept per classifier fingerprint, for the latest
 * two, as the meters are. Embedded in the slot. Control loop only.
 */
#ifndef RLB_AGENT_POOL_SLOT_HOMES_H
#define RLB_AGENT_POOL_SLOT_HOMES_H

#include "common/skills/home_line.h"
#include "common/skills/home_records.h"
#include "worker-agent/pool/slot_meter.h"

struct slot_homes_of {
    struct home_records *records; /* NULL: unused */
    char fingerprint[FINGERPRINT_LEN + 1];
    uint64_t number; /* of these records: never that of others */
    uint64_t used;   /* larger: later */
};

struct slot_homes {
    struct slot_homes_of items[SLOT_METERS];
    uint64_t life; /* the slot's, whose records they are */
    uint64_t clock;
};

struct slot_request;

void slot_homes_fini(struct slot_homes *h);
/* The records under FINGERPRINT; of a NULL one, those used last. NULL: none. */
const struct slot_homes_of *slot_homes_find(const struct slot_homes *h, struct slice fingerprint);
/*
 * R goes to its process, or waits for it: who has made this a home has done so when the request
 * came, and others are to hear of it before it has waited. Noted once for a process, so to be
 * called in both cases.
 *   told  what came with it; NULL: nothing
 */
void slot_homes_use(struct slot_request *r, struct slice fingerprint, struct slice cls,
                    const struct home_told *told);
/* R was served. */
void slot_homes_served(const struct slot_request *r, struct slice fingerprint, struct slice cls,
                       uint64_t service_us);

#endif
