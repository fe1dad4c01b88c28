/* SPDX-License-Identifier: Apache-2.0
 *
 * Our own providers in ZooKeeper: nodes that end with our session. An entry has at most one call in
 * progress; its result decides about the next:
 *
 *   create ──► ours               check: there, with our properties and a watch?
 *     │  ▲                          │
 *     │  └── parent created ◄─ no parent
 *     └─ exists ──► check: ours (a response was lost) ─► held;  another's ─► wait until it changes
 *
 * After a connection loss an entry is checked; in a new session it is created again. An entry that
 * is removed while disconnected is deleted after reconnecting, or ends with the session.
 */
#include "common/base/log.h"
#include "common/zookeeper/zookeeper_tree.h"

#include <stdlib.h>

enum {
    /* Another owner's node has this name: events report its removal; it is also checked after this
     * time.
     */
    TAKEN_MS = 5000,
};

struct tree_entry {
    struct map_node in_tree;
    struct zookeeper *tree;
    struct zk_call *call;
    struct timer retry;
    const struct text *bytes; /* borrowed; NULL: leaving */
    bool held;                /* created in this session, and not seen to be gone */
    bool outdated;            /* the node may have other properties */
    bool check;               /* something happened to the node */
    bool reported;            /* it was logged that the name is taken; until it is ours */
    size_t parent; /* the length of the path of the parent that is created next; 0: none */
    char path[];
};

static void step_entry(struct tree_entry *e);

/* ---- names ---- */

/* Encodes a provider's NAME: '/', '%' and control bytes become %XX. False: not a valid name. */
static bool zk_name_encode(const char *name, char out[TREE_PATH_MAX + 1])
{
    size_t len = 0;

    for (const char *p = name; *p != '\0'; ++p) {
        bool coded = *p == '/' || *p == '%' || (unsigned char)*p < 0x20 || *p == 0x7f;

        if (len + 3 > TREE_PATH_MAX)
            return false;
        if (coded)
            len +=
                (size_t)snprintf(out + len, TREE_PATH_MAX + 1 - len, "%%%02X", (unsigned char)*p);
        else
            out[len++] = *p;
    }
    out[len] = '\0';
    return len != 0 && strcmp(out, ".") != 0 && strcmp(out, "..") != 0;
}

void zk_name_decode(char *name)
{
    char *out = name;

    while (*name != '\0') {
        /* Any other '%' stays as it is. */
        bool coded = strncmp(name, "%2F", 3) == 0 || strncmp(name, "%25", 3) == 0;

        *out++ = !coded ? *name : name[2] == 'F' ? '/' : '%';
        name += coded ? 3 : 1;
    }
    *out = '\0';
}

/* ---- one after the other ---- */

static void entry_free(struct tree_entry *e)
{
    zk_call_forget(e->call);
    timer_stop(&e->retry);
    map_remove(&e->tree->entries, &e->in_tree);
    free(e);
}

static void on_zk_entry_retry(struct timer *timer)
{
    struct tree_entry *e = container_of(timer, struct tree_entry, retry);

    e->check = true;
    step_entry(e);
}

static void registration_failed(struct tree_entry *e, const struct zk_call *c)
{
    log_error(NULL, "registration-failed", "path=%s reason=\"%s\"", log_shown(slice_of(c->path)),
              c->result == ZNOAUTH ? "no permission" : zerror(c->result));
    timer_start(e->tree->base.loop, &e->retry, ZK_RETRY_MS);
}

/* The node, or one above it, was created; if that is missing, the one above that is created first,
 * then the node is tried again. */
static void on_created(struct zk_call *c)
{
    struct tree_entry *e = c->context;
    size_t above = (size_t)(strrchr(c->path, '/') - c->path);
    bool of_node = e->parent == 0;

    e->call = NULL;
    e->parent = 0;
    /* The root of a server always exists. */
    if (c->result == ZNONODE && above != 0) {
        e->parent = above;
    } else if (c->result == ZOK || c->result == ZNODEEXISTS || c->result == ZCONNECTIONLOSS) {
        e->held = e->held || (of_node && c->result == ZOK);
        e->check = e->check || of_node;
    } else {
        registration_failed(e, c);
        return;
    }
    step_entry(e);
}

static void on_checked(struct zk_call *c)
{
    struct tree_entry *e = c->context;
    e->call = NULL;
    if (c->result == ZCONNECTIONLOSS) {
        e->check = true;
    } else if (c->result == ZNONODE) {
        if (e->held)
            log_warn(NULL, "registration-removed", "path=%s action=\"re-registering\"",
                     log_shown(slice_of(e->path)));
        e->held = false;
        e->check = false;
    } else if (c->result != ZOK) {
        registration_failed(e, c);
        return;
    } else if (c->stat.ephemeralOwner != e->tree->id) {
        e->held = false;
        if (!e->reported)
            log_info(NULL, "registration-name-taken",
                     "path=%s action=\"wait for its owner to exit\"", log_shown(slice_of(e->path)));
        e->reported = true;
        timer_start(e->tree->base.loop, &e->retry, TAKEN_MS);
        if (!e->check && e->bytes != NULL)
            return;
    } else {
        e->held = true;
        e->reported = false;
        timer_stop(&e->retry);
        e->outdated = e->bytes != NULL && !slice_eq(text_slice(&c->data), text_slice(e->bytes));
    }
    step_entry(e);
}

