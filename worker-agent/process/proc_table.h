/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes of this host as /proc tells of them, read in one walk, and whose they are. A table
 * belongs to one thread at a time; reading may take milliseconds.
 */
#ifndef RLB_AGENT_PROCESS_PROC_TABLE_H
#define RLB_AGENT_PROCESS_PROC_TABLE_H

#include <sys/types.h>

#include "common/base/base.h"

enum {
    /* Processes of the host that are read; the kernel's own bound is 32,768 unless raised. */
    PROC_TABLE_MAX = 65536,
    /* "Belongs to none of the roots." */
    PROC_NOBODY = -1,
};

struct proc_entry {
    pid_t pid, ppid, pgrp, session;
    uint64_t start_ticks; /* since boot: with the pid, who it is */
    uint64_t cpu_ticks;   /* user and system, with children that were waited for */
    uint64_t rss_bytes;
    bool zombie;
    int root; /* of proc_table_own; or PROC_NOBODY */
};

struct proc_table {
    struct proc_entry *items; /* by pid */
    size_t n, room;
};

/* Who is asked for: a process, which has all of its group, of its session, and its descendants. */
struct proc_root {
    pid_t pid;
    uint64_t start_ticks;
    bool there; /* set by proc_table_own */
};

/* PROC: "/proc". False: it cannot be opened; errno says why. */
bool proc_table_read(struct proc_table *t, const char *proc);
void proc_table_fini(struct proc_table *t);
/* Set root of every entry: an index of ROOTS, which are sorted by pid. */
void proc_table_own(struct proc_table *t, struct proc_root *roots, size_t nroots);

/* One process. False: there is none. */
bool proc_entry_read(const char *proc, pid_t pid, struct proc_entry *out);
/* Its share of the memory it uses: pages that it has in common with others count in part. Slow
 * (walks its page tables). False: not told. */
bool proc_pss_read(const char *proc, pid_t pid, uint64_t *bytes);

/* ---- what the files say ---- */
/* PID/stat, but for the pid. The process has chosen its name. False: it is no such line. */
bool proc_stat_parse(struct slice line, struct proc_entry *out);
/* The bytes of "Pss:" of PID/smaps_rollup. False: not told; *BYTES is untouched. */
bool proc_rollup_parse(struct slice text, uint64_t *bytes);

#endif
