/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/heir.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/net/packet_talk.h"
#include "worker-agent/keeper_wire.h"

enum {
    /* For each step of the one before. It has nothing to do but to write a few messages. */
    STEP_MS = 10000,
    /* A resume file's text: two lines (RESUME_LINE_MAX) with room to spare. */
    RESUME_BYTES_MAX = 4 * 1024 * 1024,
};

struct legacy { /* one thing left to us */
    char *application;
    int slot;
    int fd;           /* -1: taken */
    struct addr addr; /* a socket's */
};

struct legacies {
    struct legacy *items;
    size_t n, room;
};

struct heir {
    int fd;
    int lock_fd;
    struct legacies sockets, resumes;
    struct watch *watch;
    struct heir_events events;
    void *context;
};

/* ---- what is left to us ---- */

static void add(struct legacies *all, const json_t *m, int fd, const struct addr *addr)
{
    const char *application = json_string_value(json_object_get(m, "application"));
    struct legacy *one;

    if (all->n == all->room) {
        all->room = all->room * 2 + 16;
        all->items = xrealloc(all->items, all->room * sizeof(*all->items));
    }
    one = &all->items[all->n++];
    *one = (struct legacy){.application = xstrdup(application),
                           .slot = (int)json_integer_value(json_object_get(m, "slot")),
                           .fd = fd};
    if (addr != NULL)
        one->addr = *addr;
}

static void drop_all(struct legacies *all)
{
    for (size_t i = 0; i < all->n; ++i) {
        if (all->items[i].fd >= 0)
            close(all->items[i].fd);
        free(all->items[i].application);
    }
    free(all->items);
    *all = (struct legacies){0};
}

static int take(struct legacy *one)
{
    int fd = one->fd;

    one->fd = -1;
    return fd;
}

static bool is_of(const struct legacy *one, const char *application, int slot)
{
    return one->fd >= 0 && application != NULL && one->application != NULL &&
           strcmp(one->application, application) == 0 && one->slot == slot;
}

/* ADDRESS leaves the port to the system, and ONE listens at a port of the same host. */
static bool is_some_port_of(const struct legacy *one, const struct addr *address)
{
    struct addr a = one->addr;

    if (address->sa.sa_family == AF_UNIX || addr_port(address) != 0 ||
        a.sa.sa_family != address->sa.sa_family)
        return false;
    if (a.sa.sa_family == AF_INET)
        a.in.sin_port = 0;
    else
        a.in6.sin6_port = 0;
    return addr_equal(&a, address);
}

int heir_take_socket(struct heir *h, const struct addr *address, const char *application, int slot)
{
    for (size_t i = 0; h != NULL && i < h->sockets.n; ++i) {
        struct legacy *one = &h->sockets.items[i];

        if (one->fd >= 0 && addr_equal(&one->addr, address))
            return take(one);
    }
    for (size_t i = 0; h != NULL && i < h->sockets.n; ++i) {
        struct legacy *one = &h->sockets.items[i];

        if (is_of(one, application, slot) && is_some_port_of(one, address))
            return take(one);
    }
    return -1;
}

int heir_take_lock(struct heir *h)
{
    int fd = h->lock_fd;

    h->lock_fd = -1;
    return fd;
}

static bool read_whole(int fd, struct text *out)
{
    struct stat st;

    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > RESUME_BYTES_MAX)
        return false;
    size_t size = (size_t)st.st_size;
    char *room = text_reserve(out, size + 1);
    ssize_t n = pread(fd, room, size, 0);
    if (n < 0 || (size_t)n != size)
        return false;
    out->len += size;
    return true;
}

bool heir_take_resume(struct heir *h, const char *application, int slot, struct text *out)
{
    for (size_t i = 0; h != NULL && i < h->resumes.n; ++i) {
        struct legacy *one = &h->resumes.items[i];

        if (!is_of(one, application, slot))
            continue;
        int fd = take(one);
        bool good = read_whole(fd, out);
        close(fd);
        return good;
    }
    return false;
}

