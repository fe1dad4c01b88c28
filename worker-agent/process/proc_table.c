/* SPDX-License-Identifier: Apache-2.0
 *
 * proc(5): PID/stat is "pid (name) state ppid pgrp session ...", where the name is any bytes, ')'
 * and line breaks too: what counts comes after its last ')'.
 */
#include "worker-agent/process/proc_table.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/text.h"

enum {
    /* A stat line: 52 numbers of at most 20 digits, and a name. */
    STAT_MAX = 2048,
    /* smaps_rollup: some 25 lines. */
    ROLLUP_MAX = 4096,
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

/* Bytes read, 0 on failure. */
static size_t read_file(int folder, const char *name, char *buf, size_t room)
{
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n;

    if (fd < 0)
        return 0;
    n = read(fd, buf, room);
    close(fd);
    return n > 0 ? (size_t)n : 0;
}

bool proc_stat_parse(struct slice line, struct proc_entry *out)
{
    struct slice field[FIELDS];
    uint64_t value[FIELDS] = {0};
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

        field[i] = slice_cut(&rest, ' ');
        if (used && !parse_u64(field[i], max, &value[i]))
            return false;
    }
    *out = (struct proc_entry){.ppid = (pid_t)value[FIELD_PPID],
                               .pgrp = (pid_t)value[FIELD_PGRP],
                               .session = (pid_t)value[FIELD_SESSION],
                               .cpu_ticks = value[FIELD_UTIME] + value[FIELD_STIME] +
                                            value[FIELD_CUTIME] + value[FIELD_CSTIME],
                               .start_ticks = value[FIELD_START],
                               .rss_bytes = value[FIELD_RSS] * (uint64_t)sysconf(_SC_PAGESIZE),
                               .zombie = slice_is(field[FIELD_STATE], "Z") ||
                                         slice_is(field[FIELD_STATE], "X"),
                               .root = PROC_NOBODY};
    return true;
}

static bool read_entry(int folder, pid_t pid, struct proc_entry *out)
{
    char name[32];
    char buf[STAT_MAX];

    snprintf(name, sizeof(name), "%ld/stat", (long)pid);
    if (!proc_stat_parse((struct slice){buf, read_file(folder, name, buf, sizeof(buf))}, out))
        return false;
    out->pid = pid;
    return true;
}

bool proc_entry_read(const char *proc, pid_t pid, struct proc_entry *out)
{
    int folder = open(proc, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (folder < 0)
        return false;
    bool there = read_entry(folder, pid, out);
    close(folder);
    return there;
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
    char buf[ROLLUP_MAX];
    char *path = xasprintf("%s/%ld/smaps_rollup", proc, (long)pid);
    size_t n = read_file(AT_FDCWD, path, buf, sizeof(buf));

    free(path);
    return proc_rollup_parse((struct slice){buf, n}, bytes);
}

/* ---- all of them ---- */

static int by_pid(const void *a, const void *b)
{
    const struct proc_entry *x = a;
    const struct proc_entry *y = b;

    return (x->pid > y->pid) - (x->pid < y->pid);
}

static void add(struct proc_table *t, const struct proc_entry *e)
{
    if (t->n == t->room) {
        t->room = t->room == 0 ? 256 : t->room * 2;
        t->items = xrealloc(t->items, t->room * sizeof(*t->items));
    }
    t->items[t->n++] = *e;
}

bool proc_table_read(struct proc_table *t, const char *proc)
{
    DIR *d = opendir(proc);
    struct dirent *name;

    t->n = 0;
    if (d == NULL)
        return false;
    while (t->n < PROC_TABLE_MAX && (name = readdir(d)) != NULL) {
        struct proc_entry e;
        uint64_t pid;

        /* One that ended since is not there. */
        if (parse_u64(slice_of(name->d_name), PID_LARGEST, &pid) &&
            read_entry(dirfd(d), (pid_t)pid, &e))
            add(t, &e);
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

static struct proc_entry *find(const struct proc_table *t, pid_t pid)
{
    const struct proc_entry key = {.pid = pid};

    return t->n > 0 ? bsearch(&key, t->items, t->n, sizeof(*t->items), by_pid) : NULL;
}

static int root_order(const void *key, const void *b)
{
    const pid_t *pid = key;
    const struct proc_root *y = b;

    return (*pid > y->pid) - (*pid < y->pid);
}

/* A root that is there; PROC_NOBODY: none of that pid is. */
static int root_of(const struct proc_root *roots, size_t nroots, pid_t pid)
{
    const struct proc_root *r =
        nroots > 0 ? bsearch(&pid, roots, nroots, sizeof(*roots), root_order) : NULL;

    return r != NULL && r->there ? (int)(r - roots) : PROC_NOBODY;
}

static int own_root(const struct proc_entry *e, const struct proc_root *roots, size_t nroots)
{
    int r = root_of(roots, nroots, e->pid);

    if (r == PROC_NOBODY)
        r = root_of(roots, nroots, e->pgrp);
    if (r == PROC_NOBODY)
        r = root_of(roots, nroots, e->session);
    return r;
}

/* Of the first ancestor that has one. All on the way get it too. */
static void inherit(const struct proc_table *t, struct proc_entry *e)
{
    struct proc_entry *way[DEPTH_MAX];
    size_t n = 0;

    while (e != NULL && e->root == NOT_YET && n < DEPTH_MAX) {
        way[n++] = e;
        e = find(t, e->ppid);
    }
    int root = e != NULL && e->root != NOT_YET ? e->root : PROC_NOBODY;
    while (n > 0)
        way[--n]->root = root;
}

void proc_table_own(struct proc_table *t, struct proc_root *roots, size_t nroots)
{
    for (size_t i = 0; i < nroots; ++i) {
        const struct proc_entry *e = find(t, roots[i].pid);

        roots[i].there = e != NULL && e->start_ticks == roots[i].start_ticks;
    }
    for (size_t i = 0; i < t->n; ++i) {
        struct proc_entry *e = &t->items[i];
        int r = own_root(e, roots, nroots);

        e->root = r != PROC_NOBODY ? r : NOT_YET;
    }
    for (size_t i = 0; i < t->n; ++i)
        inherit(t, &t->items[i]);
}