static void on_set(struct zk_call *c)
{
    struct tree_entry *e = c->context;

    e->call = NULL;
    if (c->result != ZOK && c->result != ZCONNECTIONLOSS && c->result != ZNONODE) {
        registration_failed(e, c);
        return;
    }
    e->check = e->check || c->result != ZOK;
    step_entry(e);
}

static void on_deleted(struct zk_call *c)
{
    struct tree_entry *e = c->context;

    e->call = NULL;
    e->check = true;
    if (c->result != ZCONNECTIONLOSS && e->bytes == NULL)
        entry_free(e);
    else
        step_entry(e); /* lost: again when connected; or it was registered again */
}

/* Begins the next call of E, if any is needed and possible. May free E. */
static void step_entry(struct tree_entry *e)
{
    struct zk_session *s = e->tree->session;

    if (e->call != NULL || !e->tree->connected)
        return;
    if (e->check) {
        e->check = false;
        e->call = zk_read(s, ZK_DATA, e->path, true, on_checked, e);
    } else if (e->bytes == NULL && e->held) {
        e->call = zk_delete(s, e->path, on_deleted, e);
    } else if (e->bytes == NULL) {
        entry_free(e);
    } else if (!e->held && e->parent != 0) {
        char *above = xslicedup((struct slice){e->path, e->parent});

        e->call = zk_create(s, above, SLICE_LIT(""), false, on_created, e);
        free(above);
    } else if (!e->held) {
        e->call = zk_create(s, e->path, text_slice(e->bytes), true, on_created, e);
    } else if (e->outdated) {
        e->outdated = false;
        e->call = zk_set(s, e->path, text_slice(e->bytes), -1, on_set, e);
    }
}

/* ---- the session ---- */

void zk_entries_connected(struct zookeeper *t, bool same)
{
    map_for_each_safe (struct tree_entry, e, &t->entries, in_tree) {
        /* A call with a lost response may have removed or created our node. */
        e->check = same;
        e->parent = 0;
        step_entry(e);
    }
}

void zk_entries_ended(struct zookeeper *t)
{
    map_for_each_safe (struct tree_entry, e, &t->entries, in_tree) {
        zk_call_forget(e->call);
        e->call = NULL;
        e->held = e->check = false;
        timer_stop(&e->retry);
        if (e->bytes == NULL)
            entry_free(e);
    }
}

void zk_entries_changed(struct zookeeper *t, const char *path)
{
    struct tree_entry *e =
        map_entry(map_find(&t->entries, path, strlen(path)), struct tree_entry, in_tree);

    if (e == NULL)
        return;
    e->check = true;
    step_entry(e);
}

void zk_entries_free(struct zookeeper *t)
{
    map_for_each_safe (struct tree_entry, e, &t->entries, in_tree)
        entry_free(e);
}

/* ---- the backend ---- */

struct tree_entry *zk_enter(struct tree *base, const char *path, const char *name,
                            const struct text *bytes)
{
    struct zookeeper *t = container_of(base, struct zookeeper, base);
    char encoded[TREE_PATH_MAX + 1];
    char full[2 * TREE_PATH_MAX + 2];
    bool possible =
        zk_name_encode(name, encoded) && strlen(path) + 1 + strlen(encoded) <= TREE_PATH_MAX;

    if (!possible) {
        log_error(NULL, "registration-failed", "path=%s name=%s reason=\"not a valid node name\"",
                  path, log_shown(slice_of(name)));
        return NULL;
    }
    int len = snprintf(full, sizeof(full), "%s/%s", path, encoded);
    struct tree_entry *e =
        map_entry(map_find(&t->entries, full, (size_t)len), struct tree_entry, in_tree);
    /* An entry that is about to be deleted is used again. */
    if (e == NULL) {
        e = xcalloc(1, sizeof(*e) + (size_t)len + 1);
        memcpy(e->path, full, (size_t)len + 1);
        e->tree = t;
        timer_init(&e->retry, on_zk_entry_retry);
        map_add(&t->entries, &e->in_tree, e->path, (size_t)len);
    }
    e->bytes = bytes;
    e->check = e->held;
    step_entry(e);
    return e;
}

void zk_entry_changed(struct tree_entry *e)
{
    e->outdated = true;
    step_entry(e);
}

bool zk_entry_held(const struct tree_entry *e)
{
    const struct zookeeper *t = e->tree;

    /* While disconnected, the end of the session is not reported: it is over after its time-out. */
    return e->held && (t->connected || loop_now_ms(t->base.loop) - t->lost_ms < t->timeout_ms);
}

void zk_leave(struct tree_entry *e)
{
    timer_stop(&e->retry);
    e->bytes = NULL;
    if (e->call == NULL && !e->held && !e->check)
        entry_free(e);
    else
        step_entry(e);
}
