/* SPDX-License-Identifier: Apache-2.0
 *
 * A tree in ZooKeeper. The known state stays as it is while disconnected. A session that has ended
 * is replaced by a new one, in which all nodes are re-read and our providers are registered again.
 * The pauses between short-lived sessions grow.
 */
#include "common/base/json.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/tls/crypto.h"
#include "common/zookeeper/zookeeper_tree.h"
#include "common/zookeeper/zookeeper_url.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

static void zk_reads_begin(struct zookeeper *t);
static void zk_node_put(struct zk_node *n);
static void zk_node_data(struct zk_node *n, const struct zk_call *c);
static void zk_node_children(struct zk_node *n, struct zk_call *c);
static void zk_node_unreadable(struct zk_read *r, const char *why);

/* ---- which node is read when: pace, order, and those that break the connection ---- */

/*
 * A read is requested at first, at each event, and after each lost connection. The first is made at
 * once, the next not before TREE_PAUSE_MS; so a burst of changes costs one read per pause.
 *
 * A response of more than 1 MiB breaks the connection instead of returning an error, and all other
 * reads in flight fail with it. Responses arrive in order, so the first read that is lost is the
 * suspect: when all others are served, it is repeated alone, its size first. The second time it is
 * not read for ZK_QUARANTINE_MS, and then for as long as it has not changed.
 */

static void on_pause_over(struct timer *timer);
static void on_read(struct zk_call *c);

static void zk_read_init(struct zk_read *r, enum zk_part part, struct zk_node *n)
{
    *r = (struct zk_read){.part = part, .node = n};
    list_init(&r->in_queue);
    timer_init(&r->pause, on_pause_over);
}

static struct zookeeper *tree_of(const struct zk_read *r)
{
    return r->node->tree;
}

/* R's call has ended. */
static void call_over(struct zk_read *r)
{
    struct zookeeper *t = tree_of(r);

    r->call = NULL;
    --t->reading;
    t->alone = false;
}

static void drop_call(struct zk_read *r)
{
    if (r->call == NULL)
        return;
    zk_call_forget(r->call);
    call_over(r);
}

static void zk_read_fini(struct zk_read *r)
{
    timer_stop(&r->pause);
    list_remove(&r->in_queue);
    if (r->quarantined)
        --tree_of(r)->counts.quarantined;
    drop_call(r);
}

static void enqueue_read(struct zk_read *r)
{
    struct zookeeper *t = tree_of(r);

    list_remove(&r->in_queue);
    list_push_back(r->failures == 0 ? &t->queued : &t->suspects, &r->in_queue);
    zk_reads_begin(t);
}

static void on_pause_over(struct timer *timer)
{
    enqueue_read(container_of(timer, struct zk_read, pause));
}

static void request_after(struct zk_read *r, uint64_t ms)
{
    list_remove(&r->in_queue);
    timer_start(tree_of(r)->base.loop, &r->pause, ms);
}

/* Requests a read of R: at once, or TREE_PAUSE_MS after the previous read. */
static void zk_read_request(struct zk_read *r)
{
    uint64_t since = loop_now_ms(tree_of(r)->base.loop) - r->started_ms;

    if (r->call != NULL) {
        r->again = true;
        return;
    }
    if (list_linked(&r->in_queue) || r->quarantined)
        return;
    if (since < TREE_PAUSE_MS) {
        if (!timer_running(&r->pause))
            request_after(r, TREE_PAUSE_MS - since);
        return;
    }
    timer_stop(&r->pause);
    enqueue_read(r);
}

/* The session has ended, and R's call with it: it is requested again. */
static void zk_read_restart(struct zk_read *r)
{
    drop_call(r);
    r->again = false;
    if (!r->quarantined)
        zk_read_request(r);
    else if (!list_linked(&r->in_queue) && !timer_running(&r->pause))
        request_after(r, ZK_QUARANTINE_MS);
}

