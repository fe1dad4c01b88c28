/* SPDX-License-Identifier: Apache-2.0
 *
 * proc(5): PID/stat is "pid (name) state ppid pgrp session ...", where the name is any bytes, ')'
 * and line breaks too: what counts comes after its last ')'.
 */
#include "worker-agent/process/proc_table.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/text.h"

enum {
    /* stat: 52 numbers of at most 20 digits, and a name; smaps_rollup: some 25 lines. */
    FILE_MAX = 4096,
    /* Generations between a process and the root it belongs to. */
    DEPTH_MAX = 256,
    PID_LARGEST = 0x7fffffff,
    NOT_YET = -2,
};

/* Fields after the name, counted from 0. */
enum {
    FIELD_STATE,
    FIELD_PPID,
    FIELD_PGRP,
    FIELD_SESSION,
    FIELD_UTIME = 11,
    FIELD_STIME,
    FIELD_CUTIME,
    FIELD_CSTIME,
    FIELD_START = 19,
    FIELD_RSS = 21,
    FIELDS
};

/* Reads PROC/PID/NAME, of which one read(2) returns all. Returns an empty slice on failure. */
static struct slice read_file(const char *proc, pid_t pid, const char *name, char buf[FILE_MAX])
{
    char *path = xasprintf("%s/%ld/%s", proc, (long)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? 0 : read(fd, buf, FILE_MAX);

    if (fd >= 0)
        close(fd);
    free(path);
    return (struct slice){buf, n > 0 ? (size_t)n : 0};
}

bool proc_stat_parse(struct slice line, struct proc_entry *out)
{
    uint64_t value[FIELDS] = {0};
    bool zombie = false;
    const char *name_end = line.len > 0 ? memrchr(line.p, ')', line.len) : NULL;

    if (name_end == NULL)
        return false;
    struct slice rest = {name_end + 1, line.len - (size_t)(name_end + 1 - line.p)};
    if (rest.len == 0 || rest.p[0] != ' ')
        return false;
    slice_cut(&rest, ' ');
    for (int i = 0; i < FIELDS; ++i) {
        bool used = (i >= FIELD_PPID && i <= FIELD_SESSION) ||
                    (i >= FIELD_UTIME && i <= FIELD_CSTIME) || i == FIELD_START || i == FIELD_RSS;
        uint64_t max = i <= FIELD_SESSION ? PID_LARGEST : INT64_MAX;

        struct slice field = slice_cut(&rest, ' ');

        if (i == FIELD_STATE)
            zombie = slice_is(field, "Z") || slice_is(field, "X");
        if (used && !parse_u64(field, max, &value[i]))
            return false;
    }
    *out = (struct proc_entry){.ppid = (pid_t)value[FIELD_PPID],
                               .pgrp = (pid_t)value[FIELD_PGRP],
                               .session = (pid_t)value[FIELD_SESSION],
                               .cpu_ticks = value[FIELD_UTIME] + value[FIELD_STIME] +
                                            value[FIELD_CUTIME] + value[FIELD_CSTIME],
                               .start_ticks = value[FIELD_START],
                               .rss_bytes = value[FIELD_RSS] * (uint64_t)sysconf(_SC_PAGESIZE),
                               .zombie = zombie,
                               .root = PROC_NO_ROOT};
    return true;
}

bool proc_entry_read(const char *proc, pid_t pid, struct proc_entry *out)
{
    char buf[FILE_MAX];

    if (!proc_stat_parse(read_file(proc, pid, "stat", buf), out))
        return false;
    out->pid = pid;
    return true;
}

bool proc_rollup_parse(struct slice rest, uint64_t *bytes)
{
    uint64_t kib;

    while (rest.len > 0) {
        struct slice line = slice_cut(&rest, '\n');

        if (!slice_starts(line, SLICE_LIT("Pss:")) || !slice_ends(line, SLICE_LIT(" kB")))
            continue;
        struct slice number = {line.p + 4, line.len - 7};
        if (!parse_u64(slice_trim(number), UINT64_MAX / 1024, &kib))
            return false;
        *bytes = kib * 1024;
        return true;
    }
    return false;
}

bool proc_pss_read(const char *proc, pid_t pid, uint64_t *bytes)
{
    char buf[FILE_MAX];

    return proc_rollup_parse(read_file(proc, pid, "smaps_rollup", buf), bytes);
}

/* ---- all of them ---- */

/* Compares pids, or entries or roots, which begin with a pid. */
static int by_pid(const void *a, const void *b)
{
    const pid_t *x = a;
    const pid_t *y = b;

    return (*x > *y) - (*x < *y);
}

bool proc_table_read(struct proc_table *t, const char *proc)
{
    DIR *d = opendir(proc);
    struct dirent *name;

    t->n = 0;
    if (d == NULL)
        return false;
    while (t->n < PROC_TABLE_MAX && (name = readdir(d)) != NULL) {
        uint64_t pid;

        t->items = xgrow(t->items, t->n + 1, &t->room, sizeof(*t->items));
        /* A process that has exited meanwhile is skipped. */
        t->n += parse_u64(slice_of(name->d_name), PID_LARGEST, &pid) &&
                proc_entry_read(proc, (pid_t)pid, &t->items[t->n]);
    }
    closedir(d);
    if (t->n > 1)
        qsort(t->items, t->n, sizeof(*t->items), by_pid);
    return true;
}

void proc_table_fini(struct proc_table *t)
{
    free(t->items);
    *t = (struct proc_table){0};
}

/* ---- assignment to roots ---- */

static struct proc_entry *proc_table_find(const struct proc_table *t, pid_t pid)
{
    return t->n > 0 ? bsearch(&pid, t->items, t->n, sizeof(*t->items), by_pid) : NULL;
}

void proc_table_own(struct proc_table *t, struct proc_root *roots, size_t nroots)
{
    for (size_t i = 0; i < nroots; ++i) {
        const struct proc_entry *e = proc_table_find(t, roots[i].pid);

        roots[i].there = e != NULL && e->start_ticks == roots[i].start_ticks;
    }
    for (size_t i = 0; i < t->n; ++i) {
        struct proc_entry *e = &t->items[i];
        const pid_t ids[] = {e->pid, e->pgrp, e->session};

        e->root = NOT_YET;
        for (size_t k = 0; k < ARRAY_LEN(ids) && nroots > 0 && e->root == NOT_YET; ++k) {
            const struct proc_root *r = bsearch(&ids[k], roots, nroots, sizeof(*roots), by_pid);

            if (r != NULL && r->there)
                e->root = (int)(r - roots);
        }
    }
    /* The others, and those in between, get the root of their nearest ancestor that has one. */
    for (size_t i = 0; i < t->n; ++i) {
        struct proc_entry *path[DEPTH_MAX];
        struct proc_entry *e = &t->items[i];
        size_t n = 0;

        while (e != NULL && e->root == NOT_YET && n < DEPTH_MAX) {
            path[n++] = e;
            e = proc_table_find(t, e->ppid);
        }
        int root = e != NULL && e->root != NOT_YET ? e->root : PROC_NO_ROOT;
        while (n > 0)
            path[--n]->root = root;
    }
}

/* ---- listeners ---- */

/*
 * PROC/net/tcp has one line per socket, the listening ones first; PROC/PID/fd has a link
 * "socket:[INODE]" for each socket that is open. The process itself is checked first: reading the
 * table of all processes is needed only where a child listens.
 */

struct port_listener {
    char address[33]; /* as the kernel writes it */
    unsigned port;
    uint64_t inode;
    uid_t uid;
    bool own;
};

struct port_listeners {
    struct port_listener items[PORT_LISTENERS_MAX];
    size_t n;
    bool too_many;
};

/* ---- net/tcp and net/tcp6 ---- */

/* PORT 0: any, reachable or not. False: LINE is the first that is not of a listening socket, or
 * there are too many. */
static bool read_line(const char *line, unsigned port, struct port_listeners *out)
{
    /* What a connection to 127.0.0.1 may reach, as the kernel writes it (in words of the host). */
    static const char *const reachable[] = {
        "0100007F", "00000000", "00000000000000000000000000000000",
        "0000000000000000FFFF00000100007F", "0000000000000000FFFF000000000000"};
    struct port_listener found = {.own = false};
    unsigned state;
    bool is_reachable = false;

    /* sl local_address:port rem_address st queues timer retrnsmt uid timeout inode */
    if (sscanf(line, "%*s %32[0-9A-F]:%X %*s %X %*s %*s %*s %u %*s %" SCNu64, found.address,
               &found.port, &state, &found.uid, &found.inode) != 5 ||
        state != TCP_LISTEN)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(reachable); ++i)
        is_reachable |= strcmp(found.address, reachable[i]) == 0;
    if (port != 0 && (found.port != port || !is_reachable))
        return true;
    out->too_many = out->n == PORT_LISTENERS_MAX;
    if (!out->too_many)
        out->items[out->n++] = found;
    return !out->too_many;
}

