/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread for work that may block (a disk, a network file system, a walk through /proc, a name
 * server), so that no loop waits for it. Created and destroyed on one thread; the loop outlives it.
 */
#ifndef RLB_EVENT_WORKER_THREAD_H
#define RLB_EVENT_WORKER_THREAD_H

#include "common/event/loop.h"

enum {
    /* Time to wait at shutdown for a job if its result is not needed [ms]. A job that blocks in
     * the kernel for longer is abandoned, as the program exits anyway. */
    WORKER_THREAD_PATIENCE_MS = 2000,
};
/* Wait until the job has finished. */
#define WORKER_THREAD_WAIT UINT64_MAX

struct worker_thread;

/*
 * Embedded in its owner, zeroed but for the functions. It must not be touched or freed while it
 * waits, or from the beginning of work() until done().
 */
struct worker_job {
    struct list node;
    uint64_t due_us; /* monotonic; 0: at once */
    /* On the thread. May free a job without done(). */
    void (*work)(struct worker_job *j);
    /*
     * On the loop, once, after the job was worked on. DROPPED: the thread has ended before that, or
     * before it was reported; inside worker_thread_destroy then. Of a job that was left behind: on
     * the thread, if it ever comes back. NULL: not reported, and dropped silently.
     */
    void (*done)(struct worker_job *j, bool dropped);
};

/* L: where done() is called; NULL: no job has one. */
struct worker_thread *worker_thread_create(struct loop *l);
/*
 * Waits at most PATIENCE_MS for the job that is being worked on; jobs that wait are dropped.
 * Returns false if the thread was left behind in its job. Not from within done(). NULL is allowed.
 */
bool worker_thread_destroy(struct worker_thread *t, uint64_t patience_ms) must_check;
/*
 * Any thread: has J worked on in DELAY_MS, or as soon as the thread is free. Jobs without a delay
 * are worked on in order, one at a time. If J waits already it is worked on once, at the earlier of
 * both times. A job without done() may be added while it is worked on, from there too: it is then
 * worked on again. One with done() must not be added until that is called.
 */
void worker_thread_add(struct worker_thread *t, struct worker_job *j, uint64_t delay_ms);

#endif
