/* SPDX-License-Identifier: Apache-2.0
 *
 * A read is wanted at first, at each event, and after each lost connection. The first is made at
 * once, the next not before TREE_PAUSE_MS; so a burst of changes costs one read per pause.
 *
 * A reply of more than 1 MiB breaks the connection instead of giving an error, and takes all other
 * reads under way with it. Replies come in order, so the first read that is lost is the suspect:
 * when all others are served, it is looked at alone, its size first. The second time it is left
 * alone for ZK_QUARANTINE_MS, and then for as long as it has not changed.
 */
#include "common/base/log.h"
#include "common/zookeeper/zookeeper_tree.h"

static void on_pause_over(struct timer *timer);
static void on_read(struct zk_call *c);

void zk_read_init(struct zk_read *r, enum zk_read_kind kind, struct zk_node *n)
{
    *r = (struct zk_read){.kind = kind, .node = n};
    list_init(&r->line);
    timer_init(&r->pause, on_pause_over);
}

static struct zookeeper *tree_of(const struct zk_read *r)
{
    return r->node->tree;
}

/* R's call is out of the way: its place is free again. */
static void call_over(struct zk_read *r)
{
    struct zookeeper *t = tree_of(r);

    r->call = NULL;
    --t->reading;
    t->alone = false;
}

void zk_read_fini(struct zk_read *r)
{
    timer_stop(&r->pause);
    list_remove(&r->line);
    if (r->quarantined)
        --tree_of(r)->counts.quarantined;
    if (r->call != NULL) {
        zk_call_forget(r->call);
        call_over(r);
    }
}

static void enter_line(struct zk_read *r)
{
    struct zookeeper *t = tree_of(r);

    list_remove(&r->line);
    list_push_back(r->strikes == 0 ? &t->wanted : &t->suspects, &r->line);
    zk_reads_begin(t);
}

static void on_pause_over(struct timer *timer)
{
    enter_line(container_of(timer, struct zk_read, pause));
}

static void want_after(struct zk_read *r, uint64_t ms)
{
    list_remove(&r->line);
    timer_start(tree_of(r)->base.loop, &r->pause, ms);
}

void zk_read_want(struct zk_read *r)
{
    uint64_t since = loop_now_ms(tree_of(r)->base.loop) - r->started_ms;

    if (r->call != NULL) {
        r->again = true;
        return;
    }
    if (list_linked(&r->line) || r->quarantined)
        return;
    if (since < TREE_PAUSE_MS) {
        if (!timer_running(&r->pause))
            want_after(r, TREE_PAUSE_MS - since);
        return;
    }
    timer_stop(&r->pause);
    enter_line(r);
}

void zk_read_drop(struct zk_read *r)
{
    if (r->call != NULL) {
        zk_call_forget(r->call);
        call_over(r);
    }
    r->again = false;
    zk_read_want(r);
}

/* ---- those that break the connection ---- */

static void quarantine(struct zk_read *r)
{
    struct zookeeper *t = tree_of(r);
    char path[LOG_CUT_ROOM];

    if (!r->quarantined) {
        ++t->counts.quarantined;
        log_error(
            NULL, "tree-node-quarantined",
            "path=%s bytes=%d children=%d for_ms=%d reason=\"reading it breaks the "
            "connection\" hint=\"replies of ZooKeeper are limited to 1 MiB: make it smaller\"",
            log_cut(slice_of(r->node->path), path), r->seen.data_length, r->seen.children,
            ZK_QUARANTINE_MS);
    }
    r->quarantined = true;
    zk_node_unreadable(r, "too large: reading it breaks the connection to ZooKeeper");
    want_after(r, ZK_QUARANTINE_MS);
}

static void acquit(struct zk_read *r)
{
    if (r->quarantined)
        --tree_of(r)->counts.quarantined;
    r->quarantined = false;
    r->strikes = 0;
}

static bool is_large(const struct zk_read *r, const struct zk_stat *s)
{
    return r->kind == ZK_READ_DATA ? s->data_length >= ZK_LARGE_BYTES
                                   : s->children >= ZK_LARGE_CHILDREN;
}