/* False: it cannot be read. */
static bool read_sockets(const char *proc, const char *name, unsigned port,
                         struct port_listeners *out)
{
    char *path = xasprintf("%s/net/%s", proc, name);
    FILE *f = fopen(path, "re");
    char line[512];

    free(path);
    if (f == NULL)
        return false;
    /* The first line has the names of the columns. */
    bool more = fgets(line, sizeof(line), f) != NULL;
    while (more && fgets(line, sizeof(line), f) != NULL)
        more = read_line(line, port, out);
    fclose(f);
    return true;
}

/* ---- owners ---- */

static bool all_own(const struct port_listeners *l)
{
    for (size_t i = 0; i < l->n; ++i) {
        if (!l->items[i].own)
            return false;
    }
    return true;
}

/* Marks the listeners that PID has open. False: its descriptors may not be read. */
static bool mark_own(const char *proc, pid_t pid, struct port_listeners *l)
{
    char *path = xasprintf("%s/%ld/fd", proc, (long)pid);
    DIR *d = opendir(path);
    struct dirent *name;
    /* A process that has exited has no descriptors. */
    bool readable = d != NULL || errno == ENOENT;

    free(path);
    while (d != NULL && (name = readdir(d)) != NULL) {
        char target[64];
        ssize_t n = readlinkat(dirfd(d), name->d_name, target, sizeof(target) - 1);
        uint64_t inode;

        target[n > 0 ? n : 0] = '\0';
        if (sscanf(target, "socket:[%" SCNu64 "]", &inode) != 1)
            continue;
        for (size_t i = 0; i < l->n; ++i)
            l->items[i].own |= l->items[i].inode == inode;
    }
    if (d != NULL)
        closedir(d);
    return readable;
}