/* ---- messages ---- */

static bool take_message(void *context, const json_t *m, int *passed)
{
    struct heir *h = context;
    struct addr addr;

    if (*passed < 0)
        return false;
    if (packet_is(m, "lock") && h->lock_fd < 0) {
        h->lock_fd = *passed;
    } else if (packet_is(m, "socket") && h->sockets.n < HEIR_SOCKETS_MAX &&
               addr_of_listener(*passed, &addr) == ERR_OK) {
        add(&h->sockets, m, *passed, &addr);
    } else if (packet_is(m, "resume") && h->resumes.n < HEIR_SOCKETS_MAX) {
        add(&h->resumes, m, *passed, NULL);
    } else {
        return false;
    }
    *passed = -1;
    return true;
}

/* Take what comes until UNTIL comes. Errors: as packet_hear. */
static enum err hear(struct heir *h, const char *until, json_t **last)
{
    return packet_hear(h->fd, until, STEP_MS, take_message, h, last);
}

/* ---- the steps ---- */

bool heir_begin(struct heir **out)
{
    json_t *m;
    bool bad;
    int fd = packet_inherited(HEIR_VARIABLE, &bad);

    *out = NULL;
    unsetenv(HEIR_VARIABLE);
    if (bad)
        log_error(NULL, "upgrade-not-understood", "reason=\"" HEIR_VARIABLE " is for agents\"");
    if (fd < 0)
        return !bad;
    struct heir *h = xcalloc(1, sizeof(*h));
    h->fd = fd;
    h->lock_fd = -1;
    enum err e = hear(h, "begin", &m);
    if (e == ERR_OK) {
        if (json_integer_value(json_object_get(m, "v")) != HEIR_VERSION)
            e = ERR_UNSUPPORTED;
        json_decref(m);
    }
    if (e != ERR_OK || h->lock_fd < 0) {
        log_error(NULL, "upgrade-not-understood", "reason=\"%s\"",
                  e != ERR_OK ? err_text(e) : "the lock of state_dir did not come");
        heir_destroy(h);
        return false;
    }
    *out = h;
    return true;
}

static void say(const struct heir *h, const char *op)
{
    /* It may be dead: that shows when we read. */
    (void)!packet_say(h->fd, op);
}

bool heir_take_over(struct heir *h)
{
    json_t *m;

    say(h, "prepared");
    enum err e = hear(h, "go", &m);
    if (e == ERR_OK) {
        json_decref(m);
        return true;
    }
    if (e == ERR_PEER_CLOSED) {
        log_warn(NULL, "agent-before-died", "action=\"take over what it left\"");
        return true;
    }
    log_error(NULL, "upgrade-not-understood", "reason=\"%s\"", err_text(e));
    return false;
}

static void on_readable(void *context)
{
    struct heir *h = context;
    json_t *m;
    int passed;
    enum err e = packet_receive(h->fd, &m, &passed);

    if (e == ERR_BUSY || e == ERR_SYNTAX)
        return;
    if (e == ERR_OK) {
        bool sealed = packet_is(m, "sealed");

        json_decref(m);
        if (passed >= 0)
            close(passed);
        if (sealed)
            h->events.sealed(h->context);
        return;
    }
    watch_stop(h->watch);
    h->watch = NULL;
    h->events.gone(h->context);
}

void heir_ready(struct heir *h, struct loop *l, const struct heir_events *e, void *context)
{
    h->events = *e;
    h->context = context;
    drop_all(&h->sockets);
    drop_all(&h->resumes);
    say(h, "ready");
    h->watch = watch_start(l, h->fd, on_readable, h);
}

void heir_destroy(struct heir *h)
{
    if (h == NULL)
        return;
    watch_stop(h->watch);
    drop_all(&h->sockets);
    drop_all(&h->resumes);
    if (h->lock_fd >= 0)
        close(h->lock_fd);
    close(h->fd);
    free(h);
}
