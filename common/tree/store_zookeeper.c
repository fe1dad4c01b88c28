/* SPDX-License-Identifier: Apache-2.0
 *
 * A tree in ZooKeeper, read and edited by the client's synchronous calls, from the tool's own
 * thread and never from a callback. A call that the connection broke under may or may not have been
 * done: reads are asked again, and every change is made so that asking again does no harm.
 */
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/tree/store_kind.h"
#include "common/tree/zookeeper_url.h"
#include "common/wire/node_data.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <zookeeper/zookeeper.h>

enum {
    /* What a server takes in one packet, request and path included, is 1 MiB less a byte. */
    ZK_STORE_BYTES_MAX = NODE_BYTES_MAX - 16 * 1024,
    /* A node that is larger than what anybody may write by default can still be there. */
    ZK_STORE_READ_MAX = 4 * 1024 * 1024,
    /* Asked for; a tool that asks all the time needs no long one. */
    ZK_STORE_SESSION_MS = 10000,
    /* Connections that break under one call: an ensemble that elects costs one or two, a packet
       that the server or the library does not take costs every one. */
    ZK_STORE_LOSSES_MAX = 8,
};

struct zookeeper_store {
    struct store base;
    zhandle_t *handle;
    char *hosts;
    char *top; /* of the base */
    bool has_identity;
    unsigned timeout_ms;
    char *buffer;          /* ZK_STORE_READ_MAX */
    pthread_mutex_t lock;  /* of state */
    pthread_cond_t change; /* of state */
    int state;             /* the client's, as last told */
};

static struct zookeeper_store *store_of(struct store *s)
{
    return container_of(s, struct zookeeper_store, base);
}

/* ---- the connection ---- */

/* On the client's thread. */
static void on_event(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    struct zookeeper_store *s = context;

    (void)handle;
    (void)path;
    if (type != ZOO_SESSION_EVENT)
        return;
    pthread_mutex_lock(&s->lock);
    s->state = state;
    pthread_cond_signal(&s->change);
    pthread_mutex_unlock(&s->lock);
}

static void on_client_log(const char *line)
{
    log_debug(NULL, "zookeeper-client", "%s", line);
}

static void on_auth(int rc, const void *data)
{
    /* A server takes every digest; whether it is of use shows when a node is asked for. */
    (void)rc;
    (void)data;
}

static struct timespec deadline_after(unsigned ms)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += (long)(ms % 1000) * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_nsec -= 1000000000;
        ++t.tv_sec;
    }
    return t;
}

static bool is_over(int state)
{
    return state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE;
}

static enum err begin_session(struct zookeeper_store *s, struct diag *d)
{
    zoo_set_debug_level(ZOO_LOG_LEVEL_WARN);
    s->state = ZOO_CONNECTING_STATE;
    s->handle = zookeeper_init2(s->hosts, on_event, ZK_STORE_SESSION_MS, NULL, s, 0, on_client_log);
    if (s->handle != NULL)
        return ERR_OK;
    diag_add(d, NULL, 0, 0, "zookeeper: %s: %s", s->hosts, strerror(errno));
    return ERR_SYSTEM;
}

/* Wait until there is a connection, but not beyond DEADLINE. */
static enum err wait_connected(struct zookeeper_store *s, const struct timespec *deadline,
                               struct diag *d)
{
    int rc = 0;

    pthread_mutex_lock(&s->lock);
    while (s->state != ZOO_CONNECTED_STATE && !is_over(s->state) && rc == 0)
        rc = pthread_cond_timedwait(&s->change, &s->lock, deadline);
    int state = s->state;
    pthread_mutex_unlock(&s->lock);
    if (state == ZOO_CONNECTED_STATE)
        return ERR_OK;
    if (state == ZOO_AUTH_FAILED_STATE)
        diag_add(d, NULL, 0, 0, "zookeeper: %s refuses the identity of the auth file", s->hosts);
    else if (state == ZOO_EXPIRED_SESSION_STATE)
        diag_add(d, NULL, 0, 0, "zookeeper: the session with %s has expired: try again", s->hosts);
    else
        diag_add(d, NULL, 0, 0,
                 "zookeeper: no answer from %s within %u ms (is it running? --timeout)", s->hosts,
                 s->timeout_ms);
    return is_over(state) ? ERR_SYSTEM : ERR_TIMEOUT;
}

