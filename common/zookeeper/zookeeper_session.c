/* SPDX-License-Identifier: Apache-2.0
 *
 * Ownership: the loop owns the session until zk_session_close; then the session's own thread closes
 * the handle, which makes the library return every call in progress, and releases the session. A
 * call belongs to the library until its completion runs, then to the mailbox, then to the loop. The
 * loop, the thread, each call and each notice hold a reference; the last release frees the session.
 */
#include "common/zookeeper/zookeeper_session.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/tls/crypto.h"
#include "common/tree/tree_backend.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

/* ---- access control lists of created nodes ---- */

/* The list with RULES: OWNER (USER:PASSWORD, or NULL) has all permissions, by an id that is owned;
 * all others may read, or, if OPEN and there is no owner, have all permissions. */
static struct ACL_vector zk_acl_make(struct ACL rules[2], const char *owner, bool open)
{
    char digest[SHA1_BASE64_ROOM];
    struct slice rest = slice_of(owner);
    struct slice user = slice_cut(&rest, ':');
    bool owned = owner != NULL && sha1_base64(owner, strlen(owner), digest);
    int n = 0;

    /* The server makes the digest of the whole. */
    if (owned)
        rules[n++] = (struct ACL){
            .perms = ZOO_PERM_ALL,
            .id = {(char *)(uintptr_t) "digest", xasprintf("%.*s:%s", SLICE_FMT(user), digest)},
        };
    rules[n++] = (struct ACL){
        .perms = open && !owned ? ZOO_PERM_ALL : ZOO_PERM_READ,
        .id = ZOO_ANYONE_ID_UNSAFE,
    };
    return (struct ACL_vector){.count = n, .data = rules};
}

struct zk_session {
    pthread_mutex_t mutex;
    pthread_cond_t state_changed;
    _Atomic unsigned refs;
    /* Under the mutex. */
    bool abandoned;          /* zk_session_close was called: nothing is posted any more */
    bool closed;             /* the handle is */
    bool orderly;            /* the server is to be notified of its end */
    struct list outstanding; /* calls that the library has */
    /* Set before its thread starts. */
    struct loop *loop;
    const struct zk_session_events *events;
    void *context;
    char *hosts, *identity, *creator;
    unsigned timeout_ms;
    struct ACL_vector own_acl, open_acl;
    struct ACL own_rules[2], open_rules[2];
    /* Accessed by the loop only. */
    zhandle_t *zh;
    bool opened, connected, ended;
    int64_t id;
};

/* A session event, or the change of a node, in transit to the loop. */
struct notice {
    struct loop_message message;
    struct zk_session *session;
    zhandle_t *opened; /* TYPE 0: the handle, with its identities; NULL: it cannot be opened */
    int type, state;   /* as the library has them */
    int64_t id;
    char path[];
};

static void call_free(struct zk_call *c);

static void session_unref(struct zk_session *s)
{
    if (--s->refs != 0)
        return;
    if (s->own_acl.count == 2)
        free(s->own_rules[0].id.id);
    if (s->open_acl.count == 2)
        free(s->open_rules[0].id.id);
    crypto_free(s->identity);
    crypto_free(s->creator);
    free(s->hosts);
    pthread_cond_destroy(&s->state_changed);
    pthread_mutex_destroy(&s->mutex);
    free(s);
}

/* Posts M to the loop's mailbox. Returns false if the loop has abandoned S; M stays the caller's.
 */
static bool post_message(struct zk_session *s, struct loop_message *m)
{
    pthread_mutex_lock(&s->mutex);
    bool there = !s->abandoned;
    if (there)
        loop_post(s->loop, m);
    pthread_mutex_unlock(&s->mutex);
    return there;
}

/* ---- notices: the library's completion thread, then the loop ---- */

static void zk_session_end(struct zk_session *s, const char *why)
{
    s->ended = true;
    s->connected = false;
    s->events->ended(s->context, why);
}

