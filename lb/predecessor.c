/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/predecessor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/text.h"
#include "common/net/packet_talk.h"

enum {
    /* For all it has to say before we begin: it waits for nothing but a disk. */
    HEAR_MS = 10000,
};

struct legacy { /* a socket left to us */
    int fd;     /* -1: taken */
    bool admin;
    json_int_t listener; /* sockets of one have the same number */
    struct addr configured, bound;
    ino_t inode;
};

struct predecessor {
    int fd;
    int lock_fd; /* -1: none, or taken */
    struct legacy *items;
    size_t n, room;
    struct watch *watch;
    bool gone;
    void (*go)(void *context);
    void *context;
};

/* ---- what is left to us ---- */

int predecessor_take_lock(struct predecessor *p, const char *folder)
{
    struct stat ours;
    struct stat left;

    if (p == NULL || p->lock_fd < 0 || folder == NULL)
        return -1;
    char *path = xasprintf("%s/lock", folder);
    bool same = fstat(p->lock_fd, &left) == 0 && stat(path, &ours) == 0 &&
                left.st_dev == ours.st_dev && left.st_ino == ours.st_ino;
    free(path);
    if (!same)
        return -1;
    int fd = p->lock_fd;
    p->lock_fd = -1;
    return fd;
}

/* The first socket of the first listener that is at ADDRESS; n: none. */
static size_t find_listener(const struct predecessor *p, const struct addr *address)
{
    for (size_t i = 0; p != NULL && i < p->n; ++i) {
        const struct legacy *one = &p->items[i];

        if (one->fd >= 0 && !one->admin &&
            (addr_equal(&one->configured, address) || addr_equal(&one->bound, address)))
            return i;
    }
    return p != NULL ? p->n : 0;
}

bool predecessor_has_listener(const struct predecessor *p, const struct addr *address)
{
    return p != NULL && find_listener(p, address) < p->n;
}

/* A socket that several loops shared has come several times. */
static bool has_socket(const struct predecessor *p, const size_t *items, size_t n, size_t item)
{
    for (size_t i = 0; i < n; ++i) {
        if (p->items[items[i]].inode == p->items[item].inode)
            return true;
    }
    return false;
}

size_t predecessor_take_listener(struct predecessor *p, const struct addr *address, int **out)
{
    size_t first = find_listener(p, address);
    size_t n = 0;

    *out = NULL;
    if (p == NULL || first == p->n)
        return 0;
    size_t *items = xcalloc(p->n, sizeof(*items));
    *out = xcalloc(p->n, sizeof(int));
    for (size_t i = first; i < p->n; ++i) {
        struct legacy *one = &p->items[i];

        if (one->fd < 0 || one->admin || one->listener != p->items[first].listener)
            continue;
        if (has_socket(p, items, n, i)) {
            close(one->fd);
        } else {
            items[n] = i;
            (*out)[n++] = one->fd;
        }
        one->fd = -1;
    }
    free(items);
    return n;
}

int predecessor_take_admin(struct predecessor *p, const struct addr *address)
{
    for (size_t i = 0; p != NULL && i < p->n; ++i) {
        struct legacy *one = &p->items[i];

        if (one->fd >= 0 && one->admin && addr_equal(&one->bound, address)) {
            int fd = one->fd;

            one->fd = -1;
            return fd;
        }
    }
    return -1;
}

static void drop_rest(struct predecessor *p)
{
    for (size_t i = 0; i < p->n; ++i) {
        if (p->items[i].fd >= 0)
            close(p->items[i].fd);
    }
    free(p->items);
    p->items = NULL;
    p->n = p->room = 0;
    if (p->lock_fd >= 0)
        close(p->lock_fd);
    p->lock_fd = -1;
}

/* What is not configured any more: nobody listens there from now on. */
static void unlink_rest(const struct predecessor *p)
{
    for (size_t i = 0; i < p->n; ++i) {
        const struct addr *a = &p->items[i].bound;

        if (p->items[i].fd >= 0 && a->sa.sa_family == AF_UNIX && a->un.sun_path[0] == '/')
            unlink(a->un.sun_path);
    }
}

/* ---- messages ---- */

