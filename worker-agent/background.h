/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread for what may block (a network file system, a walk through /proc), so that no loop waits
 * for it. Owned by who made it, on whose loop jobs are added and reported; the loop outlives it.
 * A job belongs to its owner, and is left alone by him from background_add until done().
 */
#ifndef RLB_AGENT_BACKGROUND_H
#define RLB_AGENT_BACKGROUND_H

#include "common/event/loop.h"

enum {
    /* How long the end of a thread is waited for. One that hangs in the kernel longer (a network
       file system whose server is gone) is left behind, for the program ends anyway. */
    BACKGROUND_STUCK_MS = 2000,
};

struct background;

struct background_job {
    struct list node;
    /* On the thread; logs nothing, touches nothing but the job. */
    void (*work)(struct background_job *j);
    /* On the loop, later, once. DROPPED: the thread has ended before the job was worked on or
     * reported; inside background_destroy then. */
    void (*done)(struct background_job *j, bool dropped);
};

struct background *background_create(struct loop *l);
/*
 * Not from within done(). False: the thread hangs in a job, which is never reported, and whose
 * memory must stay. NULL is fine.
 */
bool background_destroy(struct background *b) must_check;
/* Jobs are worked on in order, one at a time. J is not in it. */
void background_add(struct background *b, struct background_job *j);

#endif