static void on_state(struct zk_session *s, const struct notice *n)
{
    int state = n->state;

    if (s->ended)
        return;
    if (state == ZOO_EXPIRED_SESSION_STATE) {
        zk_session_end(s, "expired");
    } else if (state == ZOO_AUTH_FAILED_STATE) {
        zk_session_end(s, "the server rejected the identity");
    } else if (state == ZOO_CONNECTED_STATE) {
        s->connected = true;
        s->id = n->id;
        if (s->opened)
            s->events->connected(s->context, n->id);
    } else if (s->connected) {
        s->connected = false;
        if (s->opened)
            s->events->disconnected(s->context);
    }
}

static void notice_free(struct notice *n)
{
    session_unref(n->session);
    free(n);
}

static void notice_run(struct loop_message *m)
{
    struct notice *n = container_of(m, struct notice, message);
    struct zk_session *s = n->session;

    /* Only the loop's own thread sets it. */
    if (s->abandoned) {
        notice_free(n);
        return;
    }
    if (n->type == 0) {
        s->zh = n->opened;
        s->opened = true;
        if (s->zh == NULL)
            zk_session_end(s, "cannot be opened: check the names of the servers");
        else if (s->connected && !s->ended)
            s->events->connected(s->context, s->id);
    } else if (n->type == ZOO_SESSION_EVENT) {
        on_state(s, n);
    } else if (!s->ended) {
        s->events->changed(s->context, n->path, n->type);
    }
    notice_free(n);
}

static struct notice *notice_create(struct zk_session *s, const char *path)
{
    size_t len = path != NULL ? strlen(path) : 0;
    struct notice *n = xcalloc(1, sizeof(*n) + len + 1);

    n->message.run = notice_run;
    n->session = s;
    ++s->refs;
    if (len != 0)
        memcpy(n->path, path, len);
    return n;
}

static void notice_post(struct notice *n)
{
    if (!post_message(n->session, &n->message))
        notice_free(n);
}

/* The watcher of the session. That of nodes is on_node_watch, which drops session events: the
 * library reports them to the watcher of each node, too. */
static void on_watch(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    bool of_node = path != NULL && path[0] != '\0';

    if (type == ZOO_NOTWATCHING_EVENT || (type == ZOO_SESSION_EVENT && of_node))
        return;
    struct notice *n = notice_create(context, path);
    n->type = type;
    n->state = state;
    n->id = zoo_client_id(zh)->client_id;
    notice_post(n);
}

static void on_node_watch(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    if (type != ZOO_SESSION_EVENT)
        on_watch(zh, type, state, path, context);
}

/* The library writes a line for every attempt to connect; and passwords never. */
static void on_log(const char *line)
{
    log_debug(NULL, "zookeeper-client", "line=\"%s\"", log_shown(slice_of(line)));
}

/* ---- the session's own thread ---- */

static void *run_thread(void *context)
{
    struct zk_session *s = context;
    zhandle_t *zh = zookeeper_init2(s->hosts, on_watch, (int)s->timeout_ms, NULL, s, 0, on_log);
    struct notice *n = notice_create(s, NULL);
    enum { WHEN_CONNECTION_IS_LOST = -1 };
    const char *identities[] = {s->creator, s->identity};

    /* By default the library resolves all names in each turn of its I/O thread, also while it is
     * connected: a name server that does not respond would end the session. */
    if (zh != NULL)
        (void)zoo_set_servers_resolution_delay(zh, WHEN_CONNECTION_IS_LOST);
    for (size_t i = 0; i < ARRAY_LEN(identities); ++i) {
        const char *id = identities[i];

        if (zh != NULL && id != NULL)
            (void)zoo_add_auth(zh, "digest", id, (int)strlen(id), NULL, NULL);
    }
    n->opened = zh;
    notice_post(n);
    pthread_mutex_lock(&s->mutex);
    /* One reference is this thread's. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
    while (!s->abandoned)
        pthread_cond_wait(&s->state_changed, &s->mutex);
    pthread_mutex_unlock(&s->mutex);
    /* If a socket is closed with unread data, the kernel drops data that was written:
     * so let all responses come first. */
    if (zh != NULL && s->orderly && zoo_state(zh) == ZOO_CONNECTED_STATE)
        (void)zoo_exists(zh, "/", 0, NULL);
    if (zh != NULL)
        zookeeper_close(zh);
    /* The library should have returned every call by now, and retains some. */
    struct zk_call *c;
    while ((c = list_pop_entry(&s->outstanding, struct zk_call, outstanding)) != NULL)
        call_free(c);
    pthread_mutex_lock(&s->mutex);
    s->closed = true;
    pthread_cond_broadcast(&s->state_changed);
    pthread_mutex_unlock(&s->mutex);
    session_unref(s);
    return NULL;
}

