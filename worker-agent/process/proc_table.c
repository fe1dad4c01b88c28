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
static size_t read_file(int directory, const char *name, char *buf, size_t room)
{
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
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

static bool read_entry(int directory, pid_t pid, struct proc_entry *out)
{
    char name[32];
    char buf[STAT_MAX];

    snprintf(name, sizeof(name), "%ld/stat", (long)pid);
    if (!proc_stat_parse((struct slice){buf, read_file(directory, name, buf, sizeof(buf))}, out))
        return false;
    out->pid = pid;
    return true;
}

bool proc_entry_read(const char *proc, pid_t pid, struct proc_entry *out)
{
    int directory = open(proc, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (directory < 0)
        return false;
    bool there = read_entry(directory, pid, out);
    close(directory);
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

bool proc_table_read(struct proc_table *t, const char *proc)
{
    DIR *d = opendir(proc);
    struct dirent *name;

    t->n = 0;
    if (d == NULL)
        return false;
    while (t->n < PROC_TABLE_MAX && (name = readdir(d)) != NULL) {
        uint64_t pid;

        if (t->n == t->room) {
            t->room = t->room == 0 ? 256 : t->room * 2;
            t->items = xrealloc(t->items, t->room * sizeof(*t->items));
        }
        /* One that ended since is not there. */
        t->n += parse_u64(slice_of(name->d_name), PID_LARGEST, &pid) &&
                read_entry(dirfd(d), (pid_t)pid, &t->items[t->n]);
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

/* ---- listeners ---- */

/*
 * PROC/net/tcp has one line per socket, the listening ones first; PROC/PID/fd has a link
 * "socket:[INODE]" for each socket that is open. The process itself is checked first: reading the
 * table of all processes is needed only where a child listens.
 */

struct listener {
    uint64_t inode;
    uid_t uid;
    bool own;
};

struct listeners {
    struct listener items[PORT_LISTENERS_MAX];
    size_t n;
    bool too_many;
};

/* ---- net/tcp and net/tcp6 ---- */

enum { WORD_LOCAL = 1, WORD_STATE = 3, WORD_UID = 7, WORD_INODE = 9, WORDS };

static bool next_word(struct slice *rest, struct slice *out)
{
    while (rest->len > 0 && (rest->p[0] == ' ' || rest->p[0] == '\n'))
        *rest = (struct slice){rest->p + 1, rest->len - 1};
    *out = slice_cut(rest, ' ');
    return out->len > 0;
}

/* Whether a connection to 127.0.0.1 may reach ADDRESS, in the kernel's notation (words of the
 * host's byte order). */
static bool is_reachable(struct slice address)
{
    static const char *const texts[] = {"0100007F", "00000000", "00000000000000000000000000000000",
                                        "0000000000000000FFFF00000100007F",
                                        "0000000000000000FFFF000000000000"};

    for (size_t i = 0; i < ARRAY_LEN(texts); ++i) {
        if (slice_is(address, texts[i]))
            return true;
    }
    return false;
}

/* False: LINE is the first that is not of a listening socket. */
static bool read_line(struct slice line, unsigned port, struct listeners *out)
{
    struct slice word[WORDS];
    struct slice rest = line;
    char want[8];
    uint64_t uid;
    uint64_t inode;

    for (int i = 0; i < WORDS; ++i) {
        if (!next_word(&rest, &word[i]))
            return false;
    }
    if (!slice_is(word[WORD_STATE], "0A"))
        return false;
    struct slice at = word[WORD_LOCAL];
    struct slice address = slice_cut(&at, ':');
    snprintf(want, sizeof(want), "%04X", port & 0xffffU);
    if (!slice_is(at, want) || !is_reachable(address))
        return true;
    if (!parse_u64(word[WORD_UID], UINT32_MAX, &uid) ||
        !parse_u64(word[WORD_INODE], UINT64_MAX, &inode))
        return false;
    out->too_many = out->n == PORT_LISTENERS_MAX;
    if (!out->too_many)
        out->items[out->n++] = (struct listener){.inode = inode, .uid = (uid_t)uid};
    return !out->too_many;
}

/* False: it cannot be read. */
static bool read_sockets(const char *proc, const char *name, unsigned port, struct listeners *out)
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
        more = read_line(slice_of(line), port, out);
    fclose(f);
    return true;
}

/* ---- owners ---- */

static void mark_own(struct listeners *l, const char *target)
{
    for (size_t i = 0; i < l->n; ++i) {
        char text[40];

        snprintf(text, sizeof(text), "socket:[%llu]", (unsigned long long)l->items[i].inode);
        l->items[i].own |= strcmp(target, text) == 0;
    }
}

static bool all_own(const struct listeners *l)
{
    for (size_t i = 0; i < l->n; ++i) {
        if (!l->items[i].own)
            return false;
    }
    return true;
}

/* Marks the listeners that PID has open. False: its descriptors may not be read. */
static bool look_at(const char *proc, pid_t pid, struct listeners *l)
{
    char *path = xasprintf("%s/%ld/fd", proc, (long)pid);
    DIR *d = opendir(path);
    struct dirent *name;
    /* One that has ended has none. */
    bool readable = d != NULL || errno == ENOENT;

    free(path);
    while (d != NULL && (name = readdir(d)) != NULL) {
        char target[64];
        ssize_t n = readlinkat(dirfd(d), name->d_name, target, sizeof(target) - 1);

        if (n < 0)
            continue;
        target[n] = '\0';
        mark_own(l, target);
    }
    if (d != NULL)
        closedir(d);
    return readable;
}

/* The same for all processes that belong to PID. */
static bool look_at_all(const char *proc, pid_t pid, struct listeners *l)
{
    struct proc_table t = {0};
    struct proc_entry self;
    bool readable = true;

    if (!proc_entry_read(proc, pid, &self) || !proc_table_read(&t, proc))
        return true;
    struct proc_root root = {.pid = pid, .start_ticks = self.start_ticks};
    proc_table_own(&t, &root, 1);
    for (size_t i = 0; i < t.n && !all_own(l); ++i) {
        if (t.items[i].root == 0)
            readable &= look_at(proc, t.items[i].pid, l);
    }
    proc_table_fini(&t);
    return readable;
}

enum port_owner port_owner_find(const char *proc, unsigned port, pid_t pid, uid_t uid,
                                uid_t *foreign)
{
    struct listeners l = {.n = 0};
    bool v4 = read_sockets(proc, "tcp", port, &l);
    bool v6 = read_sockets(proc, "tcp6", port, &l);

    if (!v4 && !v6)
        return PORT_UNKNOWN;
    if (l.n == 0)
        return PORT_NONE;
    bool readable = look_at(proc, pid, &l);
    if (!all_own(&l))
        readable = look_at_all(proc, pid, &l) && readable;
    for (size_t i = 0; i < l.n; ++i) {
        *foreign = l.items[i].uid;
        if (!l.items[i].own && (readable || l.items[i].uid != uid))
            return PORT_FOREIGN;
    }
    return l.too_many ? PORT_FOREIGN : PORT_OWN;
}
