/* SPDX-License-Identifier: Apache-2.0 */
#include "common/program/inherited.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/log.h"
#include "common/net/packet.h"
#include "common/program/daemon.h"

enum {
    /* Maximum wait for each step of the old process, which only writes files and sends messages. */
    STEP_MS = 60000,
    /* Maximum wait for the lock, which a process that exits, or its forked child, still holds. */
    LOCK_WAIT_MS = 1000,
    /* Listeners times data loops, or slots; the limit of descriptors is reached before. */
    ITEMS_MAX = 65536,
    /* The lines of a resume file (RESUME_LINE_MAX), with room to spare. */
    TEXT_BYTES_MAX = 4 * 1024 * 1024,
};

struct inherited_item { /* a descriptor */
    char *op, *name;
    int number;
    int fd; /* -1: taken, or closed */
    bool taken;
    struct addr bound; /* a socket's; as configured, if this process has bound it */
    ino_t inode;       /* a socket's */
};

struct inherited {
    int fd; /* to the old process; -1: there is none */
    struct inherited_item *items;
    size_t n, room;
    bool ready;
    struct watch *watch;
    const struct inherited_events *events;
    void *context;
};

/* ---- what was passed ---- */

static int inherited_take(struct inherited_item *one)
{
    int fd = one->fd;

    one->fd = -1;
    one->taken = true;
    return fd;
}

static bool is_free(const struct inherited_item *one, const char *op)
{
    return one->fd >= 0 && strcmp(one->op, op) == 0;
}

static bool is_named(const struct inherited_item *one, const char *name)
{
    return name != NULL && one->name != NULL ? strcmp(one->name, name) == 0 : name == one->name;
}

static void add_item(struct inherited *h, const struct inherited_item *one)
{
    h->items = xgrow(h->items, h->n + 1, &h->room, sizeof(*h->items));
    h->items[h->n++] = *one;
}

/* Returns the item of OP bound to ADDRESS or, if that is NULL, with NAME and NUMBER; else NULL. */
static struct inherited_item *inherited_find(struct inherited *h, const char *op,
                                             const struct addr *address, const char *name,
                                             int number)
{
    if (h == NULL)
        return NULL;
    for (size_t i = 0; i < h->n; ++i) {
        struct inherited_item *one = &h->items[i];

        if (is_free(one, op) && (address != NULL ? addr_equal(&one->bound, address)
                                                 : is_named(one, name) && one->number == number))
            return one;
    }
    return NULL;
}

bool inherited_take_text(struct inherited *h, const char *op, const char *name, int number,
                         struct text *out)
{
    struct inherited_item *one = inherited_find(h, op, NULL, name, number);
    struct stat st;

    if (one == NULL || fstat(one->fd, &st) != 0 || !S_ISREG(st.st_mode) ||
        st.st_size > TEXT_BYTES_MAX)
        return false;
    size_t size = (size_t)st.st_size;
    char *room = text_reserve(out, size + 1);
    int fd = inherited_take(one);
    bool good = pread(fd, room, size, 0) == st.st_size;
    close(fd);
    if (good)
        out->len += size;
    return good;
}

int inherited_lock_directory(struct inherited *h, const char *directory, unsigned mode,
                             const char *name)
{
    char *path = xasprintf("%s/%s", directory, name);
    int fd = -1;

    if (mkdir(directory, mode) == 0 || errno == EEXIST) {
        struct inherited_item *one = inherited_find(h, "lock", NULL, NULL, 0);
        struct stat passed;
        struct stat there;

        if (one != NULL && fstat(one->fd, &passed) == 0 && stat(path, &there) == 0 &&
            passed.st_dev == there.st_dev && passed.st_ino == there.st_ino)
            fd = inherited_take(one);
        else
            fd = file_lock(path, LOCK_WAIT_MS);
    }
    if (fd < 0)
        log_error(NULL, "state-dir-lock-failed", "file=%s reason=\"%s\"", path,
                  errno == EWOULDBLOCK ? "locked by another process, which needs its own state_dir"
                                       : strerror(errno));
    free(path);
    return fd;
}

int inherited_take_socket(struct inherited *h, const struct addr *address, const char *name,
                          int number)
{
    struct inherited_item *one = inherited_find(h, "socket", address, NULL, 0);

    if (one != NULL)
        return inherited_take(one);
    one = inherited_find(h, "socket", NULL, name, number);
    /* ADDRESS may leave the port to the system: then it must be a port of the same host. */
    if (one == NULL || name == NULL || address->sa.sa_family == AF_UNIX ||
        addr_port(address) != 0 || one->bound.sa.sa_family != address->sa.sa_family)
        return -1;
    struct addr a = one->bound;
    addr_set_port(&a, 0);
    return addr_equal(&a, address) ? inherited_take(one) : -1;
}

bool inherited_listen(struct inherited *h, const struct addr *address, unsigned mode,
                      const struct privileges *p)
{
    const struct addr_listen_options o = {.mode = mode};
    struct inherited_item one = {.bound = *address};

    if (inherited_find(h, "socket", address, NULL, 0) != NULL)
        return true;
    enum err e = addr_listen(address, &o, &one.fd);
    if (e != ERR_OK) {
        log_error(NULL, "listen-failed", "address=%s reason=\"%s\"", addr_text(address),
                  e == ERR_SYSTEM ? strerror(errno) : err_text(e));
        return false;
    }
    one.op = xstrdup("socket");
    add_item(h, &one);
    return user_rights_chown_socket(address, p);
}