struct zk_session *zk_session_open(struct loop *l, const struct zk_session_options *o,
                                   const struct zk_session_events *events, void *context)
{
    struct zk_session *s = xcalloc(1, sizeof(*s));
    pthread_condattr_t attr;
    sigset_t all;
    sigset_t before;
    pthread_t thread;

    pthread_mutex_init(&s->mutex, NULL);
    list_init(&s->outstanding);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->state_changed, &attr);
    pthread_condattr_destroy(&attr);
    s->loop = l;
    s->events = events;
    s->context = context;
    s->hosts = xstrdup(o->hosts);
    s->identity = xstrdup(o->identity);
    s->creator = xstrdup(o->creator);
    s->timeout_ms = o->timeout_ms;
    s->own_acl = zk_acl_make(s->own_rules, s->creator, false);
    s->open_acl = zk_acl_make(s->open_rules, s->identity, true);
    zoo_set_debug_level(ZOO_LOG_LEVEL_WARN);
    s->refs = 2; /* the loop's, and the thread's */
    /* The thread, and the library's that it starts, leave signals to ours. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&thread, NULL, run_thread, s) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started) {
        pthread_detach(thread);
    } else {
        log_error(NULL, "zookeeper-thread-failed", "reason=\"%s\"", strerror(errno));
        s->closed = true;
        s->refs = 1;
        notice_post(notice_create(s, NULL));
    }
    /* One reference is the caller's. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
    return s;
}

void zk_session_close(struct zk_session *s, unsigned wait_ms)
{
    uint64_t until_us = clock_mono_us() + UINT64_C(1000) * wait_ms;
    struct timespec until = {.tv_sec = (time_t)(until_us / 1000000),
                             .tv_nsec = (long)(until_us % 1000000) * 1000};

    pthread_mutex_lock(&s->mutex);
    s->abandoned = true;
    s->orderly = wait_ms != 0;
    pthread_cond_broadcast(&s->state_changed);
    while (wait_ms != 0 && !s->closed) {
        if (pthread_cond_timedwait(&s->state_changed, &s->mutex, &until) == ETIMEDOUT)
            break;
    }
    pthread_mutex_unlock(&s->mutex);
    session_unref(s);
}

/* ---- calls ---- */

static void call_free(struct zk_call *c)
{
    json_decref(c->names);
    text_fini(&c->data);
    free(c->path);
    session_unref(c->session);
    free(c);
}

static void call_run(struct loop_message *m)
{
    struct zk_call *c = container_of(m, struct zk_call, message);

    if (!c->session->abandoned && c->done != NULL)
        c->done(c);
    call_free(c);
}

static struct zk_call *call_create(struct zk_session *s, const char *path, zk_done_fn done,
                                   void *context)
{
    struct zk_call *c = xcalloc(1, sizeof(*c));

    c->message.run = call_run;
    c->session = s;
    ++s->refs;
    pthread_mutex_lock(&s->mutex);
    list_push_back(&s->outstanding, &c->outstanding);
    pthread_mutex_unlock(&s->mutex);
    c->done = done;
    c->context = context;
    c->path = xstrdup(path);
    return c;
}

void zk_call_forget(struct zk_call *c)
{
    if (c != NULL)
        c->done = NULL;
}

