/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread for work that may block (a disk, a network file system, a walk through /proc, a name
 * server), so that no loop waits for it. Created and destroyed on one thread; the loop outlives it.
 */
#pragma once

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
 * Embedded in its owner; all members but the functions are zero at first. It must not be accessed
 * or freed while it is queued, or from the beginning of work() until done().
 */
struct worker_job {
    struct list node;
    uint64_t due_us; /* monotonic; 0: at once */
    /* Called on the thread. May free the job if done() is NULL. */
    void (*work)(struct worker_job *j);
    /*
     * Called on the loop, once, after work(). DROPPED: the thread was destroyed before work() was
     * called, or before the job was reported; called from worker_thread_destroy() then, or, for an
     * abandoned job, on the thread when work() returns. NULL: the job is not reported.
     */
    void (*done)(struct worker_job *j, bool dropped);
};

/* Jobs are reported on L. L may be NULL if no job has done(). */
struct worker_thread *worker_thread_create(struct loop *l);
/*
 * Waits at most PATIENCE_MS for the current job; queued jobs are dropped. Returns false if the
 * thread was abandoned in its job. Must not be called from done(). NULL is allowed.
 */
bool worker_thread_destroy(struct worker_thread *t, uint64_t patience_ms) must_check;
/*
 * Any thread: runs J after DELAY_MS, or as soon as the thread is free after that. Jobs without a
 * delay run in order, one at a time. If J is already queued it runs once, at the earlier of both
 * times. A job without done() may be added while it runs, also by itself: it then runs again. One
 * with done() must not be added until that is called.
 */
void worker_thread_add(struct worker_thread *t, struct worker_job *j, uint64_t delay_ms);
