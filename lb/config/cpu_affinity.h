/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU to which each data loop's thread is pinned. Off by default: pinned loops retain their
 * caches, but cannot move away from other load on their CPU. A value; any thread.
 */
#pragma once

#include "common/base/base.h"
#include "common/base/limits.h"

#include <sched.h>

struct cpu_affinity {
    unsigned n; /* 0: off */
    unsigned short cpus[CPU_SETSIZE];
};

/*
 * "off"; "auto": the CPUs of ALLOWED, ascending; or a list of them: "0,2-5", loop i to its i-th,
 * then from the start again. Returns NULL, or what is wrong; OUT is untouched then.
 */
const char *cpu_affinity_parse(struct slice text, const cpu_set_t *allowed,
                               struct cpu_affinity *out) must_check;
/* The CPU of loop I; -1: any. */
int cpu_affinity_of(const struct cpu_affinity *a, unsigned i);
/* Pins the calling thread to CPU; -1: no effect. Returns false with errno if that failed. */
bool cpu_affinity_enter(int cpu);