static bool is_unchanged(const struct zk_read *r, const struct zk_stat *s)
{
    return r->kind == ZK_READ_DATA ? s->data_zxid == r->seen.data_zxid
                                   : s->children_zxid == r->seen.children_zxid;
}

/* ---- calls ---- */

static void call(struct zk_read *r)
{
    struct zookeeper *t = tree_of(r);
    const char *path = zk_server_path(r->node->path);

    ++t->counts.reads;
    ++t->reading;
    r->started_ms = loop_now_ms(t->base.loop);
    r->again = false;
    r->call = r->kind == ZK_READ_DATA ? zk_get(t->session, path, true, on_read, r)
                                      : zk_children(t->session, path, true, on_read, r);
}

/* R was first asked for its size. */
static void on_size(struct zk_call *c)
{
    struct zk_read *r = c->context;
    struct zookeeper *t = tree_of(r);

    call_over(r);
    if (c->result == ZK_LOST) {
        enter_line(r);
        return;
    }
    bool large = c->result == ZK_OK && is_large(r, &c->stat);
    if (large && r->quarantined && is_unchanged(r, &c->stat)) {
        quarantine(r);
        zk_reads_begin(t);
        return;
    }
    if (!large)
        acquit(r);
    r->seen = c->stat;
    t->alone = true;
    call(r);
}

/* A node that is not there is watched for by this alone. */
static void on_exists(struct zk_call *c)
{
    struct zk_read *r = c->context;
    struct zookeeper *t = tree_of(r);

    call_over(r);
    if (c->result == ZK_LOST)
        enter_line(r);
    else if (c->result == ZK_NO_NODE)
        zk_node_data(r->node, c);
    else
        call(r); /* it has come */
    zk_reads_begin(t);
}

/* The connection broke while R was under way. */
static void lost(struct zk_read *r)
{
    struct zookeeper *t = tree_of(r);

    if (!t->loss_seen) {
        t->loss_seen = true;
        ++r->strikes;
    }
    if (r->strikes >= 2)
        quarantine(r);
    else
        enter_line(r);
}

static void refused(struct zk_read *r, const struct zk_call *c)
{
    zk_node_unreadable(r, c->result == ZK_NO_AUTH ? "no permission to read it" : c->error);
    want_after(r, ZK_RETRY_MS);
}

static void on_read(struct zk_call *c)
{
    struct zk_read *r = c->context;
    struct zookeeper *t = tree_of(r);
    struct zk_node *n = r->node;
    bool again = r->again;

    call_over(r);
    if (c->result == ZK_LOST) {
        lost(r);
        return;
    }
    t->loss_seen = false;
    acquit(r);
    if (c->result == ZK_NO_NODE && r->kind == ZK_READ_DATA && n->spot != NULL) {
        ++t->reading;
        r->call = zk_exists(t->session, c->path, true, on_exists, r);
        return;
    }
    if (c->result != ZK_OK && c->result != ZK_NO_NODE)
        refused(r, c);
    else if (again)
        zk_read_want(r);
    if (r->kind == ZK_READ_CHILDREN && (c->result == ZK_OK || c->result == ZK_NO_NODE))
        zk_node_children(n, c);
    else if (c->result == ZK_OK || c->result == ZK_NO_NODE)
        zk_node_data(n, c);
    zk_reads_begin(t);
}

static void begin_alone(struct zookeeper *t)
{
    struct zk_read *r = list_first(&t->suspects, struct zk_read, line);

    list_remove(&r->line);
    t->alone = true;
    ++t->reading;
    r->call = zk_exists(t->session, zk_server_path(r->node->path), false, on_size, r);
}

void zk_reads_begin(struct zookeeper *t)
{
    struct list *node;

    if (!t->connected)
        return;
    while (!t->alone && t->reading < ZK_READS_MAX && (node = list_pop_front(&t->wanted)) != NULL) {
        struct zk_read *r = list_entry(node, struct zk_read, line);

        call(r);
    }
    if (t->reading == 0 && !list_empty(&t->suspects))
        begin_alone(t);
}