/* Marks the listeners of PID, of its group and session, and of its descendants. False: the
 * descriptors of one of them may not be read. */
static bool mark_all_own(const char *proc, pid_t pid, struct port_listeners *l)
{
    bool readable = mark_own(proc, pid, l);
    struct proc_table t = {0};
    struct proc_entry self;

    if (!all_own(l) && proc_entry_read(proc, pid, &self) && proc_table_read(&t, proc)) {
        struct proc_root root = {.pid = pid, .start_ticks = self.start_ticks};

        proc_table_own(&t, &root, 1);
        for (size_t i = 0; i < t.n && !all_own(l); ++i) {
            if (t.items[i].root == 0)
                readable &= mark_own(proc, t.items[i].pid, l);
        }
    }
    proc_table_fini(&t);
    return readable;
}

enum port_owner port_owner_find(const char *proc, unsigned port, pid_t pid, uid_t uid,
                                uid_t *foreign)
{
    struct port_listeners l = {.n = 0};
    bool v4 = read_sockets(proc, "tcp", port, &l);
    bool v6 = read_sockets(proc, "tcp6", port, &l);

    if (!v4 && !v6)
        return PORT_UNKNOWN;
    if (l.n == 0)
        return PORT_NONE;
    bool readable = mark_all_own(proc, pid, &l);
    for (size_t i = 0; i < l.n; ++i) {
        *foreign = l.items[i].uid;
        if (!l.items[i].own && (readable || l.items[i].uid != uid))
            return PORT_FOREIGN;
    }
    return l.too_many ? PORT_FOREIGN : PORT_OWN;
}

static struct addr listener_address(const struct port_listener *l)
{
    size_t nwords = strlen(l->address) / 8;
    struct addr a = {.len = nwords == 1 ? sizeof(a.in) : sizeof(a.in6)};
    void *to = nwords == 1 ? (void *)&a.in.sin_addr : (void *)&a.in6.sin6_addr;

    a.sa.sa_family = nwords == 1 ? AF_INET : AF_INET6;
    for (size_t i = 0; i < nwords && i < 4; ++i) {
        uint32_t word = 0;

        (void)sscanf(l->address + 8 * i, "%8" SCNx32, &word);
        memcpy((char *)to + sizeof(word) * i, &word, sizeof(word));
    }
    addr_set_port(&a, l->port);
    return a;
}

bool process_listener_find(const char *proc, pid_t pid, unsigned port, struct addr *out)
{
    struct port_listeners l = {.n = 0};
    const struct port_listener *found = NULL;

    (void)read_sockets(proc, "tcp", 0, &l);
    (void)read_sockets(proc, "tcp6", 0, &l);
    (void)mark_all_own(proc, pid, &l);
    for (size_t i = 0; i < l.n; ++i) {
        const struct port_listener *one = &l.items[i];

        if (one->own && (found == NULL || (found->port != port && one->port == port)))
            found = one;
    }
    if (found != NULL)
        *out = listener_address(found);
    return found != NULL;
}