size_t inherited_take_listener(struct inherited *h, const struct addr *address, const char *name,
                               int **out)
{
    const struct inherited_item *first = NULL;
    struct inherited_item *one;
    size_t n = 0;

    *out = NULL;
    if (h == NULL)
        return 0;
    for (size_t i = 0; i < h->n && first == NULL; ++i) {
        one = &h->items[i];
        if (is_free(one, "socket") && one->name != NULL &&
            (is_named(one, name) || (address != NULL && addr_equal(&one->bound, address))))
            first = one;
    }
    if (first == NULL)
        return 0;
    int number = first->number;
    name = first->name;
    *out = xcalloc(h->n, sizeof(int));
    while ((one = inherited_find(h, "socket", NULL, name, number)) != NULL) {
        ino_t inode = one->inode;

        (*out)[n++] = inherited_take(one);
        /* A socket that several loops share is passed several times. */
        for (struct inherited_item *other = one + 1; other < h->items + h->n; ++other) {
            if (is_free(other, "socket") && is_named(other, name) && other->number == number &&
                other->inode == inode)
                close(inherited_take(other));
        }
    }
    return n;
}

static void close_rest(struct inherited *h)
{
    for (size_t i = 0; i < h->n; ++i) {
        if (h->items[i].fd >= 0)
            close(h->items[i].fd);
        h->items[i].fd = -1;
    }
}

/* ---- messages ---- */

static bool take_message(void *context, const json_t *m, int *passed)
{
    struct inherited *h = context;
    const char *op = json_string_value(json_object_get(m, "op"));
    struct inherited_item one = {.fd = *passed};
    struct stat st;

    if (*passed < 0 || op == NULL || h->n == ITEMS_MAX || fstat(*passed, &st) != 0)
        return false;
    one.inode = st.st_ino;
    if (strcmp(op, "socket") == 0 && addr_of_listener(*passed, &one.bound) != ERR_OK)
        return false;
    one.op = xstrdup(op);
    one.name = xstrdup(json_string_value(json_object_get(m, "name")));
    one.number = (int)json_integer_value(json_object_get(m, "number"));
    add_item(h, &one);
    *passed = -1;
    return true;
}

/* Receives messages up to LAST. Errors: as packet_receive_until, and ERR_UNSUPPORTED. */
static enum err receive_until(struct inherited *h, const char *last)
{
    json_t *m;
    enum err e = packet_receive_until(h->fd, last, STEP_MS, take_message, h, &m);

    if (e != ERR_OK)
        return e;
    if (packet_is(m, "begin") && json_integer_value(json_object_get(m, "v")) != UPGRADE_VERSION)
        e = ERR_UNSUPPORTED;
    json_decref(m);
    return e;
}

static bool inherited_complain(const char *reason)
{
    log_error(NULL, "upgrade-protocol-mismatch", "reason=\"%s\"", reason);
    return false;
}

bool inherited_begin(struct inherited **out)
{
    bool bad;
    int fd = packet_inherited(UPGRADE_VARIABLE, &bad);

    *out = NULL;
    unsetenv(UPGRADE_VARIABLE);
    if (bad)
        return inherited_complain(UPGRADE_VARIABLE " is set by this program alone");
    struct inherited *h = xcalloc(1, sizeof(*h));
    h->fd = fd;
    enum err e = fd >= 0 ? receive_until(h, "begin") : ERR_OK;
    if (e == ERR_OK) {
        *out = h;
        return true;
    }
    inherited_destroy(h);
    return inherited_complain(err_text(e));
}

/* ---- the steps ---- */

bool inherited_from_old(const struct inherited *h)
{
    return h != NULL && h->fd >= 0;
}

bool inherited_take_over(struct inherited *h)
{
    if (!inherited_from_old(h))
        return true;
    /* If the old process has exited, receive_until() returns ERR_PEER_CLOSED. */
    (void)!packet_send_op(h->fd, "prepared");
    enum err e = receive_until(h, "go");
    if (e == ERR_PEER_CLOSED)
        log_warn(NULL, "old-process-exited", "action=\"take over\"");
    return e == ERR_OK || e == ERR_PEER_CLOSED || inherited_complain(err_text(e));
}

static void on_inherited_readable(void *context)
{
    struct inherited *h = context;
    json_t *m;
    int passed;
    enum err e = packet_receive(h->fd, &m, &passed);

    if (e == ERR_BUSY || e == ERR_SYNTAX)
        return;
    if (e == ERR_OK) {
        const char *op = json_string_value(json_object_get(m, "op"));

        if (passed >= 0)
            close(passed);
        if (op != NULL)
            h->events->message(h->context, op);
        json_decref(m);
        return;
    }
    watch_stop(h->watch);
    h->watch = NULL;
    h->events->gone(h->context);
}

void inherited_ready(struct inherited **hp, struct loop *l, const struct inherited_events *events,
                     void *context)
{
    struct inherited *h = *hp;

    /* While the old process exists, the service manager accepts notifications only from it. */
    if (h->fd < 0 || packet_send_op(h->fd, "ready") != ERR_OK)
        daemon_notify("READY=1");
    h->ready = true;
    close_rest(h);
    if (events == NULL || h->fd < 0) {
        inherited_destroy(h);
        *hp = NULL;
        return;
    }
    h->events = events;
    h->context = context;
    h->watch = watch_start(l, h->fd, on_inherited_readable, h);
}

void inherited_destroy(struct inherited *h)
{
    if (h == NULL)
        return;
    watch_stop(h->watch);
    close_rest(h);
    for (size_t i = 0; i < h->n; ++i) {
        const struct inherited_item *one = &h->items[i];

        /* Removes the path of a unix socket if its address is no longer configured. */
        if (h->ready && !one->taken && one->bound.sa.sa_family == AF_UNIX &&
            one->bound.un.sun_path[0] == '/')
            unlink(one->bound.un.sun_path);
        free(one->op);
        free(one->name);
    }
    free(h->items);
    if (h->fd >= 0)
        close(h->fd);
    free(h);
}
