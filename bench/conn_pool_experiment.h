/* SPDX-License-Identifier: Apache-2.0
 *
 * The experiment of MariaDB Spider's connection pool redesign, with three designs:
 *   one mutex      its original: one mutex over one multi-map of connections
 *   mutex stacks   its redesign: a read-write lock over a map of stacks, each with a mutex
 *   ours           common/upstream/conn_pool.h, with the requesters on some loops
 * The first two follow the text of the document, for threads that block, as Spider's do. A thread
 * that finds no connection opens one, or at the limit waits until one is returned. Both have one
 * condition variable per backend (the document does not say how to wait; one for all is slower).
 *
 * Connections are TCP over loopback to an echo thread in the same process, a port for each backend;
 * a request is 64 bytes there and back. So figures hold little beside the system calls, as the
 * document's do.
 */
#pragma once

#include <stdint.h>

enum { EXPERIMENT_BACKENDS = 16, REQUEST_BYTES = 64, HISTOGRAM_STEPS = 20000, STEP_US = 10 };

enum experiment_design { DESIGN_MUTEX_MAP, DESIGN_MUTEX_STACKS, DESIGN_OURS };

struct experiment {
    enum experiment_design design;
    unsigned requesters;
    unsigned loops;           /* ours: over so many loops */
    unsigned max_connections; /* to a backend */
    uint64_t run_ms;
};

struct experiment_result {
    double requests_per_s;
    double p99_us;
    double cpu_us; /* of the requesters' threads, for each request */
    /* While connections are recycled, every 10 ms: the longest and the mean time that one lock is
     * held (ours: the duration of the whole scan of all backends, which does not hold a lock all
     * the time). */
    double recycle_max_us, recycle_mean_us;
    uint64_t opened; /* connections */
};

void experiment_run(const struct experiment *e, struct experiment_result *out);

/* ---- for the parts ---- */

struct experiment_requester {
    uint64_t seed;
    uint64_t requests;
    uint32_t histogram[HISTOGRAM_STEPS]; /* of STEP_US each; the last one is all beyond */
};

unsigned experiment_pick(struct experiment_requester *r);
void experiment_count(struct experiment_requester *r, uint64_t began_us, uint64_t now_us);
/* A connected socket; aborts when there is none to be had. */
int experiment_connect(unsigned backend);
uint64_t experiment_thread_cpu_us(void);

struct experiment_run {
    const struct experiment *e;
    struct experiment_requester *requesters; /* e->requesters */
    _Atomic int stop;
    _Atomic uint64_t cpu_us, opened;
    double recycle_max_us, recycle_sum_us;
    uint64_t recycles;
};

void experiment_recycled(struct experiment_run *run, double held_us);
void experiment_run_threads(struct experiment_run *run);
void experiment_run_loops(struct experiment_run *run);