static enum err add_identity(struct zookeeper_store *s, const char *file, struct diag *d)
{
    struct text identity = {0};
    enum err e = zookeeper_auth_read(file, &identity, d);

    if (e == ERR_OK) {
        int rc = zoo_add_auth(s->handle, "digest", identity.p, (int)identity.len, on_auth, NULL);

        if (rc != ZOK) {
            diag_add(d, file, 0, 0, "%s", zerror(rc));
            e = ERR_SYSTEM;
        }
        s->has_identity = e == ERR_OK;
    }
    if (identity.p != NULL)
        explicit_bzero(identity.p, identity.room);
    text_fini(&identity);
    return e;
}

static void zookeeper_store_close(struct store *base)
{
    struct zookeeper_store *s = store_of(base);

    if (s->handle != NULL)
        zookeeper_close(s->handle);
    pthread_cond_destroy(&s->change);
    pthread_mutex_destroy(&s->lock);
    free(s->buffer);
    free(s->hosts);
    free(s->top);
    free(s);
}

static enum err zookeeper_store_open(struct slice place, const struct store_options *o,
                                     struct store **out, struct diag *d)
{
    struct zookeeper_store *s = xcalloc(1, sizeof(*s));
    struct timespec deadline = deadline_after(o->timeout_ms);
    pthread_condattr_t monotonic;

    s->base.kind = &store_zookeeper;
    s->timeout_ms = o->timeout_ms;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&s->change, &monotonic);
    pthread_condattr_destroy(&monotonic);
    enum err e = zookeeper_url_parse(place, &s->hosts, &s->top, d);
    if (e == ERR_OK)
        e = begin_session(s, d);
    if (e == ERR_OK && o->auth_file != NULL)
        e = add_identity(s, o->auth_file, d);
    if (e == ERR_OK)
        e = wait_connected(s, &deadline, d);
    if (e != ERR_OK) {
        zookeeper_store_close(&s->base);
        return e;
    }
    s->buffer = xmalloc(ZK_STORE_READ_MAX);
    s->base.top = s->top;
    *out = &s->base;
    return ERR_OK;
}

/* ---- calls ---- */

/* One call on a node of the server, and what came of it. */
struct call {
    struct zookeeper_store *store;
    char path[TREE_PATH_MAX + 1]; /* in the server */
    struct timespec deadline;
    unsigned losses; /* tries that may have been done all the same */
    struct diag *diag;
};

static void call_init(struct call *c, struct store *s, const char *path, struct diag *d)
{
    *c = (struct call){.store = store_of(s), .diag = d};
    c->deadline = deadline_after(c->store->timeout_ms);
    int len = snprintf(c->path, sizeof(c->path), "%s", store_shown(path));
    ASSERT(len >= 0 && (size_t)len < sizeof(c->path));
}

/* Whether to ask again after RC; if so there is a connection. *E: why not, if that is an error. */
static bool again(struct call *c, int rc, enum err *e)
{
    *e = ERR_OK;
    if (rc != ZCONNECTIONLOSS && rc != ZOPERATIONTIMEOUT && rc != ZSESSIONMOVED)
        return false;
    *e = wait_connected(c->store, &c->deadline, c->diag);
    if (*e != ERR_OK)
        return false;
    if (++c->losses == ZK_STORE_LOSSES_MAX) {
        diag_add(
            c->diag, NULL, 0, 0,
            "%s: the connection breaks whenever it is asked for: too large, or too many below it",
            c->path);
        *e = ERR_TOO_LARGE;
        return false;
    }
    /* The client may not have noticed yet. */
    const struct timespec pause = {.tv_nsec = 20000000};
    nanosleep(&pause, NULL);
    return true;
}