static void quarantine_node(struct zk_read *r)
{
    struct zookeeper *t = tree_of(r);
    if (!r->quarantined) {
        ++t->counts.quarantined;
        log_error(
            NULL, "tree-node-quarantined",
            "path=%s bytes=%d children=%d for_ms=%d reason=\"reading it breaks the "
            "connection\" hint=\"responses of ZooKeeper are limited to 1 MiB: make it smaller\"",
            log_shown(slice_of(r->node->path)), r->seen.dataLength, r->seen.numChildren,
            ZK_QUARANTINE_MS);
    }
    r->quarantined = true;
    zk_node_unreadable(r, "too large: reading it breaks the connection to ZooKeeper");
    request_after(r, ZK_QUARANTINE_MS);
}

static void reset_failures(struct zk_read *r)
{
    if (r->quarantined)
        --tree_of(r)->counts.quarantined;
    r->quarantined = false;
    r->failures = 0;
}

/* ---- calls ---- */

static void start_read(struct zk_read *r)
{
    struct zookeeper *t = tree_of(r);
    const char *path = zk_server_path(r->node->path);

    ++t->counts.reads;
    ++t->reading;
    r->started_ms = loop_now_ms(t->base.loop);
    r->again = false;
    r->call = zk_read(t->session, r->part, path, true, on_read, r);
}

/* The size of R, a suspect, was read; R itself is read next. */
static void on_size(struct zk_call *c)
{
    struct zk_read *r = c->context;
    struct zookeeper *t = tree_of(r);
    const struct Stat *s = &c->stat;
    bool of_data = r->part == ZK_DATA;

    call_over(r);
    if (c->result == ZCONNECTIONLOSS) {
        enqueue_read(r);
        return;
    }
    bool large = c->result == ZOK &&
                 (of_data ? s->dataLength >= ZK_LARGE_BYTES : s->numChildren >= ZK_LARGE_CHILDREN);
    bool same = of_data ? s->mzxid == r->seen.mzxid : s->pzxid == r->seen.pzxid;
    if (large && r->quarantined && same) {
        quarantine_node(r);
        zk_reads_begin(t);
        return;
    }
    if (!large)
        reset_failures(r);
    r->seen = c->stat;
    t->alone = true;
    start_read(r);
}

/* The result of ZK_EXISTS, the only call that watches for the creation of a missing node. */
static void on_exists(struct zk_call *c)
{
    struct zk_read *r = c->context;
    struct zookeeper *t = tree_of(r);

    call_over(r);
    if (c->result == ZCONNECTIONLOSS)
        enqueue_read(r);
    else if (c->result == ZNONODE)
        zk_node_data(r->node, c);
    else
        start_read(r); /* it was created meanwhile, or the check failed */
    zk_reads_begin(t);
}

/* The connection broke while R was in flight. */
static void on_read_lost(struct zk_read *r)
{
    struct zookeeper *t = tree_of(r);

    if (!t->loss_seen) {
        t->loss_seen = true;
        ++r->failures;
    }
    if (r->failures >= 2)
        quarantine_node(r);
    else
        enqueue_read(r);
}

static void on_read(struct zk_call *c)
{
    struct zk_read *r = c->context;
    struct zookeeper *t = tree_of(r);
    struct zk_node *n = r->node;
    bool again = r->again;

    call_over(r);
    if (c->result == ZCONNECTIONLOSS) {
        on_read_lost(r);
        return;
    }
    t->loss_seen = false;
    reset_failures(r);
    if (c->result == ZNONODE && r->part == ZK_DATA && n->watched != NULL) {
        ++t->reading;
        r->call = zk_read(t->session, ZK_EXISTS, c->path, true, on_exists, r);
        return;
    }
    if (c->result != ZOK && c->result != ZNONODE) {
        zk_node_unreadable(r,
                           c->result == ZNOAUTH ? "no permission to read it" : zerror(c->result));
        request_after(r, ZK_RETRY_MS);
    } else {
        if (again)
            zk_read_request(r);
        if (r->part == ZK_CHILDREN)
            zk_node_children(n, c);
        else
            zk_node_data(n, c);
    }
    zk_reads_begin(t);
}

