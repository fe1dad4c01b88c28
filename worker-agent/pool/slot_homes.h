/* SPDX-License-Identifier: Apache-2.0
 *
 * The home classes of a slot's process, as reported by load balancers with their requests.
 * They are published to all load balancers (common/skills/home_records.h), also after their
 * restart. Records are valid for one life of the process, as its caches are, and are kept per
 * classifier fingerprint, for the latest two, as the meters are. Embedded in the slot. Control loop
 * only.
 */
#ifndef RLB_AGENT_POOL_SLOT_HOMES_H
#define RLB_AGENT_POOL_SLOT_HOMES_H

#include "common/skills/home_records.h"
#include "worker-agent/pool/slot_meter.h"

struct slot_homes_of {
    struct home_records *records; /* NULL: unused */
    char fingerprint[FINGERPRINT_LEN + 1];
    uint64_t number; /* identifies these records; unique */
    uint64_t used;   /* larger: later */
};

struct slot_homes {
    struct slot_homes_of items[SLOT_METERS];
    uint64_t life; /* the slot's life that the records belong to */
    uint64_t clock;
};

struct slot_request;

void slot_homes_fini(struct slot_homes *h);
/* Returns the records for FINGERPRINT, or (FINGERPRINT NULL) the most recently used ones; NULL if
 * there are none. */
const struct slot_homes_of *slot_homes_find(const struct slot_homes *h, struct slice fingerprint);
/*
 * Notes that R runs at its process or waits for it. The load balancer that made this process a home
 * did so before the request arrived, and other load balancers must be notified before R has waited.
 * Noted once per process, so call this in both cases. A NULL home_told means that no home data was
 * received with R.
 */
void slot_homes_use(struct slot_request *r, struct slice fingerprint, struct slice cls,
                    const struct home_told *told);
/* Records that R was served. */
void slot_homes_served(const struct slot_request *r, struct slice fingerprint, struct slice cls,
                       uint64_t service_us);

#endif
