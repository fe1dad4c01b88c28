/* SPDX-License-Identifier: Apache-2.0
 *
 * The classes that live at a slot's process, as load balancers have said with their requests, for
 * all of them to know (common/core/home_records.h). They are of one life of the process, as its
 * caches are. Embedded in the slot. Control loop only.
 */
#ifndef RLB_AGENT_SLOT_HOMES_H
#define RLB_AGENT_SLOT_HOMES_H

#include "common/core/home_records.h"
#include "common/wire/home_line.h"

struct slot_homes {
    struct home_records *records; /* NULL: nothing yet */
    uint64_t life;                /* the slot's, whose records they are */
};

struct slot_request;

void slot_homes_fini(struct slot_homes *h);
/*
 * R goes to its process, or waits for it: who has made this a home has done so when the request
 * came, and others are to hear of it before it has waited. Noted once for a process, so to be
 * called in both cases.
 *   told  what came with it; NULL: nothing
 */
void slot_homes_use(struct slot_request *r, struct slice cls, const struct home_told *told);
/* R was served. */
void slot_homes_served(const struct slot_request *r, struct slice cls, uint64_t service_us);

#endif
