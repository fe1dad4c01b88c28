/* SPDX-License-Identifier: Apache-2.0
 *
 * Which listener a request came by: a slot's, or that of an application's own address. Embedded in
 * the slot or the group, as long as it listens. Control loop only.
 */
#ifndef RLB_AGENT_POOL_FRONT_DOOR_H
#define RLB_AGENT_POOL_FRONT_DOOR_H

struct app_group;
struct slot;

struct front_door {
    struct app_group *group;
    struct slot *slot; /* NULL: the application's own address */
};

#endif