static bool is_listening(int fd, struct legacy *out)
{
    struct stat st;

    if (addr_of_listener(fd, &out->bound) != ERR_OK || fstat(fd, &st) != 0)
        return false;
    out->inode = st.st_ino;
    out->fd = fd;
    return true;
}

static bool add_socket(struct predecessor *p, const json_t *m, bool admin, int fd)
{
    const char *address = json_string_value(json_object_get(m, "address"));
    const json_t *n = json_object_get(m, "n");
    struct legacy one = {.admin = admin, .listener = json_integer_value(n)};

    if (p->n == PREDECESSOR_SOCKETS_MAX || !is_listening(fd, &one))
        return false;
    if (!admin && (!json_is_integer(n) || address == NULL ||
                   addr_parse(slice_of(address), &one.configured) != ERR_OK))
        return false;
    if (p->n == p->room) {
        p->room = p->room * 2 + 16;
        p->items = xrealloc(p->items, p->room * sizeof(*p->items));
    }
    p->items[p->n++] = one;
    return true;
}

static bool take_message(void *context, const json_t *m, int *passed)
{
    struct predecessor *p = context;
    bool taken = false;

    if (*passed < 0)
        return false;
    if (packet_is(m, "lock") && p->lock_fd < 0) {
        p->lock_fd = *passed;
        taken = true;
    } else if (packet_is(m, "listener") || packet_is(m, "admin")) {
        taken = add_socket(p, m, packet_is(m, "admin"), *passed);
    }
    if (taken)
        *passed = -1;
    return taken;
}

/* Take what comes until "begin". Errors: as packet_hear, and ERR_UNSUPPORTED. */
static enum err hear(struct predecessor *p)
{
    json_t *begin;
    enum err e = packet_hear(p->fd, "begin", HEAR_MS, take_message, p, &begin);

    if (e != ERR_OK)
        return e;
    if (json_integer_value(json_object_get(begin, "v")) != PREDECESSOR_VERSION)
        e = ERR_UNSUPPORTED;
    json_decref(begin);
    return e;
}

bool predecessor_begin(struct predecessor **out)
{
    bool bad;
    int fd = packet_inherited(PREDECESSOR_VARIABLE, &bad);

    *out = NULL;
    unsetenv(PREDECESSOR_VARIABLE);
    if (bad)
        log_error(NULL, "upgrade-not-understood",
                  "reason=\"" PREDECESSOR_VARIABLE " is for this program alone\"");
    if (fd < 0)
        return !bad;
    struct predecessor *p = xcalloc(1, sizeof(*p));
    p->fd = fd;
    p->lock_fd = -1;
    enum err e = hear(p);
    if (e == ERR_OK) {
        *out = p;
        return true;
    }
    log_error(NULL, "upgrade-not-understood", "reason=\"%s\"", err_text(e));
    predecessor_destroy(p);
    return false;
}

/* ---- the steps ---- */

static void on_readable(void *context)
{
    struct predecessor *p = context;
    json_t *m;
    int passed;
    enum err e = packet_receive(p->fd, &m, &passed);

    if (e == ERR_BUSY || e == ERR_SYNTAX)
        return;
    if (e == ERR_OK) {
        bool go = packet_is(m, "go");

        json_decref(m);
        if (passed >= 0)
            close(passed);
        if (!go)
            return;
    } else {
        log_warn(NULL, "process-before-has-ended", "action=\"serve in its place\"");
        p->gone = true;
    }
    watch_stop(p->watch);
    p->watch = NULL;
    p->go(p->context);
}

void predecessor_prepared(struct predecessor *p, struct loop *l, void (*go)(void *context),
                          void *context)
{
    p->go = go;
    p->context = context;
    /* It may have ended: that shows when we read. */
    (void)!packet_say(p->fd, "prepared");
    p->watch = watch_start(l, p->fd, on_readable, p);
}

bool predecessor_serving(struct predecessor *p)
{
    if (p == NULL)
        return false;
    /* Heard, or it lies where it will be. */
    bool heard = !p->gone && packet_say(p->fd, "ready") == ERR_OK;
    unlink_rest(p);
    predecessor_destroy(p);
    return heard;
}

void predecessor_destroy(struct predecessor *p)
{
    if (p == NULL)
        return;
    watch_stop(p->watch);
    drop_rest(p);
    close(p->fd);
    free(p);
}
