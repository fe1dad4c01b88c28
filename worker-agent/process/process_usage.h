/* SPDX-License-Identifier: Apache-2.0
 *
 * What application processes use of the host, each with its children: processor time, memory,
 * number of processes. All are sampled together, on a thread of their own. Owned by the pool;
 * outlives targets, which are embedded in processes. Control loop.
 *
 * Memory is first the sum of resident sizes (RSS), where a shared page counts for each process. If
 * it exceeds the target's limit, the proportional share (PSS) is read and compared instead; that is
 * slower, because the kernel has to walk page tables.
 */
#pragma once

#include <sys/types.h>

#include "common/event/loop.h"

enum {
    /* Time per sample after which no further PSS is read; the next sample begins with the others.
       At the default interval this is 1 percent of a core. */
    USAGE_PSS_MS = 50,
};

struct process_usage;
struct usage_row;

struct usage {
    bool known;         /* there was a sample with it */
    unsigned processes; /* it and its children, not counting dead ones */
    uint64_t cpu_us;    /* since its start, with children that were waited for */
    double cpu_share;   /* of one processor, between the last two samples */
    uint64_t rss_bytes;
    uint64_t pss_bytes; /* 0: not asked for */
};

/* Embedded in what it samples; zeroed before usage_start. */
struct usage_target {
    struct list node;
    pid_t pid;
    uint64_t start_ticks;
    uint64_t limit_bytes;   /* the owner sets it at any time; 0: none */
    uint64_t over_since_ms; /* loop_now_ms of the first of the consecutive samples over the limit;
                               0: the last sample was not */
    struct usage usage;     /* of the last sample */
    struct usage_row *row;  /* of the sample in progress */
    /* Called at every sample in which memory exceeds the limit. May stop any target. */
    void (*over)(struct usage_target *t);
};

/* PROC: "/proc"; borrowed. */
struct process_usage *process_usage_create(struct loop *l, const char *proc, uint64_t interval_ms);
/* Stops the remaining targets. U may be NULL. */
void process_usage_destroy(struct process_usage *u);
void process_usage_set_interval(struct process_usage *u, uint64_t interval_ms);

/* Starts sampling T. PID must be alive or have exited only a moment ago. */
void usage_start(struct process_usage *u, struct usage_target *t, pid_t pid);
/* Harmless when T is not started. */
void usage_stop(struct usage_target *t);

/* ---- max_memory ---- */

/*
 * Limits how often processes of an application are replaced because of max_memory. A process that
 * has served for some time is replaced immediately. If the next one exceeds the limit again soon
 * after it was ready, the limit is too low for the application, and replacing processes at full
 * speed would cost more than the memory. A plain value, embedded in the group; zeroed initially,
 * and again when the limit changes.
 */
struct over_memory {
    uint64_t delay_ms;      /* after the last replacement; 0: none */
    uint64_t not_before_ms; /* no replacement earlier */
    bool reported;          /* the warning that the limit is too low was logged */
};

enum {
    /* A process that exceeds the limit within this time after it was ready does so because of the
       application itself, not because of the requests it has served. */
    OVER_MEMORY_SOON_MS = 60000,
    /* Delay between two such replacements, doubled each time up to an interval at which operators
       may be expected to check. */
    OVER_MEMORY_DELAY_MS = 1000,
    OVER_MEMORY_DELAY_MAX_MS = 600000,
};

/* Whether a process over the limit READY_MS after it was ready is replaced now; counts that. */
bool over_memory_may_replace(struct over_memory *o, uint64_t ready_ms, uint64_t now_ms);
/* Returns true once, when the warning that the limit is too low is to be logged. */
bool over_memory_warns(struct over_memory *o);
