/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes of this host, read from /proc in one pass, and the roots that they belong to. A
 * table is used by one thread at a time; reading may take milliseconds.
 */
#pragma once

#include <sys/types.h>

#include "common/net/addr.h"

enum {
    /* Maximum processes read; the kernel's default limit is 32,768. */
    PROC_TABLE_MAX = 65536,
    /* The process belongs to none of the roots. */
    PROC_NO_ROOT = -1,
};

struct proc_entry {
    pid_t pid, ppid, pgrp, session;
    uint64_t start_ticks; /* since boot; identifies the process together with the pid */
    uint64_t cpu_ticks;   /* user and system, including children that were waited for */
    uint64_t rss_bytes;
    bool zombie;
    int root; /* set by proc_table_own; or PROC_NO_ROOT */
};

struct proc_table {
    struct proc_entry *items; /* by pid */
    size_t n, room;
};

/* A process to account for, with all of its group, of its session, and its descendants. */
struct proc_root {
    pid_t pid;
    uint64_t start_ticks;
    bool there; /* set by proc_table_own */
};

/* Reads all processes. PROC: "/proc". Returns false and sets errno if it cannot be opened. */
bool proc_table_read(struct proc_table *t, const char *proc);
void proc_table_fini(struct proc_table *t);
/* Sets the root of every entry: an index into ROOTS, which must be sorted by pid. */
void proc_table_own(struct proc_table *t, struct proc_root *roots, size_t nroots);

/* Reads one process. Returns false if it does not exist. */
bool proc_entry_read(const char *proc, pid_t pid, struct proc_entry *out);
/* Reads the proportional set size of a process, in which shared pages count in part. Slow (the
 * kernel walks its page tables). Returns false if it is not available. */
bool proc_pss_read(const char *proc, pid_t pid, uint64_t *bytes);

/* ---- contents of the files ---- */
/* Parses PID/stat, except the pid. The command name in it is untrusted: the process sets it.
 * Returns false if the line is malformed. */
bool proc_stat_parse(struct slice line, struct proc_entry *out);
/* Parses "Pss:" of PID/smaps_rollup, in bytes. False: it is missing, *BYTES is unchanged. */
bool proc_rollup_parse(struct slice text, uint64_t *bytes);

/* ---- listeners ---- */

/*
 * Which processes listen on a TCP port of the loopback address, as /proc reports them. Any local
 * user may bind a port that was free a moment ago. Any thread; reads a few files.
 */
enum {
    /* Listening sockets of one port that are checked: 127.0.0.1, 0.0.0.0, [::], and several of one
       program (SO_REUSEPORT). More are taken for foreign ones. */
    PORT_LISTENERS_MAX = 256,
};

enum port_owner {
    PORT_OWN,     /* all listeners belong to the process */
    PORT_FOREIGN, /* at least one does not */
    PORT_NONE,    /* no listener found */
    PORT_UNKNOWN, /* PROC cannot be read */
};

/*
 * Checks the listeners that a connection to 127.0.0.1:PORT may reach.
 *   proc     "/proc"
 *   pid      owns a listener if it, a process of its group or of its session, or a descendant has
 *            it open; where their descriptors may not be read, if the listener's user is UID
 *   foreign  on PORT_FOREIGN: the user of the listener
 */
enum port_owner port_owner_find(const char *proc, unsigned port, pid_t pid, uid_t uid,
                                uid_t *foreign);
/*
 * Finds a TCP listener of PID (as above), at any address, among the first PORT_LISTENERS_MAX of the
 * machine; one of PORT is preferred. Returns false if there is none.
 */
bool process_listener_find(const char *proc, pid_t pid, unsigned port, struct addr *out);