/* Begins the reads that may begin now. */
static void zk_reads_begin(struct zookeeper *t)
{
    struct zk_read *r;

    if (!t->connected)
        return;
    while (!t->alone && t->reading < ZK_READS_MAX &&
           (r = list_pop_entry(&t->queued, struct zk_read, in_queue)) != NULL)
        start_read(r);
    if (t->reading != 0 || (r = list_pop_entry(&t->suspects, struct zk_read, in_queue)) == NULL)
        return;
    t->alone = true;
    ++t->reading;
    r->call = zk_read(t->session, ZK_EXISTS, zk_server_path(r->node->path), false, on_size, r);
}

/* ---- what was read: properties, lists, providers ---- */

/*
 * Stores what was read of a node, and copies it to the node of the tree. A list of providers is
 * shown once every provider in it was read; after that, a new provider is shown once it was read.
 */

static struct zk_node *zk_node_get(struct zookeeper *t, const char *path)
{
    size_t len = strlen(path);
    struct zk_node *n = map_entry(map_find(&t->nodes, path, len), struct zk_node, in_tree);

    if (n != NULL)
        return n;
    n = xcalloc(1, sizeof(*n) + len + 1);
    memcpy(n->path, path, len + 1);
    n->tree = t;
    list_init(&n->in_list);
    list_init(&n->members);
    zk_read_init(&n->data, ZK_DATA, n);
    zk_read_init(&n->children, ZK_CHILDREN, n);
    map_add(&t->nodes, &n->in_tree, n->path, len);
    return n;
}

/* Removes N, a provider, from its list. May free N. */
static void leave_list(struct zk_node *n)
{
    struct zk_node *list = n->list_of;

    ASSERT(list != NULL);
    list_remove(&n->in_list);
    n->list_of = NULL;
    if (!n->known)
        --list->unread;
    list->changed = true;
    zk_node_put(n);
}

static void drop_members(struct zk_node *list)
{
    struct zk_node *n;

    while ((n = list_pop_entry(&list->members, struct zk_node, in_list)) != NULL)
        leave_list(n);
}

/* Frees N if neither a node nor a list refers to it. */
static void zk_node_put(struct zk_node *n)
{
    if (n->watched != NULL || n->list_of != NULL)
        return;
    drop_members(n);
    zk_read_fini(&n->data);
    zk_read_fini(&n->children);
    map_remove(&n->tree->nodes, &n->in_tree);
    json_decref(n->properties);
    free(n->problem);
    tree_set_replace(&n->names, NULL);
    free(n);
}

static void touch_watched(struct zk_node *n, unsigned parts)
{
    if (n->watched != NULL)
        /* Followers of a node that is not known yet wait for PART_NODE. */
        tree_node_touch(n->watched, n->watched->known ? parts : PART_NODE | parts);
}

/* ---- data ---- */

/* N was read: its data are known, or that it does not exist. */
static void data_known(struct zk_node *n)
{
    struct zk_node *list = n->list_of;
    bool first = !n->known;

    n->known = true;
    touch_watched(n, PART_NODE | PART_PROVIDERS | PART_CHILDREN);
    if (list == NULL)
        return;
    if (first)
        --list->unread;
    list->changed = true;
    if (list->unread == 0)
        list->complete = true;
    if (list->complete)
        touch_watched(list, PART_PROVIDERS);
}

static void set_properties(struct zk_node *n, json_t *properties, const char *problem)
{
    json_decref(n->properties);
    n->properties = properties;
    free(n->problem);
    n->problem = xstrdup(problem);
}