/* C has completed. On the completion thread, or on the loop if the call could not begin. */
static void zk_session_finish(struct zk_call *c, int rc)
{
    struct zk_session *s = c->session;
    bool unknown = rc == ZOPERATIONTIMEOUT || rc == ZCLOSING || rc == ZSESSIONEXPIRED ||
                   rc == ZSESSIONMOVED || rc == ZINVALIDSTATE;

    /* It may or may not have been done. */
    c->result = unknown ? ZCONNECTIONLOSS : rc;
    pthread_mutex_lock(&s->mutex);
    list_remove(&c->outstanding);
    pthread_mutex_unlock(&s->mutex);
    if (!post_message(s, &c->message))
        call_free(c);
}

static void on_stat(int rc, const struct Stat *stat, const void *data)
{
    struct zk_call *c = (void *)(uintptr_t)data;

    if (stat != NULL)
        c->stat = *stat;
    zk_session_finish(c, rc);
}

static void on_data(int rc, const char *value, int len, const struct Stat *stat, const void *data)
{
    struct zk_call *c = (void *)(uintptr_t)data;

    /* Data of a node that never had any has length -1. */
    if (rc == ZOK && value != NULL && len > 0)
        text_add(&c->data, (struct slice){value, (size_t)len});
    on_stat(rc, stat, data);
}

static void on_names(int rc, const struct String_vector *names, const void *data)
{
    struct zk_call *c = (void *)(uintptr_t)data;

    if (rc == ZOK) {
        json_t *set = json_object();

        c->nthere = names != NULL ? (size_t)names->count : 0;
        for (size_t i = 0; i < c->nthere && i < TREE_CHILDREN_MAX; ++i)
            json_object_set_new_nocheck(set, names->data[i], json_null());
        c->names = tree_set_sorted(set);
    }
    zk_session_finish(c, rc);
}

static void on_created(int rc, unused_ const char *path, const void *data)
{
    zk_session_finish((void *)(uintptr_t)data, rc);
}

static void on_void(int rc, const void *data)
{
    zk_session_finish((void *)(uintptr_t)data, rc);
}

/* Completes C if the library has not accepted it: RC is what the library returned. */
static struct zk_call *finish_unless_begun(struct zk_call *c, int rc)
{
    if (rc != ZOK)
        zk_session_finish(c, rc);
    /* No call begins on an abandoned session. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
    return c;
}

struct zk_call *zk_read(struct zk_session *s, enum zk_part part, const char *path, bool watch,
                        zk_done_fn done, void *context)
{
    struct zk_call *c = call_create(s, path, done, context);
    watcher_fn watcher = watch ? on_node_watch : NULL;

    if (part == ZK_DATA)
        return finish_unless_begun(c, zoo_awget(s->zh, path, watcher, s, on_data, c));
    if (part == ZK_CHILDREN)
        return finish_unless_begun(c, zoo_awget_children(s->zh, path, watcher, s, on_names, c));
    return finish_unless_begun(c, zoo_awexists(s->zh, path, watcher, s, on_stat, c));
}

struct zk_call *zk_create(struct zk_session *s, const char *path, struct slice data, bool own,
                          zk_done_fn done, void *context)
{
    struct zk_call *c = call_create(s, path, done, context);

    return finish_unless_begun(c, zoo_acreate(s->zh, path, data.p, (int)data.len,
                                              own ? &s->own_acl : &s->open_acl,
                                              own ? ZOO_EPHEMERAL : ZOO_PERSISTENT, on_created, c));
}

struct zk_call *zk_set(struct zk_session *s, const char *path, struct slice data, int32_t version,
                       zk_done_fn done, void *context)
{
    struct zk_call *c = call_create(s, path, done, context);

    return finish_unless_begun(c,
                               zoo_aset(s->zh, path, data.p, (int)data.len, version, on_stat, c));
}

struct zk_call *zk_delete(struct zk_session *s, const char *path, zk_done_fn done, void *context)
{
    struct zk_call *c = call_create(s, path, done, context);

    return finish_unless_begun(c, zoo_adelete(s->zh, path, -1, on_void, c));
}

struct zk_call *zk_reset_acl(struct zk_session *s, const char *path, zk_done_fn done, void *context)
{
    struct zk_call *c = call_create(s, path, done, context);

    return finish_unless_begun(c, zoo_aset_acl(s->zh, path, -1, &s->open_acl, on_void, c));
}