/* The meaning of RC, told where it is no answer. WHAT: "read", "write". */
static enum err result_of(struct call *c, int rc, const char *what)
{
    switch (rc) {
    case ZOK:
        return ERR_OK;
    case ZNONODE:
        return ERR_NOT_FOUND;
    case ZNODEEXISTS:
        return ERR_EXISTS;
    case ZBADVERSION:
    case ZNOTEMPTY:
        return ERR_BUSY;
    case ZNOAUTH:
        diag_add(c->diag, NULL, 0, 0, "%s: not permitted to %s it (%s)", c->path, what,
                 c->store->has_identity ? "the auth file is of another identity"
                                        : "--auth-file with an identity that may");
        return ERR_UNSUPPORTED;
    case ZNOCHILDRENFOREPHEMERALS:
        diag_add(c->diag, NULL, 0, 0, "%s: a provider has nothing below it", c->path);
        return ERR_UNSUPPORTED;
    case ZBADARGUMENTS:
        diag_add(c->diag, NULL, 0, 0, "%s: not a path that ZooKeeper takes", c->path);
        return ERR_UNSUPPORTED;
    default:
        diag_add(c->diag, NULL, 0, 0, "%s: cannot %s it: %s", c->path, what, zerror(rc));
        return ERR_SYSTEM;
    }
}

/* ---- reading ---- */

/* The node's data are in the buffer then, ST->dataLength bytes. */
static enum err get_data(struct call *c, struct Stat *st)
{
    enum err e;
    int rc;

    do {
        int len = ZK_STORE_READ_MAX;

        rc = zoo_get(c->store->handle, c->path, 0, c->store->buffer, &len, st);
    } while (again(c, rc, &e));
    if (e == ERR_OK)
        e = result_of(c, rc, "read");
    if (e == ERR_OK && st->dataLength > ZK_STORE_READ_MAX) {
        diag_add(c->diag, NULL, 0, 0, "%s: has %d bytes", c->path, st->dataLength);
        e = ERR_TOO_LARGE;
    }
    return e;
}

static enum err get_children(struct call *c, struct store_node *out)
{
    struct String_vector names = {0};
    enum err e;
    int rc;

    do
        rc = zoo_get_children(c->store->handle, c->path, 0, &names);
    while (again(c, rc, &e));
    if (e == ERR_OK)
        e = result_of(c, rc, "list");
    if (e != ERR_OK)
        return e;
    if (names.count > TREE_CHILDREN_MAX) {
        diag_add(c->diag, NULL, 0, 0, "%s: more than %d children", c->path, TREE_CHILDREN_MAX);
        e = ERR_TOO_LARGE;
    }
    for (int32_t i = 0; e == ERR_OK && i < names.count; ++i) {
        /* The server's own nodes are no part of a tree. */
        if (strcmp(c->path, "/") != 0 || strcmp(names.data[i], "zookeeper") != 0)
            store_node_add_child(out, names.data[i]);
    }
    deallocate_String_vector(&names);
    store_node_sort(out);
    return e;
}

static enum err zookeeper_read(struct store *s, const char *path, struct store_node *out,
                               struct diag *d)
{
    char why[JSON_WHY_ROOM];
    struct call c;
    struct Stat st = {0};

    call_init(&c, s, path, d);
    enum err e = get_data(&c, &st);
    if (e != ERR_OK)
        return e;
    size_t len = st.dataLength > 0 ? (size_t)st.dataLength : 0;
    out->properties = node_data_decode((struct slice){c.store->buffer, len}, why);
    out->problem = why[0] != '\0' ? xstrdup(why) : NULL;
    out->provider = st.ephemeralOwner != 0;
    out->version = (uint64_t)(uint32_t)st.version;
    return st.numChildren != 0 ? get_children(&c, out) : ERR_OK;
}

/* ---- writing ---- */

/* After a try that may have been done: whether the node has BYTES now. */
static bool has_bytes(struct call *c, struct slice bytes)
{
    struct Stat st = {0};

    return c->losses != 0 && get_data(c, &st) == ERR_OK && st.dataLength == (int32_t)bytes.len &&
           memcmp(c->store->buffer, bytes.p != NULL ? bytes.p : "", bytes.len) == 0;
}

static enum err refuse_provider(struct call *c)
{
    struct Stat st = {0};
    enum err e = get_data(c, &st);