/* Stores the result of reading N's data: the data, or that the node does not exist. */
static void zk_node_data(struct zk_node *n, const struct zk_call *c)
{
    char why[JSON_WHY_ROOM] = "over its limit";
    struct slice bytes = text_slice(&c->data);
    struct slice trimmed = bytes;
    bool fits = n->watched != NULL || bytes.len <= PROVIDER_BYTES_MAX;
    json_t *v = NULL;

    n->exists = c->result == ZOK;
    n->birth = (uint64_t)c->stat.czxid;
    /* As in zc.zk, empty data mean no properties. */
    while (trimmed.len != 0 && strchr(" \t\r\n", trimmed.p[trimmed.len - 1]) != NULL)
        --trimmed.len;
    if (n->exists && fits)
        v = trimmed.len == 0 ? json_object() : node_object_parse(trimmed, NODE_BYTES_MAX, why);
    /* A provider counts whatever its data are; zc.zk calls a raw text `string_value`. */
    if (n->exists && v == NULL && n->watched == NULL) {
        log_warn(NULL, "registration-invalid", "path=%s reason=\"%s\"",
                 log_shown(slice_of(n->path)), why);
        v = json_object();
        if (fits)
            json_object_set_new(v, "string_value", json_stringn(bytes.p, bytes.len));
    }
    /* A registration that was removed counts until its list is read without it: the list may be
       gone too, as a whole, and then it is not an empty one. */
    if (n->exists || n->list_of == NULL)
        set_properties(n, v, v == NULL && n->exists ? why : NULL);
    data_known(n);
}

/* ---- children ---- */

static void add_member(struct zk_node *list, const char *name)
{
    char path[TREE_PATH_MAX + 1];

    int len = snprintf(path, sizeof(path), "%s/%s", list->path, name);

    if (len < 0 || len > TREE_PATH_MAX) {
        log_warn(NULL, "registration-invalid", "path=%s reason=\"name too long\"",
                 log_shown(slice_of(list->path)));
        return;
    }
    struct zk_node *n = zk_node_get(list->tree, path);
    n->marked = true;
    if (n->list_of != NULL) {
        /* It was deleted, read as missing, and created again. */
        if (n->known && !n->exists)
            zk_read_request(&n->data);
        return;
    }
    n->list_of = list;
    list_push_back(&list->members, &n->in_list);
    list->changed = true;
    if (n->known)
        return;
    ++list->unread;
    zk_read_request(&n->data);
}

static void update_members(struct zk_node *list, const struct zk_call *c)
{
    struct zk_node *n;
    const char *name;
    json_t *unused;

    if (c->nthere > TREE_CHILDREN_MAX) {
        log_warn(NULL, "tree-too-many-registrations", "path=%s count=%zu limit=%d",
                 log_shown(slice_of(list->path)), c->nthere, TREE_CHILDREN_MAX);
    }
    list_for_each_entry (n, &list->members, in_list)
        n->marked = false;
    json_object_foreach (c->names, name, unused)
        add_member(list, name);
    list_for_each_entry_safe (n, &list->members, in_list) {
        if (!n->marked)
            leave_list(n);
    }
    if (list->unread == 0)
        list->complete = true;
}

static void zk_node_children(struct zk_node *n, struct zk_call *c)
{
    tree_set_replace(&n->names, NULL);
    n->children_known = c->result == ZOK;
    if (c->result != ZOK) {
        /* Only the read of a node's data watches for its creation. It may even exist again already;
           reading the data makes zookeeper_refresh() request the children. */
        zk_read_request(&n->data);
        return;
    }
    if (n->watched != NULL && (n->watched->parts & PART_PROVIDERS) != 0)
        update_members(n, c);
    n->names = json_incref(c->names);
    touch_watched(n, PART_PROVIDERS | PART_CHILDREN);
}

/* R cannot be read, because of WHY: the last known state stays. */
static void zk_node_unreadable(struct zk_read *r, const char *why)
{
    struct zk_node *n = r->node;

    if (r->part == ZK_CHILDREN) {
        tree_set_replace(&n->names, NULL);
        n->children_known = true;
        touch_watched(n, PART_PROVIDERS | PART_CHILDREN);
        return;
    }
    n->exists = true;
    /* A provider is there, whether its properties may be read or not. */
    if (n->list_of == NULL || n->properties == NULL)
        set_properties(n, n->list_of != NULL ? json_object() : NULL, why);
    data_known(n);
}

