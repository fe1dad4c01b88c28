/* SPDX-License-Identifier: Apache-2.0
 *
 * PROC/net/tcp has one line per socket, the listening ones first; PROC/PID/fd has a link
 * "socket:[INODE]" for each socket that is open. The process itself is checked first: reading the
 * table of all processes is needed only where a child listens.
 */
#include "worker-agent/process/port_owner.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/text.h"
#include "worker-agent/process/proc_table.h"

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