    if (e == ERR_OK && st.ephemeralOwner != 0) {
        diag_add(c->diag, NULL, 0, 0, "%s: belongs to the process that registered it", c->path);
        e = ERR_UNSUPPORTED;
    }
    return e;
}

static enum err zookeeper_write(struct store *s, const char *path, const json_t *properties,
                                const uint64_t *version, struct diag *d)
{
    struct text bytes = {0};
    struct call c;
    enum err e = store_encode(path, properties, ZK_STORE_BYTES_MAX, &bytes, d);
    int rc;

    call_init(&c, s, path, d);
    if (e == ERR_OK)
        e = refuse_provider(&c);
    if (e == ERR_OK) {
        c.losses = 0;
        do
            rc = zoo_set(c.store->handle, c.path, bytes.p != NULL ? bytes.p : "", (int)bytes.len,
                         version != NULL ? (int32_t)*version : -1);
        while (again(&c, rc, &e));
        /* Another version, because the try that seemed lost was not. */
        if (e == ERR_OK && rc == ZBADVERSION && has_bytes(&c, text_slice(&bytes)))
            rc = ZOK;
        if (e == ERR_OK)
            e = result_of(&c, rc, "write");
    }
    text_fini(&bytes);
    return e;
}

/* New nodes: open to all, or with an identity, its own and readable by all. */
static struct ACL_vector acl_for(const struct zookeeper_store *s, struct ACL room[2])
{
    if (!s->has_identity)
        return ZOO_OPEN_ACL_UNSAFE;
    room[0] = (struct ACL){ZOO_PERM_ALL, ZOO_AUTH_IDS};
    room[1] = (struct ACL){ZOO_PERM_READ, ZOO_ANYONE_ID_UNSAFE};
    return (struct ACL_vector){2, room};
}

static enum err create_one(struct call *c, struct slice bytes)
{
    struct ACL room[2];
    struct ACL_vector acl = acl_for(c->store, room);
    enum err e;
    int rc;

    c->losses = 0;
    do
        rc = zoo_create(c->store->handle, c->path, bytes.p != NULL ? bytes.p : "", (int)bytes.len,
                        &acl, 0, NULL, 0);
    while (again(c, rc, &e));
    if (e == ERR_OK && rc == ZNODEEXISTS && has_bytes(c, bytes))
        rc = ZOK;
    return e == ERR_OK ? result_of(c, rc, "make") : e;
}

static enum err zookeeper_create(struct store *s, const char *path, const json_t *properties,
                                 struct diag *d)
{
    struct text bytes = {0};
    struct call c;
    enum err e = store_encode(path, properties, ZK_STORE_BYTES_MAX, &bytes, d);

    call_init(&c, s, path, d);
    if (e == ERR_OK)
        e = create_one(&c, text_slice(&bytes));
    text_fini(&bytes);
    return e;
}

static enum err zookeeper_remove(struct store *s, const char *path, struct diag *d)
{
    struct call c;
    enum err e;
    int rc;

    call_init(&c, s, path, d);
    do
        rc = zoo_delete(c.store->handle, c.path, -1);
    while (again(&c, rc, &e));
    if (e == ERR_OK && rc == ZNONODE && c.losses != 0)
        rc = ZOK;
    return e == ERR_OK ? result_of(&c, rc, "delete") : e;
}

static enum err zookeeper_reset_acl(struct store *s, const char *path, struct diag *d)
{
    struct ACL room[2];
    struct ACL_vector acl = acl_for(store_of(s), room);
    struct call c;
    enum err e;
    int rc;

    call_init(&c, s, path, d);
    do
        rc = zoo_set_acl(c.store->handle, c.path, -1, &acl);
    while (again(&c, rc, &e));
    return e == ERR_OK ? result_of(&c, rc, "change the permissions of") : e;
}

const struct store_kind store_zookeeper = {
    .scheme = "zookeeper",
    .open = zookeeper_store_open,
    .close = zookeeper_store_close,
    .read = zookeeper_read,
    .write = zookeeper_write,
    .create = zookeeper_create,
    .remove = zookeeper_remove,
    .reset_acl = zookeeper_reset_acl,
};