static void show_children(struct zk_node *n)
{
    struct tree_node *s = n->watched;
    const struct zk_node *m;

    tree_set_replace(&s->children, json_incref(n->names));
    if (n->names == NULL) {
        tree_set_replace(&s->providers, NULL);
        n->changed = true;
        return;
    }
    if ((s->parts & PART_PROVIDERS) == 0 || (!n->changed && s->providers != NULL))
        return;
    json_t *set = json_object();
    list_for_each_entry (m, &n->members, in_list) {
        /* Not read yet, or deleted before it was read. */
        if (!m->known || m->properties == NULL)
            continue;
        char *name = xstrdup(strrchr(m->path, '/') + 1);
        zk_name_decode(name);
        json_object_set_nocheck(set, name, m->properties);
        free(name);
    }
    tree_set_replace(&s->providers, tree_set_sorted(set));
    n->changed = false;
}

static void zookeeper_refresh(struct tree_node *s)
{
    struct zk_node *n = s->backend_node;
    bool lists = (s->parts & (PART_PROVIDERS | PART_CHILDREN)) != 0;

    if (!n->known)
        return;
    if (!n->exists) {
        tree_node_set(s, NULL, NULL);
        n->children_known = n->complete = false;
        drop_members(n);
        return;
    }
    s->birth = n->birth;
    tree_node_set(s, json_incref(n->properties), n->properties == NULL ? n->problem : NULL);
    if (!lists)
        return;
    /* Of a list with providers, all of these must have been read once. */
    bool incomplete = (s->parts & PART_PROVIDERS) != 0 && n->names != NULL && !n->complete;
    if (!n->children_known || (incomplete && n->unread == 0))
        zk_read_request(&n->children);
    if (!n->children_known || incomplete)
        s->known = false;
    else
        show_children(n);
}

/* ---- the session ---- */

static bool needs_children(const struct zk_node *n)
{
    return n->watched != NULL && (n->watched->parts & (PART_PROVIDERS | PART_CHILDREN)) != 0;
}

static void on_tree_zookeeper_connected(void *context, int64_t id)
{
    struct zookeeper *t = context;
    bool same = t->id == id;

    t->connected = t->begun = true;
    timer_stop(&t->give_up);
    timer_stop(&t->unreachable);
    t->loss_seen = false;
    ++t->counts.connections;
    if (!same)
        ++t->counts.sessions;
    t->id = id;
    log_info(NULL, "tree-connected", "hosts=%s path=%s session=%s", t->hosts,
             tree_path_shown(t->top), same ? "continued" : "new");
    zk_reads_begin(t);
    zk_entries_connected(t, same);
    zk_ops_connected(t);
}

static void give_up_later(struct zookeeper *t)
{
    timer_start(t->base.loop, &t->give_up, (uint64_t)ZK_GIVE_UP_TIMES * t->timeout_ms);
}

static void on_disconnected(void *context)
{
    struct zookeeper *t = context;

    t->connected = false;
    t->lost_ms = loop_now_ms(t->base.loop);
    give_up_later(t);
    log_warn(NULL, "tree-disconnected",
             "hosts=%s path=%s action=\"continue with the last known contents\"", t->hosts,
             tree_path_shown(t->top));
}

