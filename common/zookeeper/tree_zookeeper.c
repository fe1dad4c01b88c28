/* SPDX-License-Identifier: Apache-2.0
 *
 * A tree in ZooKeeper. The known state stays as it is while disconnected. A session that has ended
 * is replaced by a new one, in which all nodes are re-read and our providers are registered again.
 * The pauses between short-lived sessions grow.
 */
#include "common/base/log.h"
#include "common/zookeeper/zookeeper_tree.h"
#include "common/zookeeper/zookeeper_url.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

static struct zookeeper *zookeeper_of(struct tree *base)
{
    return container_of(base, struct zookeeper, base);
}

/* ---- the session ---- */

static bool wants_children(const struct zk_node *n)
{
    return n->spot != NULL && (n->spot->parts & (PART_PROVIDERS | PART_CHILDREN)) != 0;
}

static void on_connected(void *context, int64_t id)
{
    struct zookeeper *t = context;
    bool same = t->id == id;

    t->connected = t->begun = true;
    timer_stop(&t->give_up);
    timer_stop(&t->first_word);
    t->loss_seen = false;
    ++t->counts.connections;
    if (!same)
        ++t->counts.sessions;
    t->id = id;
    log_info(NULL, "tree-connected", "hosts=%s path=%s session=%s", t->hosts,
             tree_path_shown(t->top), same ? "kept" : "new");
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

static void open_session(struct zookeeper *t);

static void on_reopen(struct timer *timer)
{
    open_session(container_of(timer, struct zookeeper, reopen));
}

/* Not all balancers of a site at once. */
static uint64_t jittered(unsigned ms)
{
    uint64_t random = 0;

    if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
        random = ms / 2;
    return ms / 2 + random % (ms / 2 + 1);
}

static void on_ended(void *context, const char *why)
{
    struct zookeeper *t = context;
    uint64_t lasted_ms = loop_now_ms(t->base.loop) - t->opened_ms;

    timer_stop(&t->give_up);
    if (t->connected)
        t->lost_ms = loop_now_ms(t->base.loop);
    t->connected = false;
    t->counts.expired += t->begun;
    t->begun = false;
    map_for_each (struct zk_node, n, &t->nodes, in_tree) {
        zk_read_drop(&n->data);
        if (wants_children(n) || n->children.call != NULL)
            zk_read_drop(&n->children);
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
    timer_start(t->base.loop, &t->reopen, t->reopen_ms == 0 ? 0 : jittered(t->reopen_ms));
}

/*
 * Servers that have lost their data never accept a session that has seen later transactions, and
 * the client retries with them forever. A session that has never been connected is also replaced:
 * after an invalid response the client may wait for days.
 */
static void on_give_up(struct timer *timer)
{
    on_ended(container_of(timer, struct zookeeper, give_up), "away for longer than its time");
}

/* This is the symptom of a wrong address, and the load balancer cannot serve requests meanwhile. */
static void on_no_word(struct timer *timer)
{
    struct zookeeper *t = container_of(timer, struct zookeeper, first_word);

    log_warn(NULL, "tree-unreachable",
             "hosts=%s path=%s reason=\"no server answers\" action=\"keep trying\" hint=\"check "
             "the addresses\"",
             t->hosts, tree_path_shown(t->top));
}

static void on_changed(void *context, const char *full, enum zk_change what)
{
    struct zookeeper *t = context;
    const char *path = strcmp(full, "/") == 0 ? "" : full;

    zk_entries_changed(t, path);
    struct zk_node *n = map_entry(map_find(&t->nodes, path, strlen(path)), struct zk_node, in_tree);
    if (n == NULL)
        return;
    if (what != ZK_CHANGED_CHILDREN)
        zk_read_want(&n->data);
    if (what != ZK_CHANGED_DATA && wants_children(n))
        zk_read_want(&n->children);
}

static void on_verify(struct timer *timer)
{
    struct zookeeper *t = container_of(timer, struct zookeeper, verify);

    map_for_each (struct zk_node, n, &t->nodes, in_tree) {
        if (n->spot != NULL)
            zk_read_want(&n->data);
        if (wants_children(n))
            zk_read_want(&n->children);
    }
    timer_start(t->base.loop, &t->verify, ZK_VERIFY_MS);
}

static const struct zk_session_events events = {.connected = on_connected,
                                                .disconnected = on_disconnected,
                                                .ended = on_ended,
                                                .changed = on_changed};

static void open_session(struct zookeeper *t)
{
    const struct zk_session_options o = {.hosts = t->hosts,
                                         .timeout_ms = t->timeout_ms,
                                         .identity = t->identity,
                                         .creator = t->creator};

    t->opened_ms = loop_now_ms(t->base.loop);
    give_up_later(t);
    t->session = zk_session_open(t->base.loop, &o, &events, t);
}

/* ---- spots ---- */

static void zookeeper_observe(struct tree_spot *s)
{
    struct zk_node *n = zk_node_get(zookeeper_of(s->tree), s->path);

    n->spot = s;
    s->place = n;
    /* One that was a provider until now was not watched for while it was not there. */
    zk_read_want(&n->data);
}

static void zookeeper_refresh(struct tree_spot *s)
{
    zk_node_show(s->place);
}

static void zookeeper_forget(struct tree_spot *s)
{
    struct zk_node *n = s->place;

    n->spot = NULL;
    zk_node_put(n);
}

/* ---- open and close ---- */

static void zookeeper_status(const struct tree *base, struct tree_status *out)
{
    /* Its first member. */
    const struct zookeeper *t = (const void *)base;

    *out = t->counts;
    out->connected = t->connected;
}

/* A unique identity, so that no other process can write our providers. */
static char *make_creator(void)
{
    unsigned char bytes[16];
    char hex[2 * sizeof(bytes) + 1];

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return NULL;
    for (size_t i = 0; i < sizeof(bytes); ++i)
        snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
    return xasprintf("resumelb:%s", hex);
}

static enum err read_identity(struct zookeeper *t, const struct tree_options *o, struct diag *d)
{
    struct text identity = {0};

    if (o->auth_file == NULL)
        return ERR_OK;
    enum err e = zookeeper_auth_read(o->auth_file, &identity, d);
    if (e == ERR_OK)
        t->identity = xstrdup(text_cstr(&identity));
    if (identity.p != NULL)
        explicit_bzero(identity.p, identity.room);
    text_fini(&identity);
    return e;
}

static void wipe(char *secret)
{
    if (secret != NULL)
        explicit_bzero(secret, strlen(secret));
    free(secret);
}

static void zookeeper_free(struct zookeeper *t)
{
    free(t->hosts);
    free(t->top);
    wipe(t->identity);
    wipe(t->creator);
    free(t);
}

static enum err zookeeper_check(struct slice place, struct diag *d)
{
    char *hosts = NULL;
    char *top = NULL;
    enum err e = zookeeper_url_parse(place, &hosts, &top, d);

    free(hosts);
    free(top);
    return e;
}

static enum err zookeeper_open(struct loop *l, struct slice place, const struct tree_options *o,
                               struct tree **out, struct diag *d)
{
    struct zookeeper *t = xcalloc(1, sizeof(*t));
    enum err e = zookeeper_url_parse(place, &t->hosts, &t->top, d);

    if (e == ERR_OK)
        e = read_identity(t, o, d);
    if (e == ERR_OK) {
        t->creator = make_creator();
        if (t->creator == NULL)
            e = ERR_SYSTEM;
    }
    if (e != ERR_OK) {
        zookeeper_free(t);
        return e;
    }
    t->base = (struct tree){.backend = &tree_zookeeper, .loop = l, .top = t->top};
    list_init(&t->base.broken);
    t->timeout_ms =
        (unsigned)(o->session_timeout_ms != 0 ? o->session_timeout_ms : TREE_SESSION_MS);
    list_init(&t->wanted);
    list_init(&t->suspects);
    list_init(&t->ops);
    timer_init(&t->reopen, on_reopen);
    timer_init(&t->verify, on_verify);
    timer_init(&t->give_up, on_give_up);
    timer_init(&t->first_word, on_no_word);
    timer_start(l, &t->first_word, ZK_FIRST_WORD_MS);
    timer_start(l, &t->verify, ZK_VERIFY_MS);
    open_session(t);
    *out = &t->base;
    return ERR_OK;
}

static void zookeeper_close(struct tree *base)
{
    struct zookeeper *t = zookeeper_of(base);

    ASSERT(t->nodes.first == NULL);
    timer_stop(&t->reopen);
    timer_stop(&t->verify);
    timer_stop(&t->give_up);
    timer_stop(&t->first_word);
    /* Before the session is closed: then the client's thread frees the calls that come back. */
    zk_entries_free(t);
    /* The end of the session takes back what is left of our providers. */
    if (t->session != NULL)
        zk_session_close(t->session, t->connected ? ZK_CLOSE_WAIT_MS : 0);
    zookeeper_free(t);
}

const struct tree_backend tree_zookeeper = {
    .scheme = "zookeeper",
    .remote = true,
    .check = zookeeper_check,
    .check_auth = zookeeper_auth_check,
    .open = zookeeper_open,
    .close = zookeeper_close,
    .status = zookeeper_status,
    .observe = zookeeper_observe,
    .refresh = zookeeper_refresh,
    .forget = zookeeper_forget,
    .enter = zk_enter,
    .entry_set = zk_entry_set,
    .entry_held = zk_entry_held,
    .leave = zk_leave,
    .read = zk_op_look,
    .write = zk_op_look,
    .create = zk_op_act,
    .remove = zk_op_act,
    .reset_acl = zk_op_act,
    .abandon = zk_op_abandon,
    .data_max = ZK_DATA_MAX,
};