static void on_ended(void *context, const char *why)
{
    struct zookeeper *t = context;
    uint64_t lasted_ms = loop_now_ms(t->base.loop) - t->opened_ms;
    uint64_t random = 0;

    timer_stop(&t->give_up);
    if (t->connected)
        t->lost_ms = loop_now_ms(t->base.loop);
    t->connected = false;
    t->counts.expired += t->begun;
    t->begun = false;
    map_for_each (struct zk_node, n, &t->nodes, in_tree) {
        zk_read_restart(&n->data);
        if (needs_children(n) || n->children.call != NULL)
            zk_read_restart(&n->children);
    }
    zk_entries_ended(t);
    zk_ops_ended(t);
    /* Last: from now on the client's thread frees the calls that come back. */
    zk_session_close(t->session, 0);
    t->session = NULL;
    if (lasted_ms >= ZK_REOPEN_MS_MAX)
        t->reopen_ms = 0;
    else if (t->reopen_ms == 0)
        t->reopen_ms = ZK_REOPEN_MS_MIN;
    else
        t->reopen_ms = t->reopen_ms * 2 < ZK_REOPEN_MS_MAX ? t->reopen_ms * 2 : ZK_REOPEN_MS_MAX;
    log_warn(NULL, "tree-session-ended", "hosts=%s path=%s reason=\"%s\" next_in_ms=%u", t->hosts,
             tree_path_shown(t->top), why, t->reopen_ms);
    /* With jitter: not all balancers of a site at once. */
    uint64_t half_ms = t->reopen_ms / 2;
    if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
        random = half_ms;
    timer_start(t->base.loop, &t->reopen, half_ms + random % (half_ms + 1));
}

/*
 * Servers that have lost their data never accept a session that has seen later transactions, and
 * the client retries with them forever. A session that has never been connected is also replaced:
 * after an invalid response the client may wait for days.
 */
static void on_give_up(struct timer *timer)
{
    on_ended(container_of(timer, struct zookeeper, give_up),
             "disconnected for longer than the session time-out");
}

/* This is the symptom of a wrong address, and the load balancer cannot serve requests meanwhile. */
static void on_unreachable(struct timer *timer)
{
    struct zookeeper *t = container_of(timer, struct zookeeper, unreachable);

    log_warn(NULL, "tree-unreachable",
             "hosts=%s path=%s reason=\"no server responds\" action=\"retry\" hint=\"check "
             "the addresses\"",
             t->hosts, tree_path_shown(t->top));
}

static void on_tree_zookeeper_changed(void *context, const char *full, int event)
{
    struct zookeeper *t = context;
    const char *path = strcmp(full, "/") == 0 ? "" : full;

    zk_entries_changed(t, path);
    struct zk_node *n = map_entry(map_find(&t->nodes, path, strlen(path)), struct zk_node, in_tree);
    if (n == NULL)
        return;
    if (event != ZOO_CHILD_EVENT)
        zk_read_request(&n->data);
    if (event != ZOO_CHANGED_EVENT && needs_children(n))
        zk_read_request(&n->children);
}

static void on_tree_zookeeper_verify(struct timer *timer)
{
    struct zookeeper *t = container_of(timer, struct zookeeper, verify);

    map_for_each (struct zk_node, n, &t->nodes, in_tree) {
        if (n->watched != NULL)
            zk_read_request(&n->data);
        if (needs_children(n))
            zk_read_request(&n->children);
    }
    timer_start(t->base.loop, &t->verify, ZK_VERIFY_MS);
}

static const struct zk_session_events events = {.connected = on_tree_zookeeper_connected,
                                                .disconnected = on_disconnected,
                                                .ended = on_ended,
                                                .changed = on_tree_zookeeper_changed};

/* At the start, and after a session has ended. */
static void open_session(struct timer *timer)
{
    struct zookeeper *t = container_of(timer, struct zookeeper, reopen);
    const struct zk_session_options o = {.hosts = t->hosts,
                                         .timeout_ms = t->timeout_ms,
                                         .identity = t->identity,
                                         .creator = t->creator};

    t->opened_ms = loop_now_ms(t->base.loop);
    give_up_later(t);
    t->session = zk_session_open(t->base.loop, &o, &events, t);
}

/* ---- nodes ---- */

static void zookeeper_observe(struct tree_node *s)
{
    struct zk_node *n = zk_node_get(container_of(s->tree, struct zookeeper, base), s->path);

    n->watched = s;
    s->backend_node = n;
    /* The creation of a missing node is not watched while it is only a provider. */
    zk_read_request(&n->data);
}

static void zookeeper_forget(struct tree_node *s)
{
    struct zk_node *n = s->backend_node;

    n->watched = NULL;
    zk_node_put(n);
}

/* ---- open and close ---- */

static void zookeeper_status(const struct tree *base, struct tree_status *out)
{
    /* BASE is the first member. */
    const struct zookeeper *t = (const void *)base;

    *out = t->counts;
    out->connected = t->connected;
}

static void zookeeper_free(struct zookeeper *t)
{
    free(t->hosts);
    free(t->top);
    crypto_free(t->identity);
    crypto_free(t->creator);
    free(t);
}

static enum err zookeeper_check(struct slice location, struct diag *d)
{
    char *hosts = NULL;
    char *top = NULL;
    enum err e = zookeeper_url_parse(location, &hosts, &top, d);

    free(hosts);
    free(top);
    return e;
}

static enum err zk_tree_open(struct loop *l, struct slice location, const struct tree_options *o,
                             struct tree **out, struct diag *d)
{
    struct zookeeper *t = xcalloc(1, sizeof(*t));
    uint64_t random[2];
    enum err e = zookeeper_url_parse(location, &t->hosts, &t->top, d);

    if (e == ERR_OK && o->auth_file != NULL)
        e = zookeeper_auth_read(o->auth_file, &t->identity, d);
    if (e == ERR_OK && getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        e = ERR_SYSTEM;
    if (e != ERR_OK) {
        zookeeper_free(t);
        return e;
    }
    /* A unique identity, so that no other process can write our providers. */
    t->creator = xasprintf("resumelb:%016" PRIx64 "%016" PRIx64, random[0], random[1]);
    t->base = (struct tree){.backend = &tree_zookeeper, .loop = l, .top = t->top};
    list_init(&t->base.broken);
    t->timeout_ms =
        (unsigned)(o->session_timeout_ms != 0 ? o->session_timeout_ms : TREE_SESSION_MS);
    list_init(&t->queued);
    list_init(&t->suspects);
    list_init(&t->ops);
    timer_init(&t->reopen, open_session);
    timer_init(&t->verify, on_tree_zookeeper_verify);
    timer_init(&t->give_up, on_give_up);
    timer_init(&t->unreachable, on_unreachable);
    timer_start(l, &t->unreachable, ZK_UNREACHABLE_MS);
    timer_start(l, &t->verify, ZK_VERIFY_MS);
    open_session(&t->reopen);
    *out = &t->base;
    return ERR_OK;
}

static void zk_tree_close(struct tree *base)
{
    struct zookeeper *t = container_of(base, struct zookeeper, base);

    ASSERT(t->nodes.first == NULL);
    timer_stop(&t->reopen);
    timer_stop(&t->verify);
    timer_stop(&t->give_up);
    timer_stop(&t->unreachable);
    /* Before the session is closed: then the client's thread frees the calls that come back. */
    zk_entries_free(t);
    /* The server deletes our remaining providers when the session ends. */
    if (t->session != NULL)
        zk_session_close(t->session, t->connected ? ZK_CLOSE_WAIT_MS : 0);
    zookeeper_free(t);
}

const struct tree_backend tree_zookeeper = {
    .scheme = "zookeeper",
    .remote = true,
    .check = zookeeper_check,
    .read_auth = zookeeper_auth_read,
    .open = zk_tree_open,
    .close = zk_tree_close,
    .status = zookeeper_status,
    .observe = zookeeper_observe,
    .refresh = zookeeper_refresh,
    .forget = zookeeper_forget,
    .enter = zk_enter,
    .entry_changed = zk_entry_changed,
    .entry_held = zk_entry_held,
    .leave = zk_leave,
    .begin = zk_op_begin,
    .abandon = zk_op_abandon,
    .data_max = ZK_DATA_MAX,
};
